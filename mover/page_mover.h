// SPDX-License-Identifier: Apache-2.0
// Carries out moves with move_pages(2), a chunk at a time, within budgets.

#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/move.h"
#include "base/units.h"
#include "mover/memory_binding.h"
#include "mover/rate_limit.h"

namespace tmprof {

// The pages that move: those that are mapped once (MPOL_MF_MOVE), or all, for each process that
// maps them (MPOL_MF_MOVE_ALL).
enum class MoveScope : std::uint8_t { kMappedOnce, kAll };

// move_pages(2) as far as the mover needs it.
class MoveCall {
 public:
  virtual ~MoveCall() = default;

  // `nodes` is parallel to `pages`, or empty to ask for the pages' nodes. Returns the result of the
  // system call: 0, the number of pages that did not move, or a negative errno. Overwrites
  // `status`, parallel to `pages`, with the node of each page or a negative errno. If pages did not
  // move, the kernel may leave any entry unchanged, even those of pages that did (mm/migrate.c,
  // do_pages_move()).
  virtual int operator()(Pid pid, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                         std::span<int> status, MoveScope scope) = 0;
};

// The system call itself.
class MovePagesCall final : public MoveCall {
 public:
  int operator()(Pid pid, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                 std::span<int> status, MoveScope scope) override;
};

struct MoverLimits {
  // Longest time of a call, because it holds up faults on the pages it moves. The mover learns from
  // earlier calls how many pages that allows.
  std::chrono::nanoseconds call_latency{5'000'000};
  std::optional<std::uint64_t> bytes_per_second;
  std::optional<std::uint64_t> cpu_ns_per_second;  // CPU time of the moving thread
  std::uint32_t attempts = 3;                      // for each move, each in another call
  bool dry_run = false;  // makes no call; each move ends with the error ECANCELED
  friend bool operator==(const MoverLimits&, const MoverLimits&) = default;
};

// The error of a move that was not tried. By that time a memory policy or cpuset forbade it, or
// these were unknown, or the address of a shared page mapped something else.
inline constexpr int kPolicyChanged = ESTALE;

// Assumed time to move a page until calls have measured it: 1.35 page faults of 1.4 us, and a share
// of the 25 us of a call (page_mover.cc). That share is larger if a call has few pages.
inline constexpr double kAssumedNsPerPage = 2000;

// True if `error` says that the node of the move is out of memory. A huge page needs its room in
// one piece, and a hugetlb page in a pool of its own.
bool IsOutOfMemory(const Move& move, int error);

class PageMover {
 public:
  // Returns nullopt for a target that is gone. The process must be the target itself, and not a
  // later one with its PID.
  using FindPid = std::function<std::optional<Pid>(TargetId)>;
  // The current memory policies and cpusets; null if they cannot be known. nullopt: they have to be
  // read first.
  using Binding = std::shared_ptr<const MemoryBinding>;
  using FindBinding = std::function<std::optional<Binding>(TargetId)>;

  // Tells what a process maps now: the file and place of each address in shared memory. The result
  // is parallel to the addresses, which ascend, and empty if it cannot be known.
  using FindFiles = std::function<std::vector<std::optional<FilePlace>>(Pid, std::span<const Vpn>)>;

  // `clock` is wall time, `cpu_clock` the moving thread's CPU time. All arguments must outlive the
  // mover. Without `find_binding` no page is bound. Without `find_files` no page that several
  // mappings hold is moved for all of them.
  PageMover(MoverLimits limits, MoveCall& call, const Clock& clock, const Clock& cpu_clock,
            FindPid find_pid, FindBinding find_binding = {}, FindFiles find_files = {});

  // Sets the limits, for pending moves as well. What the mover learnt from calls stays.
  void Configure(const MoverLimits& limits);

  // Replaces all pending moves. Returns the old ones, which are dropped because they were decided
  // from older knowledge.
  std::vector<Move> Replace(std::vector<Move> moves);

  // Makes one call if the budgets allow it. The call has the first pending move and later ones of
  // its target, size, direction and scope, except for moves that are bound by now. Returns the
  // moves that ended: moves that were tried, bound moves, and promotions without room. A promotion
  // is without room if the pages that should make room for it stay (ENOMEM, untried).
  std::vector<MoveOutcome> MoveChunk();
  // Adds CPU time that was spent on the moves elsewhere.
  void SpendCpuTime(std::chrono::nanoseconds spent);
  // Returns the target whose binding MoveChunk() lacked at its last call; nullopt: none.
  std::optional<TargetId> unread() const { return unread_; }

