// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/render/evaluation_views.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace evaluation_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Four epochs over 64 pages; the last eight are accessed in every one. `loads`: samples of each.
Trace LastEighthHot(std::uint32_t loads) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t index = 0; index < 4; ++index) {
    Target target = MakeTarget(0, 10, "t");
    target.cpu_time = std::chrono::seconds(1);
    EpochProfile epoch = MakeEpoch(index, {target});
    for (std::uint64_t page = 0; page < 64; ++page) {
      const bool hot = page >= 56;
      // Each page is seen accessed once, so that all are in the footprint.
      const bool seen = hot || index == 0;
      See(epoch, 0,
          {{.vpn = page, .looks = 1, .references = seen ? 1u : 0u, .loads = hot ? loads : 0u}});
    }
    epochs.push_back(std::move(epoch));
  }
  return TraceOf(std::move(epochs));
}

ReplayOptions Options() {
  ReplayOptions options;
  options.policies = {*FindPolicy("first_touch"), *FindPolicy("oracle")};
  options.ratios = {Ratio{1, 8}, Ratio{1, 2}};
  options.judge = RankSource::kCombined;
  return options;
}

Evaluation Evaluate(const Trace& trace, const EvaluationScope& scope = {},
                    const ReplayOptions& options = Options()) {
  Evaluation evaluation;
  const Status status = EvaluateTrace(trace, scope, options, evaluation);
  EXPECT_TRUE(status) << status.error().Message();
  return evaluation;
}

TEST(EvaluateTrace, HasEachPolicyAtEachCapacityUnderTheNameOfTheTrace) {
  const Evaluation evaluation = Evaluate(LastEighthHot(40));
  ASSERT_THAT(evaluation.results, SizeIs(4));
  EXPECT_EQ(evaluation.results[0].trace, "test.data");
  EXPECT_EQ(evaluation.results[0].whole, PageCount(64));
  EXPECT_EQ(evaluation.results[0].result.policy, "first_touch");
  EXPECT_EQ(evaluation.results[0].result.capacity, PageCount(8));
  EXPECT_EQ(evaluation.results[3].result.policy, "oracle");
  EXPECT_EQ(evaluation.results[3].result.capacity, PageCount(32));
  // The oracle has the hot eighth in tier 1, first touch the first pages.
  EXPECT_GT(evaluation.results[2].result.hit_rate, evaluation.results[0].result.hit_rate);
  ASSERT_THAT(evaluation.told, SizeIs(1));
  EXPECT_THAT(evaluation.told[0].at_ratio, SizeIs(2));
  EXPECT_EQ(evaluation.RatesBeside(evaluation.results[3]).told, &evaluation.told[0].at_ratio[1]);
  EXPECT_EQ(evaluation.EndOf("test.data").gap.basis, LatencyBasis::kAssumed);
}

TEST(EvaluateTrace, CountsOnlyPagesInTheRanges) {
  const Evaluation evaluation =
      Evaluate(LastEighthHot(40), {.ranges = {{Vpn(48), Vpn(64)}}, .truth = {}});
  EXPECT_EQ(evaluation.results[0].whole, PageCount(16));
  EXPECT_TRUE(evaluation.ends[0].is_part);
  EXPECT_FALSE(MemoryRateOf(evaluation.ends[0])) << "CPU time is of all memory";
}

TEST(EvaluateTrace, TakesTheLatencyGapThatIsGiven) {
  const Evaluation evaluation =
      Evaluate(LastEighthHot(40), {.ranges = {}, .truth = {}, .latency_gap_ns = 170});
  EXPECT_EQ(evaluation.ends[0].gap, (LatencyGap{.ns = 170, .basis = LatencyBasis::kGiven}));
}

TEST(EvaluateTrace, LeavesTheEvaluationAsItWasWhereItIsRefused) {
  Evaluation evaluation;
  const Status status = EvaluateTrace(TraceOf({}), {}, Options(), evaluation);
  ASSERT_FALSE(status);
  EXPECT_THAT(evaluation.results, IsEmpty());
  EXPECT_THAT(evaluation.ends, IsEmpty());
  EXPECT_THAT(evaluation.told, IsEmpty());
}

