// SPDX-License-Identifier: Apache-2.0
// The table of policies with one more, which took the edits in apply.py. `tmprof eval`, its help
// and the daemon's settings read Policies().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "policy/replay/replay.h"
#include "tests/base/hand_made.h"

namespace tmprof {
namespace one_policy_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

OpenTrace Opener(const std::vector<std::vector<Counted>>& rows) {
  std::vector<EpochProfile> epochs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    epochs.push_back(EpochOf(MonotonicTime(seconds(i)), MonotonicTime(seconds(i + 1)), rows[i]));
    epochs.back().index = i;
  }
  return [epochs = std::move(epochs)]() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<VectorEpochStream>(epochs);
  };
}

TEST(OnePolicy, IsFoundAndListedWithTheOthers) {
  const Result<const PolicyEntry*> policy = FindPolicy("example");
  ASSERT_TRUE(policy) << policy.error().Message();
  EXPECT_EQ((*policy)->description, "places the page at the highest address");
  EXPECT_EQ(Policies().front().name, "example");
  EXPECT_THAT(FindPolicy("exmple").error().Message(),
              HasSubstr("use one of example, first_touch, history, oracle"));
}

// Tier 1 holds one of four pages a = 1, b = 2, c = 3, d = 4.
//
//      references      example
//  e0  a1 b2 c5        {a}  1 of 8
//  e1  a4 b1 c3 d2     {c}  3 of 10
//  e2  b6 d3           {d}  3 of 9
//  moves               c+ a-, d+ c-: 4
TEST(OnePolicy, IsReplayed) {
  const auto outcome =
      Replay(Opener({{{1, 1}, {2, 2}, {3, 5}}, {{1, 4}, {2, 1}, {3, 3}, {4, 2}}, {{2, 6}, {4, 3}}}),
             {.policies = {*FindPolicy("example")},
              .ranks = {RankSource::kCombined},
              .ratios = {{1, 4}},
              .judge = RankSource::kCombined,
              .ranker = Ranker::DefaultOptions(RankModel::kSum)});
  ASSERT_TRUE(outcome) << outcome.error().Message();
  ASSERT_EQ(outcome->results.size(), 1u);
  EXPECT_EQ(outcome->results[0].weight_hit, 7);
  EXPECT_EQ(outcome->results[0].weight_total, 27);
  EXPECT_EQ(outcome->results[0].moved_pages, PageCount(4));
}

}  // namespace one_policy_test
}  // namespace tmprof
