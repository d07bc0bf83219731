// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/perf_sampler.h"

#include <algorithm>
#include <utility>

namespace tmprof {

PerfSampler::PerfSampler(const Clock& clock, const SourceKind& kind, TaskEvents events)
    : clock_(&clock),
      kind_(kind),
      events_(std::move(events)),
      epoch_start_(clock.Now()),
      active_since_(epoch_start_) {}

Status PerfSampler::SetTargets(const std::vector<TrackedProcess>& targets) {
  std::vector<Pid> wanted;
  for (const TrackedProcess& target : targets) wanted.push_back(target.pid);
  table_.SetTargets(targets);
  const Status followed =
      events_.Follow(wanted, [this](const PerfRecord& record) { Handle(record); });
  if (followed) {
    accepted_targets_ = true;
    unfollowed_.Settle();
    return {};
  }
  // Targets that are followed stay useful. If none is, the first targets show that the source does
  // not work; later targets, as a daemon's, are refused one by one.
  if (!events_.HasEvents() && !accepted_targets_) return followed;
  unfollowed_.Raise(followed.error().Message());
  return {};
}

void PerfSampler::AccountActiveTime() {
  const MonotonicTime now = clock_->Now();
  if (active_) active_time_ += now - active_since_;
  active_since_ = now;
}

void PerfSampler::SetActive(bool active) {
  if (active == active_) return;
  AccountActiveTime();
  active_ = active;
  Service();
  events_.SetEnabled(active);
  if (active) HandleGap();
}

bool PerfSampler::Service() {
  bool any = false;
  events_.Drain([this, &any](const PerfRecord& record) {
    any = true;
    Handle(record);
  });
  return any;
}

void PerfSampler::Handle(const PerfRecord& record) {
  if (const auto* sample = std::get_if<PerfSample>(&record)) {
    HandleSample(*sample);
  } else if (const auto* lost = std::get_if<PerfLost>(&record)) {
    lost_ += lost->count;
  } else if (std::holds_alternative<PerfThrottle>(record)) {
    ++throttled_;
  } else if (const auto* change = std::get_if<PerfCodeChange>(&record)) {
    HandleCodeChange(*change);
  } else if (const auto* exit = std::get_if<PerfExit>(&record)) {
    HandleExit(*exit);
  }
}

SourceEpoch PerfSampler::TakeEpoch() {
  Service();
  AccountActiveTime();
  const MonotonicTime now = active_since_;
  SampleTable::Taken taken = table_.Take();

  SourceEpoch epoch;
  epoch.samples = std::move(taken.samples);
  SourceStatus& status = epoch.status;
  status.name = kind_.name;
  status.label = kind_.label;
  status.role = kind_.role;
  status.samples_of = kind_.samples_of;
  status.state = active_ || active_time_.count() > 0 ? SourceState::kActive : SourceState::kGated;
  if (now > epoch_start_) {
    // A quotient of equal times may round to above 1.
    status.duty_cycle =
        std::min(1.0, std::chrono::duration<double>(active_time_) / (now - epoch_start_));
  }
  TakeCounts(status);
  status.lost = std::exchange(lost_, 0);
  if (const auto lost = events_.LostSamples()) {
    // An event that could not be read reports its losses later.
    const std::uint64_t before = lost_samples_before_;
    lost_samples_before_ = std::max(before, *lost);
    status.lost = lost_samples_before_ - before;
  }
  status.details.push_back({"unknown_process", taken.unknown_process});
  status.details.push_back({"throttled", std::exchange(throttled_, 0)});
  const std::uint64_t corrupt = events_.corrupt_bytes();
  status.details.push_back(
      {"corrupt_bytes", corrupt - std::exchange(corrupt_bytes_before_, corrupt)});
  if (const std::string unfollowed = unfollowed_.TakeEpoch(); !unfollowed.empty())
    status.note += (status.note.empty() ? "" : "; ") + unfollowed;
  epoch_start_ = now;
  active_time_ = std::chrono::nanoseconds(0);
  return epoch;
}

}  // namespace tmprof
