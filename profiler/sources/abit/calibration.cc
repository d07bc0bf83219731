// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/calibration.h"
#include "base/host/own_cpus.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <expected>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/host/procfs.h"
#include "base/median.h"
#include "profiler/helper_processes.h"
#include "profiler/sources/abit/anonymous_memory.h"
#include "profiler/sources/abit/child_process.h"
#include "profiler/sources/abit/fast_tries.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// 128 MiB are more than a TLB and the caches of its page tables cover, as in the programs that
// tiering is for; 32 MiB are more than a TLB covers. Between them, a tenth of the free memory.
constexpr std::size_t kMostPages = 32768;
constexpr std::size_t kFewestPages = 8192;
constexpr std::size_t kStride = 5003;  // a prime: an order no prefetcher follows
constexpr std::size_t kBlockPages = 512;
constexpr std::size_t kWordsPerPage = kBasePageBytes / sizeof(std::uint64_t);
constexpr int kFewestPairs = 5;
// This many pairs settle a figure once its median is known to within a part of itself
// (kSettledShare), or to within next to nothing (kSettledNsPerSet).
constexpr std::size_t kPairsThatSettle = 15;
constexpr double kSettledShare = 0.05;
constexpr double kSettledNsPerSet = 3;
// The least times of a busy machine may be of a pass that had luck; an idle one gives this or more
// (kAssumedNsPerLook).
constexpr double kLeastNsPerBusyLook = 3'000;
// A bit seems to be free if all passes that nothing is cleared for were disturbed.
constexpr double kLeastNsPerBusySet = 150;
constexpr std::uint64_t kFewestLooks = 10;  // in one pass, for a figure
constexpr std::uint64_t kPointsAtOnce = 8;
constexpr std::uint64_t kFewestPoints = 40;  // for a figure, of as many passes as that takes
constexpr int kFewestPointFigures = 9;
constexpr std::uint32_t kSweepsToPoint = 8;  // in a pass: some 10 ms
// Points are measured for as long as the rest, and for up to so many times as long if there are
// few.
constexpr int kPointsPatience = 8;
// For figures that do not settle, so many times the limit.
constexpr int kPatience = 3;
// No further measurement starts after this time: what is not known by then is assumed. On an idle
// machine all takes a second.
constexpr nanoseconds kLongestCalibration = std::chrono::seconds(4);
// A repeated one runs beside a recording, and gives up its child by then.
constexpr nanoseconds kLongestRepeat = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kRepeatTimeLimit(150);

// The child accesses some pages at about this interval while they are tried. A try of some 7 us
// then finds a page in a fifth of all cases, and a batch gives the mean exposure to 0.8 us.
constexpr nanoseconds kTick = std::chrono::microseconds(32);
// Other pages that it updates meanwhile; those that are tried lie behind them.
constexpr std::size_t kTickBufferPages = 4096;
constexpr std::uint64_t kRoundsPerBatch = 32;
constexpr std::uint64_t kFewestKnownTries = kRoundsPerBatch * kMostFastPages / 4;  // in a batch
constexpr std::size_t kFewestBatches = 9;
constexpr std::size_t kMostBatches = 27;
constexpr std::size_t kBatchesThatTellClears = 3;  // 768 clears
// The least of what was measured for a clear of one page on two-CPU guests.
constexpr double kAssumedNsOfInterrupt = 2'500;
constexpr double kMostLossErrorNs = 500;  // a tenth of the shortest exposure
// A clear takes some 7 us, of which the loss is half at most, and an interrupt 3 us.
constexpr double kMostLossNs = 10'000;

// Says which figures to measure, and how long to wait for them.
struct Plan {
  CostFigures figures;
  std::chrono::milliseconds time_limit;
  nanoseconds longest;
  bool yields = false;    // the child leaves CPUs to others, and may get none
  double ns_per_set = 0;  // known, unless it is measured
  std::stop_token stop;
};

