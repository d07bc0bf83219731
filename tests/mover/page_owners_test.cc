// SPDX-License-Identifier: Apache-2.0

#include "mover/page_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace tmprof {
namespace page_owners_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Mapping Shared(std::uint64_t start, std::uint64_t pages, std::uint64_t offset = 0,
               std::uint64_t inode = 7, std::string path = "/dev/shm/ring") {
  return {.range = {Vpn(start), Vpn(start + pages)},
          .kind = MappingKind::kShared,
          .path = std::move(path),
          .file = FilePlace{.device = 1, .inode = inode, .offset = PageCount(offset)}};
}

PageKey Key(std::uint32_t target, std::uint64_t vpn) { return {TargetId(target), Vpn(vpn)}; }
VpnRange Pages(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }
PlacedRun There(std::uint64_t start, std::uint64_t end, bool joint = true, std::uint64_t leaf = 1) {
  return {Pages(start, end), NodeId(1), PageCount(leaf), joint};
}

class PageOwnersTest : public testing::Test {
 protected:
  using Changes = PageOwners::Changes;

  // These targets, with their mappings of files, and no others.
  Changes Follow(const std::map<std::uint32_t, std::vector<Mapping>>& targets) {
    std::vector<Target> all;
    std::vector<TargetId> ids;
    std::vector<PageOwners::Mapper> mappers;
    for (const auto& [id, mappings] : targets) {
      all.push_back({.id = TargetId(id), .mappings = mappings});
      // Without any they would be unknown.
      all.back().mappings.push_back({.range = Pages(900'000, 900'001)});
      ids.emplace_back(id);
      mappers.push_back({TargetId(id), joins_segments_});
    }
    shared_.Add(all);
    shared_.KeepOnly(ids);
    return owners_.Follow(shared_, mappers);
  }
  std::vector<PlacedRun> Found(std::uint32_t target, VpnRange range, std::vector<PlacedRun> runs) {
    changes_ = owners_.Found(TargetId(target), range, runs);
    return runs;
  }
  std::vector<VpnRange> JointIn(std::uint32_t target, VpnRange range) const {
    return owners_.JointIn(TargetId(target), range);
  }
  std::optional<PageKey> OwnerOf(PageKey address) const {
    return owners_.OwnerOf(owners_.NameOf(address));
  }

  SharedPages shared_;
  PageOwners owners_;
  Changes changes_;  // those of the last call of Found()
  bool joins_segments_ = true;
};

TEST_F(PageOwnersTest, APageOfNoSharedFileOwnsItself) {
  Follow({{1, {Shared(100, 10)}}});
  EXPECT_EQ(owners_.NameOf(Key(1, 50)), Key(1, 50));
  EXPECT_EQ(OwnerOf(Key(1, 50)), Key(1, 50));
  EXPECT_NE(owners_.NameOf(Key(1, 100)), Key(1, 100));
  EXPECT_FALSE(OwnerOf(Key(1, 100))) << "nobody has seen it yet";
}

TEST_F(PageOwnersTest, TheFirstMappingThroughWhichAPageIsSeenOwnsIt) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  owners_.Seen({Key(2, 503), PageCount(2)});
  owners_.Seen({Key(1, 102), PageCount(3)});
  EXPECT_EQ(OwnerOf(Key(1, 102)), Key(1, 102));
  EXPECT_EQ(OwnerOf(Key(1, 103)), Key(2, 503));
  EXPECT_EQ(OwnerOf(Key(1, 104)), Key(2, 504));
}

TEST_F(PageOwnersTest, OnlyTheOwnerIsAskedForAPage) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  EXPECT_THAT(JointIn(1, Pages(0, 1000)), ElementsAre(Pages(100, 110)));
  owners_.Seen({Key(2, 503), PageCount(2)});
  EXPECT_THAT(JointIn(1, Pages(0, 1000)), ElementsAre(Pages(100, 103), Pages(105, 110)));
  EXPECT_THAT(JointIn(2, Pages(502, 1000)), ElementsAre(Pages(502, 510)));
}

TEST_F(PageOwnersTest, AFoundPageIsPlacedForItsOwnerAlone) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  EXPECT_THAT(Found(2, Pages(0, 1000), {There(30, 40, false), There(504, 510)}),
              ElementsAre(There(30, 40, false), There(504, 510)));
  EXPECT_THAT(Found(1, Pages(0, 1000), {There(102, 106), There(108, 120)}),
              ElementsAre(There(102, 104), There(110, 120)))
      << "pages 104 to 109 are owned; those from 110 on are in no shared file";
  EXPECT_EQ(OwnerOf(Key(2, 503)), Key(1, 103));
}

