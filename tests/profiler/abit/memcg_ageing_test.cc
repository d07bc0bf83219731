// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/memcg_ageing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "profiler/sources/abit/aged_groups.h"
#include "profiler/sources/abit/host_kernel.h"

namespace tmprof::abit {
namespace memcg_ageing_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

MemcgAgeing::Member Process(std::int32_t pid, std::uint64_t pages) {
  return {.pid = Pid(pid), .resident = PageCount(pages)};
}

using Shares = std::map<Pid, PageCount>;

TEST(ForeignShare, IsOfMemoryAndNotOfProcesses) {
  const MemcgAgeing::Group group{.path = "/s",
                                 .members = {Process(10, 900), Process(20, 60), Process(21, 40)},
                                 .held = PageCount(1000)};
  EXPECT_DOUBLE_EQ(ForeignShare(group, {{Pid(10), PageCount(900)}}), 0.1);
  EXPECT_DOUBLE_EQ(ForeignShare(group, {{Pid(20), PageCount(60)}}), 0.94);
}

TEST(ForeignShare, IncludesChargedMemoryThatNoMemberHas) {
  const MemcgAgeing::Group group{
      .path = "/s", .members = {Process(10, 60), Process(11, 20)}, .held = PageCount(100)};
  EXPECT_DOUBLE_EQ(ForeignShare(group, {{Pid(10), PageCount(60)}, {Pid(11), PageCount(20)}}), 0.2);
  EXPECT_DOUBLE_EQ(ForeignShare(group, {{Pid(10), PageCount(60)}}), 0.4);
}

TEST(ForeignShare, CountsMemoryThatTargetsShareOnce) {
  MemcgAgeing::Group group{.path = "/s", .members = {Process(20, 900)}, .held = PageCount(1900)};
  Shares ours;
  for (std::int32_t pid = 1; pid <= 8; ++pid) {
    group.members.push_back(Process(pid, 1000));
    ours[Pid(pid)] = PageCount(125);
  }
  EXPECT_DOUBLE_EQ(ForeignShare(group, ours), 900.0 / 1900);
}

TEST(ForeignShare, IsNoMoreThanAll) {
  const MemcgAgeing::Group group{
      .path = "/s", .members = {Process(10, 60), Process(11, 200)}, .held = PageCount(60)};
  EXPECT_DOUBLE_EQ(ForeignShare(group, {{Pid(10), PageCount(60)}}), 1);
}

TEST(ForeignShare, IsNoneOfNoMemoryUnlessOthersMayHaveSome) {
  EXPECT_DOUBLE_EQ(ForeignShare({.path = "/s", .members = {}}, Shares{}), 0);
  EXPECT_DOUBLE_EQ(ForeignShare({.path = "/s", .members = {Process(10, 1)}}, Shares{}), 1);
}

TEST(StallsOnMemory, TellsOfOnePercentOrMore) {
  EXPECT_EQ(StallsOnMemory("some avg10=0.99 avg60=9.00 avg300=9.00 total=1"), std::nullopt);
  EXPECT_THAT(StallsOnMemory("some avg10=1.00 avg60=0.00 avg300=0.00 total=1").value_or(""),
              HasSubstr("1.0 %"));
  EXPECT_EQ(StallsOnMemory(""), std::nullopt);
}

TEST(WalkedBy, CountsAllProcessesAndThePageCache) {
  EXPECT_EQ(
      WalkedBy(
          {.path = "/s", .members = {Process(10, 900), Process(20, 60)}, .file = PageCount(40)}),
      PageCount(1000));
}

class AgedGroupsTest : public ::testing::Test {
 protected:
  AgedGroup& Add(const std::string& path, const std::set<std::string>& in_use = {}) {
    return groups_.Add(path, in_use, now_);
  }

  AgedGroups groups_;
  MonotonicTime now_{seconds(1000)};
};

TEST_F(AgedGroupsTest, KeepWhatIsKnownOfAGroupInUse) {
  Add("/a").price.ns = 50;
  Add("/b", {"/a"});
  EXPECT_EQ(Add("/a").price.ns, 50);
}

TEST_F(AgedGroupsTest, ForgetGroupsThatNoTargetIsIn) {
  for (int i = 0; i < 1000; ++i) Add("/service-" + std::to_string(i));
  EXPECT_EQ(groups_.size(), 1u);
}

// Otherwise short programs, one after the other, could have their group aged all the time.
TEST_F(AgedGroupsTest, KeepGroupsThatRest) {
  AgedGroup& aged = Add("/aged");
  aged.at = now_;
  aged.took = milliseconds(10);
  Add("/failed").not_before = now_ + seconds(2);
  now_ += milliseconds(900);
  Add("/new");
  EXPECT_EQ(groups_.size(), 3u);
  now_ += milliseconds(200);
  Add("/newer");
  EXPECT_EQ(groups_.size(), 2u) << "/failed and /newer";
  EXPECT_GT(groups_.At("/failed").not_before, now_);
}

}  // namespace memcg_ageing_test
}  // namespace tmprof::abit
