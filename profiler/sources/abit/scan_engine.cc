// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/scan_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "profiler/sources/abit/auto_choice.h"

namespace tmprof::abit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint64_t kHugePagesPerBlock = 32;  // 64 MiB
// Base pages cleared with one flush. Four tables quarter the flushes and the wake-ups of a pass;
// the clear then takes some 150 us, within the first rung.
constexpr PageCount kClearWindow(4 * kTablePages.value());
// The kernel flushes after each mapping. 512 of them take some 400 us on an Intel Xeon guest, and
// no writer of the mmap_lock gets its turn before their end. One table holds no more.
constexpr std::size_t kMostMappingsPerClear = 512;
// The target is charged this part of the scanner's wait at least. It loses 0.4: a thread that spins
// lost 2.0 to 2.4 us of the 5.0 to 5.9 us that a clear of one page took on such a guest.
constexpr double kInterruptsPartOfFlush = 0.5;
// The scanner tries so many of a block's mappings in turn to find its table: all before were
// unmapped since the plan.
constexpr std::size_t kMostMappingsTried = 16;
constexpr std::uint64_t kEntriesPerLine = 8;  // 64-byte cache lines of 8-byte entries
// A clear of 8 MiB takes some 150 us here; a read that falls due meanwhile would be late.
constexpr nanoseconds kClearTakes = microseconds(200);
constexpr nanoseconds kPlanStepTakes = microseconds(100);
// Plans of one target take this part of the scanner's own share of a CPU.
constexpr double kPlansPart = 0.25;
constexpr nanoseconds kLongestPlanPause = seconds(60);
constexpr nanoseconds kLongestBudgetWait = milliseconds(20);
// Targets whose turns are to come wake the scanner.
constexpr nanoseconds kLongestTurnWait = seconds(1);
// The scanner looks again so much later whether a target has got a CPU. It spins for shorter times.
constexpr nanoseconds kShortestSleep = microseconds(50);
constexpr nanoseconds kAfterFailedVisit = microseconds(500);
// How the scanner waits for a target that has left the CPU: at this pace for so many reads, which
// covers a few time slices of others, then at growing intervals.
constexpr nanoseconds kIdlePace = milliseconds(1);
constexpr std::uint32_t kPatientReads = 20;
constexpr nanoseconds kIdleWait = milliseconds(256);
// Without an exact clock the scanner asks the kernel for the target's CPU time, which costs a tenth
// of a read. A poll may come early by this part of its wait, if the scanner is awake.
constexpr int kEarlyPoll = 4;
// A target that rests may begin to run at any time, and a read that comes late tells less.
constexpr nanoseconds kLongestPoll = milliseconds(10);
constexpr int kPollsOfRest = 32;  // the end of a rest is seen late by this part of it
constexpr int kTicksOfPolls = 2;  // shorter waits for a running target are timed by the wall
// A read may be early by this part of its delay, if the scanner is awake: waking up costs it most.
constexpr int kEarly = 16;
constexpr int kWidestBracket = 8;  // times the exposure before ...
// ... or, as the clear may have been shortly before the target left the CPU, a time slice: it ends
// with a timer tick, of which Debian's kernels have 250 a second.
constexpr nanoseconds kSlice = milliseconds(4);
constexpr int kOfRung = 8;  // and still is of its rung, by so much
// Below, rungs are close together, to tell hot pages apart. A read blurs them that comes so late
// and finds so large a part of a block newly set: fast and slow pages have had their first access
// in one interval. The block has its turn again at once, so often in a row. The figures are chosen,
// not measured.
constexpr nanoseconds kFineRungs = milliseconds(4);
// A look right after a clear costs about as much of the scanner's CPU time as the look before it.
constexpr std::uint32_t kOneLookAtOnceIn = 16;
// Pages wait for the lists in batches of up to 31. Few pages of a block are so hot that the some
// 10 us of a look find them; most of those that are set at the first read, 250 us later, are not.
constexpr std::size_t kManySetAtOnce = 4;
constexpr nanoseconds kPagesStayNew = std::chrono::seconds(10);
constexpr int kBlurringDelay = 3;  // times the rung's own; the next is at 2, of huge pages at 4
constexpr nanoseconds kLeastBlur = kIdlePace;  // per thread; to wake up takes part of it
constexpr nanoseconds kMostBlur = 2 * kSlice;  // above, the target had slept
constexpr std::uint32_t kBlurredPart = 16;     // fewer are the hot ones alone
constexpr std::uint32_t kTurnsAgain = 2;       // the price of a visit is three clears at most
// Fast tries take this part of what a target is charged: what they take is missing where all pages
// are ranked. Once all pages were visited they may take the larger part, until they are enough to
// estimate hit rates: an interval of 29 points took 1 000 tries, one of 45 points 380 (zipf, 64
// MiB). Tries come at random moments of the target's CPU time, as an access is likely to be
// followed by others, and keep the scanner from its reads for so long.
constexpr double kFastPart = 1.0 / 16;
constexpr double kFastPartAtFirst = 1.0 / 4;
constexpr std::uint64_t kEnoughFastTries = 1200;
constexpr double kFastPartOfOwn = 0.25;  // part of the scanner's own CPU time
constexpr nanoseconds kLeastFastPause = milliseconds(1);
constexpr nanoseconds kMostFastPause = milliseconds(8);
constexpr nanoseconds kFastTriesTake = microseconds(400);
constexpr std::size_t kMostFastCandidates = 256;
// A page of 2 000 accesses a second is found by so many first reads in a row in one of 16 cases.
constexpr int kFindsThatTell = 3;
constexpr int kSessionsPerFind = 2;
constexpr std::uint64_t kFewestFastPages =
    8;  // enough to decide if clears of single pages take effect
// A clear can take so long that hardly any try at a short rung counts. Sessions leave such a rung
// out if fewer than one in kWorthARung of at least kTriesThatTellOfARung tries counted. One session
// in kTriesTheRungAgain goes on to it all the same, as clears may be faster by now. The figures are
// chosen, not measured.
constexpr std::uint64_t kTriesThatTellOfARung = 64;
constexpr std::uint64_t kWorthARung = 4;
constexpr std::uint64_t kTriesTheRungAgain = 32;
// If there is one rung alone, many pages are found by both of its tries.
constexpr std::size_t kFewestRungsToRepeat = 2;
// A stay on a CPU that ends sooner gives a scanner that was woken at its start no time to look. 50
// us are five times what waking up takes.
constexpr nanoseconds kShortStay = microseconds(50);
// While a target rests, its switches wake the scanner in time, but for a stay that is longer than
// all of late. A look each tenth of a second finds that one and costs 0.01 % of a CPU.
constexpr nanoseconds kRestingLook = milliseconds(100);
// A target that has used CPU time runs for so much longer, as far as is known.
constexpr nanoseconds kRunsStill = milliseconds(500);
constexpr std::size_t kLookedAheadInRotation = 16;
// One visit cannot tell pages that differ (an eighth always hot) from pages that change (all hot an
// eighth of the time). If a rotation takes longer than 2 s, two epochs by default, a random part of
// its windows is visited a second time that much later. A first pass over all pages is one of these
// rotations. The part is chosen: it costs a sixteenth of the visits, and of 4 GiB it is 32 windows.
// A huge page's block counts as a window of its own.
constexpr nanoseconds kRevisitAfter = seconds(2);
constexpr double kRevisitedPart = 1.0 / 16;
// A program fills its memory if a plan finds more of it than the plan before, by one page in so
// many. Chosen, not measured.
constexpr std::uint64_t kFills = 8;
constexpr std::uint64_t kClearsThatTell = 2048;  // enough to estimate how long a pass takes
// CPU time of the targets after which fewer clears give a lower bound: budgets that were saved up
// are spent by then.
constexpr nanoseconds kTimeThatTells = 10 * kBudgetWindow;
constexpr double kResetSmoothing = 1.0 / 16;
// Counts by rung keep so many leading bits: an error of a sixteenth is less than their own noise.
constexpr int kBitsOfCount = 4;

// A clear of the whole process keeps writers of its mmap_lock waiting: no longer than this, and no
// larger a part of the time.
constexpr nanoseconds kLongestWholeClear = milliseconds(5);
constexpr std::size_t kMostBlocksOfWholeClear =
    1024;  // 10 us of the scanner each, before and after
// It flushes nothing, and without a flush afterwards a page whose translation a CPU still holds
// looks as if it were not accessed: only set bits are evidence. So much of the target's CPU time,
// and of the clock, passes before the first read: on a busy machine most translations have gone by
// then. Chosen, not measured.
constexpr nanoseconds kUnflushed = milliseconds(4);
// A plain scan that reads sooner does without.
constexpr nanoseconds kLeastPlainInterval = 5 * kUnflushed;
// The interrupts of a flush, and the walks that find the translations again.
constexpr nanoseconds kFlushCosts = microseconds(150);
constexpr std::uint32_t kMostFlushTries = 16;  // after one clear

// Returns the least wait for a target that so many looks in a row have found idle.
nanoseconds LongerIfIdle(std::uint32_t idle_looks) {
  if (idle_looks <= kPatientReads) return nanoseconds(0);
  return std::min<nanoseconds>(kIdlePace * (1 << std::min(idle_looks - kPatientReads, 16u)),
                               kIdleWait);
}

Vpn AlignDown(Vpn vpn, PageCount span) { return Vpn(vpn.value() / span.value() * span.value()); }

Vpn AlignUp(Vpn vpn, PageCount span) {
  return Vpn(CeilDivide(vpn.value(), span.value()) * span.value());
}

// Pages of other mappings are never accessed, or never cleared by the kernel.
bool IsScanned(const Mapping& mapping) {
  return mapping.kind != MappingKind::kSpecial && mapping.accessible;
}

UnitSet AllUnits() { return UnitSet().set(); }

double TurnOf(const BlockPtr& block) { return block->turn; }

Vpn StartOf(const BlockPtr& block) { return block->range.start; }

bool AreOfNeighbouringTables(const Block& below, const Block& above) {
  return AlignDown(below.range.start, kTablePages) + kTablePages ==
         AlignDown(above.range.start, kTablePages);
}

// The kernel flushes translations of a mapping after it has cleared all of the mapping's bits. A
// hot page's bit is set again from then on: a CPU that holds its translation does not set it
// before. This is the mean over the mappings of the blocks.
MonotonicTime FlushedAt(MonotonicTime before, MonotonicTime after,
                        const std::vector<BlockPtr>& blocks) {
  std::size_t mappings = 1;  // a mapping goes on from a block to the next
  for (const BlockPtr& block : blocks) mappings += block->mapping_count() - 1;
  return before + (after - before) * static_cast<std::int64_t>(mappings + 1) /
                      static_cast<std::int64_t>(2 * mappings);
}

// A clear flushes the translations of each mapping in which it clears a bit.
std::size_t FlushesOf(const Block& block) {
  if (block.mappings.empty()) return block.set_before_count > 0 ? 1 : 0;
  return static_cast<std::size_t>(std::ranges::count_if(block.mappings, [&](const VpnRange& part) {
    for (Vpn page = part.start; page < part.end; page = page + PageCount(1))
      if (block.set_before[(page - block.range.start).value()]) return true;
    return false;
  }));
}

bool AreOfOneWindow(const Block& one, const Block& other) {
  return one.unit == PageCount(1) && other.unit == PageCount(1) &&
         AlignDown(one.range.start, kClearWindow) == AlignDown(other.range.start, kClearWindow);
}

}  // namespace

ScanEngine::ScanEngine(AbitKernel& kernel, const ScanOptions& options)
    : TargetedEngine(kernel, options),
      base_ladder_(tmprof_ladder_base()),
      huge_ladder_(tmprof_ladder_huge()),
      loan_(options.overhead_share, kTargetsLoan),
      random_(options.seed),
      rounding_(options.seed) {
  if (options.mode == ScanOptions::Mode::kPlain)
    base_ladder_ = huge_ladder_ = tmprof_ladder_plain(options.plain_interval.count());
}

const tmprof_ladder& ScanEngine::LadderOf(const Block& block) const {
  return block.unit == PageCount(1) ? base_ladder_ : huge_ladder_;
}

// A plan under way goes on: begun anew at each refresh, a long one would never end. The next waits
// until visits have had their part of the scanner's budget.
void ScanEngine::Refresh(ScanTarget& target, bool mappings_changed) {
  (void)mappings_changed;
  if (!target.watched()) return;
  const bool under_way = target.plan.at != Vpn();
  if (under_way || target.blocks.empty() || target.plan_again <= kernel_.Now())
    target.plan.running = true;
}

