// SPDX-License-Identifier: Apache-2.0
// What is asked for of the sources, on a command line or by a configuration.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tmprof {

enum class AbitMode : std::uint8_t { kLadder, kPlain };           // how bits are read
enum class AbitLooked : std::uint8_t { kFull, kRegions, kAuto };  // at which pages

struct AbitChoice {
  AbitLooked looked = AbitLooked::kFull;
  AbitMode mode = AbitMode::kLadder;
  friend bool operator==(const AbitChoice&, const AbitChoice&) = default;
};

// "regions,plain": what is looked at (full, regions, auto), how (ladder, plain), or both; what is
// not said is as by default.
Result<AbitChoice> ParseAbit(std::string_view text);
// Both words; the inverse.
std::string AbitText(const AbitChoice& choice);

// The scanner counts its budget in parts per million (driver/core/ladder.h).
inline constexpr double kLeastOverhead = 1e-6;

struct SourceChoice {
  std::vector<std::string> names{"auto"};  // "auto", and those of kSourceKinds
  AbitChoice abit;
  std::chrono::nanoseconds scan_interval{std::chrono::seconds(1)};  // of kPlain, at every page
  double max_overhead = 0.01;  // share of the targets' CPU time
  unsigned sample_rate = 1;    // of the hardware sampler: 1, 4 or 8 times the default
  std::string gate = "auto";   // auto, off, or a list of llc and tlb
  std::uint64_t seed = 1;      // of the scanner's rotation
};

}  // namespace tmprof
