// SPDX-License-Identifier: Apache-2.0

#include "base/part_of_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/kept_groups.h"
#include "tests/base/hand_made.h"

namespace tmprof {
namespace part_of_stream_test {

constexpr MonotonicTime kStart{std::chrono::seconds(1)};
constexpr MonotonicTime kEnd{std::chrono::seconds(2)};

PartOfStream Part(EpochProfile epoch, std::vector<VpnRange> ranges) {
  return {std::make_unique<FaultyStream>(std::vector{std::move(epoch)}, std::nullopt, true),
          std::move(ranges)};
}

TEST(PartOfStream, HasTheSpansWithAPageInARangeOfEachTarget) {
  EpochProfile whole = EpochOf(kStart, kEnd,
                               {{.vpn = 512, .span = 512},
                                {.vpn = 1024, .references = 3},
                                {.vpn = 1025},
                                {.vpn = 2000},
                                {.vpn = 1024, .target = 1},
                                {.vpn = 1026, .target = 1}});
  PartOfStream part = Part(whole, {{Vpn(1023), Vpn(1025)}, {Vpn(2000), Vpn(2001)}});
  EpochProfile epoch;
  ASSERT_TRUE(part.Next(epoch).value());
  ASSERT_EQ(epoch.pages.size(), 4u);
  EXPECT_EQ(epoch.pages.vpn, (std::vector{Vpn(512), Vpn(1024), Vpn(2000), Vpn(1024)}));
  EXPECT_EQ(epoch.pages.span_pages[0], 512u);
  EXPECT_EQ(epoch.pages.references[1], 3u);
  EXPECT_EQ(epoch.start, kStart);
  EXPECT_FALSE(part.Next(epoch).value());
  EXPECT_EQ(part.End().finished, true);
}

TEST(PartOfStream, TakesWhatIsMappedForResidentAsFarAsThereIsSoMuch) {
  EpochProfile whole = EpochOf(kStart, kEnd, {{.vpn = 1}});
  const std::vector<Mapping> mappings{
      {.range = {Vpn(0), Vpn(4)}},
      {.range = {Vpn(8), Vpn(100)}},
      {.range = {Vpn(200), Vpn(201)}, .kind = MappingKind::kSpecial}};
  whole.targets = {{.id = TargetId(0), .resident_pages = PageCount(50), .mappings = mappings},
                   {.id = TargetId(1), .resident_pages = PageCount(2), .mappings = mappings},
                   {.id = TargetId(2), .mappings = mappings},
                   {.id = TargetId(3), .resident_pages = PageCount(50)}};
  PartOfStream part =
      Part(whole, {{Vpn(3), Vpn(11)}, {Vpn(1), Vpn(2)}, {Vpn(8), Vpn(12)}, {Vpn(200), Vpn(300)}});
  EpochProfile epoch;
  ASSERT_TRUE(part.Next(epoch).value());
  EXPECT_EQ(epoch.targets[0].resident_pages, PageCount(1 + 1 + 4));
  EXPECT_EQ(epoch.targets[1].resident_pages, PageCount(2));
  EXPECT_EQ(epoch.targets[2].resident_pages, std::nullopt);
  EXPECT_EQ(epoch.targets[3].resident_pages, std::nullopt) << "its mappings are unknown";
}

// An exact 0 stays one where no page is left.
TEST(PartOfStream, KnowsThatCountsAreExactThoughItHasNoPage) {
  EpochProfile whole = EpochOf(kStart, kEnd, {});
  Append(whole.pages,
         {.key = {TargetId(0), Vpn(1)},
          .accesses = AccessCounts{.loads = 4, .stores = 0, .llc_misses = 2, .stall_ns = 9}});
  PartOfStream part = Part(whole, {{Vpn(9), Vpn(10)}});
  EpochProfile epoch;
  ASSERT_TRUE(part.Next(epoch).value());
  EXPECT_TRUE(epoch.pages.empty());
  ASSERT_TRUE(epoch.pages.accesses.has_value());
  EXPECT_TRUE(epoch.pages.accesses->llc_misses.has_value());
  EXPECT_FALSE(epoch.pages.accesses->dtlb_misses.has_value());
  EXPECT_TRUE(epoch.pages.accesses->stall_ns.has_value());
  EXPECT_FALSE(epoch.pages.accesses->hidden_misses.has_value());
}

TEST(PartOfStream, HasTheBlocksOfRungsThatReachIntoARange) {
  EpochProfile whole = EpochOf(kStart, kEnd, {});
  RungCounts& counts = whole.rungs.emplace_back();
  counts.delay = {std::chrono::milliseconds(1)};
  counts.window = {std::chrono::milliseconds(1)};
  for (std::uint32_t block = 0; block < 3; ++block) {
    counts.target.emplace_back(0);
    counts.start.emplace_back(512 * block);
    counts.pages.push_back(512);
    for (RungCounts::Counts* of : {&counts.new_visits, &counts.older_visits}) {
      of->read.push_back(10 + block);
      of->found.push_back(block);
    }
  }
  PartOfStream part = Part(whole, {{Vpn(600), Vpn(601)}});
  EpochProfile epoch;
  ASSERT_TRUE(part.Next(epoch).value());
  ASSERT_EQ(epoch.rungs.size(), 1u);
  EXPECT_EQ(epoch.rungs[0].start, std::vector{Vpn(512)});
  EXPECT_EQ(epoch.rungs[0].new_visits.read, std::vector{11u});
  EXPECT_EQ(epoch.rungs[0].older_visits.found, std::vector{1u});
  EXPECT_EQ(epoch.rungs[0].delay, whole.rungs[0].delay);
}

TEST(PartOfStream, KnowsWhenVisitsBeganThoughItHasNoPage) {
  EpochProfile whole = EpochOf(kStart, kEnd, {{.vpn = 1}});
  PartOfStream unknown = Part(whole, {{Vpn(9), Vpn(10)}});
  EpochProfile epoch;
  ASSERT_TRUE(unknown.Next(epoch).value());
  EXPECT_FALSE(epoch.pages.new_visits.has_value());
  whole.pages.new_visits = {.first_accesses = {0}, .time_at_risk = {{}}, .later_time = {{}}};
  PartOfStream known = Part(whole, {{Vpn(9), Vpn(10)}});
  ASSERT_TRUE(known.Next(epoch).value());
  EXPECT_TRUE(epoch.pages.new_visits.has_value());
}

TEST(PartOfStream, KeepsWhichRecordsAreOfTheSamePages) {
  EpochProfile whole = EpochOf(kStart, kEnd, {{.vpn = 1}, {.vpn = 2}, {.vpn = 3}, {.vpn = 4}});
  whole.pages.same_as = {0, 1, 0, 0};
  PartOfStream part = Part(whole, {{Vpn(2), Vpn(5)}});
  EpochProfile epoch;
  ASSERT_TRUE(part.Next(epoch).value());
  EXPECT_EQ(epoch.pages.same_as, (std::vector<std::uint32_t>{0, 1, 1}));
  constexpr std::uint32_t kOut = kNotCompared;
  whole.pages.same_as = {kOut, kOut, 2, 2};
  PartOfStream with_others = Part(whole, {{Vpn(2), Vpn(5)}});
  ASSERT_TRUE(with_others.Next(epoch).value());
  EXPECT_EQ(epoch.pages.same_as, (std::vector<std::uint32_t>{kOut, 1, 1}));
}

TEST(PartOfStream, HandsOnDamage) {
  PartOfStream part(std::make_unique<FaultyStream>(std::vector<EpochProfile>{}),
                    {{Vpn(1), Vpn(2)}});
  EpochProfile epoch;
  const Result<bool> more = part.Next(epoch);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().reason, Damage().reason);
}

}  // namespace part_of_stream_test
}  // namespace tmprof
