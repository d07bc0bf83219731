// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_advice_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <variant>

namespace tmprof {
namespace object_advice_request_test {

using ::testing::HasSubstr;

TEST(ObjectAdviceRequest, GivesHotSitesAnEighthUnlessItIsToldOtherwise) {
  const auto options = OptionsOf({}, {});
  ASSERT_TRUE(options);
  EXPECT_EQ(std::get<Ratio>(*options->hot_room), (Ratio{1, 8}));
  EXPECT_EQ(options->ratios.size(), 5u);
  EXPECT_EQ(std::get<std::uint64_t>(*OptionsOf({.room = "2MiB"}, {})->hot_room), 2u << 20);
  EXPECT_THAT(OptionsOf({.room = "x"}, {}).error().Message(), HasSubstr("--room x"));
}

TEST(ObjectAdviceRequest, RefusesAShareOfNothingAndAMissingFile) {
  EXPECT_THAT(OptionsOf({.hot_share = 0}, {}).error().Message(), HasSubstr("--hot 0"));
  EXPECT_EQ(OptionsOf({.placed_under = "/nowhere"}, {}).error().system_error, ENOENT);
}

TEST(WarningOfPlacing, IsGivenIfTheRecordingAndTheOptionsDiffer) {
  const TraceInfo plain;
  const TraceInfo placed{.settings = {{"advice", "a.advice"}}};
  EXPECT_EQ(WarningOfPlacing(plain, "t", ""), std::nullopt);
  EXPECT_EQ(WarningOfPlacing(placed, "t", "a.advice"), std::nullopt);
  EXPECT_THAT(WarningOfPlacing(placed, "t", "").value_or(""),
              HasSubstr("'t' was recorded with record --advice 'a.advice'"));
  EXPECT_THAT(WarningOfPlacing(plain, "t", "b").value_or(""),
              HasSubstr("what 'b' set apart is taken to lie apart"));
}

}  // namespace object_advice_request_test
}  // namespace tmprof
