// SPDX-License-Identifier: Apache-2.0
// Facts that a recording learns about itself while it runs, for the line that it ends with.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "base/host/joint_memory.h"
#include "base/host/procfs.h"
#include "base/shared_pages.h"
#include "profiler/page_set.h"
#include "profiler/recording_outcome.h"
#include "profiler/source.h"

namespace tmprof {

class SessionFacts {
 public:
  // `procfs` must outlive this.
  explicit SessionFacts(const ProcFs& procfs) : procfs_(procfs) {}

  // The targets as they are now; to be called each time that they were looked for. `resident`: of
  // all of them; `left_out`: by --max-targets; `filtered`: by the process filter. Reads some of
  // /proc of each, but of 64 at most, and not more than once a second.
  //
  // After 1, 3, 7, 15 ... seconds it reads what the targets share, if that takes no more than some
  // 5 ms: the kernel holds off their changes of mappings in the meantime.
  void SeeTargets(const std::vector<TrackedProcess>& targets, PageCount resident,
                  std::uint64_t left_out, const FilteredChildren& filtered, MonotonicTime now);
  // The targets as the recording ends. Reads what they share, in half a second at most.
  void SeeLast(const std::vector<TrackedProcess>& targets);
  void Add(const EpochProfile& epoch);

  // All facts known so far, without those that only the caller knows: the name of the trace, and
  // objects.
  RecordingFacts Facts() const;

 private:
  void SeeShared(const std::vector<TrackedProcess>& targets, std::chrono::nanoseconds most_time);
  PageCount HeldSince(const JointMemory& joint, bool joins_relatives) const;

  const ProcFs& procfs_;
  RecordingFacts facts_;
  SharedPages shared_;
  PageCount most_counted_;  // resident in each target, summed, at the look that saw most
  JointMemory joint_;       // the last reading
  PageCount most_since_;    // resident in each target, summed, the most since then
  // The most that all targets together held up to then, where pages that relatives share since
  // fork(2) count for each (held_[0]) or once (held_[1]).
  std::array<std::optional<PageCount>, 2> held_;
  bool joins_relatives_ = false;  // epochs tell which pages relatives share
  std::size_t most_targets_ = 0;  // at one time
  MonotonicTime look_at_shared_{};
  std::chrono::nanoseconds look_at_shared_again_{};
  std::set<Pid> targets_;
  std::optional<MonotonicTime> start_;
  PageSet looked_at_;
  PageSet accessed_;
  bool seen_targets_ = false;
  bool seen_not_stopped_ = false;
  bool cpu_time_known_ = true;
  bool any_source_ = false;
  bool any_active_ = false;
  MonotonicTime look_again_{};
};

}  // namespace tmprof
