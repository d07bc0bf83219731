// SPDX-License-Identifier: Apache-2.0

#include "mover/page_owners.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

// Each presumption costs a look in vain if the pages have left memory, and until then they count as
// present.
constexpr int kMostPresumed = 2;

PageKey After(PageKey key, PageCount pages) { return {key.target, key.vpn + pages}; }

}  // namespace

PageOwners::Changes PageOwners::Follow(const SharedPages& shared, std::span<const Mapper> targets) {
  ++turn_;
  std::map<TargetId, std::vector<Part>> now;
  followed_.clear();
  for (const Mapper& target : targets) {
    followed_.push_back(target.id);
    const std::span<const Part> mapped = shared.PartsOf(target.id);
    std::vector<Part> parts(mapped.begin(), mapped.end());
    if (!target.joins_segments) std::erase_if(parts, &Part::is_segment);
    if (!parts.empty()) now.emplace_hint(now.end(), target.id, std::move(parts));
  }
  if (now == parts_) return {};
  const Changed changed = WhatChanges(now);
  parts_ = std::move(now);
  FindStretches(changed.files);
  map_joint_.clear();
  for (const auto& [target, parts] : parts_) {
    if (std::ranges::any_of(parts, [this](const Part& part) { return IsJoint(part); })) {
      map_joint_.insert(target);
    }
  }
  Changes changes;
  for (const TargetId number : changed.files) ReleaseUnmapped(number, changed.targets, changes);
  std::erase_if(files_, [](const auto& file) { return file.second.stretches.empty(); });
  return changes;
}

PageOwners::Changed PageOwners::WhatChanges(
    const std::map<TargetId, std::vector<Part>>& now) const {
  const auto place = [](const Part& part) {
    return std::tuple(part.range.start, part.range.end, part.name);
  };
  Changed changed;
  std::vector<Part> different;
  const auto compare = [&](TargetId target, std::span<const Part> before,
                           std::span<const Part> after) {
    if (std::ranges::equal(before, after)) return;
    changed.targets.insert(target);
    different.clear();
    std::ranges::set_symmetric_difference(before, after, std::back_inserter(different), {}, place,
                                          place);
    for (const Part& part : different) changed.files.insert(part.name.target);
  };
  for (const auto& [target, before] : parts_) {
    const auto after = now.find(target);
    compare(target, before, after == now.end() ? std::span<const Part>() : after->second);
  }
  for (const auto& [target, after] : now) {
    if (!parts_.contains(target)) compare(target, {}, after);
  }
  return changed;
}

// Sweeps over each file. An open mapping is known by the address that the file's first page would
// have in it, modulo 2^64.
void PageOwners::FindStretches(const std::set<TargetId>& files) {
  struct Edge {
    Vpn page;
    PageKey base;
    bool opens;
  };
  std::map<TargetId, std::vector<Edge>> edges;
  for (const auto& [target, parts] : parts_) {
    for (const Part& part : parts) {
      if (!files.contains(part.name.target)) continue;
      std::vector<Edge>& of_file = edges[part.name.target];
      const PageKey base{target, Vpn(part.range.start.value() - part.name.vpn.value())};
      of_file.push_back({part.name.vpn, base, true});
      of_file.push_back({part.name.vpn + part.range.size(), base, false});
    }
  }
  for (const TargetId number : files) files_[number].stretches.clear();
  for (auto& [number, of_file] : edges) {
    std::ranges::sort(of_file, {}, &Edge::page);
    std::vector<Stretch>& stretches = files_[number].stretches;
    std::multiset<PageKey> open;
    Vpn done;
    for (const Edge& edge : of_file) {
      if (!open.empty() && done < edge.page) {
        Stretch& stretch = stretches.emplace_back(Stretch{.pages = {done, edge.page}});
        for (const PageKey& base : open) {
          stretch.mappings.push_back({base.target, Vpn(base.vpn.value() + done.value())});
        }
        std::ranges::sort(stretch.mappings);  // sorts by addresses instead of bases
      }
      done = edge.page;
      if (edge.opens) {
        open.insert(edge.base);
      } else {
        open.erase(open.find(edge.base));
      }
    }
  }
}

