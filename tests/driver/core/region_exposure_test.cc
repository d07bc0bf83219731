// SPDX-License-Identifier: Apache-2.0
#include "driver/core/region_exposure.h"

#include <gtest/gtest.h>

#include <array>

namespace tmprof {
namespace region_exposure_test {

constexpr __u64 kMicrosecond = 1000;
constexpr __u64 kMillisecond = 1000 * kMicrosecond;

TEST(RegionExposureTest, AHoldThatIsNotFullIsAHold) {
  EXPECT_EQ(tmprof_region_holds(0), 0u);
  EXPECT_EQ(tmprof_region_holds(1), 1u);
  EXPECT_EQ(tmprof_region_holds(64), 1u);
  EXPECT_EQ(tmprof_region_holds(65), 2u);
  EXPECT_EQ(tmprof_region_holds(~0u), 67108864u);
}

// A writer has the mmap lock for 50 ms between the two holds of a step of 100 regions.
TEST(RegionExposureTest, APageClearedLateIsExposedFromItsOwnClearOnAndWaitedForAsLong) {
  std::array<__u64, 2> cleared_ns{};
  tmprof_region_cleared(cleared_ns.data(), 0, 10 * kMillisecond);
  tmprof_region_cleared(cleared_ns.data(), 64, 60 * kMillisecond);

  const __u64 due_ns = tmprof_region_read_due(cleared_ns.data(), 100, kMillisecond);

  EXPECT_EQ(due_ns, 61 * kMillisecond);
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 0, due_ns), 51 * kMillisecond);
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 63, due_ns), 51 * kMillisecond);
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 64, due_ns), kMillisecond);
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 99, due_ns), kMillisecond);
}

// The second hold of the reads is 50 ms late.
TEST(RegionExposureTest, APageReadLateIsExposedUntilItsOwnRead) {
  std::array<__u64, 2> cleared_ns{};
  tmprof_region_cleared(cleared_ns.data(), 0, kMillisecond);
  tmprof_region_cleared(cleared_ns.data(), 64, kMillisecond + 30 * kMicrosecond);

  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 5, 2 * kMillisecond), kMillisecond);
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 70, 52 * kMillisecond),
            50 * kMillisecond + 970 * kMicrosecond);
}

TEST(RegionExposureTest, OnlyTheHoldsOfTheseRegionsAreWaitedFor) {
  // The third is of an earlier step of more regions.
  const std::array<__u64, 3> cleared_ns{100, 200, 900};
  EXPECT_EQ(tmprof_region_read_due(cleared_ns.data(), 128, 1000), 1200u);
}

TEST(RegionExposureTest, NoExposureIsNegative) {
  const std::array<__u64, 1> cleared_ns{500};
  EXPECT_EQ(tmprof_region_exposure(cleared_ns.data(), 0, 499), 0u);
}

}  // namespace region_exposure_test
}  // namespace tmprof
