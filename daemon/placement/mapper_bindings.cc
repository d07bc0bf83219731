// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/mapper_bindings.h"

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
  for (const PlacedTarget* binder : binders_) {
    owners.ForEachFile(binder->id, [this](TargetId file) { files_.insert(file); });
  }
}

template <typename Take>
void MapperBindings::ForEachStretch(PageOwners::Pages of_target, Take take) {
  if (files_.empty()) return;
  owners_->ForEachName(of_target, [&](PageKey name, PageKey, PageCount pages) {
    if (!files_.contains(name.target)) return;
    owners_->ForEachStretchOf({name, pages},
                              [&](const PageOwners::Stretch& stretch, VpnRange within) {
                                const PageKey first{name.target, stretch.pages.start};
                                if (last_ == stretches_.end() || last_->first != first) {
                                  last_ = stretches_.find(first);
                                  if (last_ == stretches_.end())
                                    last_ = stretches_.emplace(first, AskedOf(stretch)).first;
                                }
                                take(stretch, within, last_->second);
                              });
  });
}

MapperBindings::OfStretch MapperBindings::AskedOf(const PageOwners::Stretch& stretch) const {
  OfStretch of;
  for (const PageKey& mapping : stretch.mappings) {
    const auto binder = std::ranges::lower_bound(binders_, mapping.target, {}, &PlacedTarget::id);
    if (binder == binders_.end() || (*binder)->id != mapping.target) continue;
    const MemoryBinding* binding = (*binder)->binding;
    of.known &= binding != nullptr;
    if (binding == nullptr) continue;
    of.binders.push_back({binding, mapping.vpn});
    of.has_unread |= binding->HasUnread({mapping.vpn, mapping.vpn + stretch.pages.size()});
  }
  return of;
}

template <typename Ask>
bool MapperBindings::AllOf(const OfStretch& of, VpnRange pages, Vpn start, Ask ask) {
  return std::ranges::all_of(of.binders, [&](const OfStretch::Binder& binder) {
    const Vpn first = binder.first + (pages.start - start);
    return ask(*binder.binding, VpnRange{first, first + pages.size()});
  });
}

bool MapperBindings::MayBind(PageOwners::Pages of_target) {
  bool may = false;
  ForEachStretch(of_target, [&may](const PageOwners::Stretch&, VpnRange, const OfStretch& of) {
    may |= of.MayBind();
  });
  return may;
}

bool MapperBindings::AreKnown(PageOwners::Pages of_target) {
  const auto is_read = [](const MemoryBinding& binding, VpnRange pages) {
    return !binding.HasUnread(pages);
  };
  bool known = true;
  ForEachStretch(of_target, [&](const PageOwners::Stretch& stretch, VpnRange pages,
                                const OfStretch& of) {
    known = known && of.known && (!of.has_unread || AllOf(of, pages, stretch.pages.start, is_read));
  });
  return known;
}

bool MapperBindings::Let(PageOwners::Pages of_target, NodeId from, NodeId to) {
  const auto lets = [&](const MemoryBinding& binding, VpnRange pages) {
    return binding.MayMove(pages, from, to);
  };
  bool let = true;
  ForEachStretch(of_target, [&](const PageOwners::Stretch& stretch, VpnRange pages, OfStretch& of) {
    if (!let || of.binders.empty()) return;
    const Vpn start = stretch.pages.start;
    auto all = of.let_all.find({from, to});
    if (all == of.let_all.end()) {
      all = of.let_all.emplace(std::pair(from, to), AllOf(of, stretch.pages, start, lets)).first;
    }
    let = all->second || AllOf(of, pages, start, lets);
  });
  return let;
}

}  // namespace tmprof
