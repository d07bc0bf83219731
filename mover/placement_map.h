// SPDX-License-Identifier: Apache-2.0
// Where the pages of each target were when they were last looked for.

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
  // All the same, but for the pages.
  bool IsLike(const PlacedRun& other) const {
    return node == other.node && leaf == other.leaf && joint == other.joint;
  }
  friend bool operator==(const PlacedRun&, const PlacedRun&) = default;
};

// Pages that are known by another address from now on.
struct Renamed {
  PageKey from;               // of the first page
  std::optional<PageKey> to;  // nothing: by none
  PageCount pages;
  friend bool operator==(const Renamed&, const Renamed&) = default;
};

// Joins what goes on.
void Append(std::vector<Renamed>& all, const Renamed& renamed);
// Joins what is alike. Precondition: the run begins at or behind the end of the last one.
void Append(std::vector<PlacedRun>& runs, const PlacedRun& run);

class PlacementMap {
 public:
  // Puts `runs` in the place of all that was known within `range`: what is not in them is in no
  // memory. They ascend, lie within the range and do not overlap. A run that `range` cuts keeps
  // what lies outside, of a leaf as well.
  void Learn(TargetId target, VpnRange range, std::span<const PlacedRun> runs);
  // Forgets what lies in none of these ranges. They ascend and do not overlap.
  void KeepOnly(TargetId target, std::span<const VpnRange> mapped);
  void Forget(TargetId target);
  // Takes the places of these pages over to their new addresses; those that leaves of their size
  // cannot have there are forgotten. Old addresses of one page may be new ones of another.
  void Rename(std::span<const Renamed> pages);

  // Nothing: it was never looked for, or is in no memory.
  std::optional<PlacedRun> Find(PageKey key) const;
  PageCount PagesIn(TargetId target, const Tiers& tiers, Tier tier) const;

  // Runs of a target by their first page; neighbours that are alike are one.
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
