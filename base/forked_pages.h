// SPDX-License-Identifier: Apache-2.0
// Follows the private pages that processes share after fork(2), until a write copies them.

#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// Epochs tell which records are of the same physical pages (PageColumns::same_as). Such pages are
// joined until an epoch shows them apart: it has records of both, and does not join them. An epoch
// without records of both, or that did not compare, changes nothing.
//
// Joined pages have the address of one of them as their name. It is the address of a page that is
// still joined, if there is one, and otherwise one that they had as their name before. A page
// therefore keeps its name when others join it, and when the process with that address exits.
class ForkedPages {
 public:
  // Pages of a process, and the name of the first. The names of the others follow it.
  struct Run {
    VpnRange range;
    PageKey name;
    friend bool operator==(const Run&, const Run&) = default;
  };

  // Takes time in O(n log n) of the records, and next to none if no pages were ever joined.
  void Add(const PageColumns& pages);

  // Forgets the pages of a target outside of these ranges, which ascend and do not overlap.
  void KeepWithin(TargetId target, std::span<const VpnRange> ranges);

  // Forgets the pages of all other targets. `targets` ascend.
  void KeepOnly(std::span<const TargetId> targets);

  bool empty() const { return runs_.empty(); }
  // Ascending by address. A run may be left over by pages that are joined no more.
  std::span<const Run> RunsOf(TargetId target) const;

 private:
  std::map<TargetId, std::vector<Run>> runs_;  // those that have any
};

}  // namespace tmprof
