// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/fast_tries.h"

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// A program that often leaves the CPU is not tried for ever.
constexpr std::uint32_t kMostFailures = 8;
// Delays below are so short that a read right after the clear would take part of them.
constexpr nanoseconds kShortestWithReadAtOnce = std::chrono::microseconds(16);

struct FastClear {
  bool done = false;
  MonotonicTime at;
  RunningTime running;
};

// The entry of a base page that is there; nullopt: there is none, or it could not be read.
struct FastRead {
  MonotonicTime time;
  bool accessed;
};
std::optional<FastRead> ReadOne(AbitProcess& process, Vpn page) {
  std::vector<PointEntry> entries;
  const ReadResult read = process.ReadPoints({&page, 1}, entries);
  if (read.outcome != ReadOutcome::kDone || !entries.front().read) return std::nullopt;
  const PointEntry& point = entries.front();
  if (!point.entry.present() || point.unit != PageCount(1)) return std::nullopt;
  return FastRead{read.time, point.entry.accessed()};
}

FastClear ClearOne(AbitKernel& kernel, AbitProcess& process, const ClearMoment& moment,
                   FastTry& attempt) {
  FastClear cleared;
  const MonotonicTime before = kernel.Now();
  const ClearOutcome outcome = process.Clear({attempt.page, attempt.page + PageCount(1)});
  attempt.clear_took = kernel.Now() - before;
  cleared.at =
      before +
      nanoseconds(std::llround(moment.part * static_cast<double>(attempt.clear_took.count())));
  const std::optional<RunningTime> running = process.Running(cleared.at);
  cleared.done = outcome == ClearOutcome::kDone && running && running->threads > 0;
  if (!cleared.done) return cleared;
  cleared.running = *running;
  if (attempt.reads_at_once) {
    const auto read = ReadOne(process, attempt.page);
    attempt.unset_at_once = read && !read->accessed;
  }
  return cleared;
}

void ReadAfter(AbitProcess& process, const FastClear& cleared, FastTry& attempt) {
  if (!cleared.done) return;
  const auto read = ReadOne(process, attempt.page);
  if (!read) return;
  const std::optional<RunningTime> running = process.Running(read->time);
  if (!running || running->threads == 0) return;
  const nanoseconds wall = read->time - cleared.at;
  attempt.exposure = running->cpu - cleared.running.cpu;
  attempt.counted = wall > nanoseconds(0) && attempt.exposure >= wall - wall / 16;
  attempt.found = read->accessed;
}

}  // namespace

void RunFastTries(AbitKernel& kernel, AbitProcess& process, nanoseconds delay,
                  const ClearMoment& moment, std::span<FastTry> tries) {
  TMPROF_CHECK(tries.size() <= kMostFastPages);
  std::array<FastClear, kMostFastPages> cleared{};
  std::size_t read = 0;
  for (std::size_t i = 0; i < tries.size(); ++i) {
    cleared[i] = ClearOne(kernel, process, moment, tries[i]);
    while (read < i && (!cleared[read].done || cleared[read].at + delay <= kernel.Now())) {
      ReadAfter(process, cleared[read], tries[read]);
      ++read;
    }
  }
  for (; read < tries.size(); ++read) {
    if (cleared[read].done) kernel.SpinUntil(cleared[read].at + delay);
    ReadAfter(process, cleared[read], tries[read]);
  }
}

bool FastPage::wants_read_at_once() const {
  return !seen_unset_ && kFastRungs[rung_] >= kShortestWithReadAtOnce;
}

FastPage::State FastPage::Add(const FastTry& ended) {
  seen_unset_ |= ended.unset_at_once;
  if (!ended.counted) return ++failed_ < kMostFailures ? State::kGoesOn : State::kGivenUp;
  seen_unset_ |= !ended.found;
  ++looks_;
  found_ += ended.found;
  time_ += ended.exposure;
  if (looks_ < kTriesPerRung) return State::kGoesOn;
  if (found_ == looks_ && rung_ + 1 < rungs_) {
    ++rung_;
    looks_ = found_ = 0;
    time_ = nanoseconds(0);
    return State::kGoesOn;
  }
  return seen_unset_ ? State::kTold : State::kDoubted;
}

}  // namespace tmprof::abit
