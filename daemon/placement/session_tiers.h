// SPDX-License-Identifier: Apache-2.0
// The tiers that a session places pages in, and how much longer an access takes in each.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/host/node_topology.h"
#include "base/latency_gap.h"
#include "base/result.h"
#include "base/tiers.h"

namespace tmprof {

struct SessionTiers {
  Tiers tiers;
  std::vector<std::optional<double>> latencies;  // of the machine's nodes, in ns; may be empty
  std::string found;    // "tier 1: node 0; tier 2: node 1, by …"; empty: the tiers were given
  std::string warning;  // latencies are unknown, and matter; may be empty
};

// Takes the tiers that are given, or finds those of the machine. Fails if they are to be found, and
// the topology is unknown or has only one class of memory. `gap_is_given`: no latency is needed.
Result<SessionTiers> SessionTiersOf(std::optional<Tiers> given, bool gap_is_given,
                                    const Result<NodeTopology>& topology);

// "an access takes 170 ns longer in tier 2 than in tier 1 (firmware)", for each tier below tier 1.
std::vector<std::string> GapTexts(const LatencyGaps& gaps, const Tiers& tiers);

}  // namespace tmprof