TEST_F(PageOwnersTest, TheOwnerStaysWhileOthersComeAndGo) {
  Follow({{5, {Shared(100, 10)}}});
  Found(5, Pages(0, 1000), {There(100, 110, false)});
  Follow({{2, {Shared(500, 10)}}, {5, {Shared(100, 10)}}});
  owners_.Seen({Key(2, 500), PageCount(10)});
  EXPECT_EQ(OwnerOf(Key(2, 507)), Key(5, 107));
  Follow({{5, {Shared(100, 10)}}});
  EXPECT_EQ(OwnerOf(Key(5, 107)), Key(5, 107));
}

TEST_F(PageOwnersTest, AnExitHandsPagesOnAndWhoeverIsSeenToHaveThemTakesThemOver) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}, {3, {Shared(700, 10)}}});
  Found(1, Pages(0, 1000), {There(100, 110)});
  EXPECT_THAT(Follow({{2, {Shared(500, 10)}}, {3, {Shared(700, 10)}}}),
              ElementsAre(Renamed{Key(1, 100), Key(2, 500), PageCount(10)},
                          Renamed{Key(1, 100), std::nullopt, PageCount(10)}));
  EXPECT_EQ(OwnerOf(Key(3, 704)), Key(2, 504));
  EXPECT_THAT(JointIn(3, Pages(0, 1000)), ElementsAre(Pages(700, 710)))
      << "whoever has the pages comes to own them";
  EXPECT_THAT(owners_.Seen({Key(3, 704), PageCount(1)}),
              ElementsAre(Renamed{Key(2, 504), Key(3, 704), PageCount(1)}));
  EXPECT_THAT(owners_.Seen({Key(2, 503), PageCount(3)}),
              ElementsAre(Renamed{Key(2, 503), Key(2, 503), PageCount(1)},
                          Renamed{Key(2, 505), Key(2, 505), PageCount(1)}))
      << "the one between is taken";
  EXPECT_EQ(OwnerOf(Key(2, 504)), Key(3, 704));
  EXPECT_THAT(JointIn(3, Pages(0, 1000)),
              ElementsAre(Pages(700, 703), Pages(704, 705), Pages(706, 710)));
  EXPECT_THAT(Found(3, Pages(706, 708), {There(706, 708)}), ElementsAre(There(706, 708)));
  EXPECT_THAT(changes_, ElementsAre(Renamed{Key(2, 506), Key(3, 706), PageCount(2)}));
}

TEST_F(PageOwnersTest, TheLastMappingHandsPagesOnToTheFirstAsItExits) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  Found(2, Pages(0, 1000), {There(503, 510)});
  EXPECT_THAT(Follow({{1, {Shared(100, 8)}}}),
              ElementsAre(Renamed{Key(2, 503), Key(1, 103), PageCount(5)},
                          Renamed{Key(2, 503), std::nullopt, PageCount(7)}))
      << "nobody maps the last two pages";
}

TEST_F(PageOwnersTest, PagesThatTheOwnerUnmapsOrMapsElsewhereAreHandedOn) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  Found(1, Pages(0, 1000), {There(100, 110)});
  // Pages 0 to 3 stay, 4 to 6 are gone, and 7 to 9 have moved by a page.
  EXPECT_THAT(Follow({{1, {Shared(100, 4), Shared(108, 3, 7)}}, {2, {Shared(500, 10)}}}),
              ElementsAre(Renamed{Key(1, 104), Key(2, 504), PageCount(3)},
                          Renamed{Key(1, 107), Key(1, 108), PageCount(1)},
                          Renamed{Key(1, 104), std::nullopt, PageCount(4)},
                          Renamed{Key(1, 108), Key(1, 109), PageCount(2)},
                          Renamed{Key(1, 108), std::nullopt, PageCount(2)}));
  EXPECT_EQ(OwnerOf(Key(2, 503)), Key(1, 103));
  EXPECT_EQ(OwnerOf(Key(2, 504)), Key(2, 504));
  EXPECT_EQ(OwnerOf(Key(2, 508)), Key(1, 109));
}

TEST_F(PageOwnersTest, SplittingAMappingReleasesNothing) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  Found(1, Pages(0, 1000), {There(100, 110)});
  EXPECT_THAT(Follow({{1, {Shared(100, 4), Shared(104, 6, 4)}}, {2, {Shared(500, 10)}}}),
              IsEmpty());
  EXPECT_EQ(OwnerOf(Key(2, 508)), Key(1, 108));
}

