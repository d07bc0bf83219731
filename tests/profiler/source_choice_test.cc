// SPDX-License-Identifier: Apache-2.0

#include "profiler/source_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace source_choice_test {

TEST(AbitChoice, EitherWordMayBeLeftOutAndTheirOrderIsFree) {
  using enum abit::Looked;
  EXPECT_EQ(ParseAbit("regions,plain").value(),
            (AbitChoice{kRegions, abit::ScanOptions::Mode::kPlain}));
  EXPECT_EQ(ParseAbit("plain,auto").value(), (AbitChoice{kAuto, abit::ScanOptions::Mode::kPlain}));
  EXPECT_EQ(ParseAbit("auto").value(), (AbitChoice{kAuto, abit::ScanOptions::Mode::kLadder}));
  EXPECT_EQ(ParseAbit("ladder").value(), (AbitChoice{kFull, abit::ScanOptions::Mode::kLadder}));
  EXPECT_EQ(ParseAbit("plain").value(), (AbitChoice{kFull, abit::ScanOptions::Mode::kPlain}));
}

TEST(AbitChoice, ChoosesTheBestWayForRegionsUnlessOneIsGiven) {
  EXPECT_EQ(ParseAbit("regions").value(), (AbitChoice{abit::Looked::kRegions, std::nullopt}));
  EXPECT_EQ(AbitText({abit::Looked::kRegions, std::nullopt}), "regions");
  EXPECT_EQ(ParseAbit("regions,ladder").value(),
            (AbitChoice{abit::Looked::kRegions, abit::ScanOptions::Mode::kLadder}));
}

TEST(AbitChoice, RefusesUnknownAndRepeatedWords) {
  for (const char* text : {"", ",", "regions,", "Regions", "full,regions", "plain,plain",
                           "full,plain,auto", "full plain"}) {
    const auto choice = ParseAbit(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_THAT(choice.error().Message(), testing::HasSubstr("one of full, regions, auto")) << text;
  }
}

TEST(AbitChoice, ItsTextIsReadBackTheSame) {
  for (const abit::Looked looked :
       {abit::Looked::kFull, abit::Looked::kRegions, abit::Looked::kAuto}) {
    for (const abit::ScanOptions::Mode mode :
         {abit::ScanOptions::Mode::kLadder, abit::ScanOptions::Mode::kPlain}) {
      const AbitChoice choice{looked, mode};
      EXPECT_EQ(ParseAbit(AbitText(choice)).value(), choice);
    }
  }
  EXPECT_EQ(AbitText({}), "full,ladder");
}

TEST(RegionParams, AreThePublishedOnesUnlessSaidOtherwise) {
  const auto params = RegionParams({});
  ASSERT_TRUE(params);
  EXPECT_EQ(params->monitoring_ns, 1'000'000u);
  EXPECT_EQ(params->aggregation_ns, 100'000'000u);
  EXPECT_EQ(params->update_ns, 1'000'000'000u);
  EXPECT_EQ(params->min_regions, 10u);
  EXPECT_EQ(params->max_regions, 1'000u);
}

TEST(RegionParams, MoreRegionsTakeALongerMonitoringInterval) {
  RegionBounds bounds;
  bounds.max_regions = 4'000;
  ASSERT_FALSE(RegionParams(bounds));
  EXPECT_THAT(RegionParams(bounds).error().Message(),
              testing::HasSubstr("--region-monitoring 1ms"));
  bounds.monitoring = std::chrono::milliseconds(4);
  ASSERT_TRUE(RegionParams(bounds));
  EXPECT_EQ(RegionParams(bounds)->max_regions, 4'000u);
}

TEST(FaultOfOnlineSource, RefusesWhatObservesNoRunningProcess) {
  EXPECT_EQ(FaultOfOnlineSource("auto"), "");
  EXPECT_EQ(FaultOfOnlineSource("clock"), "");
  EXPECT_THAT(FaultOfOnlineSource("exact"), testing::HasSubstr("it runs a program itself"));
  EXPECT_THAT(FaultOfOnlineSource("clok"),
              testing::HasSubstr("'clok': unknown name; use some of auto, driver, abit-bpf"));
}

TEST(UnusedAgeing, IsWarnedOf) {
  using enum abit::Looked;
  using Mode = abit::ScanOptions::Mode;
  SourceChoice choice;
  for (const AbitChoice& abit :
       {AbitChoice{kFull, Mode::kLadder}, AbitChoice{kAuto, std::nullopt},
        AbitChoice{kRegions, std::nullopt}, AbitChoice{kFull, Mode::kPlain}}) {
    choice.abit = abit;
    choice.ageing = abit::AgeingUse::kOff;
    EXPECT_FALSE(WarnOfUnusedAgeing(choice, kDriverSource)) << AbitText(abit);
    EXPECT_FALSE(WarnOfUnusedAgeing(choice, kAbitBpfSource)) << AbitText(abit);
    choice.ageing = abit::AgeingUse::kOwn;
    EXPECT_THAT(WarnOfUnusedAgeing(choice, kDriverSource).value_or(""),
                testing::HasSubstr("the source driver clears no whole process"))
        << AbitText(abit);
    EXPECT_EQ(WarnOfUnusedAgeing(choice, kAbitBpfSource).has_value(), abit.looked == kRegions)
        << AbitText(abit);
  }
}

}  // namespace source_choice_test
}  // namespace tmprof