MonotonicTime ScanEngine::Step() {
  if (!active_ || targets_.empty()) return kNever;
  if (!own_cpu_at_start_) own_cpu_at_start_ = kernel_.OwnCpuTime();
  const MonotonicTime now = kernel_.Now();
  Watch(now);
  DropStaleDues();
  MonotonicTime next_due = dues_.empty() ? kNever : dues_.top().time;
  if (!dues_.empty() && next_due - dues_.top().slack <= now) {
    const BlockPtr block = dues_.top().block;
    dues_.pop();
    ReadDue(block);
    return now;
  }
  MonotonicTime next_look = kNever;
  if (const BlockPtr block = TakeCpuDue(now, next_due, next_look)) {
    ReadDue(block);
    return now;
  }
  // Reads of exposures that have begun come first in any case, whatever the budget.
  if (const MonotonicTime affordable =
          own_budget_.WhenAffordable(now, kernel_.OwnCpuTime(), UnderWay(now));
      affordable > now)
    return std::min({next_due, next_look, affordable});
  const nanoseconds spare = next_due == kNever ? nanoseconds::max() : next_due - now;
  if (spare > kFastTriesTake && TryFastSomewhere(now)) return now;
  const bool may_clear = now >= next_clear_ && spare > kClearTakes;
  ScanTarget* to_plan = spare > kPlanStepTakes ? NextToPlan() : nullptr;
  if (to_plan != nullptr && (plans_turn_ || !may_clear)) {
    plans_turn_ = false;
    PlanSome(*to_plan);
    return now;
  }
  plans_turn_ = true;
  if (!may_clear)
    return std::min({next_due, next_look, spare > kClearTakes ? next_clear_ : kNever});
  ClearSomething(now);
  return now;  // the exposure it has begun may be due by the clock of its target
}

void ScanEngine::DropStaleDues() {
  while (!dues_.empty()) {
    const Due& due = dues_.top();
    if (due.block->Awaits(due.generation)) return;
    dues_.pop();
  }
}

// The target's exact clock, by which rungs of its ladders are waited for; nullopt: they are not.
std::optional<RunningTime> ScanEngine::LadderClock(ScanTarget& target, MonotonicTime now) const {
  return options_.mode == ScanOptions::Mode::kLadder ? target.Running(now) : std::nullopt;
}

// Returns a block that is due by the clock of its target; the targets take turns. If it returns
// nullptr, one will be due at `next_due`, and none before `next_look` unless its target wakes the
// scanner.
BlockPtr ScanEngine::TakeCpuDue(MonotonicTime now, MonotonicTime& next_due,
                                MonotonicTime& next_look) {
  auto next = read_by_cpu_ ? targets_.upper_bound(*read_by_cpu_) : targets_.begin();
  for (std::size_t i = 0; i < targets_.size(); ++i, ++next) {
    if (next == targets_.end()) next = targets_.begin();
    ScanTarget& target = *next->second;
    while (!target.cpu_dues.empty() && target.cpu_dues.top().stale()) target.cpu_dues.pop();
    if (!target.watched() || (target.cpu_dues.empty() && !target.turn_at && !target.fast.next))
      continue;
    const std::optional<RunningTime> running = target.Running(now);
    if (!running) {
      if (BlockPtr block = PollClock(target, now, next_look)) {
        read_by_cpu_ = next->first;
        return block;
      }
      continue;
    }
    target.pace.See(now, *running);
    nanoseconds wanted = nanoseconds::max();
    nanoseconds slack(0);
    if (!target.cpu_dues.empty()) {
      const CpuDue due = target.cpu_dues.top();
      if (due.cpu - due.slack <= running->cpu) {
        target.cpu_dues.pop();
        read_by_cpu_ = next->first;
        return due.block;
      }
      wanted = due.cpu;
      slack = due.slack;
    }
    if (target.turn_at && *target.turn_at <= running->cpu) {
      target.turn_at.reset();
      target.waited_for_turn = true;
      next_clear_ = std::min(next_clear_, std::max(now, clear_gap_end_));
    } else if (target.turn_at && *target.turn_at < wanted) {
      wanted = *target.turn_at;
      slack = nanoseconds(0);
    }
    // Fast tries are put off for whatever else is due.
    const bool is_fast =
        target.fast.next && *target.fast.next > running->cpu && *target.fast.next < wanted;
    if (is_fast) {
      wanted = *target.fast.next;
      slack = nanoseconds(0);
    }
    if (wanted == nanoseconds::max()) continue;
    const Wait wait = WaitFor(target, wanted, slack, now, *running);
    MonotonicTime& sooner = wait.is_due && !is_fast ? next_due : next_look;
    sooner = std::min(sooner, wait.until);
  }
  return nullptr;
}

// Asks the kernel for the CPU time of a target without an exact clock. Returns a block that is due
// by it, or sets `next_look` to the time to ask again. The kernel's figure is behind by up to a
// tick for each running thread, so what was due is late by no more.
BlockPtr ScanEngine::PollClock(ScanTarget& target, MonotonicTime now, MonotonicTime& next_look) {
  target.fast.next.reset();  // tries take an exact clock
  if (target.cpu_dues.empty() && !target.turn_at) return nullptr;
  ClockPolls& polls = target.polls;
  if (now < polls.next - polls.early) {
    next_look = std::min(next_look, polls.next);
    return nullptr;
  }
  const nanoseconds cpu = target.handle->CpuTime();
  target.pace.See(now, {.cpu = cpu, .threads = 0, .longest_stay = {}});
  if (target.turn_at && *target.turn_at <= cpu) {
    target.turn_at.reset();
    next_clear_ = std::min(next_clear_, std::max(now, clear_gap_end_));
  }
  nanoseconds wanted = target.turn_at.value_or(nanoseconds::max());
  if (!target.cpu_dues.empty()) {
    const CpuDue due = target.cpu_dues.top();
    if (due.cpu - due.slack <= cpu) {
      target.cpu_dues.pop();
      return due.block;
    }
    wanted = std::min(wanted, due.cpu);
  }
  if (wanted == nanoseconds::max()) return nullptr;
  if (polls.cpu != cpu) polls.moved_at = now;
  polls.cpu = cpu;
  polls.next = MonotonicTime::max();
  PollIn(target, wanted - cpu, now);
  next_look = std::min(next_look, polls.next);
  return nullptr;
}

// The target is to be asked again once it has likely used that much CPU time. The longer it has
// rested, the more rarely it is asked.
void ScanEngine::PollIn(ScanTarget& target, nanoseconds cpu, MonotonicTime now) {
  ClockPolls& polls = target.polls;
  const nanoseconds rested = polls.cpu ? now - polls.moved_at : nanoseconds(0);
  const nanoseconds likely = std::min(target.pace.Likely(cpu), std::max(cpu, kLongestPoll));
  const nanoseconds wait =
      std::max({likely, kIdlePace, std::min(rested / kPollsOfRest, kIdleWait)});
  if (now + wait >= polls.next) return;
  polls.next = now + wait;
  polls.early = wait / kEarlyPoll;
}

// Returns the time to look at the target again, which is to have used that CPU time, `slack` more
// or less. Its wake-up may come before. Precondition: it has used less.
ScanEngine::Wait ScanEngine::WaitFor(ScanTarget& target, nanoseconds cpu, nanoseconds slack,
                                     MonotonicTime now, const RunningTime& running) {
  const nanoseconds left = cpu - running.cpu;
  const nanoseconds stay = target.pace.stay();
  // If each stay on a CPU is that short, the switches at their ends give the time well enough.
  const bool short_stays = stay <= 2 * slack;
  const bool soon = left <= stay && !short_stays;
  if (!soon) {
    target.wakes_since.reset();
    target.WakeAt(cpu - (short_stays ? slack : stay));
    // It may stay on the CPU for longer than it ever did: no switch tells that.
    const nanoseconds takes = target.pace.Takes(left, running.threads);
    if (running.threads > 0) return {.until = now + takes};
    return {.until = now + std::max(takes, target.pace.rests(now) ? kRestingLook : kShortestSleep)};
  }
  if (running.threads > 0) {
    target.wakes_since.reset();
    target.handle->DoNotWake();
    return {.until = now + left / running.threads, .is_due = true};
  }
  // The scanner itself may have taken the CPU from it, and would do so again and again.
  if (now < target.no_wake_before) return {.until = target.no_wake_before};
  if (target.wakes_since && !target.handle->WillWake() &&
      running.cpu - *target.wakes_since < kShortStay) {
    target.wakes_since.reset();
    target.no_wake_before = now + std::max(left, kShortestSleep);
    return {.until = target.no_wake_before};
  }
  target.wakes_since = running.cpu;
  target.WakeAt(running.cpu);
  // It may have got a CPU just before.
  const auto again = target.Running(now);
  return {.until = again && again->threads > 0 ? now + kShortestSleep : kNever};
}

// Puts its next turn off by so much of its CPU time. False: its clock is neither exact nor polled.
bool ScanEngine::WaitsByCpu(ScanTarget& target, nanoseconds cpu, MonotonicTime now) {
  if (const std::optional<RunningTime> running = LadderClock(target, now)) {
    if (!target.turn_at) target.turn_at = running->cpu + cpu;
    return true;
  }
  if (options_.mode != ScanOptions::Mode::kLadder || !target.switches_often) return false;
  if (!target.turn_at) {
    target.turn_at = target.handle->CpuTime() + cpu;
    PollIn(target, cpu, now);
  }
  return true;
}

// A clear of a target that is off the CPU would always come right before it runs, and show only
// what it does first. The clear waits for a random moment of its CPU time instead.
bool ScanEngine::IsItsTurn(ScanTarget& target, MonotonicTime now) {
  const std::optional<RunningTime> running = LadderClock(target, now);
  if (!running) {
    target.turn_at.reset();
    return true;
  }
  target.pace.See(now, *running);
  if (target.turn_at) return false;
  const bool waited = std::exchange(target.waited_for_turn, false);
  if (running->threads > 0 || target.tries_idle >= kTriesIdle) return true;
  if (waited) ++target.tries_idle;
  const auto stay =
      static_cast<double>(std::clamp(target.pace.stay(), kShortStay, kShortestBudgetWait).count());
  target.turn_at = running->cpu + nanoseconds(std::llround(anywhere_(random_) * stay));
  return false;
}

// ------------------------------------------------------------------------------------- fast tries

// Returns the part of the charge to a target that fast tries may take by now.
static double FastPartOf(const ScanTarget& target) {
  return target.VisitedWholly() && target.fast.tries < kEnoughFastTries ? kFastPartAtFirst
                                                                        : kFastPart;
}

// A try costs far more than a bit of a block that is cleared whole.
bool ScanEngine::MayTryFast(const ScanTarget& target, MonotonicTime now) const {
  // A shorter stay on a CPU hardly ever holds a whole try.
  const bool stays = target.pace.stay() >= 2 * kFastRungs[0];
  return target.watched() && stays && !pressure_.standing() && now >= target.refused_until &&
         static_cast<double>(target.fast.charged_ns) <
             FastPartOf(target) * static_cast<double>(target.charged_ns);
}

nanoseconds ScanEngine::RandomPause(nanoseconds least, nanoseconds most) {
  const auto range = static_cast<double>((most - least).count());
  return least + nanoseconds(std::llround(anywhere_(random_) * range));
}

// `found`: its pages that were accessed before the first read of a visit.
void ScanEngine::OfferForFastTries(ScanTarget& target, const BlockPtr& block,
                                   const UnitSet& found) {
  FastSession& session = target.fast;
  block->first_read_finds.resize(kMostUnits);
  for (std::size_t i = 0; i < kMostUnits; ++i) {
    std::uint8_t& finds = block->first_read_finds[i];
    if (!found[i]) {
      finds = 0;
      continue;
    }
    if (finds < std::numeric_limits<std::uint8_t>::max()) ++finds;
    if (block->waits_for_tries[i]) continue;
    const FastCandidate candidate{block, static_cast<std::uint16_t>(i)};
    if (session.candidates.size() < kMostFastCandidates) {
      session.candidates.push_back(candidate);
    } else {
      FastCandidate& other = session.candidates[random_() % kMostFastCandidates];
      if (finds < std::min<int>(other.first_read_finds(), kFindsThatTell)) continue;
      other.block->waits_for_tries.reset(other.unit);
      other = candidate;
    }
    block->waits_for_tries.set(i);
  }
  if (session.next || session.WaitsForNone()) return;
  if (const std::optional<RunningTime> running = target.Running(kernel_.Now()))
    session.next = running->cpu + RandomPause(kLeastFastPause, kMostFastPause);
}

// The targets take turns. True: tries were made.
bool ScanEngine::TryFastSomewhere(MonotonicTime now) {
  auto next = tried_fast_ ? targets_.upper_bound(*tried_fast_) : targets_.begin();
  for (std::size_t i = 0; i < targets_.size(); ++i, ++next) {
    if (next == targets_.end()) next = targets_.begin();
    ScanTarget& target = *next->second;
    FastSession& session = target.fast;
    if (!session.next || !MayTryFast(target, now)) continue;
    const std::optional<RunningTime> running = target.Running(now);
    if (!running || running->cpu < *session.next) continue;
    const nanoseconds own_cpu_before = kernel_.OwnCpuTime();
    if (static_cast<double>(fast_own_cpu_.count()) >
        kFastPartOfOwn * static_cast<double>((own_cpu_before - *own_cpu_at_start_).count()))
      return false;
    if (running->threads == 0) {
      // The moment that it gets a CPU is none at random.
      session.next =
          running->cpu +
          RandomPause(nanoseconds(0),
                      std::clamp<nanoseconds>(target.pace.stay(), kShortStay, kMostFastPause));
      continue;
    }
    tried_fast_ = next->first;
    if (session.pages.empty()) ChooseForFastTries(target);
    session.next.reset();
    if (!session.pages.empty()) TryFast(target);
    if (!session.pages.empty() || !session.WaitsForNone())
      session.next = running->cpu + RandomPause(kLeastFastPause, kMostFastPause);
    fast_own_cpu_ += kernel_.OwnCpuTime() - own_cpu_before;
    return true;
  }
  return false;
}

