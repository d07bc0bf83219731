// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/whole_flush_trial.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/host/procfs.h"
#include "profiler/helper_processes.h"
#include "profiler/sources/abit/anonymous_memory.h"
#include "profiler/sources/abit/child_process.h"

namespace tmprof::abit {
namespace {

// Fewer than any data TLB holds, so that without a flush hardly any bit is set again.
constexpr std::size_t kTrialPages = 48;
constexpr std::uint32_t kFlushesThatTell = 8;
constexpr std::uint32_t kFewestFlushes = 4;
constexpr std::uint32_t kMostTrialTries = 512;
constexpr double kMostChance = 0.01;
constexpr auto kLongestTrial = std::chrono::milliseconds(500);
constexpr int kMostRetrials = 8;

// Shared with the child.
struct TrialDesk {
  std::atomic<std::uint64_t> rounds{0};  // over all pages
};

[[noreturn]] void ReadOverAndOver(TrialDesk& desk, const volatile char* pages, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr std::uint64_t kBetweenChecks = 1 << 20;
  for (std::uint64_t round = 1;; ++round) {
    for (std::size_t i = 0; i < kTrialPages; ++i) (void)pages[i * kBasePageBytes];
    desk.rounds.store(round, std::memory_order_release);
    if (round % kBetweenChecks == 0 && ::getppid() != parent) ::_exit(0);
  }
}

class FlushExperiment {
 public:
  FlushExperiment(AbitKernel& kernel, AbitProcess& process, const TrialDesk& desk, VpnRange pages,
                  const std::stop_token& stop)
      : process_(process),
        desk_(desk),
        pages_(pages),
        kernel_(kernel),
        stop_(stop),
        end_(kernel.Now() + kLongestTrial) {}

  // Its end: the child is gone, or a clear or read of it fails.
  WholeFlushTrial Run(WholeFlushTrial trial) {
    if (!AwaitRounds()) return trial;
    const std::uint32_t most_tries = trial.tries + kMostTrialTries;
    while (trial.tries < most_tries && !IsDecided(trial)) {
      std::optional<bool> all_shown;
      if (!Clear(/*flushes=*/false, all_shown)) break;
      if (all_shown) {
        ++trial.controls;
        trial.hidden += !*all_shown;
      }
      ++trial.tries;
      if (!Clear(/*flushes=*/true, all_shown)) break;
      if (!all_shown) continue;
      ++trial.flushes;
      trial.complete += *all_shown;
    }
    return trial;
  }

 private:
  // False: there is no use in going on. `all_shown`: if every page shows that it was accessed after
  // a clear; nullopt: that could not be read, or the flush is not known to have worked.
  bool Clear(bool flushes, std::optional<bool>& all_shown) {
    all_shown.reset();
    if (process_.ClearWhole() != ClearOutcome::kDone) return false;
    const bool flushed = !flushes || process_.Flush();
    if (!AwaitRounds()) return false;
    if (!flushed) return true;
    const ReadResult read = process_.Read(pages_, PageTableReader::Depth::kEntries, parts_);
    if (read.outcome == ReadOutcome::kBusy || read.torn_tables > 0) return true;
    if (read.outcome == ReadOutcome::kDone) all_shown = AccessedPages() == kTrialPages;
    return read.outcome == ReadOutcome::kDone;
  }

  // A round that is under way may be over its first pages already.
  bool AwaitRounds() {
    const std::uint64_t wanted = desk_.rounds.load() + 2;
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 50'000};
    while (desk_.rounds.load(std::memory_order_acquire) < wanted) {
      if (kernel_.Now() > end_ || stop_.stop_requested() || !process_.Alive()) return false;
      ::nanosleep(&kPause, nullptr);
    }
    return true;
  }

  std::size_t AccessedPages() const {
    std::size_t accessed = 0;
    for (const TablePart& part : parts_) {
      if (part.huge) continue;
      for (std::size_t i = 0; i < part.entries.size(); ++i) {
        const TableEntry entry(part.entries[i]);
        accessed +=
            pages_.Contains(part.start + PageCount(i)) && entry.present() && entry.accessed();
      }
    }
    return accessed;
  }

