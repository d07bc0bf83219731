// SPDX-License-Identifier: Apache-2.0
// Remembers where the pages of each target were when they were last looked for.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"

namespace tmprof {

// Neighbouring pages on one node, mapped by leaves of one size.
struct PlacedRun {
  VpnRange pages;
  NodeId node;
  PageCount leaf{1};  // moved whole; runs begin and end with a leaf
  // Each of the pages was in the page tables of several mappings when it was looked for.
  bool joint = false;
  // True if all fields but the pages are equal.
  bool IsLike(const PlacedRun& other) const {
    return node == other.node && leaf == other.leaf && joint == other.joint;
  }
  friend bool operator==(const PlacedRun&, const PlacedRun&) = default;
};

// Pages that have another address from now on.
struct Renamed {
  PageKey from;               // old address of the first page
  std::optional<PageKey> to;  // unset: none
  PageCount pages;
  friend bool operator==(const Renamed&, const Renamed&) = default;
};

// Appends the pages; joins them to the last ones if they continue these.
void Append(std::vector<Renamed>& all, const Renamed& renamed);
// Appends the run; joins it to the last one if both are alike. Precondition: the run begins at or
// behind the end of the last one.
void Append(std::vector<PlacedRun>& runs, const PlacedRun& run);

class PlacementMap {
 public:
  // Replaces all knowledge within `range` by `runs`; pages in none of them are not in memory. The
  // runs ascend, lie within the range and do not overlap. An old run that `range` cuts keeps its
  // outside parts, even if that cuts a leaf.
  void Learn(TargetId target, VpnRange range, std::span<const PlacedRun> runs);
  // Forgets pages outside of these ranges, which ascend and do not overlap.
  void KeepOnly(TargetId target, std::span<const VpnRange> mapped);
  void Forget(TargetId target);
  // Stores the places of these pages by their new addresses. Pages whose leaf size is impossible
  // there are forgotten. An old address of one page may be the new address of another.
  void Rename(std::span<const Renamed> pages);

  // nullopt: the page was never looked for, or is not in memory.
  std::optional<PlacedRun> Find(PageKey key) const;
  PageCount PagesIn(TargetId target, const Tiers& tiers, Tier tier) const;

  // Runs of a target by their first page; neighbours that are alike are joined.
  using Runs = std::map<Vpn, PlacedRun>;
  const Runs& RunsOf(TargetId target) const;
  // Returns the runs of a target within `range`, cut at its ends.
  std::vector<PlacedRun> Within(TargetId target, VpnRange range) const;
  std::size_t runs() const;

 private:
  static void Cut(Runs& runs, Vpn at);
  static void JoinAt(Runs& runs, Vpn at);

  std::map<TargetId, Runs> targets_;
};

}  // namespace tmprof
