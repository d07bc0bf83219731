// SPDX-License-Identifier: Apache-2.0
// The state of a target in the engine that looks at every page.

#pragma once

#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/units.h"
#include "profiler/sources/abit/budget.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/fast_tries.h"
#include "profiler/sources/abit/pace.h"
#include "profiler/sources/abit/page_table_reader.h"
#include "profiler/sources/abit/watched_target.h"

namespace tmprof::abit {

inline constexpr std::size_t kMostUnits = 512;
using UnitSet = std::bitset<kMostUnits>;

// Ageings of its memory cgroup have left this of a block.
struct AgeingMarks {
  UnitSet stayed_set;        // right after the latest ageing ...
  std::uint64_t number = 0;  // ... that the block was looked at after; 0: none
  UnitSet has_gone;          // an ageing has cleared the unit's bit at some time
};

// The unit of clears and reads: the pages of a table, or adjacent huge pages. A table's range runs
// from its first mapped page to its last, whatever lies between them. Only a special mapping, whose
// device memory the kernel does not clear, parts a table into several blocks.
struct Block {
  TargetId target;
  VpnRange range;
  PageCount unit{1};
  // The parts of several mappings in the range, ascending; empty: one mapping holds it all. They
  // may change between two plans: the range may then hold fewer pages, or more.
  std::vector<VpnRange> mappings;
  PageCount mapped;  // mapped pages of the range

  bool dropped = false;
  bool open = false;       // cleared, and watched since
  bool in_ladder = false;  // with a read to come
  bool seen = false;       // in this epoch, as it cannot be cleared
  double turn = 0;         // in a rotation, from 0 to 1
  std::uint64_t visited_in_rotation = 0;
  MonotonicTime unclearable_until{};
  // Until then a clear of the whole range fails, as the kernel does not clear some of its mappings.
  MonotonicTime by_mapping_until{};
  UnitSet uncleared;  // at the latest clear, as their mapping cannot be
  // Most of its pages are shared or locked, and it is left to clears of the whole process until
  // then.
  MonotonicTime whole_until{};
  bool refused = false;         // the latest clear of its range was, by the kernel
  bool cleared_before = false;  // a clear of its range worked at some time: it is not hugetlb
  bool judged = false;          // it is known if it needs clears of the whole process
  std::uint32_t present = 0;    // units at the latest look; before the first, see entries()
  bool looked_at = false;

  // These are of the open exposure.
  bool by_whole = false;            // that a clear of the whole process began
  bool flushed = false;             // ... and that counts from the flush that followed
  std::vector<std::uint8_t> units;  // enum tmprof_unit
  UnitSet set_before;               // at the clear
  UnitSet settled;                  // a clear has reached them or will; outlives the exposure
  UnitSet set_at_once;              // right after the clear, and not settled then
  UnitSet skipped;                  // outlives it too: shared or locked, as clears of ranges show
  std::unique_ptr<AgeingMarks> ageing;  // outlives it, too; null: it was never aged
  std::uint32_t in_view = 0;
  std::uint32_t set = 0;
  std::uint32_t set_before_count = 0;
  std::uint32_t rung = 0;
  std::uint32_t generation = 0;
  std::uint32_t turns_again = 0;  // in a row, as a read was too late to tell pages apart
  bool read_since_clear = false;
  MonotonicTime cleared_at;
  MonotonicTime read_at;
  std::chrono::nanoseconds cpu_cleared{0};
  std::chrono::nanoseconds cpu_at{0};  // at the last read; before the first, at the clear
  std::uint32_t idle_reads = 0;        // in a row, that found the target had not run
  std::int64_t reserved_ns = 0;

  // The interval of the ladder that the next read ends.
  std::uint32_t interval_rung = 0;             // its rung, unless that rung is skipped
  std::uint32_t interval_found = 0;            // by reads that came before its end
  std::chrono::nanoseconds interval_start{0};  // since the clear
  std::uint64_t first_read_in = 0;             // number of the epoch

  std::vector<UnitRecord> records;  // those of this epoch; empty: none
  struct RungCount {
    std::uint32_t found = 0;
    std::uint32_t left = 0;  // unset
    // Target CPU time since the read before, summed over these pages.
    double page_ns = 0;
  };
  // Those of this epoch: each rung of new visits, then of older ones; empty: none.
  std::vector<RungCount> rung_counts;

  // Fast tries of base pages need these.
  std::vector<std::uint8_t> first_read_finds;  // per page, in a row; empty: no visit yet
  std::vector<std::uint8_t> fast_sessions;     // tries per page; empty: none was tried
  UnitSet waits_for_tries;