bool PageOwners::IsJoint(const Part& part) const {
  bool joint = false;
  ForEachStretch(files_.at(part.name.target), {part.name.vpn, part.name.vpn + part.range.size()},
                 [&joint](const Stretch& stretch, VpnRange) { joint |= stretch.joint(); });
  return joint;
}

bool PageOwners::KeepsName(Pages of_target, PageKey name) const {
  const bool is_forked = name.target >= SharedPages::kFirstForked;
  if (!SharesAny()) return !is_forked;
  const bool is_of_file = name.target >= SharedPages::kFirstFile && !is_forked;
  if (is_of_file) return true;
  const PageKey first = of_target.first;
  if (!is_forked || std::ranges::binary_search(followed_, first.target)) {
    bool keeps = true;
    ForEachName(of_target, [&](PageKey now, PageKey address, PageCount) {
      keeps = keeps && now == After(name, address.vpn - first.vpn);
    });
    return keeps;
  }
  PageCount mapped;  // by the others, after the target exited
  ForEachStretchOf({name, of_target.pages},
                   [&mapped](const Stretch&, VpnRange pages) { mapped += pages.size(); });
  return mapped == of_target.pages;
}

PageCount PageOwners::JointPages(Pages of_target) const {
  PageCount joint;
  ForEachName(of_target, [&](PageKey name, PageKey, PageCount pages) {
    ForEachStretchOf({name, pages}, [&joint](const Stretch& stretch, VpnRange within) {
      if (stretch.joint()) joint += within.size();
    });
  });
  return joint;
}

void PageOwners::ReleaseUnmapped(TargetId number, const std::set<TargetId>& changed,
                                 Changes& changes) {
  File& file = files_.at(number);
  std::vector<std::pair<VpnRange, PageKey>> unmapped;
  for (const auto& [start, claim] : file.claims) {
    if (!changed.contains(claim.owner.target)) continue;
    const PageKey first = claim.owner;
    const PageKey name{number, start};
    ForEachName({first, claim.end - start}, [&](PageKey now, PageKey address, PageCount cut) {
      const PageKey before = After(name, address.vpn - first.vpn);
      if (now != before) unmapped.emplace_back(VpnRange{before.vpn, before.vpn + cut}, address);
    });
  }
  std::vector<Released> released;
  for (const auto& [pages, owner] : unmapped) ReleaseAll(file.claims, pages, owner, released);
  for (const Released& some : released) {
    HandOn(file, some, std::max(some.presumed, 1), changes);
    changes.push_back({some.owner, std::nullopt, some.pages.size()});  // the rest has no owner
  }
}

void PageOwners::HandOn(File& file, const Released& released, int presumed, Changes& changes) {
  if (presumed > kMostPresumed) return;
  std::vector<VpnRange> free;
  ForEachClaim(file.claims, released.pages, [&free](VpnRange part, const Claim* claim) {
    if (claim == nullptr) free.push_back(part);
  });
  for (const VpnRange& part : free) {
    ForEachStretch(file, part, [&](const Stretch& stretch, VpnRange within) {
      const PageKey had = After(released.owner, within.start - released.pages.start);
      const PageCount from_start = within.start - stretch.pages.start;
      const auto address = [from_start](PageKey first) { return After(first, from_start); };
      auto next = std::ranges::upper_bound(stretch.mappings, had, {}, address);
      if (next == stretch.mappings.end()) next = stretch.mappings.begin();
      const PageKey to = address(*next);
      if (to == had) return;
      Assign(file.claims, within, to, presumed);
      changes.push_back({had, to, within.size()});
    });
  }
}

