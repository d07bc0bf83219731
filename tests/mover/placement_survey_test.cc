// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "mover/page_locator.h"
#include "mover/placement_map.h"
#include "tests/base/fake_clock.h"

namespace tmprof {
namespace placement_survey_test {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Everything is on the node, and each look takes a millisecond.
class FakeLocator final : public PageLocator {
 public:
  explicit FakeLocator(FakeClock& clock) : clock_(&clock) {}

  Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                        std::span<const VpnRange> /*joint*/) override {
    clock_->now += milliseconds(1);
    if (gone.contains(pid)) {
      return Fail(Refused("find the pages of", std::to_string(pid.value()), ESRCH));
    }
    looked.push_back(range);
    return std::vector{PlacedRun{range, node, PageCount(1)}};
  }

  NodeId node{1};
  std::set<Pid> gone;
  std::vector<VpnRange> looked;

 private:
  FakeClock* clock_;
};

VpnRange Pages(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }

class PlacementSurveyTest : public testing::Test {
 protected:
  std::optional<NodeId> NodeOf(std::uint32_t target, std::uint64_t vpn) const {
    const auto run = map_.Find({TargetId(target), Vpn(vpn)});
    return run ? std::optional(run->node) : std::nullopt;
  }

  void LookAtAll(milliseconds budget) {
    do {
      survey_.LookOn(targets_, budget, look_);
    } while (!survey_.complete());
  }

