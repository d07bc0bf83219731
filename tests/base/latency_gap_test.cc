// SPDX-License-Identifier: Apache-2.0

#include "base/latency_gap.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tmprof {
namespace latency_gap_test {

constexpr Tier kTier2{2};
constexpr Tier kTier3{3};

TEST(LatencyGap, IsTheDifferenceToTier1WhereLatenciesAreKnown) {
  const LatencyGaps gaps = GapsOf({80.0, 250.0, 480.0}, std::nullopt);
  EXPECT_EQ(gaps.Of(kTier2), (LatencyGap{.ns = 170, .basis = LatencyBasis::kFirmware}));
  EXPECT_EQ(gaps.Of(kTier3), (LatencyGap{.ns = 400, .basis = LatencyBasis::kFirmware}));
}

TEST(LatencyGap, IsAssumedWhereNobodyTellsADifference) {
  const LatencyGap assumed{.ns = kAssumedLatencyGapNs, .basis = LatencyBasis::kAssumed};
  EXPECT_EQ(LatencyGaps().Of(kTier2), assumed);
  EXPECT_EQ(GapsOf({std::nullopt, 250.0}, std::nullopt).Of(kTier2), assumed);
  const LatencyGaps some = GapsOf({80.0, std::nullopt, 480.0}, std::nullopt);
  EXPECT_EQ(some.Of(kTier2), assumed);
  EXPECT_EQ(some.Of(kTier3).ns, 400);
  EXPECT_EQ(GapsOf({80.0, 70.0}, std::nullopt).Of(kTier2), assumed) << "slower memory is no faster";
}

TEST(LatencyGap, AGivenOneComesFirst) {
  const LatencyGap given{.ns = 60, .basis = LatencyBasis::kGiven};
  EXPECT_EQ(GapsOf({80.0, 250.0, 480.0}, 60).Of(kTier3), given);
  EXPECT_EQ(GapsOf(std::vector<std::optional<double>>{}, 60).Of(kTier2), given);
}

TEST(LatencyGap, IsKeptInSettings) {
  const LatencyGaps gaps = GapsOf({80.0, 250.0, std::nullopt}, std::nullopt);
  const std::vector<Setting> settings = SettingsOf(gaps, 3);
  EXPECT_EQ(settings, (std::vector<Setting>{{"latency-gap", "170ns,100ns"},
                                            {"latency-gap-basis", "firmware,assumed"}}));
  EXPECT_EQ(GapsOf(settings), gaps);
  EXPECT_EQ(GapsOf({{"latency-gap", "170ns"}}), LatencyGaps());
  EXPECT_EQ(GapsOf({{"latency-gap", "x"}, {"latency-gap-basis", "firmware"}}), LatencyGaps());
  EXPECT_TRUE(SettingsOf(gaps, 1).empty()) << "one tier has no gap";
}

}  // namespace latency_gap_test
}  // namespace tmprof