  // Returns the time until MoveChunk() will do something; nullopt: no move is pending.
  std::optional<std::chrono::nanoseconds> Wait();

  std::size_t pending() const { return pending_.size(); }
  // Returns the most pages of the next call by the latency budget. A single span is moved however
  // large it is.
  PageCount chunk(MoveScope scope = MoveScope::kMappedOnce) const { return Cost(scope).chunk; }

 private:
  struct Pending {
    Move move;
    std::uint32_t attempts = 0;
    std::chrono::nanoseconds latency{0};
    MonotonicTime not_before;
  };

  // Returns the time from which it may be tried.
  MonotonicTime DueOf(const Pending& pending) const;
  // Returns the most pages that the next call of the scope may have now, by all budgets.
  PageCount Most(MoveScope scope, MonotonicTime now);
  std::vector<Pending> TakeChunk(MonotonicTime now);
  std::vector<MoveOutcome> MoveSome(MonotonicTime began);
  // Returns the binding of the next move's target. nullopt: nothing is bound, or the binding has to
  // be read first and unread_ is set.
  std::optional<Binding> BindingOfNext(MonotonicTime now);
  // Takes bound moves off the chunk and returns their outcomes.
  static std::vector<MoveOutcome> TakeBound(std::vector<Pending>& chunk, const Binding& binding);
  // Takes moves off the chunk whose addresses map other memory than the page that was decided on.
  // The call would move that memory for every process.
  void TakeRemapped(std::vector<Pending>& chunk, std::vector<MoveOutcome>& over) const;
  struct Answer {
    int error = 0;    // errno; 0: all of it moved
    PageCount moved;  // may be a part of a huge page
  };
  std::vector<Answer> Call(const std::vector<Pending>& chunk);
  void FindParts(Pid pid, const std::vector<Pending>& chunk, std::vector<Answer>& answers);
  void Learn(MoveScope scope, PageCount pages, std::chrono::nanoseconds took);
  void LearnRoom(const std::vector<Pending>& chunk, const std::vector<Answer>& answers,
                 MonotonicTime now);
  // Time in a call of each page that moved, and of each page that was refused.
  struct Shares {
    double ns_moved;
    double ns_refused;
    std::chrono::nanoseconds OfMoved(PageCount pages) const { return Of(ns_moved, pages); }
    std::chrono::nanoseconds OfRefused(PageCount pages) const { return Of(ns_refused, pages); }

   private:
    static std::chrono::nanoseconds Of(double ns, PageCount pages) {
      return std::chrono::nanoseconds(std::llround(ns * static_cast<double>(pages.value())));
    }
  };
  Shares SharesOf(MoveScope scope, std::chrono::nanoseconds took, PageCount tried, PageCount moved);
  // The pages of each node that should have made room for later promotions and did not, `ever` or
  // up to now (`yet`).
  struct NotMadeRoom {
    std::map<NodeId, PageCount> ever;
    std::map<NodeId, PageCount> yet;
    void Note(const Move& move, PageCount stayed, bool for_good) {
      if (move.reason != MoveReason::kRoom || stayed == PageCount(0)) return;
      (for_good ? ever : yet)[move.from] += stayed;
    }
  };
  // Holds back the last promotions that were decided for that room. They end, or wait for it.
  void HoldBack(NotMadeRoom& not_made, MonotonicTime now, std::vector<MoveOutcome>& over);
  // If the move may succeed later, queues it again and returns false.
  bool IsOver(const Pending& tried, int error, MonotonicTime now);

  MoverLimits limits_;
  MoveCall* call_;
  const Clock* clock_;
  const Clock* cpu_clock_;
  FindPid find_pid_;
  FindBinding find_binding_;
  FindFiles find_files_;
  std::optional<TargetId> unread_;
  RateLimit bandwidth_;
  RateLimit cpu_;
  std::deque<Pending> pending_;
  std::map<NodeId, MonotonicTime> full_until_;  // nodes that were out of memory
  // Time that calls of one scope take. A page that several processes map takes longer.
  struct ScopeCost {
    PageCount chunk;
    // Sums over calls that refused nothing; older calls weigh less.
    double ns = 0;
    double pages = 0;
  };
  ScopeCost& Cost(MoveScope scope) { return costs_[static_cast<std::size_t>(scope)]; }
  const ScopeCost& Cost(MoveScope scope) const { return costs_[static_cast<std::size_t>(scope)]; }
  std::array<ScopeCost, 2> costs_;
};

}  // namespace tmprof
