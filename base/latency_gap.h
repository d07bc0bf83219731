// SPDX-License-Identifier: Apache-2.0
// The time that an access to memory saves in tier 1. All costs and gains of placement are counted
// in it.

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

// CXL memory takes some 170 ns longer than DRAM (80 and 250 ns, testbed/topologies). Less is saved,
// because accesses overlap.
inline constexpr double kAssumedLatencyGapNs = 100;

enum class LatencyBasis : std::uint8_t {
  kGiven,     // the user has given the gap
  kFirmware,  // read latencies of the nodes (ACPI HMAT)
  kAssumed,   // kAssumedLatencyGapNs, because no gap is known
};

std::string_view Name(LatencyBasis basis);  // "given", "firmware", "assumed"

struct LatencyGap {
  double ns = kAssumedLatencyGapNs;  // > 0; an access takes this much longer than in tier 1
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

// Returns the gaps from the latencies of the tiers in ns, fastest first; nullopt: unknown. A gap
// that is not above 0 counts as unknown. `given` replaces them: the gap of all tiers below tier 1,
// in ns.
LatencyGaps GapsOf(const std::vector<std::optional<double>>& latencies,
                   std::optional<double> given);

// Returns the settings by which traces and ledgers keep the gaps of so many tiers. "latency-gap" is
// "170ns", or "170ns,400ns" for three tiers. "latency-gap-basis" is "firmware", "given" or
// "assumed", with one word for each gap.
std::vector<Setting> SettingsOf(const LatencyGaps& gaps, std::size_t tiers);
// Reads the gaps from settings. All are assumed if the settings lack them or cannot be parsed.
LatencyGaps GapsOf(const std::vector<Setting>& settings);

}  // namespace tmprof
