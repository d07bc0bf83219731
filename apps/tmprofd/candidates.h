// SPDX-License-Identifier: Apache-2.0
// What a policy has to choose from, and what may give way to its choice.

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/tmprofd/ranked_rows.h"
#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"
#include "mover/memory_binding.h"
#include "mover/placement_map.h"

namespace tmprof {

// By number.
using TierSet = std::bitset<Tiers::kMost + 1>;

struct PlacedTarget {
  TargetId id;
  Pid pid;
  std::vector<VpnRange> mapped;            // ascending, disjoint
  const MemoryBinding* binding = nullptr;  // unknown: nothing of it is moved
  std::optional<PageCount> resident{};     // as of SurveyedTarget
  bool joins_segments = false;             // as of PageOwners::Mapper
};

// Columns of equal length, strictly ascending by key; spans do not overlap. A span lies in one leaf
// or holds whole leaves, all of them on one node and under one memory policy.
struct Candidates {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> span_pages;
  std::vector<double> score;                // of the whole span; 0: nobody has seen it accessed
  std::vector<std::optional<NodeId>> node;  // nullopt: nobody has seen it anywhere
  std::vector<PageCount> leaf;              // what moves whole, where it is known; else the span
  // 1: nobody has looked at it lately, and the score is what such pages without samples have that
  // were looked at, on average; below tier 1, where nothing is wanted for what is only supposed, 0.
  std::vector<std::uint8_t> supposed;
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