  std::size_t unit_count() const { return range.size().value() / unit.value(); }
  std::size_t entries() const { return looked_at ? present : unit_count(); }
  // Most of it is reached by no clear of a range.
  bool NeedsWhole() const {
    return unit == PageCount(1) && (refused || 2 * skipped.count() > entries());
  }
  std::size_t mapping_count() const { return std::max<std::size_t>(mappings.size(), 1); }
  // A giant page is hugetlb, or device memory that a clear would split.
  bool Clearable(MonotonicTime now) const {
    return unit != kGiantPages && unclearable_until <= now;
  }
  // A read that was due for its exposure of that number is still to come.
  bool Awaits(std::uint32_t of_generation) const {
    return !dropped && in_ladder && generation == of_generation;
  }
  bool WorthATurn(MonotonicTime now) const { return !dropped && (!seen || Clearable(now)); }
};
using BlockPtr = std::shared_ptr<Block>;

// A read at so much of the target's CPU time.
struct CpuDue {
  std::chrono::nanoseconds cpu;
  std::chrono::nanoseconds slack;  // it may come early by so much
  BlockPtr block;
  std::uint32_t generation;
  bool operator<(const CpuDue& other) const { return other.cpu < cpu; }
  bool stale() const { return !block->Awaits(generation); }
};

// A page of a base-page block.
struct FastCandidate {
  BlockPtr block;
  std::uint16_t unit;

  std::uint8_t first_read_finds() const { return block->first_read_finds[unit]; }
  std::uint8_t sessions() const {
    return block->fast_sessions.empty() ? 0 : block->fast_sessions[unit];
  }
  void CountSession() const {
    block->fast_sessions.resize(kMostUnits);
    if (sessions() < std::numeric_limits<std::uint8_t>::max()) ++block->fast_sessions[unit];
  }
};
// Fast tries of a few pages of a target: at each of several random moments, each page is tried
// once.
struct FastSession {
  struct Page {
    FastCandidate at;
    FastPage tries;
    std::uint8_t again;  // tries at the last rung alone
    std::uint64_t frame = 0;
    bool writable = false;

    Vpn page() const { return at.block->range.start + PageCount(at.unit); }
  };

  // A page that all rungs found but the last.
  struct Fastest {
    FastCandidate at;
    std::uint8_t again;  // like Page::again
    bool seen_unset;     // a clear took effect on it
  };

  std::vector<FastCandidate> candidates;         // for sessions to come
  std::vector<Fastest> fastest;                  // to be tried again in later sessions
  std::vector<Page> pages;                       // those of the session under way, ascending
  std::optional<std::chrono::nanoseconds> next;  // CPU time of the target
  std::uint64_t charged_ns = 0;                  // for all sessions, as are the tries
  std::uint64_t tries = 0;
  // Pages whose tries came to an end, and those of them that a clear left unset.
  std::uint64_t ended = 0;
  std::uint64_t seen_unset = 0;

  bool WaitsForNone() const { return candidates.empty() && fastest.empty(); }
  // `page` has come to the end of its tries. Sixteen more tries give its rate to about a fourth. A
  // page that waits as a candidate has its turn in any case.
  void TryAgain(const Page& page) {
    constexpr std::uint8_t kMostOften = 8;
    constexpr std::size_t kMostFastest = 256;  // like kMostFastCandidates
    if (!page.tries.came_to_last_rung() || page.again >= kMostOften ||
        fastest.size() >= kMostFastest || page.at.block->waits_for_tries[page.at.unit])
      return;
    page.at.block->waits_for_tries.set(page.at.unit);
    fastest.push_back({page.at, page.again, page.tries.seen_unset()});
  }
  // The first `count` of them wait no longer.
  void TakeFastest(std::size_t count) {
    const auto end = fastest.begin() + static_cast<std::ptrdiff_t>(count);
    for (auto each = fastest.begin(); each != end; ++each)
      each->at.block->waits_for_tries.reset(each->at.unit);
    fastest.erase(fastest.begin(), end);
  }

  void End() {
    TakeFastest(fastest.size());
    for (const FastCandidate& at : candidates) at.block->waits_for_tries.reset(at.unit);
    candidates.clear();
    pages.clear();
    next.reset();
  }
};

// A plan of a target's blocks, under way.
struct ScanPlan {
  bool running = false;
  std::chrono::nanoseconds took{0};  // own CPU time so far
  Vpn at;                            // all below is planned
  Vpn tables_to;  // below, each table that there is has its blocks, up to its end
  std::vector<BlockPtr> blocks;
  std::vector<HugeSpan> huge;
  std::vector<Vpn> run;  // adjacent huge pages of one mapping, not yet made a block
  Vpn run_end;           // the end of their mapping
};

// The scanner's CPU time that a clear of whole processes takes for each page-table entry. What a
// busy machine seems to say is kept within bounds.
struct EntryPrice {
  double ns;
  double least_ns;
  double most_ns;

  std::chrono::nanoseconds Takes(std::size_t entries) const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(entries) * ns));
  }
  // The price follows the latest clear. Precondition: there are entries.
  void Learn(std::chrono::nanoseconds took, std::size_t entries) {
    const double of_entry = static_cast<double>(took.count()) / static_cast<double>(entries);
    ns += (std::clamp(of_entry, least_ns, most_ns) - ns) / 4;
  }
};

