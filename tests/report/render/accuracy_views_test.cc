// SPDX-License-Identifier: Apache-2.0

#include "report/render/accuracy_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/format.h"

namespace tmprof {
namespace accuracy_views_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

AccuracyOutcome Outcome() {
  return {.rows = {{.rank = RankSource::kReferences,
                    .k = PageCount(1234),
                    .precision = 0.5,
                    .recall = 0.25,
                    .coverage = 0.125,
                    .coverage_of_ideal = 1,
                    .spearman_rho = -0.5,
                    .phases = 3},
                   {.rank = RankSource::kSamples, .k = PageCount(1)}},
          .end = {}};
}

TEST(AccuracyText, HasARowForEachRankingAndADashForWhatIsUnknown) {
  const std::string text = AccuracyText(Outcome().rows, "misses", {});
  EXPECT_THAT(text, StartsWith("rankings against true misses\n"));
  EXPECT_THAT(text, HasSubstr("references"));
  EXPECT_THAT(text, HasSubstr("1 234"));
  EXPECT_THAT(text, HasSubstr("-0.500"));
}

TEST(AccuracyJson, HasNullForWhatIsUnknownAndTheEndOfBothFiles) {
  StreamEnd truth;
  truth.finished = false;
  const Json json = Json::parse(AccuracyJson(Outcome(), "misses", truth));
  EXPECT_EQ(json["by"], "misses");
  EXPECT_EQ(json["results"][0]["precision"], 0.5);
  EXPECT_TRUE(json["results"][1]["precision"].is_null());
  EXPECT_TRUE(json["results"][1]["kendall_tau_b"].is_null());
  EXPECT_NE(json["truth"], WithEnd(Json::object(), {})) << "it did not finish";
}

TEST(AccuracyCsv, HasAnEmptyCellForWhatIsUnknown) {
  const std::string csv = AccuracyCsv(Outcome().rows, "accesses");
  EXPECT_THAT(csv, HasSubstr("references,1234,0.5,0.25,0.125,1,3,-0.5,,accesses\n"));
  EXPECT_THAT(csv, HasSubstr("samples,1,,0,0,0,0,,,accesses\n"));
}

}  // namespace accuracy_views_test
}  // namespace tmprof
