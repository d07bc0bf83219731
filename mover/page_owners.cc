// SPDX-License-Identifier: Apache-2.0

#include "mover/page_owners.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

PageKey After(PageKey key, PageCount pages) { return {key.target, key.vpn + pages}; }

}  // namespace

PageOwners::Changes PageOwners::Follow(const SharedPages& shared, std::span<const Mapper> targets) {
  ++turn_;
  std::map<TargetId, std::vector<Part>> now;
  for (const Mapper& target : targets) {
    const std::span<const Part> mapped = shared.PartsOf(target.id);
    std::vector<Part> parts(mapped.begin(), mapped.end());
    if (!target.joins_segments) std::erase_if(parts, &Part::is_segment);
    if (!parts.empty()) now.emplace_hint(now.end(), target.id, std::move(parts));
  }
  if (now == parts_) return {};
  const std::set<TargetId> changed = ChangedFiles(now);
  parts_ = std::move(now);
  const auto were_joint = JointStretches(changed);
  FindStretches(changed);
  map_joint_.clear();
  for (const auto& [target, parts] : parts_) {
    if (std::ranges::any_of(parts, [this](const Part& part) { return IsJoint(part); })) {
      map_joint_.insert(target);
    }
  }
  Changes changes;
  std::vector<Pages> orphans;
  for (const TargetId number : changed) {
    File& file = files_.at(number);
    Claims kept;
    for (const auto& [start, claim] : file.claims) {
      Release({number, start}, claim, kept, orphans, changes);
    }
    file.claims = std::move(kept);
  }
  for (const Pages& named : orphans) {
    ForEachMapping(named, [&changes](PageKey address, PageCount pages) {
      changes.to_find.push_back({address, pages});
    });
  }
  FindUnjoined(were_joint, changes);
  std::erase_if(files_, [](const auto& file) { return file.second.stretches.empty(); });
  return changes;
}

std::set<TargetId> PageOwners::ChangedFiles(
    const std::map<TargetId, std::vector<Part>>& now) const {
  const auto place = [](const Part& part) {
    return std::tuple(part.range.start, part.range.end, part.name);
  };
  std::set<TargetId> changed;
  std::vector<Part> different;
  const auto compare = [&](std::span<const Part> before, std::span<const Part> after) {
    if (std::ranges::equal(before, after)) return;
    different.clear();
    std::ranges::set_symmetric_difference(before, after, std::back_inserter(different), {}, place,
                                          place);
    for (const Part& part : different) changed.insert(part.name.target);
  };
  for (const auto& [target, before] : parts_) {
    const auto after = now.find(target);
    compare(before, after == now.end() ? std::span<const Part>() : after->second);
  }
  for (const auto& [target, after] : now) {
    if (!parts_.contains(target)) compare({}, after);
  }
  return changed;
}

std::map<TargetId, std::vector<VpnRange>> PageOwners::JointStretches(
    const std::set<TargetId>& files) const {
  std::map<TargetId, std::vector<VpnRange>> joint;
  for (const TargetId number : files) {
    const auto file = files_.find(number);
    if (file == files_.end()) continue;
    for (const Stretch& stretch : file->second.stretches) {
      if (stretch.joint()) joint[number].push_back(stretch.pages);
    }
  }
  return joint;
}

void PageOwners::FindUnjoined(const std::map<TargetId, std::vector<VpnRange>>& were_joint,
                              Changes& changes) const {
  for (const auto& [number, stretches] : were_joint) {
    const File& file = files_.at(number);
    for (const VpnRange& joint : stretches) {
      ForEachStretch(file, joint, [&](const Stretch& stretch, VpnRange pages) {
        if (stretch.joint()) return;
        ForEachClaim(file.claims, pages, [&changes](VpnRange claimed, const PageKey* owner) {
          if (owner == nullptr) return;
          changes.outdated.push_back({*owner, claimed.size()});
          changes.to_find.push_back({*owner, claimed.size()});
        });
      });
    }
  }
}

// Sweeps over each of the files. An open mapping is known by the address that the file's first page
// would have in it, modulo 2^64.
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

void PageOwners::Release(PageKey name, const Claim& claim, Claims& kept,
                         std::vector<Pages>& orphans, Changes& changes) const {
  const PageKey first = claim.owner;
  const PageCount pages = claim.end - name.vpn;
  ForEachName({first, pages}, [&](PageKey now, PageKey address, PageCount cut) {
    const PageKey before = After(name, address.vpn - first.vpn);
    if (now == before) {
      FillGaps(kept, {now.vpn, now.vpn + cut}, address);
    } else {
      changes.outdated.push_back({address, cut});
      orphans.push_back({before, cut});
    }
  });
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
               [&](VpnRange /*page*/, const PageKey* owner) {
                 if (owner != nullptr) found = *owner;
               });
  return found;
}

// After it no claim begins before `at` and ends behind it.
void PageOwners::Cut(Claims& claims, Vpn at) {
  const auto next = claims.lower_bound(at);
  if (next == claims.begin()) return;
  auto& [start, claim] = *std::prev(next);
  if (claim.end <= at) return;
  claims.emplace_hint(next, at, Claim{claim.end, After(claim.owner, at - start)});
  claim.end = at;
}