// The disturbance of the child in each pass. A look costs the child something only if the child
// sets bits.
enum class Disturbance : std::uint8_t { kNone, kCleared, kClearedAndLookedAt, kPointsCleared };

// Shared with the child.
struct Bench {
  std::atomic<std::uint32_t> asked{0};  // number of the pass wanted
  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint32_t> sweeps{1};  // in a pass
  std::atomic<std::int64_t> cpu_ns{0};   // that it took
  // In the next pass the child accesses these pages of the buffer at each tick instead.
  std::atomic<bool> ticking{false};
  std::array<std::atomic<std::size_t>, kMostFastPages> tick_pages{};
  std::atomic<std::uint64_t> ticks{0};  // over all such passes
};

std::int64_t ThreadCpuNs() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

// Updates one random word of each page. Such updates miss the caches and overlap; a bit that must
// be set makes the CPU wait for all before it. Updates of one line per page, which hit, make a set
// seem cheaper by a third.
class Sweeper {
 public:
  explicit Sweeper(std::span<std::uint64_t> buffer) : buffer_(buffer) {}

  void Update(std::size_t updates) {
    for (std::size_t i = 0; i < updates; ++i, page_ = (page_ + kStride) % pages()) {
      state_ ^= state_ << 13;  // Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003)
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      buffer_[page_ * kWordsPerPage + state_ % kWordsPerPage] += state_;
    }
  }
  std::size_t pages() const { return buffer_.size() / kWordsPerPage; }

 private:
  std::span<std::uint64_t> buffer_;
  std::size_t page_ = 0;
  std::uint64_t state_ = 88'172'645'463'325'252U;
};

// Accesses the pages to tick at, each time after so many updates of others, until it is told to
// stop. A tick is so much work instead of so much time: what disturbs a program keeps it from work.
void TickAway(Bench& bench, std::span<std::uint64_t> buffer, pid_t parent) {
  constexpr std::size_t kSomeUpdates = 4'000;
  Sweeper others(buffer.first(kTickBufferPages * kWordsPerPage));
  const std::int64_t start = ThreadCpuNs();
  others.Update(kSomeUpdates);
  const std::int64_t took = std::max<std::int64_t>(ThreadCpuNs() - start, 1);
  const auto updates = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kSomeUpdates) * kTick.count() / took, 100, 100'000);
  while (bench.ticking.load(std::memory_order_acquire) && ::getppid() == parent) {
    for (const auto& page : bench.tick_pages) {
      volatile std::uint64_t& word = buffer[page.load(std::memory_order_relaxed) * kWordsPerPage];
      word = 1;
    }
    others.Update(static_cast<std::size_t>(updates));
    bench.ticks.fetch_add(1, std::memory_order_relaxed);
  }
}

[[noreturn]] void Sweep(Bench& bench, std::span<std::uint64_t> buffer, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000};
  Sweeper sweeper(buffer);
  for (std::uint32_t pass = 1; ::getppid() == parent; ++pass) {
    while (bench.asked.load(std::memory_order_acquire) < pass) {
      if (::getppid() != parent) ::_exit(0);
      ::nanosleep(&pause, nullptr);
    }
    const std::int64_t start = ThreadCpuNs();
    if (bench.ticking.load(std::memory_order_relaxed)) {
      TickAway(bench, buffer, parent);
    } else {
      sweeper.Update(sweeper.pages() * bench.sweeps.load(std::memory_order_relaxed));
    }
    bench.cpu_ns.store(ThreadCpuNs() - start, std::memory_order_relaxed);
    bench.done.store(pass, std::memory_order_release);
  }
  ::_exit(0);
}

// A whole number of blocks.
std::size_t PagesToSweep() {
  const long free_pages = ::sysconf(_SC_AVPHYS_PAGES);
  const auto wanted = static_cast<std::size_t>(std::max(free_pages, 0L)) / 10;
  return std::clamp(wanted / kBlockPages * kBlockPages, kFewestPages, kMostPages);
}