std::vector<TargetId> PageOwners::Files() const {
  std::vector<TargetId> files;
  for (const auto& [number, file] : files_) files.push_back(number);
  return files;
}

PageKey PageOwners::NameOf(PageKey page) const {
  PageKey name = page;
  ForEachPart(page.target, {page.vpn, page.vpn + PageCount(1)},
              [&](const Part& part, VpnRange pages) { name = NameIn(part, pages.start); });
  return name;
}

std::optional<PageKey> PageOwners::OwnerOf(PageKey name) const {
  if (name.target < SharedPages::kFirstFile) return name;
  const auto file = files_.find(name.target);
  std::optional<PageKey> found;
  if (file == files_.end()) return found;
  ForEachClaim(file->second.claims, {name.vpn, name.vpn + PageCount(1)},
               [&](VpnRange /*page*/, const Claim* claim) {
                 if (claim != nullptr) found = claim->owner;
               });
  return found;
}

// Afterwards no claim begins before `at` and ends behind it.
void PageOwners::Cut(Claims& claims, Vpn at) {
  const auto next = claims.lower_bound(at);
  if (next == claims.begin()) return;
  auto& [start, claim] = *std::prev(next);
  if (claim.end <= at) return;
  claims.emplace_hint(next, at, Claim{claim.end, After(claim.owner, at - start), claim.presumed});
  claim.end = at;
}

void PageOwners::Assign(Claims& claims, VpnRange pages, PageKey owner, int presumed) {
  Cut(claims, pages.start);
  Cut(claims, pages.end);
  claims.erase(claims.lower_bound(pages.start), claims.lower_bound(pages.end));
  auto filled = claims.emplace(pages.start, Claim{pages.end, owner, presumed}).first;
  const auto continues = [](const Claims::value_type& claim, const Claims::value_type& next) {
    return claim.second.end == next.first && claim.second.presumed == next.second.presumed &&
           After(claim.second.owner, next.first - claim.first) == next.second.owner;
  };
  if (const auto next = std::next(filled); next != claims.end() && continues(*filled, *next)) {
    filled->second.end = next->second.end;
    claims.erase(next);
  }
  if (filled != claims.begin() && continues(*std::prev(filled), *filled)) {
    std::prev(filled)->second.end = filled->second.end;
    claims.erase(filled);
  }
}

void PageOwners::ClaimFree(Claims& claims, VpnRange pages, PageKey owner, Changes& changes) {
  std::vector<std::pair<VpnRange, std::optional<PageKey>>> free;  // and who was presumed to own it
  ForEachClaim(claims, pages, [&free](VpnRange part, const Claim* claim) {
    if (claim == nullptr) {
      free.emplace_back(part, std::nullopt);
    } else if (claim->presumed > 0) {
      free.emplace_back(part, claim->owner);
    }
  });
  for (const auto& [part, presumed] : free) {
    const PageKey address = After(owner, part.start - pages.start);
    Assign(claims, part, address, /*presumed=*/0);
    if (presumed) changes.push_back({*presumed, address, part.size()});
  }
}

PageOwners::Changes PageOwners::Seen(Pages of_target) {
  const PageKey first = of_target.first;
  Changes changes;
  ForEachPart(first.target, {first.vpn, first.vpn + of_target.pages},
              [&](const Part& part, VpnRange pages) {
                const PageKey name = NameIn(part, pages.start);
                ClaimFree(files_.at(name.target).claims, {name.vpn, name.vpn + pages.size()},
                          {first.target, pages.start}, changes);
              });
  return changes;
}

