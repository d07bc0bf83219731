// SPDX-License-Identifier: Apache-2.0

#include "base/tiers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tmprof {
namespace {

std::unexpected<Error> RefuseTiers(std::string object, std::string reason) {
  return Fail(BadInput("divide memory into tiers", std::move(object), std::move(reason)));
}

}  // namespace

Result<Tiers> Tiers::Make(std::vector<std::vector<NodeId>> nodes) {
  if (nodes.size() < 2 || nodes.size() > kMost) {
    return RefuseTiers(std::to_string(nodes.size()) + " tiers", "needs 2 to 255 of them");
  }
  std::vector<NodeId> all;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].empty()) return RefuseTiers("tier " + std::to_string(i + 1), "has no node");
    all.insert(all.end(), nodes[i].begin(), nodes[i].end());
  }
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  if (twice != all.end()) {
    return RefuseTiers("node " + std::to_string(twice->value()), "is named twice");
  }
  return Tiers(std::move(nodes));
}

Tiers::Tiers(std::vector<std::vector<NodeId>> nodes) : nodes_(std::move(nodes)) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const NodeId node : nodes_[i]) {
      if (tier_of_.size() <= node.value()) tier_of_.resize(node.value() + std::size_t{1});
      tier_of_[node.value()] = Tier(static_cast<std::uint8_t>(i + 1));
    }
  }
}

std::optional<Tier> Tiers::TierOf(NodeId node) const {
  if (node.value() >= tier_of_.size() || tier_of_[node.value()] == Tier(0)) return std::nullopt;
  return tier_of_[node.value()];
}

}  // namespace tmprof