// Pages that each first read of late has found are tried some times more often than others, whose
// rates are known from later reads. The order among equals is random.
void ScanEngine::ChooseForFastTries(ScanTarget& target) {
  FastSession& session = target.fast;
  std::vector<FastCandidate>& candidates = session.candidates;
  std::erase_if(candidates, [](const FastCandidate& at) {
    const bool is_slow = at.first_read_finds() == 0;
    if (is_slow) at.block->waits_for_tries.reset(at.unit);
    return is_slow || at.block->dropped;
  });
  std::ranges::shuffle(candidates, random_);
  std::ranges::stable_sort(candidates, {}, [](const FastCandidate& at) {
    return at.sessions() - kSessionsPerFind * std::min<int>(at.first_read_finds(), kFindsThatTell);
  });
  const std::size_t rungs =
      random_() % kTriesTheRungAgain == 0 ? options_.clear_loss.rungs() : FastRungsThatCount();
  ChooseFastestPages(session, rungs);
  const std::size_t count = std::min(candidates.size(), kMostFastPages - session.pages.size());
  std::vector<Vpn> pages;
  for (std::size_t i = 0; i < count; ++i) {
    const FastCandidate& at = candidates[i];
    at.block->waits_for_tries.reset(at.unit);
    at.CountSession();
    session.pages.push_back({at, FastPage(rungs), /*again=*/0});
  }
  candidates.erase(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::sort(session.pages, {}, &FastSession::Page::page);
  for (const FastSession::Page& page : session.pages) pages.push_back(page.page());
  // A clear would not reach the others, or not alone.
  const std::vector<bool> clearable = target.handle->ClearableAlone(pages);
  std::size_t i = 0;
  std::erase_if(session.pages, [&](const FastSession::Page&) { return !clearable[i++]; });
}

// Pages that each rung found but the last are tried at it again and again: two tries say little
// about them, and few pages may have a large part of all accesses. At most half of a session is
// theirs while others wait.
void ScanEngine::ChooseFastestPages(FastSession& session, std::size_t rungs) {
  std::vector<FastSession::Fastest>& fastest = session.fastest;
  std::erase_if(fastest, [](const auto& each) { return each.at.block->dropped; });
  if (rungs < kFewestRungsToRepeat) {
    session.TakeFastest(fastest.size());
    return;
  }
  const std::size_t most = kMostFastPages - std::min(session.candidates.size(), kMostFastPages / 2);
  std::ranges::shuffle(fastest, random_);
  std::ranges::stable_sort(fastest, {}, &FastSession::Fastest::again);
  const std::size_t count = std::min(fastest.size(), most);
  for (std::size_t i = 0; i < count; ++i) {
    const FastSession::Fastest& each = fastest[i];
    session.pages.push_back({each.at, FastPage(rungs, rungs - 1, each.seen_unset),
                             static_cast<std::uint8_t>(each.again + 1)});
  }
  session.TakeFastest(count);
}

std::size_t ScanEngine::FastRungsThatCount() const {
  std::size_t rungs = 1;
  for (; rungs < options_.clear_loss.rungs(); ++rungs) {
    const FastRungTries& tries = fast_rung_tries_[rungs];
    if (tries.made >= kTriesThatTellOfARung && kWorthARung * tries.counted < tries.made) break;
  }
  return rungs;
}

// Tries each page of the session that has the rung of the first.
void ScanEngine::TryFast(ScanTarget& target) {
  FastSession& session = target.fast;
  std::vector<FastTry> tries;
  if (!PrepareFastTries(target, tries)) return;
  const std::size_t rung = session.pages.front().tries.rung();
  RunFastTries(kernel_, *target.handle, rung, options_.clear_loss, tries);
  for (const FastTry& each : tries) fast_rung_tries_[rung].Add(each.counted);
  const std::size_t clears = tries.size() + 1;
  fast_clears_ += clears;
  // Each CPU that runs a thread of the target is interrupted.
  const double cost = options_.cost.ns_per_point * std::max(target.clock.running_threads(), 1u) +
                      options_.cost.ns_per_set;
  const auto charged = static_cast<std::uint64_t>(static_cast<double>(clears) * cost);
  session.charged_ns += charged;
  session.tries += tries.size();
  ChargeTarget(target, charged, clears);
  EndFastTries(target, tries);
}

// Pages that are no base pages any more leave the session. False: nothing is left.
bool ScanEngine::PrepareFastTries(ScanTarget& target, std::vector<FastTry>& tries) {
  std::vector<FastSession::Page>& pages = target.fast.pages;
  std::erase_if(pages, [](const FastSession::Page& page) { return page.at.block->dropped; });
  if (pages.empty()) return false;
  std::vector<Vpn> at;
  for (const FastSession::Page& page : pages) at.push_back(page.page());
  std::vector<PointEntry> entries;
  const ReadResult read = target.handle->ReadPoints(at, entries);
  if (read.outcome == ReadOutcome::kProcessGone) {
    target.gone = true;
    DropAll(target);
    return false;
  }
  if (read.outcome != ReadOutcome::kDone) {
    target.fast.End();
    return false;
  }
  if (read.address_space != target.address_space) {
    Replaced(target, read.address_space);
    return false;
  }
  std::vector<FastSession::Page> kept;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const PointEntry& entry = entries[i];
    const bool is_base =
        entry.read && entry.entry.present() && !entry.entry.special() && entry.unit == PageCount(1);
    if (!is_base) continue;
    kept.push_back(std::move(pages[i]));
    kept.back().frame = entry.entry.frame(kernel_.frame_mask());
    kept.back().writable = entry.entry.writable();
  }
  pages = std::move(kept);
  if (pages.empty()) return false;
  // Those of one rung come first, and stay in order.
  const std::size_t rung = pages.front().tries.rung();
  std::ranges::stable_partition(
      pages, [&](const FastSession::Page& page) { return page.tries.rung() == rung; });
  for (const FastSession::Page& page : pages) {
    if (page.tries.rung() != rung) break;
    tries.push_back({.page = page.page(), .reads_at_once = page.tries.wants_read_at_once()});
  }
  return true;
}

// `tries` are of the first pages of the session.
void ScanEngine::EndFastTries(ScanTarget& target, std::span<const FastTry> tries) {
  FastSession& session = target.fast;
  std::vector<FastSession::Page> left;
  std::vector<FastSession::Page> doubted;
  for (std::size_t i = 0; i < session.pages.size(); ++i) {
    FastSession::Page& page = session.pages[i];
    FastPage::State state = FastPage::State::kGoesOn;
    const bool is_first = page.again == 0;
    if (i < tries.size()) {
      fast_counted_ += tries[i].counted;
      state = page.tries.Add(tries[i]);
    }
    switch (state) {
      case FastPage::State::kGoesOn:
        left.push_back(std::move(page));
        break;
      case FastPage::State::kTrusted:
        session.ended += is_first;
        session.seen_unset += is_first;
        RecordFastTries(page);
        session.TryAgain(page);
        break;
      case FastPage::State::kDoubted:
        session.ended += is_first;
        session.TryAgain(page);
        doubted.push_back(std::move(page));
        break;
      case FastPage::State::kGivenUp:
        break;
    }
  }
  session.pages = std::move(left);
  std::ranges::sort(session.pages, {}, &FastSession::Page::page);
  if (!doubted.empty()) RecordIfCleared(target, doubted);
}

// Pages that were found set at every try are very hot, or their clears had no effect. They are
// believed if the kernel would still clear them, and if most pages of the target were found unset.
void ScanEngine::RecordIfCleared(ScanTarget& target, std::span<const FastSession::Page> doubted) {
  const FastSession& session = target.fast;
  const bool clears_work =
      session.ended >= kFewestFastPages && 2 * session.seen_unset >= session.ended;
  std::vector<Vpn> at;
  for (const FastSession::Page& page : doubted) at.push_back(page.page());
  const std::vector<bool> clearable = target.handle->ClearableAlone(at);
  for (std::size_t i = 0; i < doubted.size(); ++i) {
    if (clears_work && clearable[i]) {
      RecordFastTries(doubted[i]);
    } else {
      ++fast_doubted_;
    }
  }
}

void ScanEngine::RecordFastTries(const FastSession::Page& page) {
  UnitRecord& record = RecordsOf(page.at.block)[page.at.unit];
  record.frame = page.frame;
  record.writable = page.writable;
  const auto fits = [](auto sum, std::uint64_t more) {
    return sum + more <= std::numeric_limits<decltype(sum)>::max();
  };
  const auto time = static_cast<std::uint64_t>(page.tries.time().count());
  const auto earlier_time = static_cast<std::uint64_t>(page.tries.earlier_time().count());
  // Counts and times stay of the same tries.
  if (!fits(record.fast_looks, page.tries.looks()) ||
      !fits(record.fast_earlier, page.tries.earlier_looks()) || !fits(record.fast_ns, time) ||
      !fits(record.fast_earlier_ns, earlier_time))
    return;
  record.fast_looks = static_cast<std::uint16_t>(record.fast_looks + page.tries.looks());
  record.fast_found = static_cast<std::uint16_t>(record.fast_found + page.tries.found());
  record.fast_earlier =
      static_cast<std::uint16_t>(record.fast_earlier + page.tries.earlier_looks());
  record.fast_ns += static_cast<std::uint32_t>(time);
  record.fast_earlier_ns += static_cast<std::uint32_t>(earlier_time);
}

// ------------------------------------------------------------------------------------- the plan

// The targets take turns, so that a long plan does not hold up the others.
ScanTarget* ScanEngine::NextToPlan() {
  auto next = planned_ ? targets_.upper_bound(*planned_) : targets_.begin();
  for (std::size_t i = 0; i < targets_.size(); ++i, ++next) {
    if (next == targets_.end()) next = targets_.begin();
    if (next->second->plan.running) return next->second.get();
  }
  return nullptr;
}

void ScanEngine::PlanSome(ScanTarget& target) {
  planned_ = target.process.id;
  const MonotonicTime start = kernel_.Now();
  const nanoseconds before = target.plan.took - kernel_.OwnCpuTime();
  bool finished = false;
  do {
    finished = PlanStep(target);
  } while (target.plan.running && kernel_.Now() - start < kPlanStepTakes / 2);
  const nanoseconds took = before + kernel_.OwnCpuTime();
  if (!finished) {
    target.plan.took = took;
    return;
  }
  const double pause = static_cast<double>(took.count()) / (kPlansPart * options_.own_share);
  target.plan_again = kernel_.Now() + std::min(nanoseconds(std::llround(pause)), kLongestPlanPause);
}

// True: that was the last of the plan.
bool ScanEngine::PlanStep(ScanTarget& target) {
  ScanPlan& plan = target.plan;
  // The mapping is found by address, because the mappings may have changed since the step before.
  const auto& mappings = target.process.mappings;
  auto found = std::ranges::upper_bound(mappings, plan.at, {},
                                        [](const Mapping& mapping) { return mapping.range.end; });
  found = std::find_if(found, mappings.end(), IsScanned);
  if (target.gone || target.mappings_stale || found == mappings.end()) {
    FinishPlan(target);
    return true;
  }
  const Mapping& mapping = *found;
  plan.at = std::max(plan.at, mapping.range.start);
  // The reader stops after 1 GiB of tables, and passes over holes of any size. With the end of the
  // mapping it reads the whole table there, which may be that of many small mappings.
  const ReadResult read = target.handle->Read({plan.at, AlignUp(mapping.range.end, kTablePages)},
                                              PageTableReader::Depth::kShape, parts_);
  counts_.retries_busy += read.busy_retries;
  switch (read.outcome) {
    case ReadOutcome::kBusy:
      plan.running = false;  // until the next refresh
      return false;
    case ReadOutcome::kProcessGone:
      target.gone = true;
      DropAll(target);
      return false;
    case ReadOutcome::kRefused:
      ComplainOfRead(target, read);
      unread_.Settle();      // a read that follows may succeed
      plan.running = false;  // until the next refresh
      return false;
    case ReadOutcome::kUnmapped:
      plan.at = mapping.range.end;
      return false;
    case ReadOutcome::kDone:
      break;
  }
  if (!target.address_space) target.address_space = read.address_space;
  if (*target.address_space != read.address_space) {
    Replaced(target, read.address_space);
    return false;
  }
  PlanParts(target, found);
  plan.at = std::max(read.next, plan.at + PageCount(1));
  return false;
}

// `first`: the mapping that the read began in.
void ScanEngine::PlanParts(ScanTarget& target, MappingIterator first) {
  ScanPlan& plan = target.plan;
  const auto end = target.process.mappings.end();
  for (const TablePart& part : parts_) {
    if (part.start < plan.tables_to) continue;
    while (first != end && first->range.end <= part.start) ++first;
    if (first == end) return;
    plan.tables_to = part.start + part.span;
    if (part.huge) {
      PlanHuge(target, *first, part);
    } else {
      FlushRun(target);
      PlanTable(target, first, {part.start, part.start + part.span});
    }
  }
}

