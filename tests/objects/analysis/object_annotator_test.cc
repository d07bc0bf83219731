// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_annotator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/analysis/hot.h"
#include "report/analysis/hot_groups.h"
#include "tests/report/group_sums.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace object_annotator_test {

const ObjectAnnotator kAnnotator;
const HotOptions kSum{.model = RankModel::kSum, .annotator = &kAnnotator};

TEST(ObjectAnnotator, NamesTheObjectThatHasMostOfASpanWhenItWasLastSeen) {
  constexpr std::uint64_t kPage = 4096;
  const auto allocated = [](std::uint64_t address, std::uint64_t bytes, std::uint32_t site) {
    return AllocationEvent{.kind = AllocationKind::kAllocated,
                           .address = address,
                           .bytes = bytes,
                           .time = kTraceStart,
                           .site = site,
                           .weight = 1};
  };
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  epoch.targets[0].exited = true;
  See(epoch, 0,
      {{.vpn = 16, .looks = 5, .references = 3}, {.vpn = 20, .looks = 5, .references = 2}});
  EXPECT_THAT(HotText(*MakeHotList(TraceOf({epoch}), kSum)),
              testing::Not(testing::HasSubstr("object")));

  SetAllocations(epoch) = {
      .sites = {{.id = 1, .frames = {{.function = "small"}}},
                {.id = 2, .frames = {{.function = "large"}}}},
      .events = {allocated(15 * kPage, kPage + 1000, 1), allocated(16 * kPage + 1000, 3000, 2)}};
  const Result<HotList> list = MakeHotList(TraceOf({epoch}), kSum);
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->rows.size(), 2U);
  ASSERT_TRUE(list->rows[0].object.has_value());
  EXPECT_EQ(list->rows[0].object->start, 16 * kPage + 1000);
  EXPECT_EQ(list->rows[0].object->full_text, "2.93 KiB by large");
  EXPECT_FALSE(list->rows[1].object.has_value());
  EXPECT_THAT(HotText(*list), testing::HasSubstr("2.93 KiB by large"));
  const auto json = nlohmann::json::parse(HotJson(*list));
  EXPECT_EQ(json["rows"][0]["object"]["bytes"], 3000);
  EXPECT_EQ(json["rows"][0]["object"]["kind"], "allocated");
  EXPECT_EQ(json["rows"][0]["object"]["frames"][0]["function"], "large");
  EXPECT_EQ(json["rows"][1]["object"], nullptr);
}

TEST(ObjectAnnotator, NamesVariablesAndStacksBeforeMappings) {
  constexpr std::uint64_t kPage = 4096;
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0,
      {{.vpn = 16, .looks = 5, .references = 3}, {.vpn = 20, .looks = 5, .references = 2}});
  SetAllocations(epoch) = {.sites = {{.id = 1, .frames = {{.module = "/bin/t"}}, .name = "table"},
                                     {.id = 2, .frames = {}, .name = "worker", .thread = Tid(11)}},
                           .events = {{.kind = AllocationKind::kMapped,
                                       .address = 20 * kPage,
                                       .bytes = kPage,
                                       .time = kTraceStart,
                                       .weight = 1}},
                           .fixed = {{.kind = FixedKind::kVariable,
                                      .address = 16 * kPage,
                                      .bytes = 640,
                                      .time = kTraceStart,
                                      .site = 1},
                                     {.kind = FixedKind::kStack,
                                      .address = 20 * kPage,
                                      .bytes = 512,
                                      .time = kTraceStart,
                                      .site = 2}}};
  const std::string text = HotText(*MakeHotList(TraceOf({epoch}), kSum));
  EXPECT_THAT(text, testing::HasSubstr("640 B variable table of t"));
  EXPECT_THAT(text, testing::HasSubstr("512 B stack thread 11 worker"));
}

TEST(ObjectAnnotator, ListsThePagesThatAnObjectHadAPartOf) {
  constexpr std::uint64_t kPage = 4096;
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t"), MakeTarget(1, 11, "u")});
  for (const std::uint32_t target : {0U, 1U}) {
    See(epoch, target,
        {{.vpn = 16, .looks = 5, .references = 3},
         {.vpn = 17, .looks = 5, .references = 4},
         {.vpn = 18, .looks = 5, .references = 5}});
  }
  SetAllocations(epoch).events = {{.target = TargetId(0),
                                   .kind = AllocationKind::kAllocated,
                                   .address = 16 * kPage + 100,
                                   .bytes = kPage,
                                   .time = kTraceStart,
                                   .weight = 1}};
  HotOptions options = kSum;
  for (const std::uint64_t address : {16 * kPage + 100, 17 * kPage + 99}) {
    options.object = address;
    const Result<HotList> list = MakeHotList(TraceOf({epoch}), options);
    ASSERT_TRUE(list.has_value());
    ASSERT_EQ(list->rows.size(), 2U);
    EXPECT_EQ(list->rows[0].start, Vpn(17));
    EXPECT_EQ(list->rows[1].start, Vpn(16));
    EXPECT_EQ(list->rows[1].target.pid, Pid(10));
    EXPECT_EQ(list->total_score, 7);
  }
  options.object = 17 * kPage + 100;
  const Result<HotList> none = MakeHotList(TraceOf({epoch}), options);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().Message(), testing::HasSubstr("0x11064"));
}

TEST(ObjectAnnotator, NamesGroupsOfPagesByTheirObject) {
  constexpr std::uint64_t kPage = 4096;
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0,
      {{.vpn = 16, .looks = 9, .references = 3},
       {.vpn = 17, .looks = 9, .references = 4},
       {.vpn = 30, .looks = 9, .references = 1}});
  SetAllocations(epoch) = {.sites = {{.id = 1, .frames = {{.function = "make"}}}},
                           .events = {{.target = TargetId(0),
                                       .kind = AllocationKind::kAllocated,
                                       .address = 16 * kPage,
                                       .bytes = 2 * kPage,
                                       .time = kTraceStart,
                                       .site = 1,
                                       .weight = 1}}};
  EXPECT_EQ(SumsOf(*MakeHotGroups(TraceOf({epoch}), kSum, HotGroup::kObject)),
            (std::vector<GroupSum>{{"8 KiB by make", 7, 2}, {"", 1, 1}}));
}

}  // namespace object_annotator_test
}  // namespace tmprof
