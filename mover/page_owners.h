// SPDX-License-Identifier: Apache-2.0
// Tells through which of its mappings a page of a shared file is found and moved.

#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/shared_pages.h"
#include "base/units.h"
#include "mover/placement_map.h"

namespace tmprof {

// Each page of a shared file has at most one owner among the mappings of targets. A mapping becomes
// the owner if nobody owns the page and the page was found in its page table, or seen accessed
// through it. It stays the owner until its process exits, unmaps the page, or a look shows that its
// page table no longer has the page. The next mapping is then presumed to own the page, so that its
// place stays known, until a mapping is seen to have it. After a few mappings without the page
// nobody owns it. Several mappings of one process count like those of several processes.
//
// Pages that several mappings of targets hold are called joint. Not every one of these mappings has
// the page in its page table.
//
// Names are those of SharedPages. A page that is in no shared file is named by its address, and
// owns itself. Lookups are O(log n) in mappings and changes of owner, not in pages.
class PageOwners {
 public:
  struct Mapper {
    TargetId id;
    // False: System V segments of this process are its own, because its IPC namespace is another
    // than that of other targets or is unknown.
    bool joins_segments = true;
  };
  struct Pages {
    PageKey first;
    PageCount pages;
    friend bool operator==(const Pages&, const Pages&) = default;
  };

  // Changes of owners. Facts stored by the old owner's address have to be stored by the new one's.
  using Changes = std::vector<Renamed>;

  // Sets the mappings: these targets map their parts of `shared`, and other targets map none.
  // `targets` ascend.
  Changes Follow(const SharedPages& shared, std::span<const Mapper> targets);

  // Calls `take(file)` for each shared file that the target maps, maybe several times.
  template <typename Take>
  void ForEachFile(TargetId target, Take take) const {
    ForEachPart(target, {Vpn(0), Vpn(std::numeric_limits<Vpn::rep>::max())},
                [&take](const Part& part, VpnRange) { take(part.name.target); });
  }
  // False: every page is named by its own address.
  bool SharesAny() const { return !files_.empty(); }
  bool MapsShared(TargetId target) const { return parts_.contains(target); }
  // False: no other mapping holds any page of the target.
  bool MapsJoint(TargetId target) const { return map_joint_.contains(target); }
  // Returns the files that targets map, by their numbers in SharedPages. Ascending.
  std::vector<TargetId> Files() const;

  PageKey NameOf(PageKey page) const;
  // nullopt: nobody owns the page. Precondition: `name` came from NameOf() or SharedPages.
  std::optional<PageKey> OwnerOf(PageKey name) const;

  // Cuts pages of one target where their names do not ascend with them, and calls
  // `take(name, address, pages)` for each cut.
  template <typename Take>
  void ForEachName(Pages of_target, Take take) const;
  // Cuts pages with ascending names where the owner's address changes, and calls
  // `take(address, pages)` for each cut. Pages without an owner get an address that maps them,
  // through another mapping after each call of Follow(): not every mapping has the page in its page
  // table. Pages that nobody maps are left out.
  template <typename Take>
  void ForEachAddress(Pages named, Take take) const;

  // Pages of a file that the same mappings hold.
  struct Stretch {
    VpnRange pages;
    std::vector<PageKey> mappings;  // addresses of the first page, the lowest first
    bool joint() const { return mappings.size() > 1; }
  };
  // Calls `take(stretch, pages)` for each part of pages with ascending names that somebody maps.
  template <typename Take>
  void ForEachStretchOf(Pages named, Take take) const;
  // False: other pages may have this name now, which was that of pages at the target's address.
  // They parted after fork(2), or they are now common to several processes and named for one of
  // them.
  bool KeepsName(Pages of_target, PageKey name) const;
  // Returns how many of the pages several mappings hold.
  PageCount JointPages(Pages of_target) const;

  // Notes that the pages were seen accessed through this mapping. Returns those of them that it or
  // another mapping was presumed to own.
  Changes Seen(Pages of_target);
  // Returns those pages in `range` that several mappings hold, if no mapping other than the
  // target's there is known to own them. Ascending.
  std::vector<VpnRange> JointIn(TargetId target, VpnRange range) const;
  // Notes that the page table of the target has these runs within `range`, and no others. Leaves in
  // `runs` those that the target owns from now on. A huge page is owned whole.
  Changes Found(TargetId target, VpnRange range, std::vector<PlacedRun>& runs);

 private:
  using Part = SharedPages::Part;
  // Pages of a file that one mapping owns.
  struct Claim {
    Vpn end;
    PageKey owner;  // owner of the first page
    // The number of mappings that were presumed to have the pages, the last one being this. 0: it
    // was seen to have them. If not 0, any mapping that is seen to have the pages becomes the
    // owner.
    int presumed = 0;
  };
  using Claims = std::map<Vpn, Claim>;  // key: page of the file; disjoint
  struct File {
    std::vector<Stretch> stretches;  // ascending
    Claims claims;
  };