// A huge page that is not wholly of the mapping is younger than what is known of the mappings.
void ScanEngine::PlanHuge(ScanTarget& target, const Mapping& mapping, const TablePart& part) {
  ScanPlan& plan = target.plan;
  const VpnRange whole{part.start, part.start + part.span};
  if (!IsScanned(mapping) || whole.start < mapping.range.start || mapping.range.end < whole.end)
    return;
  plan.huge.push_back({target.process.id, part.start, part.span});
  if (part.span != kTablePages) {
    FlushRun(target);
    AddBlock(target, whole, part.span);
    return;
  }
  const bool adjacent =
      !plan.run.empty() && plan.run.back() + kTablePages == part.start && part.start < plan.run_end;
  const PageCount window(kTablePages.value() * kHugePagesPerBlock);
  if (!adjacent || AlignDown(part.start, window) == part.start) FlushRun(target);
  plan.run.push_back(part.start);
  plan.run_end = mapping.range.end;
}

// All mappings that share the table make one block. `first`: the first that ends in or behind it.
void ScanEngine::PlanTable(ScanTarget& target, MappingIterator first, VpnRange table) {
  std::vector<VpnRange> inside;
  const auto finish = [&] {
    if (inside.empty()) return;
    const VpnRange range{inside.front().start, inside.back().end};
    AddBlock(target, range, PageCount(1), std::exchange(inside, {}));
  };
  for (; first != target.process.mappings.end() && first->range.start < table.end; ++first) {
    if (first->kind == MappingKind::kSpecial) finish();
    if (!IsScanned(*first)) continue;
    inside.push_back(
        {std::max(first->range.start, table.start), std::min(first->range.end, table.end)});
  }
  finish();
}

void ScanEngine::AddBlock(ScanTarget& target, VpnRange range, PageCount unit,
                          std::vector<VpnRange> mappings) {
  auto block = std::make_shared<Block>();
  block->target = target.process.id;
  block->range = range;
  block->unit = unit;
  block->mapped = range.size();
  if (mappings.size() > 1) {
    block->mapped = PageCount(0);
    for (const VpnRange& mapping : mappings) block->mapped += mapping.size();
    block->mappings = std::move(mappings);
  }
  target.plan.blocks.push_back(std::move(block));
}

void ScanEngine::FlushRun(ScanTarget& target) {
  ScanPlan& plan = target.plan;
  if (plan.run.empty()) return;
  AddBlock(target, {plan.run.front(), plan.run.back() + kTablePages}, kTablePages);
  plan.run.clear();
}

// Blocks that are as before keep their state; the others go, and new ones join the rotation.
void ScanEngine::FinishPlan(ScanTarget& target) {
  FlushRun(target);
  ScanPlan plan = std::exchange(target.plan, ScanPlan{});
  if (target.blocks.empty())
    next_clear_ = std::min(next_clear_, kernel_.Now() + options_.least_clear_gap);
  const double turn_now = target.remaining.empty() ? 0 : target.remaining.back()->turn;
  std::vector<BlockPtr> added;
  const Block* before = nullptr;
  auto old = target.blocks.begin();
  for (BlockPtr& block : plan.blocks) {
    while (old != target.blocks.end() && (*old)->range.start < block->range.start)
      Drop(target, **old++);
    const bool was_there = old != target.blocks.end() && (*old)->range.start == block->range.start;
    if (was_there && !(*old)->dropped && (*old)->range == block->range &&
        (*old)->unit == block->unit) {
      if ((*old)->mappings != block->mappings) {
        (*old)->mappings = std::move(block->mappings);
        (*old)->mapped = block->mapped;
        (*old)->by_mapping_until = MonotonicTime{};
      }
      block = *old++;
    } else {
      if (was_there) {
        block->turn = (*old)->turn;
        Drop(target, **old++);
      } else if (before != nullptr && AreOfOneWindow(*before, *block)) {
        block->turn = before->turn;
      } else {
        block->turn = turn_now + (1 - turn_now) * anywhere_(random_);
      }
      added.push_back(block);
    }
    before = block.get();
  }
  for (; old != target.blocks.end(); ++old) Drop(target, **old);
  target.blocks = std::move(plan.blocks);
  target.huge = std::move(plan.huge);
  std::erase_if(target.remaining, [&target](const BlockPtr& block) {
    return block->dropped || block->visited_in_rotation == target.rotation;
  });
  InOrder(added);
  const auto middle = target.remaining.insert(target.remaining.end(), added.begin(), added.end());
  std::ranges::inplace_merge(target.remaining, middle, std::ranges::greater{}, &TurnOf);
  FollowGrowth(target);
}

// A program that is recorded from its start has hardly any memory when it is first visited. It
// fills its memory, and then works with it: visits during the filling say nothing about the work.
void ScanEngine::FollowGrowth(ScanTarget& target) {
  PageCount now;
  for (const BlockPtr& block : target.blocks) now += block->mapped;
  const PageCount before = std::exchange(target.planned, now);
  if (before == PageCount(0)) target.first_visited = now;
  if (now.value() <= 2 * target.first_visited.value()) return;
  if (now.value() > before.value() + before.value() / kFills) {
    target.visit.over = true;
    return;
  }
  const MonotonicTime time = kernel_.Now();
  if (std::ranges::none_of(
          target.blocks, [&](const BlockPtr& block) { return MayHaveTurn(target, *block, time); }))
    return;
  // Blocks that were visited during the filling take no precedence.
  const Block* neighbour = nullptr;
  for (const BlockPtr& block : target.blocks) {
    const bool joined = neighbour != nullptr && AreOfOneWindow(*neighbour, *block);
    block->turn = joined ? neighbour->turn : anywhere_(random_);
    neighbour = block.get();
  }
  target.remaining.clear();
  BeginRotation(target, time);
  target.first_visited = now;
  target.first_visit_in = target.rotation;
  // The target can borrow again as much as was paid back.
  target.visit = {.borrowed_ns = std::min(target.visit.borrowed_ns, loan_.owed_ns())};
}

void ScanEngine::InOrder(std::vector<BlockPtr>& blocks) {
  std::ranges::sort(blocks, std::ranges::greater{}, &TurnOf);
}

// Each window keeps its place but for a little, so that none waits for much longer than a rotation:
// of places drawn anew the last of one rotation may be the first of another and the reverse. Places
// that never moved would meet a target that does as much in each rotation at the same thing always.
// `blocks`: ascending.
void ScanEngine::MoveTurns(std::vector<BlockPtr>& blocks) {
  const Block* before = nullptr;
  for (const BlockPtr& block : blocks) {
    block->turn = before != nullptr && AreOfOneWindow(*before, *block)
                      ? before->turn
                      : block->turn + turn_moves_by_(random_);
    before = block.get();
  }
  InOrder(blocks);
  const auto count = static_cast<double>(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i]->turn = (count - static_cast<double>(i + 1)) / count;
}

// ------------------------------------------------------------------------------------- clearing

// Draws whether the window of a block, which has just been visited, is visited again before the
// rotation is over.
void ScanEngine::MayRevisit(ScanTarget& target, const BlockPtr& block, MonotonicTime now) {
  if (options_.mode != ScanOptions::Mode::kLadder || anywhere_(random_) >= kRevisitedPart) return;
  target.revisits.push_back({block, now + kRevisitAfter});
}

// Returns a block whose window is due to be visited again; nullptr: none is.
BlockPtr ScanEngine::TakeRevisit(ScanTarget& target, MonotonicTime now) {
  std::deque<Revisit>& revisits = target.revisits;
  while (!revisits.empty() && revisits.front().not_before <= now) {
    const Revisit due = revisits.front();
    const BlockPtr& block = due.block;
    revisits.pop_front();
    // The block has left, or the rotation that visits it next has begun.
    if (block->dropped || block->visited_in_rotation != target.rotation) continue;
    if (block->in_ladder) {
      revisits.push_back(due);
      return nullptr;
    }
    if (!MayHaveTurn(target, *block, now)) continue;
    std::erase_if(target.remaining, [&](const BlockPtr& other) {
      return other->visited_in_rotation == target.rotation && AreOfOneWindow(*other, *block);
    });
    const Vpn window = AlignDown(block->range.start, kClearWindow);
    auto other = std::ranges::lower_bound(target.blocks, window, {}, StartOf);
    for (; other != target.blocks.end() && (*other)->range.start < window + kClearWindow; ++other)
      if (AreOfOneWindow(**other, *block)) (*other)->visited_in_rotation = 0;
    block->visited_in_rotation = target.rotation;
    return block;
  }
  return nullptr;
}

// The next of the rotation whose ladder is not running, or one that is visited again; nullptr: all
// that is left is being watched.
BlockPtr ScanEngine::NextBlock(ScanTarget& target, MonotonicTime now) {
  if (const BlockPtr again = TakeRevisit(target, now)) return again;
  if (target.remaining.empty()) {
    if (!BeginRotation(target, now)) return nullptr;
    ++counts_.rotations;
  }
  std::size_t watched = 0;
  while (watched < std::min(kLookedAheadInRotation, target.remaining.size())) {
    BlockPtr& candidate = target.remaining[target.remaining.size() - 1 - watched];
    const bool had_its_turn = candidate->visited_in_rotation == target.rotation;  // with neighbours
    if (candidate->in_ladder && !had_its_turn) {
      ++watched;
      continue;
    }
    BlockPtr block = std::move(candidate);
    target.remaining.erase(target.remaining.end() - 1 - static_cast<std::ptrdiff_t>(watched));
    if (had_its_turn) continue;
    block->visited_in_rotation = target.rotation;
    if (MayHaveTurn(target, *block, now)) return block;
  }
  return nullptr;
}

// Precondition: no block remains. False: none may have a turn.
bool ScanEngine::BeginRotation(ScanTarget& target, MonotonicTime now) {
  for (const BlockPtr& block : target.blocks)
    if (MayHaveTurn(target, *block, now)) target.remaining.push_back(block);
  if (target.remaining.empty()) return false;
  ++target.rotation;
  MoveTurns(target.remaining);
  return true;
}

bool ScanEngine::MayHaveTurn(const ScanTarget& target, const Block& block,
                             MonotonicTime now) const {
  return block.WorthATurn(now) && (block.whole_until <= now || MayClearWhole(target, now));
}

nanoseconds ScanEngine::LastRung() const {
  return nanoseconds(base_ladder_.delay_ns[base_ladder_.rungs - 1]);
}

// True: the ladders have ended that the latest clear of the whole target began.
bool ScanEngine::LaddersOfWholeHaveEnded(const ScanTarget& target, MonotonicTime now) const {
  const WholeClears& whole = target.whole;
  if (!whole.any) return true;
  const nanoseconds since =
      options_.mode == ScanOptions::Mode::kPlain ? now - whole.at : target.earned_at - whole.cpu;
  return since >= LastRung();
}

bool ScanEngine::MayClearWhole(const ScanTarget& target, MonotonicTime now) const {
  const WholeClears& whole = target.whole;
  if (!target.handle->ClearsWhole() || now < whole.not_before) return false;
  return LaddersOfWholeHaveEnded(target, now) &&
         (!whole.any || now - whole.at >= kWholeClearsRest * whole.took);
}

// The first visit does not go on if the target sleeps, or may not be looked at.
FirstVisits ScanEngine::UnderWay(MonotonicTime now) const {
  const bool any = !pressure_.standing() && std::ranges::any_of(targets_, [now](const auto& entry) {
    const ScanTarget& target = *entry.second;
    return target.watched() && now >= target.refused_until && !target.visit.over &&
           !target.remaining.empty() && now - target.ran_at < kRunsStill;
  });
  return any ? FirstVisits::kUnderWay : FirstVisits::kNone;
}

void ScanEngine::Earn(ScanTarget& target, MonotonicTime now) {
  const nanoseconds used = target.TakeUsed();
  epoch_cpu_time_ += used;
  if (used > nanoseconds(0)) target.ran_at = now;
  target.visit.over |= target.VisitedWholly();
  target.budget.balance_ns -= loan_.PayBack(target.visit, used);
  clock_cost_ += target.Earn(used);
  // A visit begins while more than nothing is left.
  target.budget.balance_ns +=
      loan_.Lend(target.visit, used, 1 - tmprof_budget_free(&target.budget));
}

// Reserved cost counts as spent: nobody will see which of its cleared bits the target sets again.
void ScanEngine::SpendReserved(ScanTarget& target) {
  for (const BlockPtr& block : target.blocks) {
    const std::int64_t reserved = std::exchange(block->reserved_ns, 0);
    tmprof_budget_reserve(&target.budget, -reserved);
    tmprof_budget_charge(&target.budget, static_cast<std::uint64_t>(reserved));
  }
}

void ScanEngine::Leave(ScanTarget& target) {
  SpendReserved(target);
  loan_.TakeOver(tmprof_budget_free(&target.budget));
  DropAll(target);
}

// Tries one block, if the targets' budgets allow, and says when to try the next.
void ScanEngine::ClearSomething(MonotonicTime now) {
  nanoseconds wait = kLongestBudgetWait;
  next_clear_ = now + wait;
  if (pressure_.standing()) return;
  bool all_by_cpu = true;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    turn_ = (turn_ + 1) % targets_.size();
    ScanTarget& target = *std::next(targets_.begin(), static_cast<std::ptrdiff_t>(turn_))->second;
    if (!target.watched() || now < target.refused_until) continue;
    Earn(target, now);
    const auto left = tmprof_budget_free(&target.budget);
    if (left <= 0) {
      const nanoseconds earns = WaitToEarn(loan_.net_ppm(target.visit), -left, kLongestBudgetWait);
      if (WaitsByCpu(target, earns, now)) continue;
      all_by_cpu = false;
      wait = std::min(wait, earns);
      continue;
    }
    if (!IsItsTurn(target, now)) continue;
    const BlockPtr block = NextBlock(target, now);
    if (!block) {
      all_by_cpu &= WaitsByCpu(target, kLongestBudgetWait, now);
      continue;
    }
    clear_gap_end_ = now + (Visit(target, block, now) ? ClearGap(target) : kAfterFailedVisit);
    next_clear_ = clear_gap_end_;
    return;
  }
  next_clear_ = now + (all_by_cpu ? kLongestTurnWait : wait);
}

