// SPDX-License-Identifier: Apache-2.0

#include "locking/lock_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "tests/base/text/text_tables.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace lock_advice_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HeatedRange Heated(std::uint64_t start, std::uint64_t pages, double accesses) {
  return {{Vpn(start), Vpn(start + pages)}, accesses};
}

TEST(ChooseLockedTest, TakesTheHottestFirstAndPartOfWhatNoLongerFits) {
  const std::vector<HeatedRange> known{Heated(0, 10, 100), Heated(20, 10, 300), Heated(40, 80, 80)};
  EXPECT_THAT(ChooseLocked(known, PageCount(10), 100).ranges, ElementsAre(Heated(20, 10, 300)));
  EXPECT_THAT(ChooseLocked(known, PageCount(14), 100).ranges,
              ElementsAre(Heated(0, 4, 40), Heated(20, 10, 300)));
}

TEST(ChooseLockedTest, LeavesWhatWasNotAccessedHoweverMuchRoomThereIs) {
  const std::vector<HeatedRange> known{Heated(0, 10, 100), Heated(20, 10, 0), Heated(40, 80, 80)};
  EXPECT_THAT(ChooseLocked(known, PageCount(1000), 100).ranges,
              ElementsAre(Heated(0, 10, 100), Heated(40, 80, 80)));
}

TEST(ChooseLockedTest, PrefersLowAddressesAmongEquallyHotPages) {
  const std::vector<HeatedRange> known{Heated(0, 90, 0), Heated(100, 2, 8), Heated(200, 2, 8)};
  EXPECT_THAT(ChooseLocked(known, PageCount(2), 100).ranges, ElementsAre(Heated(100, 2, 8)));
}

TEST(ChooseLockedTest, MakesOneRangeOfNeighbours) {
  const std::vector<HeatedRange> known{Heated(0, 90, 0), Heated(100, 2, 8), Heated(102, 1, 9)};
  EXPECT_THAT(ChooseLocked(known, PageCount(9), 1).ranges, ElementsAre(Heated(100, 3, 17)));
  EXPECT_EQ(ChooseLocked(known, PageCount(9), 1).grain, PageCount(1));
}

// Three hot pages do not adjoin. Two ranges can hold them in blocks of four. The first block holds
// pages 4, 5 and 6, and page 5 with them.
TEST(ChooseLockedTest, TakesBlocksWhereSinglePagesAreTooManyRanges) {
  const std::vector<HeatedRange> known{Heated(4, 1, 9), Heated(6, 1, 9), Heated(16, 1, 9),
                                       Heated(100, 100, 0)};
  EXPECT_EQ(ChooseLocked(known, PageCount(9), 3).grain, PageCount(1));
  const LockChoice choice = ChooseLocked(known, PageCount(9), 2);
  EXPECT_EQ(choice.grain, PageCount(4));
  EXPECT_THAT(choice.ranges, ElementsAre(Heated(4, 3, 18), Heated(16, 1, 9)));
  EXPECT_EQ(choice.size(), PageCount(4));
  EXPECT_EQ(choice.accesses(), 27);
}

// In blocks of four, a region from page 2 to page 14 is [2, 4), [4, 12) and [12, 14).
TEST(ChooseLockedTest, ABlockHasItsShareOfARegion) {
  const std::vector<HeatedRange> known{Heated(2, 12, 120), Heated(20, 1, 50), Heated(22, 1, 50),
                                       Heated(30, 900, 0)};
  const LockChoice choice = ChooseLocked(known, PageCount(11), 2);
  EXPECT_EQ(choice.grain, PageCount(4));
  // The block [20, 23) with 33 a page, then 8 pages of 10 a page.
  EXPECT_THAT(choice.ranges, ElementsAre(Heated(2, 8, 80), Heated(20, 3, 100)));
}

TEST(ChooseLockedTest, ChoosesNothingIfNothingIsKnown) {
  EXPECT_THAT(ChooseLocked({}, PageCount(9), 1).ranges, IsEmpty());
}

// References: target 0 has 40 on page 16, 1 on each of the 9 pages from 32 on, of which the limit
// leaves 4; target 1 has 9.
Trace TwoProcesses() {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")});
  See(epoch, 0,
      {{.vpn = 16, .looks = 50, .references = 40},
       {.vpn = 32, .looks = 50, .references = 9, .span = 9},
       {.vpn = 64, .looks = 50}});
  See(epoch, 1, {{.vpn = 16, .looks = 50, .references = 9}, {.vpn = 17, .looks = 50}});
  return TraceOf({epoch});
}

