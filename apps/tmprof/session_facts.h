// SPDX-License-Identifier: Apache-2.0
// Facts that a recording learns about itself while it runs, for the line that it ends with.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "apps/tmprof/page_set.h"
#include "apps/tmprof/recording_outcome.h"
#include "base/epoch_profile.h"
#include "profiler/procfs.h"
#include "profiler/source.h"

namespace tmprof {

class SessionFacts {
 public:
  // `procfs` must outlive this.
  explicit SessionFacts(const ProcFs& procfs) : procfs_(procfs) {}

  // The targets as they are now; to be called each time that they were looked for. `resident`: of
  // all of them; `left_out`: by --max-targets. Reads some of /proc of each, but of 64 at most, and
  // not more than once a second.
  void SeeTargets(const std::vector<TrackedProcess>& targets, PageCount resident,
                  std::uint64_t left_out, MonotonicTime now);
  void Add(const EpochProfile& epoch);

  // All facts known so far, without those that only the caller knows: the name of the trace, and
  // objects.
  RecordingFacts Facts() const;

 private:
  const ProcFs& procfs_;
  RecordingFacts facts_;
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
