// SPDX-License-Identifier: Apache-2.0
// Merges what the sources delivered for one epoch into its profile.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "profiler/source.h"

namespace tmprof {

struct EpochFrame {
  std::uint64_t index = 0;
  MonotonicTime start;
  MonotonicTime end;
  std::vector<Target> targets;  // ascending by id
  std::chrono::nanoseconds profiler_cpu_time{0};
};

// Records of one key add up (saturating). Samples inside a huge or larger span join the span's
// record, inside a region they part it: the page has a record of its own, with its share of what
// was seen of the region. Where spans overlap with different bounds (a huge page split within the
// epoch), the smaller join the larger. Evidence about a target that the frame does not name is
// dropped and counted as lost in its source's status.
//
// `frames`, unless null, gets ReferenceRecord::frame of each record of the profile. The frame of a
// span that was mapped in several ways within the epoch is not shareable.
EpochProfile BuildEpoch(EpochFrame frame, std::vector<SourceEpoch> sources,
                        std::vector<std::optional<SeenFrame>>* frames = nullptr);

// Adds the accesses up. Misses that only one of the two knows are the sum's.
void Join(std::optional<AccessCounts>& into, const std::optional<AccessCounts>& from);

}  // namespace tmprof
