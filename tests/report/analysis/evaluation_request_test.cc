// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/evaluation_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace tmprof {
namespace evaluation_request_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string RefusalOf(const EvaluationRequest& request) {
  const auto options = ReplayOptionsOf(request);
  return options ? "none" : options.error().Message();
}

TEST(EvaluationRequest, ReplaysThreePoliciesAtFiveRatiosByDefault) {
  const auto options = ReplayOptionsOf({});
  ASSERT_TRUE(options);
  ASSERT_EQ(options->policies.size(), 3u);
  EXPECT_EQ(options->policies[0]->name, "first_touch");
  EXPECT_EQ(options->ratios.size(), 5u);
  EXPECT_EQ(options->judge, std::nullopt);
  EXPECT_EQ(options->weight, RankWeight::kMemory);
}

TEST(EvaluationRequest, HasNoRatiosBesideSizes) {
  const auto options = ReplayOptionsOf({.fast = {"8KiB", "1MiB"}});
  ASSERT_TRUE(options);
  EXPECT_THAT(options->sizes, ElementsAre(PageCount(2), PageCount(256)));
  EXPECT_THAT(options->ratios, IsEmpty());
  EXPECT_THAT(RefusalOf({.fast = {"1KiB"}}), HasSubstr("it holds no page of 4 KiB"));
}

TEST(EvaluationRequest, RefusesAListThatHasAValueTwice) {
  EXPECT_THAT(RefusalOf({.traces = {"a", "a"}}), HasSubstr("FILE a"));
  EXPECT_THAT(RefusalOf({.policies = {"oracle", "oracle"}}), HasSubstr("--policy oracle"));
  EXPECT_THAT(RefusalOf({.ratios = {"1/8", "2/16"}}), HasSubstr("--ratio 2/16"));
  EXPECT_THAT(RefusalOf({.fast = {"1MiB", "1024KiB"}}), HasSubstr("--fast 1024KiB"));
}

TEST(EvaluationRequest, RefusesAWeightThatNeitherRanksNorJudges) {
  constexpr const char* kUnread = "leave --rank-weight out";
  EXPECT_THAT(RefusalOf({.rank_weight = "memory", .ranks = {"samples"}, .judge = "samples"}),
              HasSubstr(kUnread));
  EXPECT_EQ(RefusalOf({.rank_weight = "memory", .judge = "samples"}), "none");
  EXPECT_EQ(RefusalOf({.ranks = {"samples"}, .judge = "samples"}), "none");
}

TEST(EvaluationRequest, RefusesEstimatesOfRatesToARankModelWithoutRates) {
  EXPECT_THAT(RefusalOf({.ranks = {"memory"}, .rank_model = "sum"}), HasSubstr("--rank memory"));
  EXPECT_THAT(RefusalOf({.judge = "memory", .rank_model = "sum"}), HasSubstr("--judge memory"));
  EXPECT_THAT(RefusalOf({.rank_model = "sum", .half_life = "learned"}),
              HasSubstr("rank model sum learns nothing"));
  EXPECT_THAT(RefusalOf({.rank_model = "sum", .llc_bytes = 1 << 20}), HasSubstr("--llc 1 MiB"));
}

TEST(EvaluationRequest, JudgesByWhatATruthHoldsUnlessItIsAsked) {
  EXPECT_EQ(ReplayOptionsOf({.truth = "t.json"})->judge, std::nullopt);
  EXPECT_EQ(JudgeOf({.of = RankSource::kTruth}, RankModel::kSum), RankSource::kCombined);
  EXPECT_EQ(JudgeOf({.of = RankSource::kMisses}, RankModel::kRate), RankSource::kMemory);
  const auto refused = JudgeOf({.of = RankSource::kMisses}, RankModel::kSum);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(), HasSubstr("rank model sum does not estimate"));
  EXPECT_EQ(ReplayOptionsOf({.judge = "accesses"})->judge, RankSource::kCombined);
}

TEST(EvaluationRequest, HasAHalfLifeInCpuTime) {
  const auto options = ReplayOptionsOf({.half_life = "3"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->ranker.memory, Ranker::Memory::kHalfLife);
  EXPECT_EQ(options->ranker.half_life, std::chrono::seconds(3));
  EXPECT_EQ(ReplayOptionsOf({.half_life = "none"})->ranker.memory, Ranker::Memory::kThisEpoch);
  EXPECT_THAT(RefusalOf({.half_life = "0s"}), HasSubstr("a half-life is longer than 0"));
}

TEST(EvaluationScope, HasTheLatencyGapAndTheRanges) {
  const auto scope = ScopeOf({.addresses = {"0x1000-0x3000"}, .latency_gap = "170ns"});
  ASSERT_TRUE(scope) << scope.error().Message();
  EXPECT_EQ(scope->latency_gap_ns, 170.0);
  EXPECT_THAT(scope->ranges, ElementsAre(VpnRange{Vpn(1), Vpn(3)}));
  EXPECT_FALSE(ScopeOf({.latency_gap = "0ns"}));
  EXPECT_EQ(ScopeOf({.truth = "/nowhere"}).error().system_error, ENOENT);
}

}  // namespace evaluation_request_test
}  // namespace tmprof
