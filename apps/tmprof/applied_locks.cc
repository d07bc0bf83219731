// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/applied_locks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "profiler/procfs.h"

namespace tmprof {

Result<LockAdvice::Applied> ApplyLocks(const LockAdvice& advice, LockChange change) {
  Result<std::vector<Mapping>> mappings = ProcFs().Mappings(advice.target.pid);
  if (!mappings) return Fail(std::move(mappings.error()));
  // A range that has a hole is refused, and mappings that touch are one call.
  std::vector<VpnRange> ranges;
  for (const HeatedRange& chosen : advice.choice.ranges) {
    bool joins = false;
    for (const Mapping& mapping : *mappings) {
      const Vpn start = std::max(mapping.range.start, chosen.pages.start);
      const Vpn end = std::min(mapping.range.end, chosen.pages.end);
      if (start >= end || mapping.kind == MappingKind::kSpecial || !mapping.accessible) continue;
      if (joins && ranges.back().end == start) {
        ranges.back().end = end;
      } else {
        ranges.push_back({start, end});
      }
      joins = true;
    }
  }
  const Result<LockOutcome> outcome =
      ChangeLocks(advice.target.pid, advice.target.start_time_ticks, ranges, change);
  if (!outcome) return Fail(outcome.error());
  LockAdvice::Applied applied{.locked = change == LockChange::kLock,
                              .changed = outcome->changed,
                              .raised_limit = outcome->raised_limit};
  for (const LockOutcome::Refusal& refusal : outcome->refused)
    applied.refused.push_back({.range = refusal.range, .system_error = refusal.system_error});
  return applied;
}

}  // namespace tmprof
