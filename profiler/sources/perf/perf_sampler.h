// SPDX-License-Identifier: Apache-2.0
// Base of all samplers over perf_event_open(2). It follows the targets, takes the records out of
// the rings and accounts for an epoch. Each sampler interprets its samples itself.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "profiler/complaint.h"
#include "profiler/source.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/sample_table.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

class PerfSampler : public Source {
 public:
  std::string_view name() const final { return kind_.name; }
  SourceRole role() const final { return kind_.role; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) final;
  void SetActive(bool active) final;
  std::vector<int> PollFds() const final { return events_.RingFds(); }
  bool Service() final;
  SourceEpoch TakeEpoch() final;

 protected:
  // All that kernel.perf_event_mlock_kb gives without privilege, 516 KiB, less the control page.
  static constexpr std::size_t kRingBytes = std::size_t{512} * 1024;

  // `clock` outlives the sampler.
  PerfSampler(const Clock& clock, const SourceKind& kind, TaskEvents events);

  void Count(Pid process, std::uint64_t address, AccessKind kind) {
    table_.Add(process, VpnOfAddress(address), kind);
  }
  // The same as TaskEvents::TakeCount().
  std::optional<std::uint64_t> TakeCount() { return events_.TakeCount(); }

 private:
  virtual void HandleSample(const PerfSample& sample) = 0;
  virtual void HandleCodeChange(const PerfCodeChange& /*change*/) {}
  virtual void HandleExit(const PerfExit& /*exit*/) {}
  // Tells that no record was made for some time; changes of code were missed, too.
  virtual void HandleGap() {}
  // Fills in what was counted since the last call: observations, details, and a note if there is
  // something to say.
  virtual void TakeCounts(SourceStatus& status) = 0;

  void Handle(const PerfRecord& record);
  void AccountActiveTime();

  const Clock* clock_;
  SourceKind kind_;
  TaskEvents events_;
  SampleTable table_;
  bool active_ = true;
  bool accepted_targets_ = false;  // a whole set, if an empty one
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_time_{0};
  std::uint64_t lost_ = 0;  // samples that lost records report
  std::uint64_t lost_samples_before_ = 0;
  std::uint64_t throttled_ = 0;
  std::uint64_t corrupt_bytes_before_ = 0;
  Complaint unfollowed_;
};

}  // namespace tmprof