// Makes the block the next of the rotation. Precondition: it is none of those that remain.
void ScanEngine::PutBack(ScanTarget& target, const BlockPtr& block) {
  block->visited_in_rotation = 0;
  if (!target.remaining.empty()) block->turn = std::min(block->turn, target.remaining.back()->turn);
  target.remaining.push_back(block);
}

// The blocks that are cleared together with this one: those of its window whose turn it is, too.
// Each clear flushes the target's TLB and paging-structure caches, whatever its length. Pages
// between two neighbouring tables' blocks are of neither, and a table between would be.
std::vector<BlockPtr> ScanEngine::RunAround(ScanTarget& target, const BlockPtr& block,
                                            MonotonicTime now) {
  const auto joins = [&](const Block& other) {
    return !other.dropped && !other.in_ladder && other.unit == PageCount(1) &&
           other.Clearable(now) && other.by_mapping_until <= now && other.whole_until <= now &&
           other.visited_in_rotation != target.rotation && AreOfOneWindow(other, *block);
  };
  std::vector<BlockPtr> run{block};
  if (block->unit != PageCount(1) || block->by_mapping_until > now) return run;
  std::size_t mappings = block->mapping_count();
  const auto fits = [&mappings](const Block& other) {
    if (mappings + other.mapping_count() > kMostMappingsPerClear) return false;
    mappings += other.mapping_count();
    return true;
  };
  const auto at = std::ranges::lower_bound(target.blocks, block->range.start, {}, StartOf);
  for (auto before = at; before != target.blocks.begin();) {
    --before;
    if (!AreOfNeighbouringTables(**before, *run.front()) || !joins(**before) || !fits(**before))
      break;
    run.insert(run.begin(), *before);
  }
  if (at == target.blocks.end()) return run;
  for (auto after = std::next(at); after != target.blocks.end(); ++after) {
    if (!AreOfNeighbouringTables(*run.back(), **after) || !joins(**after) || !fits(**after)) break;
    run.push_back(*after);
  }
  return run;
}

// Reads memory that cannot be cleared: a set bit means only that it was accessed at some time.
void ScanEngine::See(ScanTarget& target, const BlockPtr& block, const UnitSet& units) {
  if (!Read(target, *block)) return;
  if (view_.shape_changed) {
    Drop(target, *block);
    return;
  }
  std::vector<UnitRecord>& records = RecordsOf(block);
  block->seen = true;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!view_.accessed[i] || !units[i]) continue;
    records[i].seen = true;
    view_.NoteFrame(i, records[i]);
  }
}

// A last look at a block before its clear. False: it is not to be cleared now.
bool ScanEngine::LookBeforeClear(ScanTarget& target, const BlockPtr& block) {
  const std::optional<ReadResult> read = Read(target, *block);
  if (!read) return false;
  if (block->open) {
    Fold(target, block, *read);
  } else {
    target.CpuAt(read->time, read->running_threads);
  }
  // A huge page that has grown where base pages were would be split by a clear of part of it.
  if (view_.shape_changed) Drop(target, *block);
  if (block->dropped || view_.present_count == 0) return false;
  PrepareExposure(*block);
  return true;
}

// True: cleared.
bool ScanEngine::Visit(ScanTarget& target, const BlockPtr& block, MonotonicTime now) {
  if (!block->Clearable(now)) {
    See(target, block, AllUnits());
    return false;
  }
  if (block->whole_until > now || LeavesToWholeUnjudged(target, *block, now))
    return VisitWhole(target, now);
  // Whoever is not reached has its turn later.
  block->visited_in_rotation = 0;
  std::vector<BlockPtr> ready;
  for (const BlockPtr& member : RunAround(target, block, now)) {
    member->visited_in_rotation = target.rotation;
    if (LookBeforeClear(target, member)) {
      ready.push_back(member);
    } else if (!ready.empty() || target.gone || target.mappings_stale) {
      break;
    }
    // If the target is off the CPU, the first rungs would have to be waited for.
    if (target.clock.running_threads() == 0 && target.tries_idle < kTriesIdle) {
      ++target.tries_idle;
      member->visited_in_rotation = 0;
      for (const BlockPtr& other : ready) other->visited_in_rotation = 0;
      ready.clear();
      break;
    }
  }
  if (block->visited_in_rotation != target.rotation && !block->dropped) PutBack(target, block);
  // A read may have found that the process is gone, or another program.
  std::erase_if(ready, [](const BlockPtr& member) { return member->dropped; });
  if (ready.empty()) return false;
  target.tries_idle = 0;
  if (Clear(target, ready)) {
    MayRevisit(target, ready.front(), now);
    return true;
  }
  if (ready.size() == 1) return false;
  // Perhaps only one block of the run cannot be cleared, so each is tried alone.
  bool cleared = false;
  for (const BlockPtr& member : ready) cleared |= !member->dropped && Clear(target, {member});
  return cleared;
}

WholeNeed ScanEngine::NeedOf(const ScanTarget& target, MonotonicTime now) {
  WholeNeed need;
  // Blocks that nobody looked at yet are taken to have as large a part of their pages as the
  // others.
  std::size_t base_units = 0;
  std::size_t base_present = 0;
  std::size_t unseen_units = 0;
  for (const BlockPtr& block : target.blocks) {
    // Huge pages that no clear of a range has worked for may be hugetlb's.
    if (block->dropped || !block->Clearable(now)) continue;
    if (block->unit != PageCount(1) && !block->cleared_before) continue;
    need.members.push_back(block);
    if (!block->looked_at) {
      unseen_units += block->unit_count();  // base pages only: no huge ones have been cleared
      continue;
    }
    const PageCount present(block->entries() * block->unit.value());
    if (block->unit == PageCount(1)) {
      base_units += block->unit_count();
      base_present += block->entries();
    }
    need.pages += present;
    need.entries += block->entries();
    if (block->NeedsWhole()) {
      need.in_need += present;
      if (block->refused) need.refused += present;
    } else if (!block->judged && block->unit == PageCount(1)) {
      need.unjudged += block->entries();
      need.unjudged_pages += present;
    }
  }
  const std::size_t unseen =
      base_units > 0 ? unseen_units * base_present / base_units : unseen_units;
  need.unjudged += unseen;
  need.entries += unseen;
  need.unjudged_pages += PageCount(unseen);
  need.pages += PageCount(unseen);
  return need;
}

// A clear of a range is in vain for most blocks of a process that shares its memory, and tens of
// thousands of pages would be cleared so before the last block is judged.
bool ScanEngine::LeavesToWholeUnjudged(const ScanTarget& target, const Block& block,
                                       MonotonicTime now) {
  // A whole memory cgroup is not aged before it is known that its processes need it.
  if (options_.ageing || block.judged || block.unit != PageCount(1) || !MayClearWhole(target, now))
    return false;
  // All blocks are counted below, for each that is visited first: not those of a large process,
  // which no such clear is for.
  if (target.blocks.size() > kMostBlocksOfWholeClear) return false;
  const WholeNeed need = NeedOf(target, now);
  return need.tells() && need.is_worth_it();
}

// Visits all blocks by one clear. It takes the bits of exposures under way, too, so that all begin
// anew. True: cleared.
bool ScanEngine::VisitWhole(ScanTarget& target, MonotonicTime now) {
  const WholeNeed need = NeedOf(target, now);
  if (need.entries == 0) {
    target.whole.not_before = std::max(target.whole.not_before, now + kAfterBusyWhole);
    return false;
  }
  const bool too_long = target.whole.price.Takes(need.entries) > kLongestWholeClear ||
                        need.members.size() > kMostBlocksOfWholeClear;
  const bool worth_it = need.is_worth_it();
  const bool may_do = !too_long || options_.ageing;
  if (may_do && !worth_it && !need.tells() && need.may_be_worth_it()) return false;
  if (!may_do || !worth_it) {
    whole_too_long_ += too_long;
    DoWithoutWhole(target, now + kRetryUnclearable);
    return false;
  }
  if (AgeingHasToWait(target, now)) return false;
  const ClearOutcome tried = target.handle->TryWhole();
  if (tried == ClearOutcome::kDone && !too_long) return VisitByClearRefs(target, need, now);
  MonotonicTime until = now + kRetryRefused;
  if (options_.ageing && tried != ClearOutcome::kProcessGone &&
      now >= target.whole.no_ageing_before) {
    if (const auto* group = options_.ageing->GroupOf(target.process.pid)) {
      if (auto plan = PlanAgeing(target, *group, now)) return VisitByAgeing(target, *plan, now);
    } else {
      until = now + MemcgAgeing::kSurveyLasts;
      SayWhyNoGroupIsKnown();
    }
  }
  if (tried != ClearOutcome::kDone) {
    CannotClearWhole(target, tried, until);
  } else {
    whole_too_long_ += too_long;
    DoWithoutWhole(target, until);
  }
  return false;
}

bool ScanEngine::VisitByClearRefs(ScanTarget& target, const WholeNeed& need, MonotonicTime now) {
  const std::vector<BlockPtr> ready = ReadyForWhole(target, need.members);
  if (ready.empty()) {
    target.whole.not_before = std::max(target.whole.not_before, now + kAfterBusyWhole);
    return false;
  }
  std::size_t entries = 0;
  for (const BlockPtr& member : ready) entries += member->in_view;
  if (target.whole.price.Takes(entries) > kLongestWholeClear) {
    ++whole_too_long_;
    DoWithoutWhole(target, now + kRetryUnclearable);
    return false;
  }
  const nanoseconds own_cpu_before = kernel_.OwnCpuTime();
  const TargetTime began = TimeOf(target);
  const ClearOutcome outcome = target.handle->ClearWhole();
  const TargetTime ended = TimeOf(target);
  if (outcome != ClearOutcome::kDone) {
    CannotClearWhole(target, outcome, kernel_.Now() + kRetryRefused);
    return false;
  }
  // Threads that fault meanwhile wait for it.
  const nanoseconds took = kernel_.OwnCpuTime() - own_cpu_before;
  ChargeTarget(
      target,
      static_cast<std::uint64_t>(took.count()) * std::max(target.clock.running_threads(), 1u), 0);
  target.whole.price.Learn(took, entries);
  target.whole.took = took;
  OpenWhole(target, ready, began, ended);
  FlushWhole(target);
  return true;
}

// Exposures that the latest clear of the whole process began count from the flush on: before it, a
// page may have been accessed without its bit being set. False: some CPU may still hold
// translations.
bool ScanEngine::FlushWhole(ScanTarget& target) {
  if (target.whole.flush_tries == 0) return false;
  --target.whole.flush_tries;
  const std::uint32_t running = target.clock.running_threads();
  // One that is not known to have worked has interrupted the target, too.
  ChargeTarget(target, static_cast<std::uint64_t>(kFlushCosts.count()) * running, 0);
  if (!target.handle->Flush()) {
    target.whole.flush_again = kernel_.Now() + kUnflushed;
    return false;
  }
  target.whole.flush_tries = 0;
  ++whole_flushes_;
  const MonotonicTime now = kernel_.Now();
  const nanoseconds cpu = target.CpuAt(now, running);
  for (const BlockPtr& block : target.blocks) {
    if (!block->open || !block->by_whole || block->read_since_clear) continue;
    block->flushed = true;
    block->cleared_at = block->read_at = now;
    block->cpu_cleared = cpu;
    // Sooner reads would tell apart no more than the walk has left apart.
    block->rung = tmprof_ladder_next(&LadderOf(*block), 0,
                                     static_cast<std::uint64_t>(target.whole.took.count()));
    ++block->generation;
    ScheduleNextRead(target, block, now);
  }
  return true;
}

// Ends the exposures of all of them, and says of which a new one may begin. The target may be off
// the CPU: the first reads are late in any case.
std::vector<BlockPtr> ScanEngine::ReadyForWhole(ScanTarget& target,
                                                const std::vector<BlockPtr>& members) {
  std::vector<BlockPtr> ready;
  for (const BlockPtr& member : members) {
    // A plain scan's bit is read once, an interval after its clear.
    if (options_.mode == ScanOptions::Mode::kPlain && member->in_ladder) Abandon(*member);
    const bool is_ready = LookBeforeClear(target, member);
    if (target.gone || target.mappings_stale) return {};
    if (member->dropped) continue;
    // One that could not be read is cleared all the same.
    CutShort(target, *member);
    member->visited_in_rotation = target.rotation;
    if (is_ready) ready.push_back(member);
  }
  return ready;
}

// Ends an exposure that the next clear takes the bits of. A ladder that is cut short does not show
// how many bits are set again within one.
void ScanEngine::CutShort(ScanTarget& target, Block& block) {
  Abandon(block);
  block.in_ladder = false;
  block.turns_again = 0;
  Release(target, block);
}

ScanEngine::TargetTime ScanEngine::TimeOf(ScanTarget& target) {
  const MonotonicTime now = kernel_.Now();
  return {now, target.CpuAt(now, target.clock.running_threads())};
}