void PageOwners::FillGaps(Claims& claims, VpnRange pages, PageKey owner) {
  std::vector<VpnRange> gaps;
  ForEachClaim(claims, pages, [&gaps](VpnRange part, const PageKey* owned_by) {
    if (owned_by == nullptr) gaps.push_back(part);
  });
  for (const VpnRange& gap : gaps) {
    auto filled =
        claims.emplace(gap.start, Claim{gap.end, After(owner, gap.start - pages.start)}).first;
    const auto continues = [](const Claims::value_type& claim, const Claims::value_type& next) {
      return claim.second.end == next.first &&
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
}

void PageOwners::Seen(Pages of_target) {
  const PageKey first = of_target.first;
  ForEachPart(first.target, {first.vpn, first.vpn + of_target.pages},
              [&](const Part& part, VpnRange pages) {
                const PageKey name = NameIn(part, pages.start);
                FillGaps(files_.at(name.target).claims, {name.vpn, name.vpn + pages.size()},
                         {first.target, pages.start});
              });
}

std::vector<VpnRange> PageOwners::JointIn(TargetId target, VpnRange range) const {
  std::vector<VpnRange> joint;
  ForEachPart(target, range, [&](const Part& part, VpnRange pages) {
    const File& file = files_.at(part.name.target);
    const Vpn first = NameIn(part, pages.start).vpn;
    const VpnRange named{first, first + pages.size()};
    ForEachStretch(file, named, [&](const Stretch& stretch, VpnRange within) {
      if (!stretch.joint()) return;
      ForEachClaim(file.claims, within, [&](VpnRange claimed, const PageKey* owner) {
        const Vpn at = pages.start + (claimed.start - first);
        if (owner != nullptr && *owner != PageKey{target, at}) return;
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

VpnRange PageOwners::FreeWithin(TargetId target, VpnRange range) const {
  Vpn end = range.start;     // of the last free page so far
  std::optional<Vpn> start;  // of the first one
  const auto take = [&](VpnRange free) {
    if (free.start == free.end) return;
    if (!start) start = free.start;
    end = free.end;
  };
  Vpn done = range.start;
  ForEachPart(target, range, [&](const Part& part, VpnRange pages) {
    take({done, pages.start});
    const PageKey name = NameIn(part, pages.start);
    ForEachClaim(files_.at(name.target).claims, {name.vpn, name.vpn + pages.size()},
                 [&](VpnRange claimed, const PageKey* owner) {
                   const Vpn at = pages.start + (claimed.start - name.vpn);
                   if (owner != nullptr && *owner != PageKey{target, at}) return;
                   take({at, at + claimed.size()});
                 });
    done = pages.end;
  });
  take({done, range.end});
  return {start.value_or(end), end};
}

void PageOwners::ReleaseAll(Claims& claims, VpnRange pages, PageKey owner) {
  Cut(claims, pages.start);
  Cut(claims, pages.end);
  auto claim = claims.lower_bound(pages.start);
  while (claim != claims.end() && claim->first < pages.end) {
    const bool is_own = claim->second.owner == After(owner, claim->first - pages.start);
    claim = is_own ? claims.erase(claim) : std::next(claim);
  }
}

// Huge pages come one by one: each is claimed whole or not at all.
void PageOwners::ClaimFree(Claims& claims, const Part& part, TargetId target,
                           const PlacedRun& found, std::vector<PlacedRun>& own) {
  const Vpn first = NameIn(part, found.pages.start).vpn;
  const VpnRange named{first, first + found.pages.size()};
  std::vector<VpnRange> free;
  ForEachClaim(claims, named, [&free](VpnRange pages, const PageKey* owner) {
    if (owner == nullptr) free.push_back(pages);
  });
  if (found.leaf > PageCount(1) && (free.size() != 1 || free.front() != named)) return;
  for (const VpnRange& pages : free) {
    PlacedRun mine = found;
    mine.pages.start = found.pages.start + (pages.start - first);
    mine.pages.end = mine.pages.start + pages.size();
    FillGaps(claims, pages, {target, mine.pages.start});
    Append(own, mine);
  }
}

void PageOwners::Found(TargetId target, VpnRange range, std::vector<PlacedRun>& runs) {
  if (!MapsShared(target)) return;
  std::vector<PlacedRun> own;
  auto run = runs.begin();
  // Hands what lies before `end` to `take`, huge pages one by one.
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
    Claims& claims = files_.at(part.name.target).claims;
    // Pages that are there are claimed anew.
    const Vpn first = NameIn(part, pages.start).vpn;
    ReleaseAll(claims, {first, first + pages.size()}, {target, pages.start});
    take_until(pages.end,
               [&](const PlacedRun& found) { ClaimFree(claims, part, target, found, own); });
  });
  take_until(range.end, keep);
  runs = std::move(own);
}

}  // namespace tmprof