// Holds this thread and the child on CPUs of their own, where there are two: on a busy machine they
// would share one, and what the one does while the other is off it costs something else. A child
// that yields stays here: this thread has just been woken, on an idle CPU if there was one.
class CpusApart {
 public:
  CpusApart(pid_t child, bool child_stays) {
    if (::sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    std::vector<int> allowed;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) allowed.push_back(cpu);
    }
    const auto here = std::ranges::find(allowed, ::sched_getcpu());
    if (allowed.size() < 2 || here == allowed.end()) return;
    const auto at = static_cast<std::size_t>(here - allowed.begin());
    // Half of them away, as neighbours may be threads of one core.
    const int there = allowed[(at + allowed.size() / 2) % allowed.size()];
    apart_ = Hold(0, child_stays ? there : *here) && Hold(child, child_stays ? *here : there);
    if (!apart_) ::sched_setaffinity(0, sizeof(before_), &before_);
  }
  CpusApart(const CpusApart&) = delete;
  CpusApart& operator=(const CpusApart&) = delete;
  ~CpusApart() {
    if (apart_) ::sched_setaffinity(0, sizeof(before_), &before_);
  }
  explicit operator bool() const { return apart_; }

 private:
  static bool Hold(pid_t thread, int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(thread, sizeof(one), &one) == 0;
  }

  cpu_set_t before_{};
  bool apart_ = false;
};

class Experiment {
 public:
  // Without an answer by `give_up` a child is not waited for any longer.
  Experiment(AbitKernel& kernel, AbitProcess& process, Bench& bench, VpnRange buffer, bool apart,
             std::stop_token stop, std::optional<MonotonicTime> give_up)
      : kernel_(kernel),
        process_(process),
        bench_(bench),
        buffer_(buffer),
        apart_(apart),
        stop_(std::move(stop)),
        give_up_(give_up) {}

  // CPU time of one pass, so many times over the buffer; negative: the child did not answer.
  double Pass(Disturbance disturbance, std::uint32_t sweeps = 1) {
    bench_.sweeps.store(sweeps, std::memory_order_relaxed);
    const bool clear =
        disturbance == Disturbance::kCleared || disturbance == Disturbance::kClearedAndLookedAt;
    if (clear && process_.Clear(buffer_) != ClearOutcome::kDone) return -1;
    const std::uint32_t pass = bench_.asked.load(std::memory_order_relaxed) + 1;
    bench_.asked.store(pass, std::memory_order_release);
    looks_ = points_ = 0;
    // Between looks the child gets time to write to the lines that the last one took from it;
    // without them it is left alone, as it may have to share its CPU with this thread.
    const bool looking = disturbance == Disturbance::kClearedAndLookedAt;
    const bool pointing = disturbance == Disturbance::kPointsCleared;
    const timespec pause{.tv_sec = 0, .tv_nsec = looking || pointing ? 50'000 : 500'000};
    while (bench_.done.load(std::memory_order_acquire) < pass) {
      if (!MayAnswer()) return -1;
      if (looking) Look();
      if (pointing) ClearPoints();
      ::nanosleep(&pause, nullptr);
    }
    return static_cast<double>(bench_.cpu_ns.load(std::memory_order_relaxed));
  }
  // The child gets no CPU, or nobody wants to know any more.
  bool abandoned() const {
    return stop_.stop_requested() || (give_up_ && kernel_.Now() >= *give_up_);
  }
  std::uint64_t looks() const { return looks_; }
  std::uint64_t points() const { return points_; }