LockAdviceOptions Sum() { return {.model = RankModel::kSum, .limit = 0.5}; }

TEST(LockAdviceTest, IsOfTheProcessWithTheMostAccesses) {
  const Result<LockAdvice> advice = MakeLockAdvice(TwoProcesses(), Sum());
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->target.pid, Pid(10));
  EXPECT_EQ(advice->accessed, PageCount(10));
  EXPECT_EQ(advice->limit, PageCount(5));
  EXPECT_THAT(advice->choice.ranges, ElementsAre(Heated(16, 1, 40), Heated(32, 4, 4)));
  EXPECT_DOUBLE_EQ(advice->CoveredShare().value(), 44.0 / 49);
}

TEST(LockAdviceTest, IsOfTheProcessAskedFor) {
  LockAdviceOptions options = Sum();
  options.pid = Pid(11);
  const Result<LockAdvice> advice = MakeLockAdvice(TwoProcesses(), options);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->target.name, "second");
  // Half of the one page that was accessed is none.
  EXPECT_THAT(advice->choice.ranges, IsEmpty());
  options.limit = std::uint64_t{4096};
  EXPECT_THAT(MakeLockAdvice(TwoProcesses(), options)->choice.ranges,
              ElementsAre(Heated(16, 1, 9)));
  options.pid = Pid(12);
  EXPECT_THAT(MakeLockAdvice(TwoProcesses(), options).error().Message(), HasSubstr("PID 12"));
}

TEST(LockAdviceTest, ATraceWithoutAccessesIsRefused) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "first")});
  See(epoch, 0, {{.vpn = 16, .looks = 50}});
  EXPECT_EQ(MakeLockAdvice(TraceOf({epoch}), Sum()).error().kind, ErrorKind::kBadInput);
}

TEST(LockAdviceTest, SaysWhatToLockAndWhatThatCovers) {
  LockAdvice advice = *MakeLockAdvice(TwoProcesses(), Sum());
  const std::string text = LockAdviceText(advice);
  EXPECT_THAT(TitlesWithoutUnit(text), testing::IsEmpty()) << text;
  EXPECT_THAT(text, HasSubstr("PID 10 (first) worth locking: 20 KiB of 40 KiB accessed"));
  EXPECT_THAT(text, HasSubstr("89.8 % of the accesses"));
  EXPECT_THAT(text, HasSubstr("0x10000  0x11000"));
  EXPECT_THAT(text, Not(HasSubstr("locked ")));
  advice.applied = LockAdvice::Applied{
      .changed = PageCount(1), .refused = {{{Vpn(2), Vpn(3)}, ENOMEM}}, .raised_limit = 8192};
  EXPECT_THAT(LockAdviceText(advice), HasSubstr("locked 4 KiB in PID 10"));
  EXPECT_THAT(LockAdviceText(advice), HasSubstr("0x2000 to 0x3000: ENOMEM"));
  EXPECT_THAT(LockAdviceText(advice), HasSubstr("RLIMIT_MEMLOCK was raised to 8 KiB"));
}

TEST(LockAdviceTest, IsTheSameInJson) {
  LockAdvice advice = *MakeLockAdvice(TwoProcesses(), Sum());
  nlohmann::json json = nlohmann::json::parse(LockAdviceJson(advice));
  EXPECT_EQ(json["pid"], 10);
  EXPECT_EQ(json["bytes"], 5 * 4096);
  EXPECT_EQ(json["limit_bytes"], 5 * 4096);
  EXPECT_EQ(json["ranges"].size(), 2u);
  EXPECT_EQ(json["ranges"][0]["start"], "0x10000");
  EXPECT_EQ(json["ranges"][0]["end"], "0x11000");
  EXPECT_EQ(json["ranges"][0]["accesses"], 40);
  EXPECT_TRUE(json["applied"].is_null());
  advice.applied = LockAdvice::Applied{.locked = false, .refused = {{{Vpn(2), Vpn(3)}, EPERM}}};
  json = nlohmann::json::parse(LockAdviceJson(advice));
  EXPECT_EQ(json["applied"]["locked"], false);
  EXPECT_EQ(json["applied"]["refused"][0]["errno"], "EPERM");
}

}  // namespace lock_advice_test
}  // namespace tmprof
