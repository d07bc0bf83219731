// SPDX-License-Identifier: Apache-2.0
// The time that an access to memory saves in tier 1. All that placement does is priced by it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tiers.h"
#include "base/trace_info.h"

namespace tmprof {

// CXL memory takes some 170 ns longer than DRAM (80 and 250 ns, testbed/topologies). Accesses
// overlap, so that less is saved.
inline constexpr double kAssumedLatencyGapNs = 100;

enum class LatencyBasis : std::uint8_t {
  kGiven,     // by the user
  kFirmware,  // read latencies of the nodes (ACPI HMAT)
  kAssumed,   // kAssumedLatencyGapNs: nobody told any
};

std::string_view Name(LatencyBasis basis);  // "given", "firmware", "assumed"

struct LatencyGap {
  double ns = kAssumedLatencyGapNs;  // > 0; an access takes so much longer than in tier 1
  LatencyBasis basis = LatencyBasis::kAssumed;
  friend bool operator==(const LatencyGap&, const LatencyGap&) = default;
};

// The gap of each tier below tier 1.
class LatencyGaps {
 public:
  LatencyGaps() = default;  // all are assumed
  // `below_tier1` has the gaps of tiers 2, 3 and so on. Tiers beyond the last have its gap.
  explicit LatencyGaps(std::vector<LatencyGap> below_tier1) : below_(std::move(below_tier1)) {}

  // Precondition: `tier` is below tier 1.
  LatencyGap Of(Tier tier) const {
    if (below_.empty()) return {};
    return below_[std::min<std::size_t>(tier.value() - 2U, below_.size() - 1)];
  }
  friend bool operator==(const LatencyGaps&, const LatencyGaps&) = default;

 private:
  std::vector<LatencyGap> below_;
};

// The gaps by latencies of the tiers in ns, the fastest first; nullopt: unknown. A gap that is not
// above 0 is as good as unknown. `given`: in ns, of all tiers below tier 1, instead.
LatencyGaps GapsOf(const std::vector<std::optional<double>>& latencies,
                   std::optional<double> given);

// Returns the settings by which traces and ledgers keep the gaps of so many tiers: "latency-gap" is
// "170ns", or "170ns,400ns" for three tiers; "latency-gap-basis" is "firmware", "given" or
// "assumed", likewise.
std::vector<Setting> SettingsOf(const LatencyGaps& gaps, std::size_t tiers);
// All are assumed where the settings do not have them, or nothing that can be read.
LatencyGaps GapsOf(const std::vector<Setting>& settings);

}  // namespace tmprof