  // A batch of tries; nullopt: the child did not answer, or has too few pages to try.
  std::optional<KnownTries> TryTicks(std::size_t rung) {
    const std::vector<Vpn> pages = PagesToTry();
    if (pages.size() < kMostFastPages) return std::nullopt;
    for (std::size_t i = 0; i < pages.size(); ++i)
      bench_.tick_pages[i].store((pages[i] - buffer_.start).value(), std::memory_order_relaxed);
    bench_.ticking.store(true, std::memory_order_relaxed);
    const std::uint32_t pass = bench_.asked.load(std::memory_order_relaxed) + 1;
    bench_.asked.store(pass, std::memory_order_release);
    // The child starts in the first half of the pause, and is left alone in the second.
    const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
    ::nanosleep(&pause, nullptr);
    KnownTries known;
    known.accesses_per_ns = TickRate(pause);
    for (std::uint64_t round = 0; round < kRoundsPerBatch; ++round) {
      // Ticks and rounds keep no step.
      kernel_.SpinUntil(kernel_.Now() + nanoseconds(anywhere_in_a_tick_(random_)));
      std::array<FastTry, kMostFastPages> tries{};
      for (std::size_t i = 0; i < pages.size(); ++i) tries[i].page = pages[i];
      RunFastTries(kernel_, process_, rung, ClearLoss{.is_measured = true}, tries);
      for (const FastTry& each : tries) {
        known.least_clear = std::min(known.least_clear, each.clear_took);
        if (!each.counted) continue;
        ++known.tries;
        known.found += each.found;
        known.exposure_ns += static_cast<double>(each.exposure.count());
      }
    }
    bench_.ticking.store(false, std::memory_order_release);
    while (bench_.done.load(std::memory_order_acquire) < pass) {
      if (!MayAnswer()) return std::nullopt;
      ::nanosleep(&pause, nullptr);
    }
    return known;
  }

 private:
  bool MayAnswer() { return !abandoned() && process_.Alive(); }

  // Counts what the child does in a pause of this thread. 0: it is not known.
  double TickRate(const timespec& pause) {
    const auto before = process_.Running(kernel_.Now());
    const std::uint64_t ticks_before = bench_.ticks.load(std::memory_order_relaxed);
    ::nanosleep(&pause, nullptr);
    const auto after = process_.Running(kernel_.Now());
    const std::uint64_t ticks = bench_.ticks.load(std::memory_order_relaxed) - ticks_before;
    if (!before || !after || after->cpu <= before->cpu) return 0;
    return static_cast<double>(ticks) / static_cast<double>((after->cpu - before->cpu).count());
  }

  std::vector<Vpn> PagesToTry() {
    std::vector<Vpn> candidates;
    const std::uint64_t apart = (buffer_.size().value() - kTickBufferPages) / (2 * kMostFastPages);
    for (std::uint64_t i = 0; i < 2 * kMostFastPages; ++i)
      candidates.push_back(buffer_.start + PageCount(kTickBufferPages + i * apart));
    const std::vector<bool> clearable = process_.ClearableAlone(candidates);
    std::vector<Vpn> pages;
    for (std::size_t i = 0; i < candidates.size() && pages.size() < kMostFastPages; ++i)
      if (clearable[i]) pages.push_back(candidates[i]);
    return pages;
  }

  // Single pages, far apart. A child that is not on a CPU is not interrupted; where it may share
  // one with this thread it hardly ever is, and what a clear costs then is that.
  void ClearPoints() {
    std::vector<VpnRange> pages;
    std::vector<Vpn> first;
    const std::uint64_t apart = buffer_.size().value() / kPointsAtOnce;
    next_point_ = (next_point_ + kStride) % apart;
    for (std::uint64_t i = 0; i < kPointsAtOnce; ++i) {
      const Vpn page = buffer_.start + PageCount(i * apart + next_point_);
      pages.push_back({page, page + PageCount(1)});
    }
    first.push_back(pages.front().start);
    const ReadResult read = process_.ReadPoints(first, entries_);
    if (read.running_threads == 0 && apart_) return;
    process_.ClearEach(pages);
    points_ += pages.size();
  }

  void Look() {
    const Vpn start = buffer_.start + PageCount(next_block_ * kBlockPages);
    next_block_ = (next_block_ + 1) % (buffer_.size().value() / kBlockPages);
    const ReadResult read = process_.Read({start, start + PageCount(kBlockPages)},
                                          PageTableReader::Depth::kEntries, parts_);
    // A sleeping child is not disturbed.
    looks_ += read.running_threads > 0;
  }

