// SPDX-License-Identifier: Apache-2.0
// The state of a target in the engine that looks at one page of each region.

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
  bool sampled = false;  // it lies in a mapping, and its entry was read
  bool present = false;
  std::uint32_t absent = 0;            // pages picked before in this step, that are not there
  bool cleared = false;                // its bit was set before; else that was not needed
  std::uint8_t state = 0;              // enum tmprof_unit
  bool seen = false;                   // its bit was set, and could not be cleared
  std::chrono::nanoseconds cpu_at{0};  // the target's, when its bit was last known to be unset
  tmprof_tally tally{};
  std::uint64_t frame = 0;
};

// One entry to clear, and the probes that it stands for: regions within one huge page have several.
struct RegionClear {
  VpnRange range;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t unread = 0;  // times in a row that its table was in use
};

// Memory that is a program's.
struct RegionMapping {
  VpnRange range;
  MonotonicTime unclearable_until{};  // the kernel refuses to clear it: mlocked, hugetlb or device

  bool Unclearable() const { return unclearable_until != MonotonicTime{}; }
};

struct RegionTarget : WatchedTarget {
  using WatchedTarget::WatchedTarget;

  bool mappings_changed = true;
  std::vector<RegionMapping> mapped;  // ascending
  std::vector<tmprof_region> memory;
  tmprof_region_set set{};
  RegionEvidenceTable seen;           // in this epoch, by region
  std::uint64_t observations = 0;     // those in `seen`, looks x pages
  std::vector<SampleRecord> samples;  // the most sampled pages since the last aggregation

  std::vector<RegionProbe> probes;    // those of the step, one per region
  std::vector<RegionClear> to_clear;  // in this step; ascending
  bool in_step = false;
  bool clears_next = false;  // and does not read
  std::uint32_t unset = 0;   // probes that are watched
  std::uint32_t rung = 0;
  std::uint32_t idle_reads = 0;  // in a row, that found the target had not run
  MonotonicTime next{};          // piece of work
  MonotonicTime began{};         // the step
  MonotonicTime cleared_at{};    // the last one of this step so far
  std::chrono::nanoseconds cpu_cleared{0};
  std::chrono::nanoseconds cpu_at{0};  // at the last read
  std::chrono::nanoseconds idle_wait{0};

  // These are of this aggregation.
  MonotonicTime updated_at{};  // to its mappings
  std::uint32_t steps = 0;
  std::chrono::nanoseconds took{0};  // in steps, and in their waits for budgets
  MonotonicTime ready_at{};          // since when the next step waits for budgets alone
  bool held_up = true;               // the next step waits for something else

  void HoldUp(MonotonicTime now) {
    if (!held_up) took += now - ready_at;
    held_up = true;
  }

  // Memory that the data about regions takes, in bytes.
  std::uint64_t RegionBytes() const {
    return memory.capacity() * sizeof memory[0] + probes.capacity() * sizeof probes[0] +
           to_clear.capacity() * sizeof to_clear[0] + samples.capacity() * sizeof samples[0] +
           seen.Bytes();
  }
};

}  // namespace tmprof::abit