// All exposures begin with the walk, whenever it came to their pages: one dated too late would make
// pages look hot that were accessed while the walk went on. It takes its CPU time and as much again
// at most; the rest is a wait for the lock.
void ScanEngine::OpenWhole(ScanTarget& target, const std::vector<BlockPtr>& members,
                           const TargetTime& began, const TargetTime& ended) {
  const nanoseconds whole = std::max(ended.at - began.at, nanoseconds(1));
  const nanoseconds walk = std::min(2 * target.whole.took, whole);
  const auto cpu = static_cast<double>((ended.cpu - began.cpu).count()) *
                   (static_cast<double>(walk.count()) / static_cast<double>(whole.count()));
  for (const BlockPtr& member : members) {
    if (!member->judged) LeaveToWhole(target, *member);
    member->by_whole = true;
    OpenExposure(target, member, ended.at - walk, ended.cpu - nanoseconds(std::llround(cpu)));
  }
  target.whole.any = true;
  target.whole.at = ended.at;
  target.whole.cpu = ended.cpu;
  target.whole.refused = false;
  target.whole.flush_tries = options_.can_flush ? kMostFlushTries : 0;
  ++whole_clears_;
}

// Precondition: `outcome` is not kDone.
void ScanEngine::CannotClearWhole(ScanTarget& target, ClearOutcome outcome, MonotonicTime until) {
  if (outcome == ClearOutcome::kProcessGone) {
    target.gone = true;
    DropAll(target);
    return;
  }
  if (outcome == ClearOutcome::kRefused) {
    target.whole.refused = true;
    whole_refused_.Raise(WholeClearRefusal(target.process.pid, target.handle->refusal()));
  }
  DoWithoutWhole(target, until);
}

// Until then clears of ranges have to do. Where they reach nothing, bits are no more than seen.
void ScanEngine::DoWithoutWhole(ScanTarget& target, MonotonicTime until) {
  target.whole.not_before = until;
  target.whole.Forget();
  for (const BlockPtr& block : target.blocks) {
    if (std::exchange(block->whole_until, MonotonicTime{}) == MonotonicTime{}) continue;
    if (block->refused || block->skipped.count() >= block->entries())
      block->unclearable_until = until;
  }
}

// Clears blocks of neighbouring tables in one go and opens their exposures. False: not cleared, and
// for a single block its state says why.
bool ScanEngine::Clear(ScanTarget& target, const std::vector<BlockPtr>& run) {
  const MonotonicTime before = kernel_.Now();
  const bool single = run.size() == 1;
  if (single && run.front()->by_mapping_until > before) return ClearByMapping(target, run.front());
  const nanoseconds cpu_before = kernel_.OwnCpuTime();
  const ClearOutcome outcome =
      target.handle->Clear({run.front()->range.start, run.back()->range.end});
  const MonotonicTime after = kernel_.Now();
  if (outcome == ClearOutcome::kDone) {
    const nanoseconds took = kernel_.OwnCpuTime() - cpu_before;
    for (const BlockPtr& block : run) LookAtOnce(target, *block);
    Opened(target, run, FlushedAt(before, after, run), took);
    return true;
  }
  if (single && outcome == ClearOutcome::kUnclearable && !run.front()->mappings.empty()) {
    run.front()->by_mapping_until = after + kRetryUnclearable;
    return ClearByMapping(target, run.front());
  }
  const bool of_the_process =
      outcome == ClearOutcome::kProcessGone || outcome == ClearOutcome::kRefused;
  if (single || of_the_process) CannotClear(target, run.front(), outcome);
  return false;
}

// Some mappings of the block are not cleared by the kernel, such as mlocked ones: this clears each
// of the others.
bool ScanEngine::ClearByMapping(ScanTarget& target, const BlockPtr& block) {
  const MonotonicTime before = kernel_.Now();
  const nanoseconds cpu_before = kernel_.OwnCpuTime();
  const std::vector<ClearOutcome> outcomes = target.handle->ClearEach(block->mappings);
  const MonotonicTime after = kernel_.Now();
  bool any = false;
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    switch (outcomes[k]) {
      case ClearOutcome::kDone:
        any = true;
        break;
      case ClearOutcome::kUnmapped:  // the next read finds its pages gone
        break;
      case ClearOutcome::kUnclearable: {
        const VpnRange& mapping = block->mappings[k];
        for (Vpn page = mapping.start; page < mapping.end; page = page + PageCount(1)) {
          block->uncleared.set((page - block->range.start).value());
          block->skipped.set((page - block->range.start).value());
        }
        break;
      }
      case ClearOutcome::kProcessGone:
      case ClearOutcome::kRefused:
        CannotClear(target, block, outcomes[k]);
        return false;
    }
  }
  if (!any) {
    CannotClear(target, block, ClearOutcome::kUnclearable);
    return false;
  }
  for (std::size_t i = 0; i < block->units.size(); ++i) {
    if (!block->uncleared[i] || block->units[i] == TMPROF_UNIT_OUT) continue;
    block->units[i] = TMPROF_UNIT_OUT;
    block->set_before_count -= block->set_before[i];
    block->set_before.reset(i);
    --block->in_view;
  }
  const nanoseconds took = kernel_.OwnCpuTime() - cpu_before;
  LookAtOnce(target, *block);
  Opened(target, {block}, FlushedAt(before, after, {block}), took);
  if (block->uncleared.any() && !block->dropped) See(target, block, block->uncleared);
  return true;
}

// The clear passes by pages that are not yet on the kernel's page lists, and these may be on one by
// the first read. So pages that no clear was seen to reach yet are read right after it: an unset
// bit shows that clears reach its page. Most programs have hardly any such pages. One block in some
// is read, and all of them once some block has shown such pages.
void ScanEngine::LookAtOnce(ScanTarget& target, Block& block) {
  block.set_at_once.reset();
  const UnitSet unproven = block.set_before & ~block.settled;
  if (block.dropped || block.unit != PageCount(1) || unproven.none() ||
      !target.handle->PassesByNewPages())
    return;
  const bool is_sample = ++target.clears_of_unproven % kOneLookAtOnceIn == 0;
  const MonotonicTime now = kernel_.Now();
  if (!is_sample && now >= target.has_new_pages_until) return;
  if (!Read(target, block) || view_.shape_changed) return;
  for (std::size_t i = 0; i < block.unit_count(); ++i) {
    if (!unproven[i] || !view_.present[i]) continue;
    block.set_at_once[i] = view_.accessed[i];
    if (!view_.accessed[i]) block.settled.set(i);
  }
}

void ScanEngine::Opened(ScanTarget& target, const std::vector<BlockPtr>& run, MonotonicTime cleared,
                        nanoseconds took) {
  // The price of a set includes one flush a block. Each flush more interrupts each CPU that runs a
  // thread of the target, for no longer than the call waits.
  std::size_t flushes = 0;
  std::size_t more = 0;
  for (const BlockPtr& block : run) {
    const std::size_t of_block = FlushesOf(*block);
    flushes += of_block;
    more += std::max<std::size_t>(of_block, 1) - 1;
  }
  if (more > 0) {
    const auto waits = static_cast<double>(took.count()) / static_cast<double>(flushes);
    const double costs =
        std::clamp(options_.cost.ns_per_point, kInterruptsPartOfFlush * waits, waits);
    ChargeTarget(target,
                 static_cast<std::uint64_t>(std::llround(costs * static_cast<double>(more))) *
                     target.clock.running_threads(),
                 0);
  }
  const nanoseconds cpu = target.CpuAt(cleared, target.clock.running_threads());
  for (const BlockPtr& block : run)
    if (!block->dropped) OpenExposure(target, block, cleared, cpu);
  if (target.refused_until == MonotonicTime{}) return;
  target.refused_until = MonotonicTime{};
  SettleRefused();
}

// Precondition: `outcome` is not kDone.
void ScanEngine::CannotClear(ScanTarget& target, const BlockPtr& block, ClearOutcome outcome) {
  switch (outcome) {
    case ClearOutcome::kDone:
      return;
    case ClearOutcome::kUnclearable:
      block->refused = block->judged = true;
      // Huge pages that are refused may be hugetlb's, which no clear reaches.
      if (block->unit != PageCount(1) || !LeaveToWhole(target, *block))
        block->unclearable_until = kernel_.Now() + kRetryUnclearable;
      See(target, block, AllUnits());
      return;
    case ClearOutcome::kUnmapped:
      Drop(target, *block);
      return;
    case ClearOutcome::kProcessGone:
      target.gone = true;
      DropAll(target);
      return;
    case ClearOutcome::kRefused:
      target.refused_until = kernel_.Now() + kRetryRefused;
      ComplainOfClear(target);
      DropAll(target);
      return;
  }
}

// Sets up the exposure by what the view shows of a block just before its clear.
void ScanEngine::PrepareExposure(Block& block) {
  const std::size_t count = block.unit_count();
  block.open = block.by_whole = block.flushed = false;
  block.units.assign(count, TMPROF_UNIT_OUT);
  block.set_before.reset();
  block.uncleared.reset();
  for (std::size_t i = 0; i < count; ++i) {
    if (!view_.present[i]) {
      block.settled.reset(i);
      block.skipped.reset(i);
      continue;
    }
    block.units[i] = TMPROF_UNIT_UNSET;
    block.set_before[i] = view_.accessed[i];
  }
  block.in_view = view_.present_count;
  block.set_before_count = view_.accessed_count;
}

void ScanEngine::OpenExposure(ScanTarget& target, const BlockPtr& block, MonotonicTime cleared,
                              nanoseconds cpu) {
  block->unclearable_until = MonotonicTime{};
  if (!block->by_whole) {
    block->refused = false;
    block->cleared_before = true;
  }
  block->set = 0;
  block->rung = 0;
  block->open = block->in_ladder = true;
  block->read_since_clear = false;
  block->cleared_at = block->read_at = cleared;
  block->cpu_at = block->cpu_cleared = cpu;
  const std::uint64_t pages = block->in_view * block->unit.value();
  counts_.clears += pages;
  if (block->turns_again > 0) clears_again_ += pages;

  const double expected_sets = block->set_before_count * target.reset_share;
  block->reserved_ns = static_cast<std::int64_t>(expected_sets * options_.cost.ns_per_set);
  tmprof_budget_reserve(&target.budget, block->reserved_ns);
  block->interval_rung = block->interval_found = 0;
  block->interval_start = nanoseconds(0);
  block->idle_reads = 0;
  ++block->generation;
  ScheduleNextRead(target, block, cleared);
}

// ------------------------------------------------------------------------------------- reading

void ScanEngine::ReadDue(const BlockPtr& block) {
  ScanTarget* target = Find(block->target);
  if (target == nullptr || !target->watched()) return;
  if (block->by_whole && !block->flushed && !block->read_since_clear) {
    WholeClears& whole = target->whole;
    if (whole.flush_tries > 0) {
      if (kernel_.Now() < whole.flush_again || !FlushWhole(*target))
        dues_.push({whole.flush_again, nanoseconds(0), block, block->generation});
      return;
    }
    const std::optional<RunningTime> running = LadderClock(*target, kernel_.Now());
    if (running && running->cpu < block->cpu_cleared + kUnflushed / 2) {
      ScheduleByCpu(*target, block);
      return;
    }
  }
  const std::optional<ReadResult> read = Read(*target, *block);
  if (!read) {
    if (!block->dropped && block->in_ladder)
      dues_.push({kernel_.Now() + kRetryBusy, nanoseconds(0), block, block->generation});
    return;
  }
  if (view_.shape_changed) {
    Drop(*target, *block);
    return;
  }
  const auto delay = nanoseconds(LadderOf(*block).delay_ns[block->rung]);
  const nanoseconds exposed_before = Exposed(*block);
  const Folded folded = Fold(*target, block, *read);
  const nanoseconds exposed = Exposed(*block);
  if (exposed > 2 * delay) ++counts_.late;
  block->idle_reads = exposed > exposed_before ? 0 : block->idle_reads + 1;
  if (folded.told) {
    CountByRung(*block, block->rung, folded);
    ScheduleNextRead(*target, block, read->time);
  } else {
    TakeTurnAgain(*target, block);
  }
}

// Counts a read that was due at a rung. Reads of several rungs at once are left out, and so are
// those after which it is unknown how long a page had been watched. A plain scan has no ladder of
// CPU time.
void ScanEngine::CountByRung(Block& block, std::uint32_t rung, const Folded& read) {
  if (options_.mode == ScanOptions::Mode::kPlain) return;
  const tmprof_ladder& ladder = LadderOf(block);
  const nanoseconds exposed = Exposed(block);
  const std::uint32_t next = tmprof_ladder_next(
      &ladder, rung, static_cast<std::uint64_t>((exposed + exposed / kOfRung).count()));
  block.interval_found += read.found;
  if (next == rung) return;
  const std::uint32_t found = std::exchange(block.interval_found, 0);
  const nanoseconds window = exposed - std::exchange(block.interval_start, exposed);
  const std::uint32_t began = std::exchange(block.interval_rung, next);
  if (began != rung || next != rung + 1 || !read.is_interval || block.records.empty()) return;
  block.rung_counts.resize(2 * std::size_t{ladder.rungs});
  const bool is_older = block.first_read_in != epoch_;
  Block::RungCount& count = block.rung_counts[rung + (is_older ? ladder.rungs : 0)];
  count.found += found;
  count.left += read.left;
  count.page_ns += static_cast<double>(window.count()) * (found + read.left);
}