  AbitKernel& kernel_;
  AbitProcess& process_;
  Bench& bench_;
  VpnRange buffer_;
  bool apart_;
  std::stop_token stop_;
  std::optional<MonotonicTime> give_up_;
  std::size_t next_block_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t next_point_ = 0;
  std::uint64_t points_ = 0;
  std::vector<TablePart> parts_;
  std::vector<PointEntry> entries_;
  std::mt19937_64 random_{1};
  std::uniform_int_distribution<std::int64_t> anywhere_in_a_tick_{0, kTick.count()};
};

bool IsSettled(const std::vector<double>& figures, double next_to_nothing) {
  return figures.size() >= kPairsThatSettle &&
         StandardErrorOfMedian(figures) <=
             std::max(kSettledShare * Median(figures), next_to_nothing);
}

// Differences of each of the passes, by page and by look.
struct Differences {
  std::vector<double> per_set;
  std::vector<double> per_look;

  explicit Differences(std::span<const Passes> passes, std::uint64_t pages) {
    for (const Passes& pass : passes) {
      per_set.push_back((pass.cleared_ns - pass.quiet_ns) / static_cast<double>(pages));
      if (pass.looks >= kFewestLooks) {
        per_look.push_back((pass.looked_at_ns - pass.cleared_ns) / static_cast<double>(pass.looks));
      }
    }
  }
  bool SetsAreSettled() const { return IsSettled(per_set, kSettledNsPerSet); }
  bool LooksAreSettled() const { return IsSettled(per_look, kLeastNsPerLook); }
};

double LeastPerSet(std::span<const Passes> passes, std::uint64_t pages) {
  const double quiet = std::ranges::min(passes, {}, &Passes::quiet_ns).quiet_ns;
  const double cleared = std::ranges::min(passes, {}, &Passes::cleared_ns).cleared_ns;
  return (cleared - quiet) / static_cast<double>(pages);
}

// Precondition: some pass has kFewestLooks.
double LeastPerLook(std::span<const Passes> passes) {
  const double cleared = std::ranges::min(passes, {}, &Passes::cleared_ns).cleared_ns;
  std::optional<double> least;
  for (const Passes& pass : passes) {
    if (pass.looks < kFewestLooks) continue;
    const double own = (pass.looked_at_ns - cleared) / static_cast<double>(pass.looks);
    least = std::min(own, least.value_or(own));
  }
  return *least;
}

void Doubt(MeasuredCost& cost, std::string_view what, double measured, double charged) {
  if (!cost.doubt.empty()) cost.doubt += "; ";
  cost.doubt += fmt::format(
      "the machine is too busy to tell what {} costs its targets: {:.0f} ns were measured, and "
      "{:.0f} ns are charged",
      what, measured, charged);
}

enum class Untold : std::uint8_t { kBusy, kTooSlow };

std::expected<nanoseconds, Untold> MeasureLoss(AbitKernel& kernel, Experiment& experiment,
                                               std::size_t rung, MonotonicTime give_up) {
  std::vector<KnownTries> batches;
  while (batches.size() < kMostBatches && kernel.Now() < give_up) {
    const auto batch = experiment.TryTicks(rung);
    if (!batch) break;
    batches.push_back(*batch);
    if (const auto loss = LossOf(batches)) return *loss;
    if (ClearsAreTooSlow(batches, rung)) return std::unexpected(Untold::kTooSlow);
  }
  return std::unexpected(Untold::kBusy);
}

// The shortest delay comes first, as clears may be too slow for it. At the first rung the loss is
// as at the second: it is a small part of that delay.
std::expected<ClearLoss, Untold> MeasureLosses(AbitKernel& kernel, Experiment& experiment,
                                               MonotonicTime give_up) {
  ClearLoss loss;
  for (std::size_t rung = kFastRungs.size() - 1; rung > 0; --rung) {
    const auto measured = MeasureLoss(kernel, experiment, rung, give_up);
    if (!measured) return std::unexpected(measured.error());
    loss.own[rung] = *measured;
  }
  loss.own[0] = loss.own[1];
  loss.is_measured = true;
  return loss;
}

