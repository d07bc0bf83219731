// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hot_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/analysis/hot.h"
#include "tests/report/group_sums.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace hot_groups_test {

constexpr HotOptions kSum{.model = RankModel::kSum};

// References: in the heap of the first process 30 and 10, in a library 20, nowhere 4; the second
// process has 6 in the library.
Trace TwoProcesses() {
  const auto mappings = [] {
    return std::vector<Mapping>{
        {.range = {Vpn(16), Vpn(32)}, .kind = MappingKind::kHeap, .path = ""},
        {.range = {Vpn(64), Vpn(80)}, .kind = MappingKind::kFile, .path = "/lib/x.so"}};
  };
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")});
  for (Target& target : epoch.targets) target.mappings = mappings();
  See(epoch, 0,
      {{.vpn = 16, .looks = 90, .references = 30},
       {.vpn = 20, .looks = 90, .references = 10, .span = 4},
       {.vpn = 48, .looks = 90, .references = 4},
       {.vpn = 64, .looks = 90, .references = 20}});
  See(epoch, 1, {{.vpn = 65, .looks = 90, .references = 6}, {.vpn = 66, .looks = 90}});
  return TraceOf({epoch});
}

TEST(HotGroups, SumUpByMappingOfEachProcess) {
  const Result<HotGroups> groups = MakeHotGroups(TwoProcesses(), kSum, HotGroup::kMapping);
  ASSERT_TRUE(groups.has_value());
  EXPECT_EQ(SumsOf(*groups),
            (std::vector<GroupSum>{
                {"heap", 40, 5}, {"file /lib/x.so", 20, 1}, {"file /lib/x.so", 6, 1}, {"", 4, 1}}));
  EXPECT_EQ(groups->rows[0].start, 16 * 4096u);
  EXPECT_EQ(groups->rows[1].target->pid, Pid(10));
  EXPECT_EQ(groups->rows[2].target->pid, Pid(11));
  EXPECT_FALSE(groups->rows[3].target.has_value());
  EXPECT_DOUBLE_EQ(groups->rows[0].share, 40.0 / 70);
  EXPECT_EQ(groups->total_score, 70);
  EXPECT_EQ(groups->pages, PageCount(8));
}

TEST(HotGroups, SumUpByFileOfAllProcessesAndByProcess) {
  EXPECT_EQ(SumsOf(*MakeHotGroups(TwoProcesses(), kSum, HotGroup::kFile)),
            (std::vector<GroupSum>{{"heap", 40, 5}, {"file /lib/x.so", 26, 2}, {"", 4, 1}}));
  const Result<HotGroups> processes = MakeHotGroups(TwoProcesses(), kSum, HotGroup::kProcess);
  ASSERT_EQ(processes->rows.size(), 2u);
  EXPECT_EQ(processes->rows[0].target->pid, Pid(10));
  EXPECT_EQ(processes->rows[0].score, 64);
  EXPECT_EQ(processes->rows[1].score, 6);
}

TEST(HotGroups, RefuseToSumUpObjectsThatNobodyNames) {
  const Result<HotGroups> groups = MakeHotGroups(TwoProcesses(), kSum, HotGroup::kObject);
  ASSERT_FALSE(groups.has_value());
  EXPECT_THAT(groups.error().Message(), testing::HasSubstr("nobody names the objects"));
}

// Counts of 30 and 10 have deviations of sqrt(30) and sqrt(10), their sum one of sqrt(40).
TEST(HotGroups, GroupsOfCountsHaveTheErrorOfASumOfIndependentOnes) {
  const Result<HotGroups> groups = MakeHotGroups(TwoProcesses(), kSum, HotGroup::kMapping);
  EXPECT_NEAR(groups->rows[0].relative_sd, std::sqrt(40.0) / 40, 1e-12);
  EXPECT_LT(groups->rows[0].interval.low, 40);
  EXPECT_GT(groups->rows[0].interval.high, 40);
}

TEST(HotGroups, GroupsOfRatesHaveTheErrorOfPagesThatErrTheSameWay) {
  HotOptions options = kSum;
  options.model = RankModel::kRate;
  const Result<HotGroups> groups = MakeHotGroups(TwoProcesses(), options, HotGroup::kProcess);
  const Result<HotList> pages = MakeHotList(TwoProcesses(), options);
  ASSERT_TRUE(groups.has_value() && pages.has_value());
  for (const HotGroups::Row& group : groups->rows) {
    double deviation = 0;
    for (const HotList::Row& page : pages->rows) {
      if (page.target.id == group.target->id) deviation += page.score * page.relative_sd;
    }
    EXPECT_NEAR(group.relative_sd, deviation / group.score, 1e-9);
  }
}

TEST(HotGroups, OneGroupIsInTheSingular) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "only")});
  See(epoch, 0, {{.vpn = 16, .looks = 90, .references = 30}});
  const Trace one = TraceOf({epoch});
  EXPECT_THAT(HotGroupsText(*MakeHotGroups(one, kSum, HotGroup::kProcess)),
              testing::HasSubstr("1 of 1 process shown"));
  EXPECT_THAT(HotGroupsText(*MakeHotGroups(TwoProcesses(), kSum, HotGroup::kProcess)),
              testing::HasSubstr("2 of 2 processes shown"));
}

TEST(HotGroups, ShowAsManyAsAreAskedForAndTellOfTheOthers) {
  HotOptions options = kSum;
  options.limit = 1;
  const HotGroups groups = *MakeHotGroups(TwoProcesses(), options, HotGroup::kFile);
  EXPECT_EQ(groups.rows.size(), 1u);
  EXPECT_THAT(HotGroupsText(groups),
              testing::HasSubstr("1 of 3 files shown, holding 57.1 % of the references; 8 pages in "
                                 "all\n"));
  const auto json = nlohmann::json::parse(HotGroupsJson(groups));
  EXPECT_EQ(json["group"], "file");
  EXPECT_EQ(json["groups"], 3);
  EXPECT_EQ(json["rows"][0]["what"], "heap");
  EXPECT_TRUE(json["rows"][0]["pid"].is_null());
  EXPECT_THAT(HotGroupsCsv(groups), testing::HasSubstr("\n,,,,heap,2,5,40,"));
}

TEST(HotGroups, AreNamed) {
  for (const HotGroup group :
       {HotGroup::kMapping, HotGroup::kProcess, HotGroup::kObject, HotGroup::kFile}) {
    EXPECT_EQ(ParseHotGroup(Name(group)), group);
  }
  EXPECT_FALSE(ParseHotGroup("page").has_value());
}

}  // namespace hot_groups_test
}  // namespace tmprof
