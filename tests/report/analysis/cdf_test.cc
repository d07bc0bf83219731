// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/cdf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/pictures.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace cdf_test {

constexpr CdfOptions kSum{.model = RankModel::kSum};

// Eight pages with 8, 4, 2, 2, 1, 1, 1, 1 references: 20 in all. One page was looked at and cold.
Trace EightPages() {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0,
      {{.vpn = 1, .looks = 9, .references = 1},
       {.vpn = 2, .looks = 9, .references = 8},
       {.vpn = 3, .looks = 9, .references = 2},
       {.vpn = 4, .looks = 9, .references = 4},
       {.vpn = 5, .looks = 9, .references = 1},
       {.vpn = 6, .looks = 9, .references = 2},
       {.vpn = 7, .looks = 9, .references = 1},
       {.vpn = 8, .looks = 9, .references = 1},
       {.vpn = 9, .looks = 9}});
  return TraceOf({epoch});
}

TEST(CdfTest, SumsTheHottestPages) {
  const Result<Cdf> cdf = MakeCdf(EightPages(), kSum);
  ASSERT_TRUE(cdf.has_value());
  EXPECT_EQ(cdf->footprint, PageCount(8));
  const Cdf::Curve* curve = cdf->FindCurve(RankSource::kReferences);
  ASSERT_NE(curve, nullptr);
  EXPECT_EQ(curve->total_score, 20);
  // 1 %, 2 %, 5 % and 10 % of eight pages are parts of the hottest page.
  const std::vector<double> expected = {0.032, 0.064, 0.16, 0.32, 0.4, 0.6, 0.8, 1.0};
  ASSERT_EQ(curve->at_shares.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(curve->at_shares[i], expected[i], 1e-12) << i;
  }
}

TEST(CdfTest, CountsASpanByItsPages) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0,
      {{.vpn = 0, .looks = 9, .references = 7, .span = 7},  // 1 per page
       {.vpn = 7, .looks = 9, .references = 3}});
  const Result<Cdf> cdf = MakeCdf(TraceOf({epoch}), kSum);
  const Cdf::Curve* curve = cdf->FindCurve(RankSource::kReferences);
  EXPECT_EQ(cdf->footprint, PageCount(8));
  EXPECT_NEAR(curve->at_shares[4], 0.3, 1e-12);  // 12.5 %: the page of 3
  EXPECT_NEAR(curve->at_shares[6], 0.6, 1e-12);  // 50 %: and three pages of the span
}

// Five of nine references are to the page that both map, which is one of two.
TEST(CdfTest, CountsAPageOfTwoMappersOnceByTheAccessesOfBoth) {
  std::vector<Target> targets = {MakeTarget(0, 10, "t"), MakeTarget(1, 11, "u")};
  for (Target& target : targets) {
    target.mappings = {{.range = {Vpn(8), Vpn(16)},
                        .kind = MappingKind::kShared,
                        .path = "/memfd:ring (deleted)",
                        .file = FilePlace{.device = 1, .inode = 5, .offset = PageCount(0)}}};
  }
  EpochProfile epoch = MakeEpoch(0, targets);
  See(epoch, 0, {{.vpn = 1, .looks = 9, .references = 4}, {.vpn = 8, .looks = 9, .references = 2}});
  See(epoch, 1, {{.vpn = 8, .looks = 9, .references = 3}});
  const Result<Cdf> cdf = MakeCdf(TraceOf({epoch}), kSum);
  ASSERT_TRUE(cdf.has_value());
  EXPECT_EQ(cdf->footprint, PageCount(2));
  const Cdf::Curve* curve = cdf->FindCurve(RankSource::kReferences);
  EXPECT_EQ(curve->total_score, 9);
  EXPECT_NEAR(curve->at_shares[6], 5.0 / 9, 1e-12);  // the hotter half
}

TEST(CdfTest, HasNoCurveForASourceWithoutAScore) {
  const Result<Cdf> cdf = MakeCdf(EightPages(), kSum);
  EXPECT_TRUE(cdf->FindCurve(RankSource::kSamples)->at_shares.empty());
  const auto json = nlohmann::json::parse(CdfJson(*cdf));
  EXPECT_EQ(json["curves"][1]["by"], "samples");
  EXPECT_TRUE(json["curves"][1]["table"][0]["score_share"].is_null());
  EXPECT_EQ(json["curves"][0]["table"][7]["score_share"], 1.0);
}

TEST(CdfTest, IsATableWithBarsInText) {
  EXPECT_EQ(
      CdfText(*MakeCdf(EightPages(), kSum), 64),
      "share of the accesses that the hottest pages hold, by accesses (references); "
      "footprint 8 pages (32 KiB)\n"
      "hottest  pages  references %  samples %  combined %  references\n"
      "    1 %      0         3.2 %    unknown       3.2 %  |        |\n"
      "    2 %      0         6.4 %    unknown       6.4 %  |#       |\n"
      "    5 %      0          16 %    unknown        16 %  |#       |\n"
      "   10 %      1          32 %    unknown        32 %  |###     |\n"
      " 12.5 %      1          40 %    unknown        40 %  |###     |\n"
      "   25 %      2          60 %    unknown        60 %  |#####   |\n"
      "   50 %      4          80 %    unknown        80 %  |######  |\n"
      "  100 %      8         100 %    unknown       100 %  |########|\n"
      "note: all accesses count because those to memory are unknown: rank model sum estimates "
      "no rates\n");
}

TEST(CdfTest, DrawsCurvesInsideItsFrame) {
  const Result<std::string> png = CdfPng(*MakeCdf(EightPages(), kSum));
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  EXPECT_EQ(picture.width(), 1000);
  EXPECT_EQ(picture.height(), 700);
  EXPECT_EQ(picture.At(2, 2), kWhite);
  // Every curve ends in the top right corner of the frame.
  EXPECT_NE(picture.At(957, 72), kWhite);
}

TEST(CdfTest, DrawsAndWritesAnEmptyTrace) {
  const Result<Cdf> cdf = MakeCdf(TraceOf({}), {});
  ASSERT_TRUE(cdf.has_value());
  EXPECT_THAT(CdfText(*cdf, 80), testing::HasSubstr("footprint 0 pages"));
  EXPECT_EQ(CdfCsv(*cdf), "by,pages_share,score_share\n");
  EXPECT_TRUE(CdfPng(*cdf).has_value());
}

}  // namespace cdf_test
}  // namespace tmprof