void ScanEngine::TakeTurnAgain(ScanTarget& target, const BlockPtr& block) {
  ++counts_.blurred;
  ++block->turns_again;
  block->in_ladder = false;
  Release(target, *block);
  // It remains if it had its turn with a neighbour, or if a rotation has begun since.
  std::erase(target.remaining, block);
  PutBack(target, block);
}

// Since the clear. A ladder's delays are of target CPU time: while the target is off the CPU, no
// rung passes. A plain scan goes by the clock on the wall, as TMP's does.
nanoseconds ScanEngine::Exposed(const Block& block) const {
  return options_.mode == ScanOptions::Mode::kPlain
             ? block.read_at - block.cleared_at
             : std::max(block.cpu_at - block.cpu_cleared, nanoseconds(0));
}

void ScanEngine::ScheduleNextRead(ScanTarget& target, const BlockPtr& block, MonotonicTime now) {
  const tmprof_ladder& ladder = LadderOf(*block);
  const nanoseconds exposed = Exposed(*block);
  const bool unflushed = block->by_whole && !block->flushed && !block->read_since_clear;
  block->rung = tmprof_ladder_next(
      &ladder, block->rung,
      std::max(exposed + exposed / kOfRung, unflushed ? kUnflushed / 2 : nanoseconds(0)).count());
  if (block->rung == ladder.rungs || tmprof_ladder_stop(block->set, block->in_view)) {
    EndLadder(target, *block);
    return;
  }
  if (!unflushed && LadderClock(target, now)) {
    ScheduleByCpu(target, block);
    return;
  }
  nanoseconds wait = nanoseconds(ladder.delay_ns[block->rung]) - exposed;
  if (options_.mode == ScanOptions::Mode::kLadder && !unflushed && MayPollFor(target, wait)) {
    ScheduleByCpu(target, block);
    PollIn(target, wait, now);
    return;
  }
  if (options_.mode == ScanOptions::Mode::kLadder)
    wait /= std::max(target.clock.running_threads(), 1u);
  wait = std::max(
      {wait, block->idle_reads == 0 ? kShortestWait : kIdlePace, LongerIfIdle(block->idle_reads)});
  if (unflushed) wait = std::max(wait, kUnflushed);
  dues_.push({now + wait, wait / kEarly, block, block->generation});
}

// True: the kernel's figure tells well enough when the target will have used that much CPU time.
// The figure of a running thread is a tick behind. It is exact of one that is off the CPU, as
// threads that switch often are soon.
bool ScanEngine::MayPollFor(const ScanTarget& target, nanoseconds cpu) const {
  const std::uint32_t running = target.clock.running_threads();
  if (running == 0 && target.switches_often) return true;
  return cpu / std::max(running, 1u) >= kTicksOfPolls * kernel_.Tick();
}

// Precondition: the clock of the target is exact at any moment, or polled.
void ScanEngine::ScheduleByCpu(ScanTarget& target, const BlockPtr& block) {
  const nanoseconds due = block->cpu_cleared + nanoseconds(LadderOf(*block).delay_ns[block->rung]);
  target.cpu_dues.push({due, (due - block->cpu_at) / kEarly, block, block->generation});
}

void ScanEngine::EndLadder(ScanTarget& target, Block& block) {
  block.in_ladder = false;
  // A clear that is repeated finds only what was set since the one before.
  const bool cleared_again = std::exchange(block.turns_again, 0) > 0;
  if (block.set_before_count > 0 && !cleared_again) {
    const double share = std::min(1.0, double(block.set) / block.set_before_count);
    target.reset_share += (share - target.reset_share) * kResetSmoothing;
  }
  Release(target, block);
}

// The view of a block, or nothing if it could not be read: it is busy, or gone and dropped.
std::optional<ReadResult> ScanEngine::Read(ScanTarget& target, Block& block) {
  ReadResult read = target.handle->Read(block.range, PageTableReader::Depth::kEntries, parts_);
  counts_.retries_busy += read.busy_retries;
  const std::size_t tries = std::min(block.mappings.size(), kMostMappingsTried);
  for (std::size_t k = 1; k < tries && read.outcome == ReadOutcome::kUnmapped; ++k) {
    read = target.handle->Read({block.mappings[k].start, block.range.end},
                               PageTableReader::Depth::kEntries, parts_);
    counts_.retries_busy += read.busy_retries;
  }
  counts_.torn += read.torn_tables;
  switch (read.outcome) {
    case ReadOutcome::kBusy:
      return std::nullopt;
    case ReadOutcome::kRefused:
      ComplainOfRead(target, read);
      unread_.Settle();  // a read that follows may succeed
      Drop(target, block);
      return std::nullopt;
    case ReadOutcome::kUnmapped:
      Drop(target, block);
      return std::nullopt;
    case ReadOutcome::kProcessGone:
      target.gone = true;
      DropAll(target);
      return std::nullopt;
    case ReadOutcome::kDone:
      break;
  }
  if (read.address_space != target.address_space) {
    Replaced(target, read.address_space);
    return std::nullopt;
  }
  if (read.torn_tables > 0) return std::nullopt;
  ++counts_.looks;
  Expand(block);
  block.present = view_.present_count;
  block.looked_at = true;
  return read;
}

void ScanEngine::Expand(const Block& block) {
  const std::uint64_t mask = kernel_.frame_mask();
  const std::size_t count = block.unit_count();
  view_.present_count = view_.accessed_count = 0;
  view_.shape_changed = false;
  std::fill_n(view_.present.begin(), count, 0);
  std::fill_n(view_.accessed.begin(), count, 0);
  const auto see = [&](std::size_t unit, TableEntry entry) {
    const bool present = entry.present() && !entry.special();
    const bool accessed = present && entry.accessed();
    view_.present[unit] = present;
    view_.accessed[unit] = accessed;
    view_.writable[unit] = present && entry.writable();
    view_.frame[unit] = present ? entry.frame(mask) : 0;
    view_.present_count += present;
    view_.accessed_count += accessed;
  };
  for (const TablePart& part : parts_) {
    if (block.unit != (part.huge ? part.span : PageCount(1))) {
      view_.shape_changed = true;
      continue;
    }
    if (part.huge) {
      if (!block.range.Contains(part.start)) continue;
      // The lowest bits of a huge entry's frame hold attributes.
      see((part.start - block.range.start).value() / block.unit.value(), part.leaf);
      continue;
    }
    const std::size_t first = (block.range.start - part.start).value();
    for (std::size_t i = 0; i < count; ++i) see(i, TableEntry(part.entries[first + i]));
  }
}

// Returns the block's records of this epoch, and makes them if there are none.
std::vector<UnitRecord>& ScanEngine::RecordsOf(const BlockPtr& block) {
  if (block->records.empty()) {
    block->records.resize(block->unit_count());
    touched_.push_back(block);
  }
  return block->records;
}

// Returns true if the latest read, which the view shows, came too late to tell pages apart.
bool ScanEngine::IsBlurred(const Block& block, std::uint32_t running_threads) const {
  if (!block.in_ladder || block.by_whole || options_.mode != ScanOptions::Mode::kLadder)
    return false;
  const auto delay = nanoseconds(LadderOf(block).delay_ns[block.rung]);
  const nanoseconds of_each = Exposed(block) / std::max(running_threads, 1u);
  if (delay >= kFineRungs || of_each <= std::max(kBlurringDelay * delay, kLeastBlur) ||
      of_each > kMostBlur)
    return false;
  std::uint32_t newly_set = 0;
  for (std::size_t i = 0; i < block.unit_count(); ++i)
    newly_set += block.units[i] == TMPROF_UNIT_UNSET && view_.accessed[i];
  return kBlurredPart * newly_set > block.in_view;
}

ScanEngine::Folded ScanEngine::Fold(ScanTarget& target, const BlockPtr& pointer,
                                    const ReadResult& read) {
  Block& block = *pointer;
  const std::size_t count = block.unit_count();
  const nanoseconds cpu = target.CpuAt(read.time, read.running_threads);
  const nanoseconds exposure = std::max(cpu - block.cpu_at, nanoseconds(0));
  const bool first_read = !std::exchange(block.read_since_clear, true);
  if (first_read) block.first_read_in = epoch_;
  const bool is_older = block.first_read_in != epoch_;
  const nanoseconds exposed_before = block.cpu_at - block.cpu_cleared;
  block.cpu_at = cpu;
  block.read_at = read.time;

  if (first_read && !block.by_whole) RejectUncleared(target, pointer);
  const bool told = block.turns_again >= kTurnsAgain || !IsBlurred(block, read.running_threads);
  // After the ladder has stopped, a block waits for its next turn for seconds. That a page was
  // first accessed somewhere in there says next to nothing of its rate; that it was not, says a
  // lot.
  const bool bracketed =
      told && (first_read || exposure <= std::max(kWidestBracket * exposed_before, kSlice));
  const bool barely_ran = exposure < kShortestExposure;
  // Without a flush, unset reads add nothing to the time at risk: the read that finds a first
  // access has all the time up to the read before it, and half of that since.
  const nanoseconds since_clear = std::max(exposed_before, nanoseconds(0)) + exposure;
  const bool unflushed = block.by_whole && !block.flushed;
  const nanoseconds of_first = unflushed ? since_clear : exposure;
  // Up to the flush, a page may have been accessed without its bit being set.
  const nanoseconds since_flush = std::max(cpu - block.cpu_cleared, nanoseconds(0));
  const nanoseconds of_unset = first_read && block.flushed ? since_flush : exposure;
  // A plain scan's bit is read once; what is read before the next clear is for the bill only.
  const bool evidence = options_.mode == ScanOptions::Mode::kLadder || block.in_ladder;
  if (evidence) RecordsOf(pointer);
  std::uint32_t sets = 0;
  std::uint32_t seen = 0;
  std::uint32_t left = 0;
  UnitSet found;
  std::bitset<kMostUnits / kEntriesPerLine> regained;  // cache lines that the target set bits in
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t& unit = block.units[i];
    if (unit == TMPROF_UNIT_OUT) continue;
    if (!view_.present[i]) {
      unit = TMPROF_UNIT_OUT;
      counts_.lost += block.unit.value();
      continue;
    }
    const bool first = view_.accessed[i] && unit == TMPROF_UNIT_UNSET;
    if (first) {
      ++sets;
      regained.set(i / kEntriesPerLine);
    }
    if (first && barely_ran) {
      unit = TMPROF_UNIT_OUT;
      counts_.lost += block.unit.value();
      continue;
    }
    // It may have been accessed by a translation that a CPU holds since before the clear: nobody
    // knows when those go.
    if (unflushed && !view_.accessed[i]) continue;
    tmprof_tally unused{};
    UnitRecord* record = evidence ? &block.records[i] : nullptr;
    if (first && !bracketed) unit = TMPROF_UNIT_SET;  // a reference, without a first access
    found[i] = first;
    // In a blurred read, set pages are as little evidence as unset ones.
    const tmprof_tally before = record ? record->tally : unused;
    tmprof_ladder_fold(record ? &record->tally : &unused, &unit, view_.accessed[i],
                       told ? (first ? of_first : of_unset).count() : 0,
                       told ? exposure.count() : 0, first_read);
    if (record) view_.NoteFrame(i, *record);
    if (record && is_older) {
      record->older.first_accesses += record->tally.first_accesses - before.first_accesses;
      record->older.at_risk_ns += record->tally.at_risk_ns - before.at_risk_ns;
      record->older.later_read_ns += record->tally.later_read_ns - before.later_read_ns;
    }
    left += unit == TMPROF_UNIT_UNSET;
    ++seen;
  }
  block.set += sets;
  if (evidence) counts_.observations += seen * block.unit.value();
  Charge(target, block, sets, regained.count());
  const nanoseconds first_rung(base_ladder_.delay_ns[0]);
  if (first_read && told && block.in_ladder && !block.by_whole && block.unit == PageCount(1) &&
      exposure <= 2 * first_rung && LadderClock(target, kernel_.Now()))
    OfferForFastTries(target, pointer, found);
  return {.told = told,
          .is_interval = evidence && bracketed && !unflushed && !barely_ran,
          .found = barely_ran ? 0 : sets,
          .left = left};
}

// The clear passes by pages that are mapped elsewhere too, in silence. Their bits would look like
// the fastest accesses of all, so what was set before the clear and is at the first read is
// checked.
void ScanEngine::RejectUncleared(ScanTarget& target, const BlockPtr& pointer) {
  Block& block = *pointer;
  std::vector<Vpn> suspects;
  std::vector<std::size_t> units;
  std::vector<bool> settled;
  for (std::size_t i = 0; i < block.unit_count(); ++i) {
    if (!block.set_before[i]) continue;
    if (!view_.accessed[i]) {
      block.skipped.reset(i);
      block.settled.set(i);
      continue;
    }
    suspects.push_back(block.range.start + PageCount(i * block.unit.value()));
    units.push_back(i);
    settled.push_back(block.settled[i]);
  }
  std::size_t set_at_once = 0;
  std::vector<PageStanding> standing;
  if (!suspects.empty()) standing = target.handle->Inspect(suspects, settled);
  for (std::size_t k = 0; k < units.size(); ++k) {
    const std::size_t i = units[k];
    if (standing[k] == PageStanding::kClearable) {
      block.settled.set(i);
      block.skipped.reset(i);
      if (!block.set_at_once[i]) continue;
      ++set_at_once;
      // The page is very hot, or came onto a list since. The next clear reaches it in any case.
      counts_.unsettled += block.unit.value();
      Reject(pointer, i, view_.frame[i], view_.writable[i] != 0);
      continue;
    }
    const bool is_shared = standing[k] == PageStanding::kShared;
    block.skipped[i] = is_shared;
    if (!is_shared) target.has_new_pages_until = kernel_.Now() + kPagesStayNew;
    (is_shared ? counts_.shared : counts_.unsettled) += block.unit.value();
    Reject(pointer, i, view_.frame[i], view_.writable[i] != 0);
  }
  if (set_at_once >= kManySetAtOnce && 2 * set_at_once > units.size())
    target.has_new_pages_until = kernel_.Now() + kPagesStayNew;
  block.judged = true;
  if (block.skipped.any()) AskForSkipped(target, block);
  if (block.NeedsWhole()) LeaveToWhole(target, block);
}

