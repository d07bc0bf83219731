// SPDX-License-Identifier: Apache-2.0
// What the engine that looks at one page of each region keeps of a target.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "driver/core/ladder.h"
#include "driver/core/regions.h"
#include "profiler/source.h"
#include "profiler/sources/abit/region_evidence.h"
#include "profiler/sources/abit/watched_target.h"

namespace tmprof::abit {

// The page that stands for a region in a step.
struct RegionProbe {
  Vpn page;
  PageCount unit{1};
  bool sampled = false;                // it lies in a mapping, and its entry was read
  bool cleared = false;                // its bit was set before; else that was not needed
  std::uint8_t state = 0;              // enum tmprof_unit
  std::chrono::nanoseconds cpu_at{0};  // of the target, when its bit was last known to be unset
  tmprof_tally tally{};
};

struct RegionTarget : WatchedTarget {
  using WatchedTarget::WatchedTarget;

  bool mappings_changed = true;
  std::vector<VpnRange> mapped;  // whose memory is a program's; adjacent ones joined
  std::vector<tmprof_region> memory;
  tmprof_region_set set{};
  RegionEvidenceTable seen;           // in this epoch, by region
  std::vector<SampleRecord> samples;  // since the last aggregation

  std::vector<RegionProbe> probes;  // of the step, by region
  bool in_step = false;
  std::uint32_t unset = 0;  // probes
  std::uint32_t rung = 0;
  bool read_since_clear = false;
  MonotonicTime next{};        // piece of work
  MonotonicTime began{};       // the step
  MonotonicTime cleared_at{};  // the last of the batch
  std::chrono::nanoseconds cpu_cleared{0};
  std::chrono::nanoseconds cpu_at{0};  // of the last read

  std::uint32_t steps = 0;  // of this aggregation
  MonotonicTime aggregation_began{};
};

}  // namespace tmprof::abit