  AbitProcess& process_;
  const TrialDesk& desk_;
  VpnRange pages_;
  AbitKernel& kernel_;
  std::stop_token stop_;
  MonotonicTime end_;
  std::vector<TablePart> parts_;
};

// The chance that as many clears without a flush would all have looked like flushed ones.
double ChanceOf(const WholeFlushTrial& trial) {
  const double hidden = (trial.hidden + 0.5) / (trial.controls + 1.0);
  return std::pow(1 - hidden, trial.flushes);
}

}  // namespace

bool IsDecided(const WholeFlushTrial& trial) {
  if (trial.complete < trial.flushes) return true;
  return trial.flushes >= kFlushesThatTell && ChanceOf(trial) <= kMostChance;
}

std::optional<std::string> DoubtOf(const WholeFlushTrial& trial) {
  if (!trial.obstacle.empty()) return trial.obstacle;
  if (trial.complete < trial.flushes)
    return fmt::format("after {} of {} flushes a child's pages seemed idle that it read",
                       trial.flushes - trial.complete, trial.flushes);
  if (trial.flushes < kFewestFlushes)
    return fmt::format(
        "{} of {} flushes of a child are known to have worked, {} are needed; they take two CPUs, "
        "neither of them busy all the time, Linux 5.10 and the right to clear a child",
        trial.flushes, trial.tries, kFewestFlushes);
  if (ChanceOf(trial) > kMostChance)
    return fmt::format(
        "after {} of {} clears without a flush a child's pages seemed accessed as well, so that {} "
        "flushes do not tell what a flush does; on a less busy machine they may",
        trial.controls - trial.hidden, trial.controls, trial.flushes);
  return std::nullopt;
}

bool MayYetTell(const WholeFlushTrial& trial) {
  return trial.obstacle.empty() && trial.complete == trial.flushes && DoubtOf(trial).has_value();
}

WholeFlushTrial TryWholeFlush(AbitKernel& kernel, const WholeFlushTrial& before,
                              const std::stop_token& stop) {
  const auto cannot = [&before](std::string obstacle) {
    WholeFlushTrial trial = before;
    trial.obstacle = std::move(obstacle);
    return trial;
  };
  const AnonymousMemory shared(sizeof(TrialDesk), MAP_SHARED);
  const AnonymousMemory memory(kTrialPages * kBasePageBytes, MAP_SHARED);
  if (!shared.valid() || !memory.valid()) return cannot("there is no memory for a trial");
  ::madvise(memory.address(), memory.bytes(), MADV_NOHUGEPAGE);
  TrialDesk& desk = *new (shared.address()) TrialDesk;
  const auto* pages = static_cast<const volatile char*>(memory.address());
  const pid_t parent = ::getpid();
  const pid_t pid = ForkHelper();
  if (pid < 0) return cannot("no child could be started for a trial");
  if (pid == 0) {
    RunLikeOthers();
    ReadOverAndOver(desk, pages, parent);
  }
  const ChildProcess child(pid);
  const auto stat = ProcFs().Stat(Pid(pid));
  if (!stat) return cannot(stat.error().Message());
  auto process = kernel.Open(Pid(pid), stat->start_time_ticks);
  if (!process) return cannot(process.error().Message());
  const Vpn start = VpnOfAddress(reinterpret_cast<std::uint64_t>(memory.address()));
  const VpnRange tried{start, start + PageCount(kTrialPages)};
  return FlushExperiment(kernel, **process, desk, tried, stop).Run(before);
}

WholeFlushRetrial::WholeFlushRetrial(const WholeFlushTrial& before, Try try_again,
                                     std::chrono::nanoseconds first_pause)
    : try_(std::move(try_again)), thread_([this, before, first_pause](const std::stop_token& stop) {
        Run(stop, before, first_pause);
      }) {}

void WholeFlushRetrial::Run(const std::stop_token& stop, WholeFlushTrial trial,
                            std::chrono::nanoseconds pause) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  for (int i = 0; i < kMostRetrials && MayYetTell(trial); ++i, pause *= 2) {
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    trial = try_(trial, stop);
  }
  passed_ = !DoubtOf(trial).has_value();
  over_ = true;
}

}  // namespace tmprof::abit
