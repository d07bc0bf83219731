// SPDX-License-Identifier: Apache-2.0
// Candidates of a policy, and pages that may give way to its choice.

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/placement/ranked_rows.h"
#include "mover/memory_binding.h"
#include "mover/placement_map.h"

namespace tmprof {

// Indexed by tier number.
using TierSet = std::bitset<Tiers::kMost + 1>;

struct PlacedTarget {
  TargetId id;
  Pid pid;
  std::vector<VpnRange> mapped;            // ascending, disjoint
  const MemoryBinding* binding = nullptr;  // unknown: nothing of it is moved
  std::optional<PageCount> resident{};     // see SurveyedTarget
  bool joins_segments = false;             // see PageOwners::Mapper
};

// Columns of equal length, strictly ascending by key; spans do not overlap. A span lies in one leaf
// or holds whole leaves, all of them on one node and under one memory policy.
struct Candidates {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> span_pages;
  std::vector<double> score;                // score of the whole span; 0: no access was seen
  std::vector<std::optional<NodeId>> node;  // nullopt: nobody has seen it anywhere
  std::vector<PageCount> leaf;  // pages that move as one, if that is known; else the span
  // 1: the page was not looked at lately. Its score is then the mean of such pages without samples
  // that were looked at. Below tier 1 it is 0, because an assumed score is no reason to want pages
  // there.
  std::vector<std::uint8_t> assumed;
  std::vector<std::uint8_t> joint;  // 1: several mappings had it when it was looked for

  std::size_t size() const { return key.size(); }
};

// Overwrites `found`, in its own memory, with the spans of `rows` that have a score, cut where
// their place or their memory policy changes and at multiples of a huge page, as regions may be
// larger than tier 1, and joined where they are parts of one huge page; and with what else is in
// `limited` tiers, tier 1 among them, in pieces of at most a huge page, of which what was not
// looked at is no colder than others until it is, where anybody looks. `targets` ascend, and rows
// of others are left out.
void FindCandidates(const RankedRows& rows, const PlacementMap& map,
                    std::span<const PlacedTarget> targets, const Tiers& tiers,
                    const TierSet& limited, Candidates& found);

}  // namespace tmprof