std::vector<VpnRange> PageOwners::JointIn(TargetId target, VpnRange range) const {
  std::vector<VpnRange> joint;
  ForEachPart(target, range, [&](const Part& part, VpnRange pages) {
    const File& file = files_.at(part.name.target);
    const Vpn first = NameIn(part, pages.start).vpn;
    const VpnRange named{first, first + pages.size()};
    ForEachStretch(file, named, [&](const Stretch& stretch, VpnRange within) {
      if (!stretch.joint()) return;
      ForEachClaim(file.claims, within, [&](VpnRange claimed, const Claim* claim) {
        const Vpn at = pages.start + (claimed.start - first);
        const bool is_free = claim == nullptr || claim->presumed > 0;
        if (!is_free && claim->owner != PageKey{target, at}) return;
        const VpnRange own{at, at + claimed.size()};
        if (!joint.empty() && joint.back().end == own.start) {
          joint.back().end = own.end;
        } else {
          joint.push_back(own);
        }
      });
    });
  });
  return joint;
}

void PageOwners::ReleaseAll(Claims& claims, VpnRange pages, PageKey owner,
                            std::vector<Released>& released) {
  Cut(claims, pages.start);
  Cut(claims, pages.end);
  auto claim = claims.lower_bound(pages.start);
  while (claim != claims.end() && claim->first < pages.end) {
    const auto& [start, owned] = *claim;
    const bool is_own = owned.owner == After(owner, start - pages.start);
    if (is_own) released.push_back({{start, owned.end}, owned.owner, owned.presumed});
    claim = is_own ? claims.erase(claim) : std::next(claim);
  }
}

// Huge pages come one by one. Each is claimed whole or not at all.
void PageOwners::ClaimRun(Claims& claims, const Part& part, TargetId target, const PlacedRun& found,
                          std::vector<PlacedRun>& own, Changes& changes) {
  const Vpn first = NameIn(part, found.pages.start).vpn;
  const VpnRange named{first, first + found.pages.size()};
  std::vector<VpnRange> free;
  PageCount free_pages;
  ForEachClaim(claims, named, [&](VpnRange pages, const Claim* claim) {
    if (claim != nullptr && claim->presumed == 0) return;
    free.push_back(pages);
    free_pages += pages.size();
  });
  if (found.leaf > PageCount(1) && free_pages != named.size()) return;
  for (const VpnRange& pages : free) {
    PlacedRun mine = found;
    mine.pages.start = found.pages.start + (pages.start - first);
    mine.pages.end = mine.pages.start + pages.size();
    ClaimFree(claims, pages, {target, mine.pages.start}, changes);
    Append(own, mine);
  }
}

PageOwners::Changes PageOwners::Found(TargetId target, VpnRange range,
                                      std::vector<PlacedRun>& runs) {
  Changes changes;
  if (!MapsShared(target)) return changes;
  std::vector<PlacedRun> own;
  auto run = runs.begin();
  // Hands runs before `end` to `take`, huge pages one by one.
  const auto take_until = [&](Vpn end, auto take) {
    while (run != runs.end() && run->pages.start < end) {
      PlacedRun part = *run;
      part.pages.end = std::min(run->pages.end, end);
      if (part.leaf > PageCount(1)) {
        const std::uint64_t leaf = part.leaf.value();
        const Vpn next((part.pages.start.value() / leaf + 1) * leaf);
        part.pages.end = std::min(part.pages.end, next);
      }
      take(part);
      run->pages.start = part.pages.end;
      if (run->pages.start == run->pages.end) ++run;
    }
  };
  const auto keep = [&own](const PlacedRun& part) { Append(own, part); };
  ForEachPart(target, range, [&](const Part& part, VpnRange pages) {
    take_until(pages.start, keep);
    File& file = files_.at(part.name.target);
    // Pages that are present are claimed anew.
    const Vpn first = NameIn(part, pages.start).vpn;
    std::vector<Released> released;
    ReleaseAll(file.claims, {first, first + pages.size()}, {target, pages.start}, released);
    take_until(pages.end, [&](const PlacedRun& found) {
      ClaimRun(file.claims, part, target, found, own, changes);
    });
    for (const Released& lost : released) HandOn(file, lost, lost.presumed + 1, changes);
  });
  take_until(range.end, keep);
  runs = std::move(own);
  return changes;
}

}  // namespace tmprof