// 65 to 92 ns a page were measured (/proc/PID/clear_refs on Intel Xeon guests).
inline constexpr EntryPrice kClearRefsPrice{.ns = 75, .least_ns = 40, .most_ns = 200};

// A clear of a whole process cuts the ladders of all the rest short: one base page in so
// many has to need it.
inline constexpr std::uint64_t kWorthWhole = 4;
// This many entries of a process are a sample of the others: the share of them in need is taken for
// all. Their tables are those whose turn came first, and turns are in no order.
inline constexpr std::size_t kEntriesThatTell = 16 * 512;
// A clear takes no larger a part of the time than one in so many.
inline constexpr int kWholeClearsRest = 100;
// If no block could be read, the next clear of a whole process is tried so much later.
inline constexpr std::chrono::nanoseconds kAfterBusyWhole = std::chrono::milliseconds(100);

// When a target's accessed bits may be cleared all at once, and what that takes.
struct WholeClears {
  // A price that forbids clears is not learnt anew by them.
  void Forget() { price.ns += (kClearRefsPrice.ns - price.ns) / 2; }

  EntryPrice price = kClearRefsPrice;  // price of clear_refs
  bool any = false;                    // the latest was ...
  MonotonicTime at{};                  // ... at this time,
  std::chrono::nanoseconds cpu{0};     // at this CPU time of the target,
  std::chrono::nanoseconds took{0};    // and took so long
  MonotonicTime not_before{};
  std::string group;                 // its memory cgroup when ageing was last thought of
  MonotonicTime no_ageing_before{};  // because the latest did not reach the process
  bool refused = false;              // the kernel refused the latest try
  std::uint32_t flush_tries = 0;     // left for the latest
  MonotonicTime flush_again{};       // no sooner
};

// A window of blocks that is visited a second time before the rotation is over.
struct Revisit {
  BlockPtr block;  // any of the window
  MonotonicTime not_before;
};

// The blocks of a target that a clear of its whole process reaches.
struct WholeNeed {
  std::vector<BlockPtr> members;
  std::size_t entries = 0;   // they decide how long a clear takes
  std::size_t unjudged = 0;  // those of `entries`
  // A huge page counts as the base pages that it holds, because the ladders of all of them are cut
  // short.
  PageCount pages;
  PageCount in_need;         // those of `pages`
  PageCount refused;         // those of `in_need` that are locked: only clear_refs reaches them
  PageCount unjudged_pages;  // those of `pages`

  // Enough entries are judged to estimate the others.
  bool tells() const { return entries - unjudged >= kEntriesThatTell; }
  bool is_worth_it() const {
    return kWorthWhole * in_need.value() >= (tells() ? pages - unjudged_pages : pages).value();
  }
  bool may_be_worth_it() const {
    return kWorthWhole * (in_need + unjudged_pages).value() >= pages.value();
  }
};

// When the kernel is asked for the CPU time of a target without an exact clock.
struct ClockPolls {
  MonotonicTime next{};                         // no sooner
  std::chrono::nanoseconds early{0};            // it may come early by so much
  std::optional<std::chrono::nanoseconds> cpu;  // at the last poll
  MonotonicTime moved_at{};                     // when it was first found at `cpu`
};

struct ScanTarget : WatchedTarget {
  using WatchedTarget::WatchedTarget;

  static constexpr std::uint64_t kFirstRotation = 1;
  bool VisitedWholly() const {
    return rotation > first_visit_in || (!blocks.empty() && remaining.empty());
  }

  double reset_share = 1;  // share of the bits set at a clear that are set again within the ladder
  std::vector<BlockPtr> blocks;     // ascending
  std::vector<BlockPtr> remaining;  // those of this rotation, last one next
  std::deque<Revisit> revisits;     // soonest first
  std::uint64_t rotation = kFirstRotation;
  std::uint64_t first_visit_in = kFirstRotation;  // a rotation
  PageCount planned{0};                           // pages in the latest plan
  PageCount first_visited{0};                     // when the latest first visit began
  FirstVisit visit;
  MonotonicTime ran_at{};  // had used CPU time when it earned
  std::vector<HugeSpan> huge;
  ScanPlan plan;
  MonotonicTime plan_again{};  // no sooner, unless there are no blocks

  WholeClears whole;

  MonotonicTime has_new_pages_until{};   // clears are taken to pass by some until then
  std::uint32_t clears_of_unproven = 0;  // blocks, with pages that no clear was seen to reach

  std::priority_queue<CpuDue> cpu_dues;
  // The next clear is tried at this CPU time of the target, because it was off the CPU at the last
  // try, or as its budget is spent.
  std::optional<std::chrono::nanoseconds> turn_at;
  Pace pace;
  ClockPolls polls;

  // These hold where the target's clock is exact at any moment.
  bool waited_for_turn = false;
  FastSession fast;
  // It is to wake the scanner as soon as it gets a CPU, with this CPU time at the request.
  std::optional<std::chrono::nanoseconds> wakes_since;
  MonotonicTime no_wake_before{};
};

}  // namespace tmprof::abit
