// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/mapper_bindings.h"

#include <algorithm>

namespace tmprof {

MapperBindings::MapperBindings(std::span<const PlacedTarget> targets, const Tiers& tiers,
                               const PageOwners& owners)
    : owners_(&owners) {
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const auto of_tier = tiers.NodesOf(Tier(static_cast<Tier::rep>(i + 1)));
    nodes.insert(nodes.end(), of_tier.begin(), of_tier.end());
  }
  for (const PlacedTarget& target : targets) {
    if (target.binding == nullptr || target.binding->Binds(nodes)) binders_.push_back(&target);
  }
}

template <typename Take>
void MapperBindings::ForEachStretch(PageOwners::Pages of_target, Take take) {
  owners_->ForEachName(of_target, [&](PageKey name, PageKey, PageCount pages) {
    owners_->ForEachStretchOf({name, pages},
                              [&](const PageOwners::Stretch& stretch, VpnRange within) {
                                const PageKey first{name.target, stretch.pages.start};
                                auto known = stretches_.find(first);
                                if (known == stretches_.end())
                                  known = stretches_.emplace(first, AskedOf(stretch)).first;
                                take(stretch, within, known->second);
                              });
  });
}

MapperBindings::OfStretch MapperBindings::AskedOf(const PageOwners::Stretch& stretch) const {
  OfStretch of;
  for (const PageKey& mapping : stretch.mappings) {
    const auto binder = std::ranges::lower_bound(binders_, mapping.target, {}, &PlacedTarget::id);
    if (binder == binders_.end() || (*binder)->id != mapping.target) continue;
    if ((*binder)->binding == nullptr) {
      of.known = false;
    } else {
      of.binders.push_back({(*binder)->binding, mapping.vpn});
    }
  }
  return of;
}

bool MapperBindings::LetThese(const OfStretch& of, VpnRange pages, Vpn start, NodeId from,
                              NodeId to) {
  return std::ranges::all_of(of.binders, [&](const OfStretch::Binder& binder) {
    const Vpn first = binder.first + (pages.start - start);
    return binder.binding->MayMove({first, first + pages.size()}, from, to);
  });
}

bool MapperBindings::AreKnown(PageOwners::Pages of_target) {
  if (binders_.empty()) return true;
  bool known = true;
  ForEachStretch(of_target, [&known](const PageOwners::Stretch&, VpnRange, const OfStretch& of) {
    known = known && of.known;
  });
  return known;
}

bool MapperBindings::Let(PageOwners::Pages of_target, NodeId from, NodeId to) {
  bool let = true;
  ForEachStretch(of_target, [&](const PageOwners::Stretch& stretch, VpnRange pages, OfStretch& of) {
    if (!let || of.binders.empty()) return;
    const Vpn start = stretch.pages.start;
    auto all = of.let_all.find({from, to});
    if (all == of.let_all.end()) {
      all = of.let_all.emplace(std::pair(from, to), LetThese(of, stretch.pages, start, from, to))
                .first;
    }
    let = all->second || LetThese(of, pages, start, from, to);
  });
  return let;
}

}  // namespace tmprof
