// SPDX-License-Identifier: Apache-2.0
// What memory policies and cpusets of all mappers say of pages that several mappings hold.

#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "apps/tmprofd/candidates.h"
#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"
#include "mover/memory_binding.h"
#include "mover/page_owners.h"

namespace tmprof {

// Mappers of a stretch of a file are asked at most once whether they let all of it go from one node
// to another, since mostly all of its pages may go there or none. Serves one decision.
class MapperBindings {
 public:
  // All must outlive it. `targets` ascend by ID.
  MapperBindings(std::span<const PlacedTarget> targets, const Tiers& tiers,
                 const PageOwners& owners);

  // False: each target lets its pages go to all nodes of all tiers.
  bool AreBound() const { return !binders_.empty(); }
  // False: nobody knows what binds one of the mappings of these pages.
  bool AreKnown(PageOwners::Pages of_target);
  // No mapping is against it. Pages in no shared file may go.
  bool Let(PageOwners::Pages of_target, NodeId from, NodeId to);

 private:
  struct OfStretch {
    struct Binder {
      const MemoryBinding* binding;
      Vpn first;  // where the stretch begins in the mapping
    };
    std::vector<Binder> binders;
    bool known = true;
    std::map<std::pair<NodeId, NodeId>, bool> let_all;
  };

  template <typename Take>
  void ForEachStretch(PageOwners::Pages of_target, Take take);
  OfStretch AskedOf(const PageOwners::Stretch& stretch) const;
  // `start` is the first page of the stretch.
  static bool LetThese(const OfStretch& of, VpnRange pages, Vpn start, NodeId from, NodeId to);

  const PageOwners* owners_;
  std::vector<const PlacedTarget*> binders_;  // ascending by ID
  std::map<PageKey, OfStretch> stretches_;    // by the name of the first page
};

}  // namespace tmprof
