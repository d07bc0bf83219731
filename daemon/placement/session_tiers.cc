// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/session_tiers.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <utility>

namespace tmprof {
namespace {

std::span<const NodeId> NodesOf(const Tiers& tiers, std::size_t number) {
  return tiers.NodesOf(Tier(static_cast<Tier::rep>(number)));
}

std::string Text(const Tiers& tiers) {
  std::string text;
  for (std::size_t number = 1; number <= tiers.size(); ++number) {
    text += fmt::format("{}tier {}:", number == 1 ? "" : "; ", number);
    for (const NodeId node : NodesOf(tiers, number)) text += fmt::format(" node {}", node.value());
  }
  return text;
}

std::vector<std::vector<NodeId>> NodesByTierOf(const Tiers& tiers) {
  std::vector<std::vector<NodeId>> nodes;
  for (std::size_t number = 1; number <= tiers.size(); ++number) {
    const std::span<const NodeId> of_tier = NodesOf(tiers, number);
    nodes.emplace_back(of_tier.begin(), of_tier.end());
  }
  return nodes;
}

}  // namespace

Result<SessionTiers> SessionTiersOf(std::optional<Tiers> given, bool gap_is_given,
                                    const Result<NodeTopology>& topology) {
  std::string found;
  if (!given) {
    if (!topology) return Fail(topology.error());
    auto discovered = DiscoverTiers(*topology);
    if (!discovered) return Fail(discovered.error());
    found = fmt::format("{}, by {}", Text(discovered->tiers), discovered->evidence);
    given = std::move(discovered->tiers);
  }
  SessionTiers session{
      .tiers = *std::move(given), .latencies = {}, .found = std::move(found), .warning = {}};
  if (topology) {
    session.latencies = LatenciesOf(*topology, NodesByTierOf(session.tiers));
  } else if (!gap_is_given) {
    session.warning = topology.error().Message() + "; latency gaps are assumed";
  }
  return session;
}

std::vector<std::string> GapTexts(const LatencyGaps& gaps, const Tiers& tiers) {
  std::vector<std::string> texts;
  for (std::size_t number = 2; number <= tiers.size(); ++number) {
    const LatencyGap gap = gaps.Of(Tier(static_cast<Tier::rep>(number)));
    texts.push_back(fmt::format("an access takes {:.0f} ns longer in tier {} than in tier 1 ({})",
                                gap.ns, number, Name(gap.basis)));
  }
  return texts;
}

}  // namespace tmprof