TEST(MemoryShare, IsTheRateTimesTheGap) {
  TraceEnd file{.trace = "t", .end = {}, .modelled_per_second = 2e6, .gap = {.ns = 100}};
  ASSERT_TRUE(MemoryRateOf(file));
  EXPECT_EQ(MemoryRateOf(file)->basis, MemoryRate::Basis::kModel);
  EXPECT_DOUBLE_EQ(MemoryShare(file).value_or(0), 0.2);
  file.modelled_per_second.reset();
  EXPECT_FALSE(MemoryShare(file));
}

TEST(EvaluationText, HasARowForEachPolicyAndAColumnForEachCapacity) {
  const std::string text = EvaluationText(Evaluate(LastEighthHot(40)), Options(), {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("test.data: hit rates count all accesses (combined)\n"),
                    HasSubstr("tier-1 hit rate by tier-1 : footprint ratio (256 KiB), 4 "
                              "epochs, judged by combined"),
                    HasSubstr("1/8 = 32 KiB"), HasSubstr("\nfirst_touch"), HasSubstr("\noracle")));
  EXPECT_THAT(text, Not(HasSubstr("the judge goes by")));
}

TEST(EvaluationText, SaysSoWhereTooLittleWasSeenToTell) {
  Evaluation evaluation = Evaluate(LastEighthHot(40));
  for (TraceResult& result : evaluation.results) result.is_told = false;
  evaluation.ends[0].observations = 7;
  EXPECT_THAT(EvaluationText(evaluation, Options(), {}),
              HasSubstr("?: too little was seen to tell: the judge goes by references and samples, "
                        "of which 7 were seen; it takes 30\n"));
}

TEST(EvaluationJson, HasTracesThatWereRefused) {
  Evaluation evaluation = Evaluate(LastEighthHot(40));
  evaluation.ends.push_back(
      {.trace = "bad", .end = {}, .refused = BadInput("read", "bad", "it is no trace")});
  const Json json = Json::parse(EvaluationJson(evaluation, Options()));
  EXPECT_THAT(json["results"], SizeIs(4));
  EXPECT_EQ(json["results"][1]["ratio"], "1/2");
  EXPECT_EQ(json["results"][1]["capacity_bytes"], 32 * 4096);
  EXPECT_EQ(json["hit_rates"][0]["of"], "accesses");
  EXPECT_TRUE(json["traces"][0]["refused"].is_null());
  EXPECT_EQ(json["traces"][1]["refused"], "cannot read 'bad': it is no trace");
  EXPECT_TRUE(json["traces"][1]["latency_gap_ns"].is_null());
}

TEST(EvaluationCsv, HasAsManyCellsInEachRowAsInItsHead) {
  const std::string csv = EvaluationCsv(Evaluate(LastEighthHot(40)), Options());
  std::vector<std::ptrdiff_t> commas;
  for (std::size_t start = 0; start < csv.size();) {
    const std::size_t end = csv.find('\n', start);
    commas.push_back(std::ranges::count(csv.substr(start, end - start), ','));
    start = end + 1;
  }
  ASSERT_THAT(commas, SizeIs(5));
  EXPECT_THAT(commas, ::testing::Each(commas[0]));
}

TEST(CurveOf, IsOfThePagesInTheRanges) {
  ReplayOptions options;
  options.judge = RankSource::kCombined;
  const auto curve =
      CurveOf(LastEighthHot(40), {.ranges = {{Vpn(48), Vpn(64)}}, .truth = {}}, options);
  ASSERT_TRUE(curve) << curve.error().Message();
  EXPECT_EQ(curve->whole, PageCount(16));
  const Json json = Json::parse(CurvesJson(
      {.told = {*curve}, .refused = {{"bad", BadInput("read", "bad", "no")}}}, options.ranker));
  EXPECT_THAT(json["curves"], SizeIs(1));
  EXPECT_EQ(json["traces_without"][0]["trace"], "bad");
  EXPECT_EQ(json["half_life"], "learned");
}

}  // namespace evaluation_test
}  // namespace tmprof
