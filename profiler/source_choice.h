// SPDX-License-Identifier: Apache-2.0
// The sources that a command line or a configuration asks for.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "driver/core/regions.h"
#include "profiler/source_kind.h"
#include "profiler/sources/abit/engine.h"

namespace tmprof {

struct AbitChoice {
  abit::Looked looked = abit::Looked::kFull;
  // Unset for regions alone, it means the best there is: one bit by the driver's own thread, else
  // the ladder in user space.
  std::optional<abit::ScanOptions::Mode> mode = abit::ScanOptions::Mode::kLadder;
  friend bool operator==(const AbitChoice&, const AbitChoice&) = default;
};

// "regions,plain": what is looked at (full, regions, auto), how (ladder, plain), or both; what is
// not said is as by default, but the way of regions, which is then unset.
Result<AbitChoice> ParseAbit(std::string_view text);
// The inverse: both words, or "regions".
std::string AbitText(const AbitChoice& choice);

// Bounds of --abit regions and auto; the defaults are the published ones.
struct RegionBounds {
  std::chrono::nanoseconds monitoring;   // between two steps, at least; of plain, to the read
  std::chrono::nanoseconds aggregation;  // between two results, at least
  std::chrono::nanoseconds update;       // between two looks at the mappings, at least
  std::uint32_t min_regions;
  std::uint32_t max_regions;
  RegionBounds();
};

// The published rules, at 1 us a check; the error names the option at fault.
Result<tmprof_region_params> RegionParams(const RegionBounds& bounds);

// The scanner counts its budget in parts per million (driver/core/ladder.h).
inline constexpr double kLeastOverhead = 1e-6;

struct SourceChoice {
  std::vector<std::string> names{"auto"};  // "auto", and those of SourceKinds()
  AbitChoice abit;
  RegionBounds regions;
  std::chrono::nanoseconds scan_interval{std::chrono::seconds(1)};  // for kPlain, at every page
  double max_overhead = 0.01;  // share of the targets' CPU time
  unsigned sample_rate = 1;    // the hardware sampler's: 1, 4 or 8 times the default
  std::string gate = "auto";   // auto, off, or a list of llc and tlb
  std::uint64_t seed = 1;      // the scanner's, for its rotation
  abit::AgeingUse ageing = abit::AgeingUse::kOff;
  bool calibrates = false;  // prices are measured again, although an earlier start has kept some
};

// Returns what is wrong with the name of a source for the daemon, and which names there are. Empty:
// it is "auto" or a source that observes running processes.
std::string FaultOfOnlineSource(const std::string& name);

// Returns a warning if ageing is asked for, and this source does not clear whole processes.
std::optional<std::string> WarnOfUnusedAgeing(const SourceChoice& choice,
                                              const SourceKind& scanner);

}  // namespace tmprof