// Returns the CPU time that a clear of one page adds, without the cost of setting the bit again.
// nullopt: the child has exited, or was hardly ever on a CPU while another CPU was free to clear
// from.
std::optional<double> NsPerPoint(AbitKernel& kernel, Experiment& experiment, double ns_per_set,
                                 nanoseconds time_limit, MonotonicTime give_up) {
  const MonotonicTime start = kernel.Now();
  std::vector<double> per_point;
  double cost = 0;
  std::uint64_t points = 0;
  const auto go_on = [&] {
    const nanoseconds took = kernel.Now() - start;
    if (start + took >= give_up) return false;
    return took < time_limit || (static_cast<int>(per_point.size()) < kFewestPointFigures &&
                                 took < time_limit * kPointsPatience);
  };
  while (go_on()) {
    const double quiet = experiment.Pass(Disturbance::kNone, kSweepsToPoint);
    const double pointed = experiment.Pass(Disturbance::kPointsCleared, kSweepsToPoint);
    if (std::min(quiet, pointed) < 0) return std::nullopt;
    cost += pointed - quiet;
    points += experiment.points();
    if (points < kFewestPoints) continue;
    per_point.push_back(cost / static_cast<double>(points));
    cost = 0;
    points = 0;
  }
  if (static_cast<int>(per_point.size()) < kFewestPointFigures) return std::nullopt;
  return std::max(Median(std::move(per_point)) - ns_per_set, kLeastNsPerPoint);
}

}  // namespace

bool ClearsAreTooSlow(std::span<const KnownTries> batches, std::size_t rung) {
  if (batches.size() < kBatchesThatTellClears) return false;
  return std::ranges::min(batches, {}, &KnownTries::least_clear).least_clear >
         LongestClear(kFastRungs[rung]);
}

std::optional<nanoseconds> LossOf(std::span<const KnownTries> batches) {
  std::vector<double> losses;
  for (const KnownTries& known : batches) {
    if (known.tries < kFewestKnownTries || known.accesses_per_ns <= 0) continue;
    const auto tries = static_cast<double>(known.tries);
    const double exposure = static_cast<double>(known.found) / tries / known.accesses_per_ns;
    losses.push_back(known.exposure_ns / tries - exposure);
  }
  if (losses.size() < kFewestBatches || StandardErrorOfMedian(losses) > kMostLossErrorNs)
    return std::nullopt;
  return nanoseconds(std::llround(std::clamp(Median(losses), -kMostLossNs, kMostLossNs)));
}

MeasuredCost CostOf(std::span<const Passes> passes, std::uint64_t pages) {
  const Differences differences(passes, pages);
  MeasuredCost cost;
  const double per_set =
      differences.SetsAreSettled() ? Median(differences.per_set) : LeastPerSet(passes, pages);
  const double least = differences.SetsAreSettled() ? 1.0 : kLeastNsPerBusySet;
  cost.ns_per_set = std::clamp(per_set, least, kMostNsPerSet);
  if (per_set > kMostNsPerSet) Doubt(cost, "an accessed bit", per_set, kMostNsPerSet);
  cost.unsettled.set = !differences.SetsAreSettled() || per_set > kMostNsPerSet;
  cost.unsettled.look = true;
  if (static_cast<int>(differences.per_look.size()) < kFewestPairs) return cost;
  const bool settled = differences.LooksAreSettled();
  const double per_look = settled ? Median(differences.per_look) : LeastPerLook(passes);
  if (per_look <= kMostNsPerLook) {
    cost.ns_per_look = std::max(per_look, settled ? kLeastNsPerLook : kLeastNsPerBusyLook);
    cost.unsettled.look = !settled;
  } else {
    Doubt(cost, "a look at a table", per_look, kAssumedNsPerLook);
  }
  return cost;
}

