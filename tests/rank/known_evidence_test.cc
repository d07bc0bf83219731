// SPDX-License-Identifier: Apache-2.0

#include "rank/known_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tmprof {
namespace known_evidence_test {

using testing::HasSubstr;

EpochProfile EpochWith(std::optional<AccessCounts> accesses) {
  EpochProfile epoch;
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = accesses});
  return epoch;
}

Status RequireMisses(const std::vector<EpochProfile>& epochs) {
  KnownEvidence known;
  for (const EpochProfile& epoch : epochs) known.Look(epoch);
  for (const RankSource other :
       {RankSource::kReferences, RankSource::kSamples, RankSource::kCombined, RankSource::kTruth}) {
    EXPECT_TRUE(known.Require(other, "rank", "x").has_value());
  }
  return known.Require(RankSource::kMisses, "rank by misses", "x");
}

const EpochProfile kModelled = EpochWith(AccessCounts{.loads = 1, .llc_misses = 0});
const EpochProfile kUnmodelled = EpochWith(AccessCounts{.loads = 1});
const EpochProfile kUncounted = EpochWith(std::nullopt);
const EpochProfile kIdle = EpochWith(AccessCounts{});

TEST(KnownEvidence, RefusesMissesOfAccessesWithoutAModel) {
  const Status status = RequireMisses({kModelled, kUnmodelled, kUncounted});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().Message(),
              HasSubstr("1 of its 3 epochs counted accesses without a model of a cache"));
  EXPECT_THAT(status.error().Message(), HasSubstr("--exact-llc"));
  EXPECT_THAT(status.error().Message(), HasSubstr("--tiersim"));
}

TEST(KnownEvidence, RefusesMissesWhereNobodyCounted) {
  const Status status = RequireMisses({kUncounted});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().Message(), HasSubstr("none of its epochs counted misses"));
}

TEST(KnownEvidence, TakesMissesWhereAllAccessesHaveThem) {
  EXPECT_TRUE(RequireMisses({kModelled, kUncounted, kIdle}).has_value());
  EXPECT_TRUE(RequireMisses({}).has_value());
}

}  // namespace known_evidence_test
}  // namespace tmprof
