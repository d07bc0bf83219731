// SPDX-License-Identifier: Apache-2.0
// Facts that a recording learns about itself while it runs, for the line that it ends with.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/tmprof/recording_outcome.h"
#include "base/epoch_profile.h"
#include "profiler/procfs.h"
#include "profiler/source.h"

namespace tmprof {

// A set of base pages: 64 bytes for each 2 MiB that has one.
class PageSet {
 public:
  PageSet() = default;
  PageSet(const PageSet&) = delete;
  PageSet& operator=(const PageSet&) = delete;

  void Add(PageKey first, PageCount pages);
  PageCount size() const;

 private:
  static constexpr std::uint64_t kBlockPages = 512;
  using Block = std::array<std::uint64_t, kBlockPages / 64>;
  using BlockKey = std::pair<TargetId, std::uint64_t>;  // and first page / kBlockPages

  std::map<BlockKey, Block> blocks_;
  std::map<BlockKey, Block>::iterator last_ = blocks_.end();  // used: pages come in order
};

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