TEST_F(PageOwnersTest, APageThatIsNotFoundIsHandedOnUntilAThirdMappingLacksIt) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  Found(1, Pages(0, 1000), {There(100, 110)});
  Found(1, Pages(103, 106), {There(103, 104)});
  EXPECT_THAT(changes_, ElementsAre(Renamed{Key(1, 104), Key(2, 504), PageCount(2)}));
  EXPECT_EQ(OwnerOf(Key(2, 503)), Key(1, 103));
  EXPECT_EQ(OwnerOf(Key(2, 505)), Key(2, 505));
  EXPECT_EQ(OwnerOf(Key(2, 506)), Key(1, 106));
  EXPECT_THAT(JointIn(2, Pages(0, 1000)), ElementsAre(Pages(504, 506)));
  EXPECT_THAT(JointIn(1, Pages(0, 1000)), ElementsAre(Pages(100, 110)));
  Found(2, Pages(500, 510), {There(505, 506)});
  EXPECT_THAT(changes_, ElementsAre(Renamed{Key(2, 504), Key(1, 104), PageCount(1)}));
  EXPECT_EQ(OwnerOf(Key(2, 504)), Key(1, 104));
  EXPECT_EQ(OwnerOf(Key(1, 105)), Key(2, 505));
  Found(1, Pages(100, 110), {});
  EXPECT_FALSE(OwnerOf(Key(2, 504))) << "its place is no longer worth remembering";
  EXPECT_EQ(OwnerOf(Key(2, 505)), Key(2, 505));
  EXPECT_EQ(OwnerOf(Key(2, 506)), Key(2, 506));
}

TEST_F(PageOwnersTest, AFileThatOneTargetMapsTwiceIsJointAndOwnedOnce) {
  Follow({{1, {Shared(100, 10), Shared(300, 10)}}});
  EXPECT_THAT(JointIn(1, Pages(0, 1000)), ElementsAre(Pages(100, 110), Pages(300, 310)));
  EXPECT_THAT(Found(1, Pages(0, 1000), {There(100, 110), There(300, 310)}),
              ElementsAre(There(100, 110)));
  EXPECT_EQ(OwnerOf(Key(1, 305)), Key(1, 105));
}

TEST_F(PageOwnersTest, AFileThatOneMappingHoldsIsNotJoint) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10, 10)}}});
  EXPECT_FALSE(owners_.MapsJoint(TargetId(1))) << "the other mapping begins behind";
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 4, 8)}}});
  EXPECT_TRUE(owners_.MapsJoint(TargetId(1)));
  EXPECT_TRUE(owners_.MapsJoint(TargetId(2)));
  EXPECT_THAT(JointIn(1, Pages(0, 1000)), ElementsAre(Pages(108, 110)))
      << "the other mapping holds two of these pages and two behind them";
}

TEST_F(PageOwnersTest, PagesAreJointAsLongAsSeveralMappingsHoldAllOfThem) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}, {3, {Shared(700, 4)}}});
  Found(1, Pages(0, 1000), {There(102, 110)});
  const auto are_joint = [this](std::uint64_t first, std::uint64_t pages) {
    return owners_.JointPages({Key(1, first), PageCount(pages)}) == PageCount(pages);
  };
  EXPECT_TRUE(are_joint(100, 10));
  EXPECT_FALSE(are_joint(99, 2)) << "the first page is in no file";
  EXPECT_THAT(Follow({{1, {Shared(100, 10)}}, {3, {Shared(700, 4)}}}), IsEmpty())
      << "their places stay known";
  EXPECT_TRUE(are_joint(102, 2));
  EXPECT_FALSE(are_joint(103, 2));
  EXPECT_EQ(owners_.JointPages({Key(1, 99), PageCount(20)}), PageCount(4));
  EXPECT_FALSE(are_joint(104, 1));
  EXPECT_EQ(OwnerOf(Key(1, 104)), Key(1, 104));
}

TEST_F(PageOwnersTest, SegmentsOfAnotherIpcNamespaceAreNobodyElses) {
  const auto segment = [](std::uint64_t start) {
    return Shared(start, 10, 0, 3, "/SYSV00000000 (deleted)");
  };
  Follow({{1, {segment(100)}}, {2, {segment(500)}}});
  EXPECT_EQ(owners_.NameOf(Key(1, 100)), owners_.NameOf(Key(2, 500)));
  joins_segments_ = false;
  Follow({{1, {segment(100), Shared(200, 10)}}, {2, {segment(500)}}});
  EXPECT_EQ(owners_.NameOf(Key(1, 100)), Key(1, 100));
  EXPECT_NE(owners_.NameOf(Key(1, 200)), Key(1, 200));
  EXPECT_FALSE(owners_.MapsShared(TargetId(2)));
}

