// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/promotion_check.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <vector>

namespace tmprof {
namespace promotion_check_test {

using std::chrono::seconds;

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr TargetId kTarget{0};

class PromotionCheckTest : public testing::Test {
 protected:
  static MoveOutcome Promoted(int error = 0) {
    return {.move = {.key = {kTarget, Vpn(7)}, .from = kSlow, .to = kFast, .score = 1e6},
            .error = error,
            .attempts = 1};
  }
  // An epoch of a second in which nothing was seen, although all memory was watched.
  static EpochProfile Epoch(std::uint64_t index) {
    EpochProfile epoch{.index = index,
                       .start = MonotonicTime(seconds(index)),
                       .end = MonotonicTime(seconds(index + 1))};
    epoch.sources.push_back({.name = "ibs",
                             .role = SourceRole::kSamples,
                             .state = SourceState::kActive,
                             .samples_of = SampleSubject::kMemory});
    return epoch;
  }
  void Check(std::uint64_t index, RankSource rank = RankSource::kMemory, bool predicts = true,
             std::vector<PlacedTarget> targets = {{kTarget, Pid(1), {}}}) {
    check_.Check(Epoch(index), targets, rank, predicts, {}, {}, {});
  }
  void Watch(const MoveOutcome& outcome, std::uint64_t epoch, bool dry_run = false) {
    check_.Watch({&outcome, 1}, epoch, tiers_, gaps_, dry_run);
  }

  Tiers tiers_ = *Tiers::Make({{kFast}, {kSlow}});
  LatencyGaps gaps_;  // 100 ns
  PromotionCheck check_;
};

// A million accesses in an epoch of a second save 100 ns each, 0.1 s a second.
TEST_F(PromotionCheckTest, AddsWhatAPromotionWasPredictedToSave) {
  Check(0);
  Watch(Promoted(), 1);
  Check(1);
  Check(2);
  EXPECT_EQ(check_.savings().promotions, 1U);
  EXPECT_NEAR(check_.savings().predicted_seconds, 0.1, 1e-9);
  EXPECT_EQ(check_.savings().realised_seconds, 0);
}

TEST_F(PromotionCheckTest, WatchesAssumedMovesOfADryRunAndNoRefusedOnes) {
  Check(0);
  Watch(Promoted(ECANCELED), 1, true);
  Check(1);
  Check(2);
  EXPECT_EQ(check_.savings().promotions, 1U);
  PromotionCheck other;
  std::swap(check_, other);
  Check(0);
  Watch(Promoted(ECANCELED), 1);
  Watch(Promoted(EBUSY), 1, true);
  Check(1);
  Check(2);
  EXPECT_EQ(check_.savings().promotions, 0U);
}

TEST_F(PromotionCheckTest, WatchesNoneWithoutAPrediction) {
  Watch(Promoted(), 0);  // nothing was decided yet
  Check(0, RankSource::kMemory, false);
  Watch(Promoted(), 1);  // scores are no accesses
  Check(1);
  Check(2);
  EXPECT_EQ(check_.savings().promotions, 0U);
}

TEST_F(PromotionCheckTest, ForgetsWhatItWatchesWhenScoresGetAnotherUnit) {
  Check(0);
  Watch(Promoted(), 1);
  Check(1, RankSource::kCombined);
  Check(2, RankSource::kCombined);
  EXPECT_EQ(check_.savings().promotions, 0U);
}

TEST_F(PromotionCheckTest, ForgetsTargetsThatAreGone) {
  Check(0);
  Watch(Promoted(), 1);
  Check(1, RankSource::kMemory, true, {});
  Check(2);
  EXPECT_EQ(check_.savings().promotions, 0U);
}

}  // namespace promotion_check_test
}  // namespace tmprof
