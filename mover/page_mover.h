// SPDX-License-Identifier: Apache-2.0
// Carries moves out with move_pages(2), a chunk at a time, within budgets.

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

// Which pages move: those that are mapped once (MPOL_MF_MOVE), or all of them, for each process
// that maps them (MPOL_MF_MOVE_ALL).
enum class MoveScope : std::uint8_t { kMappedOnce, kAll };

// move_pages(2) as far as the mover needs it.
class MoveCall {
 public:
  virtual ~MoveCall() = default;

  // `nodes` is parallel to `pages`, or empty to ask where they are. Returns what the system call
  // does: 0, the number of pages that did not move, or a negative errno. Overwrites `status`,
  // parallel to `pages`, with the node where each is or a negative errno; where pages did not move
  // the kernel leaves entries as they are, also those of pages that did (mm/migrate.c,
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
  // A call holds up faults on what it moves, so none is to take longer; learnt from those before.
  std::chrono::nanoseconds call_latency{5'000'000};
  std::optional<std::uint64_t> bytes_per_second;
  std::optional<std::uint64_t> cpu_ns_per_second;  // of the thread that moves
  std::uint32_t attempts = 3;                      // at one move, in as many rounds
  bool dry_run = false;  // everything but the call: each move is over with the error ECANCELED
  friend bool operator==(const MoverLimits&, const MoverLimits&) = default;
};

// The error of a move that was not tried: by the time of it a memory policy or cpuset was against
// it, it was not known what these say, or the address of a shared page mapped something else.
inline constexpr int kPolicyChanged = ESTALE;

// What moving a page is supposed to take until calls tell: 1.35 page faults of 1.4 us and a share
// of the 25 us of a call (page_mover.cc), of which a few pages bear more than many.
inline constexpr double kSupposedNsPerPage = 2000;

// Whether `error` says so of the node that the move was to. A huge page needs its room in one
// piece, or, of hugetlb, in a pool of its own.
bool IsOutOfMemory(const Move& move, int error);

class PageMover {
 public:
  // Nothing for a target that is gone. The process must be the one that the target was, whoever has
  // its number now.
  using FindPid = std::function<std::optional<Pid>(TargetId)>;
  // What memory policies and cpusets say as of now, null where that cannot be known; nothing: it
  // has to be read first.
  using Binding = std::shared_ptr<const MemoryBinding>;
  using FindBinding = std::function<std::optional<Binding>(TargetId)>;

  // Tells what a process maps now. Parallel to the addresses, which ascend: the file and place, if
  // the address is shared memory. Empty if it cannot be known.
  using FindFiles = std::function<std::vector<std::optional<FilePlace>>(Pid, std::span<const Vpn>)>;

  // `clock` is wall time, `cpu_clock` the moving thread's CPU time. All must outlive the mover.
  // Without `find_binding` nothing is bound. Without `find_files` no page that several mappings
  // hold is moved for all of them.
  PageMover(MoverLimits limits, MoveCall& call, const Clock& clock, const Clock& cpu_clock,
            FindPid find_pid, FindBinding find_binding = {}, FindFiles find_files = {});

  // From now on, for what is still to be done as well. What calls take it has learnt already.
  void Configure(const MoverLimits& limits);

  // Puts these in the place of what is still to be done, which is dropped and returned: it was
  // decided from older knowledge.
  std::vector<Move> Replace(std::vector<Move> moves);

  // Makes one call, if the budgets have anything left: of the first move to be done and what
  // behind it goes the same way for the same target, as far as nothing binds it by now. Returns the
  // moves that are over by it: those tried or bound, and promotions without room, as what was to
  // make it stays (ENOMEM, untried).
  std::vector<MoveOutcome> MoveChunk();
  // What was used besides, for what is moved.
  void SpendCpuTime(std::chrono::nanoseconds spent);
  // Whose binding MoveChunk() did nothing for want of, the last time.
  std::optional<TargetId> unread() const { return unread_; }

  // How long until MoveChunk() will do something; nothing: there is nothing to be done.
  std::optional<std::chrono::nanoseconds> Wait();

  std::size_t pending() const { return pending_.size(); }
  // What the next call may hold by the latency budget. A single span is moved however large.
  PageCount chunk(MoveScope scope = MoveScope::kMappedOnce) const { return Cost(scope).chunk; }

 private:
  struct Pending {
    Move move;
    std::uint32_t attempts = 0;
    std::chrono::nanoseconds latency{0};
    MonotonicTime not_before;
  };

  // When it may be tried.
  MonotonicTime DueOf(const Pending& pending) const;
  // Pages that the next call of the scope may hold as of now, by all budgets.
  PageCount Most(MoveScope scope, MonotonicTime now);
  std::vector<Pending> TakeChunk(MonotonicTime now);
  std::vector<MoveOutcome> MoveSome(MonotonicTime began);
  // Of whose move comes first; nothing: nothing is bound, or it has to be read first, which is
  // noted.
  std::optional<Binding> BindingOfNext(MonotonicTime now);
  // Takes those that are bound off the chunk, over as they are.
  static std::vector<MoveOutcome> TakeBound(std::vector<Pending>& chunk, const Binding& binding);
  // Takes those off the chunk whose addresses map other memory than the page that was decided for:
  // the call would move that memory for every process.
  void TakeRemapped(std::vector<Pending>& chunk, std::vector<MoveOutcome>& over) const;
  struct Told {
    int error = 0;    // errno; 0: it has moved whole
    PageCount moved;  // of a huge page it may be a part
  };
  std::vector<Told> Call(const std::vector<Pending>& chunk);
  void FindParts(Pid pid, const std::vector<Pending>& chunk, std::vector<Told>& told);
  void Learn(MoveScope scope, PageCount pages, std::chrono::nanoseconds took);
  void LearnRoom(const std::vector<Pending>& chunk, const std::vector<Told>& told,
                 MonotonicTime now);
  // Of a call, what a page took that moved, and one that was refused.
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
  // By node, what was to leave it for promotions to come and did not: for good, or so far.
  struct NotMadeRoom {
    std::map<NodeId, PageCount> ever;
    std::map<NodeId, PageCount> yet;
    void Note(const Move& move, PageCount stayed, bool for_good) {
      if (move.reason != MoveReason::kRoom || stayed == PageCount(0)) return;
      (for_good ? ever : yet)[move.from] += stayed;
    }
  };
  // The last promotions that were decided for that room: they are over, or wait for it.
  void HoldBack(NotMadeRoom& not_made, MonotonicTime now, std::vector<MoveOutcome>& over);
  // Where it may yet move, puts it back and returns false.
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
