// SPDX-License-Identifier: Apache-2.0

#include "profiler/process_filter.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace process_filter_test {

using namespace std::chrono_literals;

MonotonicTime At(std::chrono::nanoseconds since_boot) { return MonotonicTime(since_boot); }

TEST(ProcessFilter, PassesWhatUsesEnoughCpuOrEnoughMemory) {
  const ProcessFilter filter{.min_cpu_share = 0.05, .min_memory_share = 0.10};
  const PageCount total(1000);
  EXPECT_TRUE(filter.Passes(0.05, PageCount(0), total));
  EXPECT_TRUE(filter.Passes(0, PageCount(100), total));
  EXPECT_FALSE(filter.Passes(0.0499, PageCount(99), total));
}

TEST(ProcessFilter, TakesMemoryOfUnknownSizeForNoShare) {
  const ProcessFilter filter{.min_memory_share = 0};
  EXPECT_FALSE(filter.Passes(0, std::nullopt, PageCount(1000)));
  EXPECT_FALSE(filter.Passes(0, PageCount(100), std::nullopt));
}

TEST(AreBusiest, TakesOfEachFamilyTheBusiestUntilTheyHaveThePart) {
  const std::vector<FamilyUse> uses{{.family = 1, .recent = 0.1}, {.family = 2, .recent = 0.02},
                                    {.family = 1, .recent = 0.5}, {.family = 1, .recent = 0.4},
                                    {.family = 3, .recent = 0.0}, {.family = 2, .recent = 0.02}};
  EXPECT_EQ(AreBusiest(uses, 0.9), (std::vector{false, true, true, true, false, true}));
  EXPECT_EQ(AreBusiest(uses, 0.5), (std::vector{false, true, true, false, false, false}))
      << "of equally busy ones the first";
  EXPECT_EQ(AreBusiest(uses, 0), std::vector<bool>(6, false));
}

TEST(AreBusiest, LetsNoneThatPassesGiveWayToOneThatIsHardlyBusier) {
  const auto passes = [](double of_newcomer) {
    const std::vector<FamilyUse> uses{{.recent = of_newcomer}, {.recent = 0.4, .passes = true}};
    return AreBusiest(uses, 0.3);
  };
  EXPECT_EQ(passes(0.49), (std::vector{false, true}));
  EXPECT_EQ(passes(0.51), (std::vector{true, false}));
}

TEST(CpuShareMeter, KnowsNoShareBeforeAFullSecondHasPassed) {
  CpuShareMeter meter;
  EXPECT_FALSE(meter.Add(At(100s), 3h)) << "what it used before does not count";
  EXPECT_FALSE(meter.Add(At(100'999ms), 3h + 900ms));
  EXPECT_EQ(meter.share(), 0);
  EXPECT_TRUE(meter.Add(At(101s), 3h + 900ms));
  EXPECT_DOUBLE_EQ(meter.share(), 0.9);
}

TEST(CpuShareMeter, ForgetsHalfOfWhatIsTenSecondsOld) {
  CpuShareMeter meter;
  meter.Add(At(100s), 0s);
  EXPECT_FALSE(meter.has_ended_a_period());
  EXPECT_EQ(meter.recent(), 0);
  meter.Add(At(101s), 800ms);
  EXPECT_TRUE(meter.has_ended_a_period());
  EXPECT_DOUBLE_EQ(meter.recent(), 0.8);
  meter.Add(At(111s), 800ms);
  EXPECT_DOUBLE_EQ(meter.recent(), 0.4);
  EXPECT_DOUBLE_EQ(meter.share(), 0);
}

TEST(CpuShareMeter, DividesByTheTimeThatReallyPassed) {
  CpuShareMeter meter;
  meter.Add(At(100s), 0s);
  EXPECT_TRUE(meter.Add(At(104s), 1s));
  EXPECT_DOUBLE_EQ(meter.share(), 0.25);
  EXPECT_TRUE(meter.Add(At(105s), 1s));
  EXPECT_DOUBLE_EQ(meter.share(), 0);
}

}  // namespace process_filter_test
}  // namespace tmprof