namespace {

// Nearly all of the price of a clear of one page is the interrupt.
nanoseconds NsOfInterrupt(const MeasuredCost& cost) {
  return nanoseconds(std::llround(cost.ns_per_point.value_or(kAssumedNsOfInterrupt)));
}

Result<MeasuredCost> Measure(AbitKernel& kernel, const Plan& plan) {
  const auto fail = [](int system_error, std::string reason) {
    Error error = Refused("calibrate the cost of accessed bits", "a child process", system_error);
    if (system_error == 0) error.system_error.reset();
    error.reason = std::move(reason);
    return Fail(std::move(error));
  };
  const MonotonicTime give_up = kernel.Now() + plan.longest;
  const AnonymousMemory shared(sizeof(Bench), MAP_SHARED);
  // Aligned so that blocks are whole tables.
  const std::size_t pages = PagesToSweep();
  const AnonymousMemory memory((pages + kBlockPages) * kBasePageBytes, MAP_PRIVATE);
  if (!shared.valid() || !memory.valid()) return fail(errno, "");
  ::madvise(memory.address(), memory.bytes(), MADV_NOHUGEPAGE);
  Bench& bench = *new (shared.address()) Bench;
  const std::uint64_t first =
      (VpnOfAddress(reinterpret_cast<std::uint64_t>(memory.address())).value() + kBlockPages - 1) /
      kBlockPages * kBlockPages;
  const VpnRange buffer{Vpn(first), Vpn(first + pages)};

  const pid_t parent = ::getpid();
  const pid_t pid = ForkHelper();
  if (pid < 0) return fail(errno, "");
  if (pid == 0) {
    RunLikeOthers();
    if (plan.yields) RunWhenIdle();
    Sweep(bench, {reinterpret_cast<std::uint64_t*>(AddressOf(buffer.start)), pages * kWordsPerPage},
          parent);
  }
  const ChildProcess child(pid);
  const CpusApart apart(pid, plan.yields);
  const auto stat = ProcFs().Stat(Pid(pid));
  if (!stat) return Fail(stat.error());
  auto process = kernel.Open(Pid(pid), stat->start_time_ticks);
  if (!process) return Fail(process.error());

  Experiment experiment(kernel, **process, bench, buffer, static_cast<bool>(apart), plan.stop,
                        plan.yields ? std::optional(give_up) : std::nullopt);
  const auto no_answer = [&](std::string_view otherwise) {
    return fail(0,
                std::string(experiment.abandoned() ? "the child process got no CPU" : otherwise));
  };
  // The first pass takes the page faults, the second fills caches.
  if (experiment.Pass(Disturbance::kNone) < 0 || experiment.Pass(Disturbance::kNone) < 0)
    return no_answer("the child process ended");
  std::vector<Passes> passes;
  const MonotonicTime start = kernel.Now();
  const auto go_on = [&] {
    const nanoseconds took = kernel.Now() - start;
    if (!plan.figures.set && !plan.figures.look) return false;
    if (kernel.Now() >= give_up) return passes.empty() && !plan.yields;
    if (static_cast<int>(passes.size()) < kFewestPairs) return true;
    if (took >= plan.time_limit * kPatience) return false;
    const Differences differences(passes, pages);
    // Looks can hardly be measured from the child's own CPU.
    return !differences.SetsAreSettled() || (apart && !differences.LooksAreSettled());
  };
  while (go_on()) {
    Passes pass;
    pass.quiet_ns = experiment.Pass(Disturbance::kNone);
    pass.cleared_ns = experiment.Pass(Disturbance::kCleared);
    pass.looked_at_ns = experiment.Pass(Disturbance::kClearedAndLookedAt);
    pass.looks = experiment.looks();
    if (experiment.abandoned()) break;
    if (std::min({pass.quiet_ns, pass.cleared_ns, pass.looked_at_ns}) < 0)
      return no_answer("the child process could not be cleared, or ended");
    passes.push_back(pass);
  }
  const bool wants_passes = plan.figures.set || plan.figures.look;
  if (wants_passes && plan.yields && std::ssize(passes) < kFewestPairs)
    return no_answer("the child process was too slow");
  MeasuredCost cost{.ns_per_set = plan.ns_per_set};
  if (!passes.empty()) cost = CostOf(passes, pages);
  // No look can be measured from the child's own CPU. A repeat helps only if there is another one,
  // which a busy target may leave for now.
  if (!apart) cost.unsettled.look = plan.figures.look && CpusAtStart().size() > 1;
  if (plan.figures.point) {
    // The price that budgets need comes first.
    cost.ns_per_point = NsPerPoint(kernel, experiment, cost.ns_per_set, plan.time_limit, give_up);
  }
  if (plan.figures.loss) {
    const auto loss = MeasureLosses(kernel, experiment, give_up);
    if (loss) cost.clear_loss = *loss;
    // Clears that are too slow stay so.
    cost.unsettled.loss = !loss && loss.error() == Untold::kBusy;
  }
  if (plan.figures.point) {
    if (cost.ns_per_point > kMostNsPerPoint) {
      Doubt(cost, "a page cleared by itself", *cost.ns_per_point, kAssumedNsPerPoint);
      cost.ns_per_point.reset();
    }
  }
  cost.clear_loss.others = NsOfInterrupt(cost);
  cost.unsettled.point = plan.figures.point && !cost.ns_per_point;
  return cost;
}

}  // namespace

