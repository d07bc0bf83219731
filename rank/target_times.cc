// SPDX-License-Identifier: Apache-2.0

#include "rank/target_times.h"

#include <algorithm>
#include <chrono>

namespace tmprof {
namespace {

// The share of the epoch during which samples were taken. A profile with pages that names no
// source at all (made by hand, or by an importer) is believed to have been watched throughout.
double SamplerDuty(const EpochProfile& profile) {
  if (profile.sources.empty()) return profile.pages.empty() ? 0.0 : 1.0;
  double duty = 0;
  for (const SourceStatus& source : profile.sources) {
    if (source.role == SourceRole::kSamples && source.state == SourceState::kActive) {
      duty = std::max(duty, source.duty_cycle.value_or(1.0));
    }
  }
  return duty;
}

void AddTo(TargetTime& time, double cpu_seconds, double watched_seconds,
           double remembered_cpu_seconds) {
  time.cpu_seconds += cpu_seconds;
  time.watched_seconds += watched_seconds;
  time.remembered_cpu_seconds += remembered_cpu_seconds;
}

}  // namespace

void TargetTimes::Add(const EpochProfile& profile) {
  const double duty = SamplerDuty(profile);
  const double length = Seconds(profile.length());
  AddTo(throughout_, length, duty * length, length);
  for (const Target& target : profile.targets) {
    const double used = Seconds(target.cpu_time.value_or(profile.length()));
    AddTo(At(target.id), used, duty * used, used);
  }
}

void TargetTimes::Add(const TargetTimes& other) {
  AddTo(throughout_, other.throughout_.cpu_seconds, other.throughout_.watched_seconds,
        other.throughout_.remembered_cpu_seconds);
  for (const TargetTime& time : other.times_) {
    AddTo(At(time.target), time.cpu_seconds, time.watched_seconds, time.remembered_cpu_seconds);
  }
}

void TargetTimes::Fade(const Keeps& keeps) {
  const auto fade = [](TargetTime& time, const Keep& keep) {
    time.cpu_seconds = 0;
    time.watched_seconds *= keep.evidence;
    time.remembered_cpu_seconds *= keep.evidence;
  };
  for (TargetTime& time : times_) fade(time, keeps.Of(time.target));
  fade(throughout_, keeps.of_others());
}

std::optional<TargetTime> TargetTimes::Find(TargetId target) const {
  const auto at = std::ranges::lower_bound(times_, target, {}, &TargetTime::target);
  return at != times_.end() && at->target == target ? std::optional(*at) : std::nullopt;
}

TargetTime& TargetTimes::At(TargetId target) {
  auto at = std::ranges::lower_bound(times_, target, {}, &TargetTime::target);
  if (at == times_.end() || at->target != target) at = times_.insert(at, {.target = target});
  return *at;
}

}  // namespace tmprof
