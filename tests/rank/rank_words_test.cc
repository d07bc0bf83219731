// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_words.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace rank_words_test {

TEST(RankWords, ChooseTheRateModelAndLeaveTheRestOpenByDefault) {
  const auto choice = ParseRank({});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->model, RankModel::kRate);
  EXPECT_EQ(choice->by, std::nullopt);
  EXPECT_EQ(choice->weight, std::nullopt);
}

TEST(RankWords, ChooseWhatTheyName) {
  const auto choice = ParseRank({.model = "sum", .by = "samples", .weight = "accesses"});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->model, RankModel::kSum);
  EXPECT_EQ(choice->by, RankSource::kSamples);
  EXPECT_EQ(choice->weight, RankWeight::kAccesses);
}

TEST(RankWords, AreRefusedIfTheyNameNothing) {
  EXPECT_FALSE(ParseRank({.model = "x"}));
  EXPECT_FALSE(ParseRank({.by = "x"}));
  EXPECT_FALSE(ParseRank({.weight = "x"}));
}

}  // namespace rank_words_test
}  // namespace tmprof