TEST_F(PageOwnersTest, AHugePageIsOwnedWholeOrNotAtAll) {
  Follow({{1, {Shared(1024, 1024)}}, {2, {Shared(5000, 1024)}}});
  owners_.Seen({Key(2, 5003), PageCount(1)});
  EXPECT_THAT(Found(1, Pages(0, 4096), {There(1024, 2048, true, 512)}),
              ElementsAre(There(1536, 2048, true, 512)));
  EXPECT_FALSE(OwnerOf(Key(1, 1024))) << "the other mapping may have it in base pages";
  EXPECT_EQ(OwnerOf(Key(2, 5512)), Key(1, 1536));
}

TEST_F(PageOwnersTest, CutsSpansWhereNamesAndOwnersChange) {
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  owners_.Seen({Key(2, 503), PageCount(2)});
  std::vector<std::pair<PageKey, std::uint64_t>> names;
  owners_.ForEachName({Key(1, 98), PageCount(14)}, [&](PageKey name, PageKey, PageCount pages) {
    names.emplace_back(name, pages.value());
  });
  const TargetId file = SharedPages::kFirstFile;
  EXPECT_THAT(names, ElementsAre(std::pair(Key(1, 98), 2U), std::pair(PageKey{file, Vpn(0)}, 10U),
                                 std::pair(Key(1, 110), 2U)));
  const auto addresses = [&] {
    std::vector<std::pair<PageKey, std::uint64_t>> found;
    owners_.ForEachAddress({{file, Vpn(2)}, PageCount(20)}, [&](PageKey address, PageCount pages) {
      found.emplace_back(address, pages.value());
    });
    return found;
  };
  const auto through_1 = ElementsAre(std::pair(Key(1, 102), 1U), std::pair(Key(2, 503), 2U),
                                     std::pair(Key(1, 105), 5U));
  const auto through_2 = ElementsAre(std::pair(Key(2, 502), 1U), std::pair(Key(2, 503), 2U),
                                     std::pair(Key(2, 505), 5U));
  const auto first = addresses();
  EXPECT_THAT(first, ::testing::AnyOf(through_1, through_2)) << "nobody maps what lies behind";
  Follow({{1, {Shared(100, 10)}}, {2, {Shared(500, 10)}}});
  const auto second = addresses();
  EXPECT_THAT(second, ::testing::AnyOf(through_1, through_2));
  EXPECT_NE(first, second) << "the mappings take turns for pages without an owner";
}