  FakeClock clock_;
  FakeLocator locator_{clock_};
  PlacementSurvey survey_{clock_};
  PlacementMap map_;
  PlacementSurvey::Look look_ = [this](const SurveyedTarget& target, VpnRange pages) {
    const auto runs = locator_.Locate(target.pid, pages, {});
    if (runs) map_.Learn(target.id, pages, *runs);
  };
  std::vector<SurveyedTarget> targets_{
      {TargetId(1), Pid(11), {Pages(0, 100), Pages(16000, 40000)}},
      {TargetId(2), Pid(12), {Pages(7, 9)}},
  };
};

TEST_F(PlacementSurveyTest, LooksAtAllOfWhatIsNew) {
  survey_.LookOn(targets_, milliseconds(100), look_);
  EXPECT_TRUE(survey_.complete());
  EXPECT_THAT(locator_.looked, ElementsAre(Pages(0, 100), Pages(16000, 16384), Pages(16384, 32768),
                                           Pages(32768, 40000), Pages(7, 9)));
  EXPECT_EQ(NodeOf(1, 39999), NodeId(1));
  EXPECT_EQ(NodeOf(2, 8), NodeId(1));
}

TEST_F(PlacementSurveyTest, GoesOnWhereTheBudgetEnded) {
  survey_.LookOn(targets_, milliseconds(2), look_);
  survey_.LookOn(targets_, milliseconds(2), look_);
  EXPECT_FALSE(survey_.complete());
  EXPECT_THAT(locator_.looked, ElementsAre(Pages(0, 100), Pages(16000, 16384), Pages(16384, 32768),
                                           Pages(32768, 40000)));
  survey_.LookOn(targets_, milliseconds(2), look_);
  EXPECT_TRUE(survey_.complete());
  EXPECT_EQ(locator_.looked.size(), 5U);
}

TEST_F(PlacementSurveyTest, SeesWhatMovedWhenItLooksAgain) {
  survey_.LookOn(targets_, milliseconds(100), look_);
  locator_.node = NodeId(0);
  survey_.LookOn(targets_, milliseconds(100), look_);
  EXPECT_EQ(NodeOf(1, 50), NodeId(0));
}

TEST_F(PlacementSurveyTest, LooksAgainAtATenthOfTheSpeed) {
  LookAtAll(milliseconds(2));
  locator_.looked.clear();
  for (int call = 0; call < 50; ++call) survey_.LookOn(targets_, milliseconds(2), look_);
  EXPECT_NEAR(static_cast<double>(locator_.looked.size()), 10, 1);  // each takes 1 ms, of 100
}

TEST_F(PlacementSurveyTest, PaysBackALookThatTookLonger) {
  survey_.LookOn(targets_, milliseconds(100), look_);
  locator_.looked.clear();
  for (int call = 0; call < 40; ++call) {
    survey_.LookOn(targets_, std::chrono::microseconds(500), look_);
  }
  EXPECT_NEAR(static_cast<double>(locator_.looked.size()), 2, 1);
}

TEST_F(PlacementSurveyTest, LooksAtNewTargetsInTheOrderInWhichTheyAppear) {
  survey_.LookOn(targets_, milliseconds(1), look_);
  targets_.insert(targets_.begin(), {TargetId(0), Pid(10), {Pages(1, 2)}});
  for (std::uint32_t id = 3; !survey_.complete(); ++id) {
    ASSERT_LT(id, 20U) << "each round has a new one, and the first is never done";
    if (id < 6) targets_.push_back({TargetId(id), Pid(13), {Pages(id, id + 1)}});
    survey_.LookOn(targets_, milliseconds(1), look_);
  }
  EXPECT_THAT(locator_.looked, ElementsAre(Pages(0, 100), Pages(16000, 16384), Pages(16384, 32768),
                                           Pages(32768, 40000), Pages(7, 9), Pages(1, 2),
                                           Pages(3, 4), Pages(4, 5), Pages(5, 6)));
}

TEST_F(PlacementSurveyTest, ANewTargetDoesNotBeginTheRoundAnew) {
  LookAtAll(milliseconds(1));
  locator_.looked.clear();
  while (locator_.looked.size() < 2) survey_.LookOn(targets_, milliseconds(1), look_);
  targets_.push_back({TargetId(3), Pid(13), {Pages(5, 6)}});
  while (locator_.looked.size() < 4) survey_.LookOn(targets_, milliseconds(1), look_);
  EXPECT_THAT(locator_.looked,
              ElementsAre(Pages(0, 100), Pages(16000, 16384), Pages(5, 6), Pages(16384, 32768)));
}

TEST_F(PlacementSurveyTest, LooksAtATargetThatHasGrownAsIfItWereNew) {
  for (SurveyedTarget& target : targets_) target.resident = PageCount(24'000);
  LookAtAll(milliseconds(2));
  locator_.looked.clear();
  targets_[0].resident = PageCount(25'500);  // a sixteenth
  survey_.LookOn(targets_, milliseconds(4), look_);
  const std::size_t of_a_tenth = locator_.looked.size();
  EXPECT_LE(of_a_tenth, 2U) << "0.4 ms, and 1 that may be left";
  targets_[0].resident = PageCount(25'501);
  survey_.LookOn(targets_, milliseconds(4), look_);
  EXPECT_EQ(locator_.looked.size(), of_a_tenth + 4) << "all of it at once";
  EXPECT_TRUE(survey_.complete()) << "it has been looked at once";
  locator_.looked.clear();
  survey_.LookOn(targets_, milliseconds(4), look_);
  EXPECT_LE(locator_.looked.size(), 1U) << "it has not grown since";
}

TEST_F(PlacementSurveyTest, SeesGrowthAfterATargetHasShrunk) {
  for (SurveyedTarget& target : targets_) target.resident = PageCount(24'000);
  LookAtAll(milliseconds(2));
  targets_[0].resident = PageCount(1000);
  survey_.LookOn(targets_, milliseconds(10), look_);
  while (locator_.looked.size() < 10) survey_.LookOn(targets_, milliseconds(4), look_);
  locator_.looked.clear();
  targets_[0].resident = PageCount(2025);  // 1024 more are noticed, 1025 more than 1000
  survey_.LookOn(targets_, milliseconds(4), look_);
  EXPECT_GE(locator_.looked.size(), 3U);
}

TEST_F(PlacementSurveyTest, TellsWhichTargetsAreComplete) {
  EXPECT_FALSE(survey_.IsComplete(TargetId(1)));
  survey_.LookOn(targets_, milliseconds(4), look_);
  EXPECT_TRUE(survey_.IsComplete(TargetId(1)));
  EXPECT_FALSE(survey_.IsComplete(TargetId(2)));
  EXPECT_FALSE(survey_.complete());
}

TEST_F(PlacementSurveyTest, PassesOverWhatIsGone) {
  locator_.gone = {Pid(11)};
  survey_.LookOn(targets_, milliseconds(100), look_);
  EXPECT_TRUE(survey_.complete());
  EXPECT_EQ(NodeOf(1, 50), std::nullopt);
  EXPECT_EQ(NodeOf(2, 8), NodeId(1));
}

TEST_F(PlacementSurveyTest, GoesOnBehindATargetAndMemoryThatWentMeanwhile) {
  survey_.LookOn(targets_, milliseconds(2), look_);
  targets_.erase(targets_.begin());
  survey_.LookOn(targets_, milliseconds(2), look_);
  EXPECT_TRUE(survey_.complete());
  EXPECT_EQ(locator_.looked.back(), Pages(7, 9));
}

TEST_F(PlacementSurveyTest, LooksAtNothingWithoutTargets) {
  survey_.LookOn({}, milliseconds(2), look_);
  EXPECT_TRUE(survey_.complete());
  EXPECT_THAT(locator_.looked, IsEmpty());
}

}  // namespace placement_survey_test
}  // namespace tmprof
