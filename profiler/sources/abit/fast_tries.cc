// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/fast_tries.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// A program that often leaves the CPU is not tried for ever.
constexpr std::uint32_t kMostFailures = 8;
// Delays below are so short that a read right after the clear would take part of them.
constexpr nanoseconds kShortestWithReadAtOnce = std::chrono::microseconds(16);

// The bit goes at some moment of the clear, and interrupts or a wait for locks may stretch it. A
// read may come late for the same reasons.
constexpr nanoseconds kMostClear = std::chrono::microseconds(4);  // beyond twice the delay
constexpr nanoseconds kMostWait = std::chrono::microseconds(10);  // beyond twice the delay

struct FastClear {
  bool done = false;
  MonotonicTime at;  // its middle
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

FastClear ClearOne(AbitKernel& kernel, AbitProcess& process, FastTry& attempt) {
  FastClear cleared;
  const MonotonicTime before = kernel.Now();
  const ClearOutcome outcome = process.Clear({attempt.page, attempt.page + PageCount(1)});
  attempt.clear_took = kernel.Now() - before;
  cleared.at = before + attempt.clear_took / 2;
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

void ReadAfter(AbitProcess& process, const FastClear& cleared, nanoseconds delay, nanoseconds lost,
               FastTry& attempt) {
  if (!cleared.done || attempt.clear_took > LongestClear(delay)) return;
  const auto read = ReadOne(process, attempt.page);
  if (!read) return;
  const std::optional<RunningTime> running = process.Running(read->time);
  if (!running || running->threads == 0) return;
  const nanoseconds wall = read->time - cleared.at;
  if (wall > 2 * delay + kMostWait) return;
  const nanoseconds ran = running->cpu - cleared.running.cpu;
  attempt.exposure = ran - lost * static_cast<std::int64_t>(cleared.running.threads);
  attempt.counted = attempt.exposure > nanoseconds(0) && ran >= wall - wall / 16;
  attempt.found = read->accessed;
}

}  // namespace

nanoseconds LongestClear(nanoseconds delay) { return 2 * delay + kMostClear; }

void RunFastTries(AbitKernel& kernel, AbitProcess& process, std::size_t rung, const ClearLoss& loss,
                  std::span<FastTry> tries) {
  const nanoseconds delay = kFastRungs[rung];
  const auto lost = [&](const FastTry& attempt, std::size_t other_clears) {
    const nanoseconds own = loss.is_measured ? loss.own[rung] : attempt.clear_took / 4;
    return own + loss.others * static_cast<std::int64_t>(other_clears);
  };
  // The first of several clears takes some five times as long as the others: its outcome is not
  // used.
  FastTry unused = tries.back();
  ClearOne(kernel, process, unused);
  // Another clear within a delay takes part of the target's time from it, more on a busy machine.
  // At the first rung two pages share a wait; a shorter wait holds one page.
  const std::size_t at_once = rung == 0 ? 2 : 1;
  while (!tries.empty()) {
    const std::span<FastTry> group = tries.first(std::min(at_once, tries.size()));
    tries = tries.subspan(group.size());
    std::vector<FastClear> cleared;
    for (FastTry& attempt : group) cleared.push_back(ClearOne(kernel, process, attempt));
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (cleared[i].done) kernel.SpinUntil(cleared[i].at + delay);
      ReadAfter(process, cleared[i], delay, lost(group[i], group.size() - 1 - i), group[i]);
    }
  }
}

bool FastPage::wants_read_at_once() const {
  return !seen_unset_ && kFastRungs[rung_] >= kShortestWithReadAtOnce;
}

FastPage::State FastPage::Add(const FastTry& ended) {
  seen_unset_ |= ended.unset_at_once;
  if (!ended.counted) return Fail();
  seen_unset_ |= !ended.found;
  ++looks_;
  found_ += ended.found;
  time_ += ended.exposure;
  if (looks_ < kTriesPerRung) return State::kGoesOn;
  if (found_ == looks_ && rung_ + 1 < rungs_) {
    ++rung_;
    earlier_ = {.looks = earlier_looks(), .time = earlier_time()};
    before_ = {.looks = std::exchange(looks_, 0), .time = std::exchange(time_, nanoseconds(0))};
    found_ = failed_ = 0;
    return State::kGoesOn;
  }
  return seen_unset_ ? State::kTrusted : State::kDoubted;
}

// A rung can be too short for this machine. All tries at the one before found the page, and count.
FastPage::State FastPage::Fail() {
  if (++failed_ < kMostFailures) return State::kGoesOn;
  if (before_.looks == 0) return State::kGivenUp;
  looks_ = found_ = before_.looks;
  time_ = before_.time;
  before_ = {};
  return seen_unset_ ? State::kTrusted : State::kDoubted;
}

}  // namespace tmprof::abit