// Against one owner for each page, by hand; and places by address follow owners.
TEST_F(PageOwnersTest, AgreesWithANaiveListOfPages) {
  std::mt19937 random(7);
  const auto pick = [&random](std::uint64_t below) { return random() % below; };
  std::map<std::uint32_t, std::vector<Mapping>> targets;
  using FilePage = std::pair<std::uint64_t, std::uint64_t>;  // inode, page
  struct Owner {
    PageKey address;
    int presumed = 0;
  };
  std::map<FilePage, Owner> naive;
  std::map<PageKey, FilePage> places;  // key: the owner's address, the one that the placer has
  const auto file_page = [&](PageKey address) -> std::optional<FilePage> {
    for (const Mapping& mapping : targets[address.target.value()]) {
      if (mapping.range.Contains(address.vpn)) {
        return FilePage{mapping.file->inode,
                        mapping.file->offset.value() + (address.vpn - mapping.range.start).value()};
      }
    }
    return std::nullopt;
  };
  // The first mapping of the page behind an address; behind the last one the first one.
  const auto next = [&](FilePage page, PageKey behind) -> std::optional<PageKey> {
    std::set<PageKey> mappings;
    for (const auto& [id, of_target] : targets) {
      for (std::uint64_t vpn = 100; vpn < 200; ++vpn) {
        if (file_page(Key(id, vpn)) == page) mappings.insert(Key(id, vpn));
      }
    }
    auto found = mappings.upper_bound(behind);
    if (found == mappings.end()) found = mappings.begin();
    return found == mappings.end() || *found == behind ? std::nullopt : std::optional(*found);
  };
  const auto hand_on = [&](FilePage page, PageKey had, int presumed) {
    if (presumed > 2) return;
    if (const auto to = next(page, had)) naive[page] = {*to, presumed};
  };
  const auto take_over = [&](const Changes& changes) {
    std::map<PageKey, FilePage> renamed;
    for (const auto& [from, to, pages] : changes) {
      for (PageCount i; i < pages; i += PageCount(1)) {
        const auto known = places.extract({from.target, from.vpn + i});
        if (!known.empty() && to) renamed[{to->target, to->vpn + i}] = known.mapped();
      }
    }
    places.insert(renamed.begin(), renamed.end());
  };
  const auto see = [&](FilePage page, PageKey address) {
    const auto [owner, is_new] = naive.try_emplace(page, Owner{address});
    if (owner->second.presumed > 0) owner->second = {address};
    return owner->second.address == address;
  };
  for (int step = 0; step < 2000; ++step) {
    const auto target = static_cast<std::uint32_t>(pick(3));
    const std::uint64_t first = 100 + pick(60);
    const std::uint64_t end = first + 1 + pick(20);
    const auto of_target = [&](std::uint64_t vpn) { return Key(target, vpn); };
    switch (pick(3)) {
      case 0: {
        std::vector<Mapping>& mappings = targets[target];
        mappings.clear();
        for (std::uint64_t at = 100; pick(4) != 0 && at < 160;) {
          const std::uint64_t pages = 1 + pick(30);
          mappings.push_back(Shared(at, pages, pick(40), 7 + pick(3)));
          at += pages + pick(5);
        }
        take_over(Follow(targets));
        std::vector<std::pair<FilePage, Owner>> lost;
        std::erase_if(naive, [&](const auto& page) {
          if (file_page(page.second.address) == page.first) return false;
          lost.emplace_back(page.first, page.second);
          return true;
        });
        for (const auto& [page, had] : lost) {
          hand_on(page, had.address, std::max(had.presumed, 1));
        }
        break;
      }
      case 1:
        take_over(owners_.Seen({of_target(first), PageCount(end - first)}));
        for (std::uint64_t vpn = first; vpn < end; ++vpn) {
          if (const auto page = file_page(of_target(vpn))) {
            if (see(*page, of_target(vpn))) places[of_target(vpn)] = *page;
          }
        }
        break;
      default: {
        const std::uint64_t there = first + pick(end - first);
        const std::vector<PlacedRun> found = Found(target, Pages(first, end), {There(there, end)});
        take_over(changes_);
        for (std::uint64_t vpn = first; vpn < end; ++vpn) places.erase(of_target(vpn));
        std::size_t placed = 0;
        for (std::uint64_t vpn = there; vpn < end; ++vpn) {
          if (!file_page(of_target(vpn))) ++placed;
        }
        for (const Mapping& mapping : targets[target]) {
          std::vector<std::pair<FilePage, Owner>> released;
          std::erase_if(naive, [&](const auto& page) {
            const PageKey owner = page.second.address;
            const bool is_here = owner.target == TargetId(target) &&
                                 mapping.range.Contains(owner.vpn) &&
                                 Pages(first, end).Contains(owner.vpn);
            if (is_here) released.emplace_back(page);
            return is_here;
          });
          for (std::uint64_t vpn = there; vpn < end; ++vpn) {
            if (!mapping.range.Contains(Vpn(vpn))) continue;
            const FilePage page = *file_page(of_target(vpn));
            if (!see(page, of_target(vpn))) continue;
            places[of_target(vpn)] = page;
            ++placed;
          }
          for (const auto& [page, had] : released) {
            if (!naive.contains(page)) hand_on(page, had.address, had.presumed + 1);
          }
        }
        std::size_t in_runs = 0;
        for (const PlacedRun& run : found) in_runs += run.pages.size().value();
        ASSERT_EQ(in_runs, placed) << step;
      }
    }
    for (const auto& [id, mappings] : targets) {
      for (std::uint64_t vpn = 100; vpn < 200; ++vpn) {
        const auto page = file_page(Key(id, vpn));
        const auto owned = page ? naive.find(*page) : naive.end();
        std::optional<PageKey> owner = Key(id, vpn);
        if (page) owner.reset();
        if (owned != naive.end()) owner = owned->second.address;
        ASSERT_EQ(OwnerOf(Key(id, vpn)), owner) << "step " << step << ", page " << vpn;
      }
    }
    for (const auto& [address, page] : places) {
      ASSERT_TRUE(naive.contains(page)) << "step " << step;
      ASSERT_EQ(naive[page].address, address) << "step " << step;
    }
  }
}

}  // namespace page_owners_test
}  // namespace tmprof
