// SPDX-License-Identifier: Apache-2.0
// Memory policies and cpusets of all mappers of pages that several mappings hold.

#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/placement/candidates.h"
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

  // False: all mappings let all of these pages go anywhere.
  bool MayBind(PageOwners::Pages of_target);
  // False: nobody knows what binds one of these pages in one of its mappings.
  bool AreKnown(PageOwners::Pages of_target);
  // No mapping is against it. Pages in no shared file may go.
  bool Let(PageOwners::Pages of_target, NodeId from, NodeId to);

 private:
  struct OfStretch {
    struct Binder {
      const MemoryBinding* binding;
      Vpn first;  // page of the mapping at which the stretch begins
    };
    std::vector<Binder> binders;
    bool known = true;        // true: of each mapping
    bool has_unread = false;  // in some mapping, some page
    std::map<std::pair<NodeId, NodeId>, bool> let_all;
    bool MayBind() const { return !known || !binders.empty(); }
  };

  template <typename Take>
  void ForEachStretch(PageOwners::Pages of_target, Take take);
  OfStretch AskedOf(const PageOwners::Stretch& stretch) const;
  // `start` is the first page of the stretch. Calls `ask(binding, pages)` until it says false.
  template <typename Ask>
  static bool AllOf(const OfStretch& of, VpnRange pages, Vpn start, Ask ask);

  const PageOwners* owners_;
  std::vector<const PlacedTarget*> binders_;       // ascending by ID
  std::set<TargetId> files_;                       // that any of them maps
  using Stretches = std::map<PageKey, OfStretch>;  // keyed by the name of the first page
  Stretches stretches_;
  Stretches::iterator last_ = stretches_.end();  // that was asked about
};

}  // namespace tmprof