void ScanEngine::Reject(const BlockPtr& block, std::size_t unit, std::uint64_t frame,
                        bool writable) {
  block->units[unit] = TMPROF_UNIT_OUT;
  --block->in_view;
  UnitRecord& record = RecordsOf(block)[unit];
  record.seen = true;
  record.frame = frame;
  record.writable = writable;
}

// The clear skipped some pages of the block. Their bits told so; those that were unset before it
// did not, so the kernel is asked for them.
void ScanEngine::AskForSkipped(ScanTarget& target, Block& block) {
  if (!target.handle->ClearsWhole() || kernel_.Now() < target.whole.not_before) return;
  std::vector<Vpn> pages;
  std::vector<std::size_t> units;
  for (std::size_t i = 0; i < block.unit_count(); ++i) {
    if (!view_.present[i] || block.set_before[i] || block.uncleared[i]) continue;
    pages.push_back(block.range.start + PageCount(i * block.unit.value()));
    units.push_back(i);
  }
  if (pages.empty()) return;
  const std::vector<PageStanding> standing =
      target.handle->Inspect(pages, std::vector<bool>(pages.size(), true));
  for (std::size_t k = 0; k < units.size(); ++k)
    block.skipped[units[k]] = standing[k] == PageStanding::kShared;
}

// A clear of its range is tried again as rarely as one that is refused. False: clears of the whole
// process do not come into question.
bool ScanEngine::LeaveToWhole(const ScanTarget& target, Block& block) {
  const MonotonicTime now = kernel_.Now();
  const bool too_plain =
      options_.mode == ScanOptions::Mode::kPlain && options_.plain_interval < kLeastPlainInterval;
  if (!target.handle->ClearsWhole() || now < target.whole.not_before || too_plain) return false;
  block.whole_until = now + kRetryUnclearable;
  return true;
}

// ------------------------------------------------------------------------------------- the bill

void ScanEngine::Charge(ScanTarget& target, Block& block, std::uint64_t sets, std::uint64_t lines) {
  const std::uint64_t cost = tmprof_cost_ns(&cost_, sets, lines);
  const auto from_reserve =
      std::min(block.reserved_ns, static_cast<std::int64_t>(tmprof_cost_ns(&cost_, sets, 0)));
  block.reserved_ns -= from_reserve;
  tmprof_budget_reserve(&target.budget, -from_reserve);
  ChargeTarget(target, cost, sets);
}

// Returns the unspent part of the reserve to the budget, but pays back the budget advance first.
void ScanEngine::Release(ScanTarget& target, Block& block) {
  tmprof_budget_reserve(&target.budget, -block.reserved_ns);
  target.budget.balance_ns -= loan_.TakeBack(target.visit, block.reserved_ns);
  block.reserved_ns = 0;
}

// ------------------------------------------------------------------------------------- leaving

void ScanEngine::Drop(ScanTarget& target, Block& block) {
  if (block.dropped) return;
  block.dropped = true;
  Abandon(block);
  block.in_ladder = false;
  Release(target, block);
}

// Its open exposure says no more.
void ScanEngine::Abandon(Block& block) {
  if (!std::exchange(block.open, false)) return;
  const auto unread = std::count(block.units.begin(), block.units.end(), TMPROF_UNIT_UNSET);
  counts_.lost += static_cast<std::uint64_t>(unread) * block.unit.value();
}

void ScanEngine::DropAll(ScanTarget& target) {
  for (const BlockPtr& block : target.blocks) Drop(target, *block);
  target.blocks.clear();
  target.remaining.clear();
  target.revisits.clear();
  target.huge.clear();
  target.plan = ScanPlan{};
  target.fast.End();
}

// Evidence about the previous program is void.
void ScanEngine::Replaced(ScanTarget& target, std::uint64_t address_space) {
  if (target.RunsAnotherProgram(address_space)) VoidEvidence(target);
  SpendReserved(target);
  DropAll(target);
  target.planned = PageCount(0);
  target.first_visit_in = target.rotation;
  target.visit.over = false;
}

// Delivered, it would be taken for evidence about the new program's pages at the same addresses.
void ScanEngine::VoidEvidence(const ScanTarget& target) {
  for (const BlockPtr& block : touched_) {
    if (block->target != target.process.id) continue;
    for (const UnitRecord& record : block->records) {
      const std::uint64_t looks = record.tally.looks * block->unit.value();
      counts_.observations -= looks;
      counts_.lost += looks + (record.seen ? block->unit.value() : 0);
    }
    block->records.clear();
    rung_blocks_left_out_ += block->rung_counts.empty() ? 0 : 1;
    block->rung_counts.clear();
  }
}

// ------------------------------------------------------------------------------------- the epoch

// Estimates how long a pass takes, from the cost of pages to the targets and from the number of
// visited pages, which the scanner's own budget may limit more. The less a budget pays for, the
// longer it would take until enough pages were visited for an estimate. But if fewer pages than are
// cleared `at_once` were visited in all that time, there is a lower bound.
void ScanEngine::EstimateVisit(std::uint64_t clearable, std::uint64_t at_once) {
  visit_cpu_time_.reset();
  const double pages = static_cast<double>(clearable);
  const double took = static_cast<double>(visits_.cpu_time.count());
  nanoseconds visit;
  if (visits_.clears >= kClearsThatTell) {
    const double earned = static_cast<double>(visits_.cost_ns) / options_.overhead_share;
    double of_one = earned / static_cast<double>(visits_.clears);
    if (visits_.unhindered_clears > 0)
      of_one = std::max(of_one, took / static_cast<double>(visits_.unhindered_clears));
    visit = nanoseconds(std::llround(pages * of_one));
  } else {
    const double most = static_cast<double>(std::max(at_once, kClearsThatTell));
    visit = nanoseconds(std::llround(pages / most * took));
    if (visits_.cpu_time < kTimeThatTells || visit <= kLongestVisit) return;
  }
  visits_ = Visits{};
  visit_cpu_time_ = visit;
}

// Returns a number of few bits that is the count in the mean.
std::uint32_t ScanEngine::Rounded(std::uint32_t count) {
  const int bits = std::bit_width(count) - kBitsOfCount;
  if (bits <= 0) return count;
  const std::uint32_t step = std::uint32_t{1} << bits;
  const std::uint32_t rest = count % step;
  return count - rest + (rounding_() % step < rest ? step : 0);
}

std::vector<RungCounts> ScanEngine::TakeRungCounts() {
  std::vector<BlockPtr> blocks;
  for (const BlockPtr& block : touched_)
    if (!block->rung_counts.empty()) blocks.push_back(block);
  std::ranges::stable_sort(
      blocks, {}, [](const BlockPtr& block) { return PageKey{block->target, block->range.start}; });
  std::vector<RungCounts> result;
  for (const bool base : {true, false}) {
    RungWindows windows;
    const tmprof_ladder& ladder = base ? base_ladder_ : huge_ladder_;
    RungCounts counts;
    for (const BlockPtr& block : blocks) {
      if ((block->unit == PageCount(1)) != base || block->rung_counts.empty()) continue;
      const auto of_block = std::exchange(block->rung_counts, {});
      // A block that was planned anew may have had other bounds before.
      if (counts.blocks() > 0 && counts.target.back() == block->target &&
          block->range.start < counts.start.back() + PageCount(counts.pages.back())) {
        ++rung_blocks_left_out_;
        continue;
      }
      counts.target.push_back(block->target);
      counts.start.push_back(block->range.start);
      counts.pages.push_back(static_cast<std::uint32_t>(block->range.size().value()));
      for (std::size_t k = 0; k < of_block.size(); ++k) {
        RungCounts::Counts& to = k < ladder.rungs ? counts.new_visits : counts.older_visits;
        const std::uint32_t found = Rounded(of_block[k].found);
        to.found.push_back(found);
        to.read.push_back(found + Rounded(of_block[k].left));
        windows.page_ns[k % ladder.rungs] += of_block[k].page_ns;
        windows.pages[k % ladder.rungs] += of_block[k].found + of_block[k].left;
      }
    }
    if (counts.blocks() == 0) continue;
    for (std::size_t rung = 0; rung < ladder.rungs; ++rung) {
      const double pages = windows.pages[rung];
      const double mean = pages > 0 ? windows.page_ns[rung] / pages : 0;
      counts.delay.emplace_back(ladder.delay_ns[rung]);
      counts.window.emplace_back(std::llround(mean));
    }
    result.push_back(std::move(counts));
  }
  return result;
}

Harvest ScanEngine::TakeEpoch() {
  const MonotonicTime now = kernel_.Now();
  std::uint64_t clearable = 0;
  std::uint64_t unclearable = 0;
  std::uint64_t at_once = 0;  // sum over all targets
  for (const auto& [id, target] : targets_) {
    std::uint64_t most = 0;
    bool in_need = false;
    for (const BlockPtr& block : target->blocks) {
      in_need = in_need || block->NeedsWhole();
      const std::uint64_t pages = block->mapped.value();
      const std::uint64_t fixed = block->Clearable(now) ? block->uncleared.count() : pages;
      unclearable += fixed;
      clearable += pages - std::min(fixed, pages);
      most = std::max(most, block->unit == PageCount(1) ? kClearWindow.value() : pages);
    }
    at_once += most;
    if (!in_need) target->whole.refused = false;
  }
  const std::uint64_t clears = counts_.clears - std::exchange(clears_again_, 0);
  visits_.clears += clears;
  visits_.cost_ns += counts_.cost_ns;
  Harvest harvest = EndEpoch(now);
  const nanoseconds cpu_time = std::exchange(epoch_cpu_time_, nanoseconds(0));
  if (harvest.note.empty()) {
    visits_.unhindered_clears += clears;
    visits_.cpu_time += cpu_time;
  }
  EstimateVisit(clearable, at_once);
  harvest.unclearable = unclearable;
  const auto without_clock = std::ranges::count_if(targets_, [](const auto& entry) {
    return entry.second->watched() && !entry.second->handle->HasClock();
  });
  const std::uint64_t too_long = std::exchange(whole_too_long_, 0);
  harvest.details = {{"targets_without_clock", static_cast<std::uint64_t>(without_clock)},
                     {"clock_cost_ns", static_cast<std::uint64_t>(
                                           std::exchange(clock_cost_, nanoseconds(0)).count())},
                     {"whole_clears", std::exchange(whole_clears_, 0)},
                     {"whole_flushes", std::exchange(whole_flushes_, 0)},
                     {"whole_clears_too_long", too_long},
                     {"fast_clears", std::exchange(fast_clears_, 0)},
                     {"fast_counted", std::exchange(fast_counted_, 0)},
                     {"fast_doubted", std::exchange(fast_doubted_, 0)}};
  if (options_.ageing) {
    harvest.details.push_back({"whole_clears_by_ageing", std::exchange(whole_by_ageing_, 0)});
    harvest.details.push_back({"ageings", std::exchange(ageings_, 0)});
    harvest.details.push_back(
        {"ageings_without_effect", std::exchange(ageings_without_effect_, 0)});
  }
  if (std::ranges::none_of(targets_, [](const auto& entry) {
        return entry.second->watched() && entry.second->whole.refused;
      }))
    whole_refused_.Settle();
  harvest.refusal = whole_refused_.TakeEpoch();
  if (harvest.refusal.empty() && too_long > 0) {
    harvest.refusal = fmt::format(
        "to clear all bits of a process of that size would block its page faults for more than "
        "{} ms",
        std::chrono::duration_cast<std::chrono::milliseconds>(kLongestWholeClear).count());
  }
  std::vector<std::string> notes = std::exchange(ageing_notes_, {});
  notes.push_back(harvest.refusal);
  for (const std::string& text : notes)
    if (!text.empty()) harvest.note += (harvest.note.empty() ? "" : "; ") + text;
  harvest.rungs = TakeRungCounts();
  harvest.details.push_back(
      {"blocks_without_rung_counts", std::exchange(rung_blocks_left_out_, 0)});
  ++epoch_;
  for (const BlockPtr& block : touched_) {
    block->seen = false;
    if (block->records.empty()) continue;
    harvest.evidence.push_back(
        {block->target, block->range.start, block->unit, std::exchange(block->records, {})});
  }
  touched_.clear();
  for (const auto& [id, target] : targets_)
    harvest.huge.insert(harvest.huge.end(), target->huge.begin(), target->huge.end());
  return harvest;
}

}  // namespace tmprof::abit