  static void Cut(Claims& claims, Vpn at);
  // `owner` is the address of the first of the pages in a mapping.
  static void Assign(Claims& claims, VpnRange pages, PageKey owner, int presumed);
  // The mapping at `owner` is seen to have these pages. It becomes the owner of pages that no other
  // mapping is known to own. `changes` gets those that a mapping, maybe this one, was presumed to
  // own.
  static void ClaimFree(Claims& claims, VpnRange pages, PageKey owner, Changes& changes);
  // Pages that the mapping at `owner` no longer owns, and their Claim::presumed.
  struct Released {
    VpnRange pages;
    PageKey owner;
    int presumed;
  };
  static void ReleaseAll(Claims& claims, VpnRange pages, PageKey owner,
                         std::vector<Released>& released);
  // Adds to `own` those pages of the run that become the target's. The run lies in the part.
  static void ClaimRun(Claims& claims, const Part& part, TargetId target, const PlacedRun& found,
                       std::vector<PlacedRun>& own, Changes& changes);
  // Presumes the next mapping to own those of the pages that nobody owns. The first mapping follows
  // the last one.
  static void HandOn(File& file, const Released& released, int presumed, Changes& changes);
  // Calls `take(pages, claim)` for each part of `pages`, in their order; the claim begins with the
  // part, or is null if nobody owns it.
  template <typename Take>
  static void ForEachClaim(const Claims& claims, VpnRange pages, Take take);
  // Calls `take(part, pages)` for each part of a shared file in `range`, in the order of addresses.
  template <typename Take>
  void ForEachPart(TargetId target, VpnRange range, Take take) const;
  // Calls `take(stretch, pages)` for each part of `pages` that somebody maps, in their order.
  template <typename Take>
  static void ForEachStretch(const File& file, VpnRange pages, Take take);
  struct Changed {
    std::set<TargetId> targets;  // map other parts than before, or map them elsewhere
    std::set<TargetId> files;    // the files of these parts
  };
  Changed WhatChanges(const std::map<TargetId, std::vector<Part>>& now) const;
  void FindStretches(const std::set<TargetId>& files);
  bool IsJoint(const Part& part) const;
  // Hands on pages that mappings of changed targets owned and no longer hold.
  void ReleaseUnmapped(TargetId number, const std::set<TargetId>& changed, Changes& changes);
  static PageKey NameIn(const Part& part, Vpn page) {
    return {part.name.target, part.name.vpn + (page - part.range.start)};
  }

  std::vector<TargetId> followed_;               // ascending
  std::map<TargetId, std::vector<Part>> parts_;  // ascending by address
  std::map<TargetId, File> files_;
  std::set<TargetId> map_joint_;
  std::size_t turn_ = 0;  // the mapping through which pages without an owner are looked for
};

template <typename Take>
void PageOwners::ForEachPart(TargetId target, VpnRange range, Take take) const {
  const auto of_target = parts_.find(target);
  if (of_target == parts_.end()) return;
  const auto end_of = [](const Part& part) { return part.range.end; };
  const std::vector<Part>& parts = of_target->second;
  for (auto part = std::ranges::upper_bound(parts, range.start, {}, end_of);
       part != parts.end() && part->range.start < range.end; ++part) {
    take(*part,
         VpnRange{std::max(part->range.start, range.start), std::min(part->range.end, range.end)});
  }
}

template <typename Take>
void PageOwners::ForEachClaim(const Claims& claims, VpnRange pages, Take take) {
  auto next = claims.upper_bound(pages.start);
  if (next != claims.begin()) --next;
  Vpn done = pages.start;
  for (; next != claims.end() && next->first < pages.end; ++next) {
    const auto& [start, claim] = *next;
    if (claim.end <= done) continue;
    if (done < start) take(VpnRange{done, start}, static_cast<const Claim*>(nullptr));
    done = std::max(done, start);
    Claim part = claim;
    part.owner.vpn = claim.owner.vpn + (done - start);
    part.end = std::min(claim.end, pages.end);
    take(VpnRange{done, part.end}, &part);
    done = part.end;
  }
  if (done < pages.end) take(VpnRange{done, pages.end}, static_cast<const Claim*>(nullptr));
}

template <typename Take>
void PageOwners::ForEachStretch(const File& file, VpnRange pages, Take take) {
  const auto end_of = [](const Stretch& stretch) { return stretch.pages.end; };
  for (auto stretch = std::ranges::upper_bound(file.stretches, pages.start, {}, end_of);
       stretch != file.stretches.end() && stretch->pages.start < pages.end; ++stretch) {
    take(*stretch, VpnRange{std::max(stretch->pages.start, pages.start),
                            std::min(stretch->pages.end, pages.end)});
  }
}

template <typename Take>
void PageOwners::ForEachStretchOf(Pages named, Take take) const {
  const auto file = files_.find(named.first.target);
  if (file == files_.end()) return;
  ForEachStretch(file->second, {named.first.vpn, named.first.vpn + named.pages}, take);
}

template <typename Take>
void PageOwners::ForEachName(Pages of_target, Take take) const {
  const TargetId target = of_target.first.target;
  Vpn done = of_target.first.vpn;
  const Vpn end = done + of_target.pages;
  ForEachPart(target, {done, end}, [&](const Part& part, VpnRange pages) {
    if (done < pages.start) {
      take(PageKey{target, done}, PageKey{target, done}, pages.start - done);
    }
    take(NameIn(part, pages.start), PageKey{target, pages.start}, pages.size());
    done = pages.end;
  });
  if (done < end) take(PageKey{target, done}, PageKey{target, done}, end - done);
}

template <typename Take>
void PageOwners::ForEachAddress(Pages named, Take take) const {
  if (named.first.target < SharedPages::kFirstFile) return take(named.first, named.pages);
  const auto file = files_.find(named.first.target);
  if (file == files_.end()) return;
  const VpnRange all{named.first.vpn, named.first.vpn + named.pages};
  ForEachClaim(file->second.claims, all, [&](VpnRange claimed, const Claim* claim) {
    if (claim != nullptr) return take(claim->owner, claimed.size());
    ForEachStretch(file->second, claimed, [&](const Stretch& stretch, VpnRange pages) {
      const PageKey first = stretch.mappings[turn_ % stretch.mappings.size()];
      take(PageKey{first.target, first.vpn + (pages.start - stretch.pages.start)}, pages.size());
    });
  });
}

}  // namespace tmprof
