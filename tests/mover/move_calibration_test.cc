// SPDX-License-Identifier: Apache-2.0

#include "mover/move_calibration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace tmprof {
namespace move_calibration_test {

using std::chrono::seconds;

constexpr double kGapNs = 100;
constexpr auto kUnknown = Payback::Elsewhere::kUnknown;
constexpr auto kUnseen = Payback::Elsewhere::kUnseen;

PageKey Key(std::uint64_t vpn) { return {TargetId(1), Vpn(vpn)}; }

Move MoveOf(std::uint64_t vpn, double score, PageCount span = PageCount(1)) {
  return {.key = Key(vpn), .span = span, .from = NodeId(1), .to = NodeId(0), .score = score};
}

SeenSpan Seen(std::uint64_t vpn, double score, PageCount span = PageCount(1)) {
  return {.key = Key(vpn), .span = span, .seen = 1, .score = score};
}

TEST(MoveCalibration, ComparesWhatWasPredictedWithWhatLaterEpochsSay) {
  MoveCalibration calibration(10);
  // 2 000 accesses in 2 s, 100 ns each, are 100 us in a second.
  calibration.Promoted(MoveOf(5, 2'000), seconds(2), kGapNs, 7);
  calibration.Observe(7, seconds(1), std::vector{Seen(5, 9'999)}, kUnknown);
  EXPECT_EQ(calibration.savings().promotions, 0u) << "in part of epoch 7 it was elsewhere";
  calibration.Observe(8, seconds(1), std::vector{Seen(5, 500)}, kUnknown);
  calibration.Observe(9, seconds(2), std::vector{Seen(4, 1), Seen(5, 700), Seen(6, 1)}, kUnknown);
  EXPECT_EQ(calibration.savings().promotions, 1u);
  EXPECT_DOUBLE_EQ(calibration.savings().predicted_seconds, 3 * 1'000 * 100e-9);
  EXPECT_DOUBLE_EQ(calibration.savings().realised_seconds, 1'200 * 100e-9);
}

TEST(MoveCalibration, AnEpochWithoutARecordCountsOnNeitherSide) {
  MoveCalibration calibration(10);
  calibration.Promoted(MoveOf(5, 1'000), seconds(1), kGapNs, 0);
  calibration.Observe(1, seconds(1), {}, kUnknown);
  calibration.Observe(2, seconds(1), std::vector{Seen(6, 9)}, kUnknown);
  EXPECT_EQ(calibration.savings(), PromotionSavings{}) << "unknown is no saving of 0";
}

TEST(MoveCalibration, UnseenPagesUnderASamplerSavedNothing) {
  MoveCalibration calibration(10);
  calibration.Promoted(MoveOf(5, 1'000), seconds(1), kGapNs, 0);
  calibration.Observe(1, seconds(1), {}, kUnseen);
  EXPECT_EQ(calibration.savings().promotions, 1u);
  EXPECT_DOUBLE_EQ(calibration.savings().predicted_seconds, 1'000 * 100e-9);
  EXPECT_EQ(calibration.savings().realised_seconds, 0);
}

// The page had its own address as its name until its process forked.
TEST(MoveCalibration, KnowsNothingOfPagesThatGotAnotherName) {
  EpochProfile epoch;
  for (const std::uint32_t id : {0u, 1u}) {
    epoch.targets.push_back(
        {.id = TargetId(id),
         .mappings = {{.range = {Vpn(0), Vpn(100)}, .kind = MappingKind::kAnonymous}}});
    Append(epoch.pages, {.key = {TargetId(id), Vpn(5)}, .looks = 1});
  }
  epoch.pages.same_as = {0, 0};
  SharedPages shared;
  shared.AddEpoch(epoch);
  PageOwners owners;
  owners.Follow(shared, std::vector<PageOwners::Mapper>{{TargetId(0)}, {TargetId(1)}});
  MoveCalibration calibration(10);
  for (const std::uint64_t page : {5, 6})
    calibration.Promoted(MoveOf(page, 1'000), seconds(1), kGapNs, 0);
  calibration.Observe(1, seconds(1), {}, kUnseen, owners);
  EXPECT_EQ(calibration.savings().promotions, 1u) << "of the other page alone";
}

TEST(MoveCalibration, ARecordOfPartOfASpanTellsOfThatPartAlone) {
  MoveCalibration calibration(10);
  calibration.Promoted(MoveOf(8, 400, PageCount(4)), seconds(1), kGapNs, 0);
  calibration.Observe(1, seconds(1), std::vector{Seen(10, 90)}, kUnknown);
  EXPECT_EQ(calibration.savings().promotions, 1u);
  EXPECT_DOUBLE_EQ(calibration.savings().predicted_seconds, 100 * 100e-9);
  EXPECT_DOUBLE_EQ(calibration.savings().realised_seconds, 90 * 100e-9);
  calibration.Observe(2, seconds(1), std::vector{Seen(10, 90)}, kUnseen);
  EXPECT_DOUBLE_EQ(calibration.savings().predicted_seconds, 500 * 100e-9)
      << "nothing was seen of the other three";
}

TEST(MoveCalibration, EndsAfterTheTimeInWhichAMoveHasToPay) {
  MoveCalibration calibration(10);
  calibration.Promoted(MoveOf(5, 1'000), seconds(1), kGapNs, 0);
  for (std::uint64_t epoch = 1; epoch <= 15; ++epoch)
    calibration.Observe(epoch, seconds(1), std::vector{Seen(5, 1'000)}, kUnknown);
  EXPECT_DOUBLE_EQ(calibration.savings().predicted_seconds, 10 * 1'000 * 100e-9);
  EXPECT_FALSE(calibration.watches_any());
}

TEST(MoveCalibration, SharesSpansByTheirPages) {
  MoveCalibration calibration(10);
  calibration.Promoted(MoveOf(8, 100, PageCount(4)), seconds(1), kGapNs, 0);
  calibration.Observe(1, seconds(1), std::vector{Seen(0, 160, PageCount(16))}, kUnknown);
  EXPECT_DOUBLE_EQ(calibration.savings().realised_seconds, 40 * 100e-9);
}

TEST(MoveCalibration, EndsWhereThePagesGo) {
  MoveCalibration calibration(2);
  calibration.Promoted(MoveOf(0, 100, PageCount(4)), seconds(1), kGapNs, 0);
  calibration.Promoted(MoveOf(9, 100), seconds(1), kGapNs, 0);
  calibration.Promoted(MoveOf(20, 100), seconds(1), kGapNs, 0);  // one too many
  calibration.Moved(MoveOf(3, 0));
  calibration.Observe(1, seconds(1), std::vector{Seen(0, 1, PageCount(4)), Seen(9, 1), Seen(20, 1)},
                      kUnknown);
  EXPECT_EQ(calibration.savings().promotions, 1u);
  calibration.Forget(TargetId(1));
  EXPECT_FALSE(calibration.watches_any());
}

}  // namespace move_calibration_test
}  // namespace tmprof
