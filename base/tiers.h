// SPDX-License-Identifier: Apache-2.0
// Tells which NUMA nodes make which class of memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/strong_int.h"
#include "base/units.h"

namespace tmprof {

// A class of memory; 1 is the fastest.
using Tier = StrongInt<struct TierTag, std::uint8_t>;
inline constexpr Tier kTier1{1};

class Tiers {
 public:
  static constexpr std::size_t kMost = 255;

  // Takes nodes by tier, fastest first. Refuses fewer than two tiers or more than kMost, a tier
  // without a node, and a node that is named twice.
  static Result<Tiers> Make(std::vector<std::vector<NodeId>> nodes);

  std::size_t size() const { return nodes_.size(); }
  // Precondition: 1 <= tier <= size().
  std::span<const NodeId> NodesOf(Tier tier) const { return nodes_[tier.value() - 1U]; }
  // Returns nullopt for a node that is in no tier: pages there stay there.
  std::optional<Tier> TierOf(NodeId node) const;

  friend bool operator==(const Tiers&, const Tiers&) = default;

 private:
  explicit Tiers(std::vector<std::vector<NodeId>> nodes);

  std::vector<std::vector<NodeId>> nodes_;
  std::vector<Tier> tier_of_;  // index: node number; 0: none
};

}  // namespace tmprof