CostFigures FiguresToMeasure(const AbitKernel& kernel, MeasurePoints points) {
  const bool measures_points = points == MeasurePoints::kYes;
  return {.set = true,
          .look = true,
          .point = measures_points,
          .loss = measures_points && kernel.tells_running_time()};
}

Result<MeasuredCost> Calibrate(AbitKernel& kernel, MeasurePoints points,
                               std::chrono::milliseconds time_limit) {
  return Measure(kernel, {.figures = FiguresToMeasure(kernel, points),
                          .time_limit = time_limit,
                          .longest = kLongestCalibration,
                          .stop = {}});
}

Result<MeasuredCost> CalibrateAgain(AbitKernel& kernel, const MeasuredCost& before,
                                    const std::stop_token& stop) {
  if (const auto pressure = kernel.MemoryPressure()) {
    Error error{.attempt = "calibrate the cost of accessed bits"};
    error.reason = "memory is short: " + *pressure;
    return Fail(std::move(error));
  }
  const CostFigures& figures = before.unsettled;
  auto again = Measure(kernel, {.figures = figures,
                                .time_limit = kRepeatTimeLimit,
                                .longest = kLongestRepeat,
                                .yields = true,
                                .ns_per_set = before.ns_per_set,
                                .stop = stop});
  if (!again) return again;
  return BetterOf(before, *again);
}

MeasuredCost BetterOf(const MeasuredCost& before, const MeasuredCost& again) {
  MeasuredCost cost = before;
  if (before.unsettled.set) {
    cost.ns_per_set =
        again.unsettled.set ? std::min(before.ns_per_set, again.ns_per_set) : again.ns_per_set;
    cost.unsettled.set = again.unsettled.set;
  }
  if (before.unsettled.look) {
    const bool none_before = !before.ns_per_look.has_value();
    if (again.ns_per_look && (none_before || !again.unsettled.look))
      cost.ns_per_look = again.ns_per_look;
    if (again.ns_per_look && !none_before && again.unsettled.look)
      cost.ns_per_look = std::min(*before.ns_per_look, *again.ns_per_look);
    cost.unsettled.look = again.unsettled.look;
  }
  if (before.unsettled.point && again.ns_per_point) {
    cost.ns_per_point = again.ns_per_point;
    cost.unsettled.point = false;
  }
  if (before.unsettled.loss && again.clear_loss.is_measured) {
    cost.clear_loss = again.clear_loss;
    cost.unsettled.loss = false;
  }
  cost.clear_loss.others = NsOfInterrupt(cost);
  cost.doubt = again.doubt;
  return cost;
}

}  // namespace tmprof::abit
