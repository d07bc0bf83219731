// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/source_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace {

TEST(AbitChoice, EitherWordMayBeLeftOutAndTheirOrderIsFree) {
  using enum AbitLooked;
  EXPECT_EQ(ParseAbit("regions,plain").value(), (AbitChoice{kRegions, AbitMode::kPlain}));
  EXPECT_EQ(ParseAbit("plain,auto").value(), (AbitChoice{kAuto, AbitMode::kPlain}));
  EXPECT_EQ(ParseAbit("regions").value(), (AbitChoice{kRegions, AbitMode::kLadder}));
  EXPECT_EQ(ParseAbit("ladder").value(), (AbitChoice{kFull, AbitMode::kLadder}));
  EXPECT_EQ(ParseAbit("plain").value(), (AbitChoice{kFull, AbitMode::kPlain}));
}

TEST(AbitChoice, WhatIsNoWordOrSaidTwiceIsRefused) {
  for (const char* text : {"", ",", "regions,", "Regions", "full,regions", "plain,plain",
                           "full,plain,auto", "full plain"}) {
    const auto choice = ParseAbit(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_THAT(choice.error().Message(), testing::HasSubstr("one of full, regions, auto")) << text;
  }
}

TEST(AbitChoice, ItsTextIsReadBackTheSame) {
  for (const AbitLooked looked : {AbitLooked::kFull, AbitLooked::kRegions, AbitLooked::kAuto}) {
    for (const AbitMode mode : {AbitMode::kLadder, AbitMode::kPlain}) {
      const AbitChoice choice{looked, mode};
      EXPECT_EQ(ParseAbit(AbitText(choice)).value(), choice);
    }
  }
  EXPECT_EQ(AbitText({}), "full,ladder");
}

}  // namespace
}  // namespace tmprof
