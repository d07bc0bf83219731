// SPDX-License-Identifier: Apache-2.0
// Tests that run over every policy of the registry.

#include "policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/fill.h"

namespace tmprof {
namespace policy_test {

using testing::ElementsAre;

// Columns that a ranking can look into, and where their spans are.
struct Question {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> span_pages;
  std::vector<double> score;
  std::vector<bool> in_tier1;

  void Add(std::uint64_t vpn, double of_score, std::uint32_t span = 1, bool in = false) {
    key.push_back({TargetId(0), Vpn(vpn)});
    span_pages.push_back(span);
    score.push_back(of_score);
    in_tier1.push_back(in);
  }
  ScoredSpans spans() const { return {span_pages, score}; }
};

class Where final : public Residency {
 public:
  explicit Where(const std::vector<bool>& in_tier1) : in_tier1_(in_tier1) {}
  void InTier1(std::span<const std::uint32_t> rows,
               std::vector<std::uint8_t>& answers) const override {
    answers.clear();
    for (const std::uint32_t row : rows) answers.push_back(in_tier1_[row]);
  }

 private:
  const std::vector<bool>& in_tier1_;
};

Plan Ask(const Policy& policy, const Question& question, std::uint64_t capacity) {
  Ranking ranking;
  ranking.Reset(question.spans());
  return MakePlan(policy, question.key, ranking, Where(question.in_tier1), PageCount(capacity));
}

std::vector<std::uint64_t> Vpns(const Plan& plan) {
  std::vector<std::uint64_t> vpns;
  for (const PlannedSpan& span : plan.wanted) vpns.push_back(span.key.vpn.value());
  return vpns;
}

Question RandomQuestion(std::uint64_t seed) {
  Question question;
  std::uint64_t state = seed * 977 + 5;
  const auto below = [&state](std::uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  for (std::uint64_t vpn = 0; vpn < 300;) {
    const auto span = static_cast<std::uint32_t>(1 + below(3) * below(3));
    const double score = static_cast<double>(below(6)) * (below(4) == 0 ? 0.37 : 1);
    question.Add(vpn, score, span, below(3) == 0);
    vpn += span + below(3);
  }
  return question;
}

class PolicyContract : public testing::TestWithParam<PolicyEntry> {
 protected:
  const std::unique_ptr<const Policy> policy_ = GetParam().make();
};

TEST_P(PolicyContract, SaysWhoItIsInOneLine) {
  EXPECT_FALSE(GetParam().name.empty());
  EXPECT_FALSE(GetParam().description.empty());
  EXPECT_EQ(GetParam().description.find('\n'), std::string_view::npos);
  EXPECT_EQ(FindPolicy(GetParam().name).value()->name, GetParam().name);
}

TEST_P(PolicyContract, KnowingThePresentMakesItReplayOnly) {
  EXPECT_EQ(policy_->knowledge() == Knowledge::kPresent, GetParam().replay_only);
}

TEST_P(PolicyContract, WantsNothingOfAnEmptyProfile) {
  EXPECT_TRUE(Ask(*policy_, {}, 10).wanted.empty());
}

TEST_P(PolicyContract, StaysWithinEveryCapacityInTheOrderOfAPlan) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Question question = RandomQuestion(seed);
    for (const std::uint64_t capacity : {1u, 2u, 7u, 50u, 1000u}) {
      const Plan plan = Ask(*policy_, question, capacity);
      PageCount total;
      const auto row_of = [&](const PlannedSpan& span) {
        return static_cast<std::size_t>(std::ranges::find(question.key, span.key) -
                                        question.key.begin());
      };
      for (std::size_t i = 0; i < plan.wanted.size(); ++i) {
        const PlannedSpan& span = plan.wanted[i];
        total += span.span;
        ASSERT_EQ(span.span, PageCount(question.span_pages[row_of(span)]));
        ASSERT_GT(span.score, 0);
        if (i == 0) continue;
        const PlannedSpan& before = plan.wanted[i - 1];
        const auto place = [&](const PlannedSpan& s) {
          return std::tuple(-s.score / static_cast<double>(s.span.value()),
                            !question.in_tier1[row_of(s)], s.key);
        };
        ASSERT_LT(place(before), place(span)) << "seed " << seed << " place " << i;
      }
      ASSERT_LE(total, PageCount(capacity));
    }
  }
}

TEST_P(PolicyContract, GivesTheSameAnswerToTheSameQuestion) {
  const Question question = RandomQuestion(1);
  Ranking ranking;
  ranking.Reset(question.spans());
  const Where where(question.in_tier1);
  const Plan small = MakePlan(*policy_, question.key, ranking, where, PageCount(20));
  MakePlan(*policy_, question.key, ranking, where, PageCount(200));
  EXPECT_EQ(MakePlan(*policy_, question.key, ranking, where, PageCount(20)).wanted, small.wanted);
  EXPECT_EQ(MakePlan(*GetParam().make(), question.key, ranking, where, PageCount(20)).wanted,
            small.wanted);
}

TEST_P(PolicyContract, NeverWantsASpanLargerThanTheCapacity) {
  Question question;
  question.Add(0, 1e9, 512);
  EXPECT_TRUE(Ask(*policy_, question, 511).wanted.empty());
}

INSTANTIATE_TEST_SUITE_P(Registry, PolicyContract, testing::ValuesIn(Policies()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(FindPolicy, RefusesOthersByNamingTheChoices) {
  const auto refused = FindPolicy("lru");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().ExitStatus(), 2);
  EXPECT_THAT(refused.error().Message(), testing::HasSubstr("first_touch, history, oracle"));
}

Plan Fill(const Question& question, std::uint64_t capacity) {
  return Ask(*FindPolicy("history").value()->make(), question, capacity);
}

TEST(FillBest, TakesTheBestScoresFirst) {
  Question question;
  question.Add(1, 2);
  question.Add(2, 9);
  question.Add(3, 0);
  question.Add(4, 5);
  EXPECT_THAT(Vpns(Fill(question, 2)), ElementsAre(2, 4));
  EXPECT_THAT(Vpns(Fill(question, 9)), ElementsAre(2, 4, 1)) << "no score, not wanted";
}

TEST(FillBest, BreaksTiesByTier1ThenByKey) {
  Question question;
  question.Add(1, 3);
  question.Add(2, 3);
  question.Add(3, 3, 1, true);
  question.Add(4, 3, 1, true);
  EXPECT_THAT(Vpns(Fill(question, 1)), ElementsAre(3));
  EXPECT_THAT(Vpns(Fill(question, 3)), ElementsAre(3, 4, 1));
}

TEST(FillBest, PassesOverASpanThatDoesNotFitAndFillsBehindIt) {
  Question question;
  question.Add(0, 8, 4);  // 2 a page
  question.Add(8, 3);
  question.Add(9, 1);
  EXPECT_THAT(Vpns(Fill(question, 4)), ElementsAre(8, 9));
  EXPECT_THAT(Vpns(Fill(question, 5)), ElementsAre(8, 0));
}

TEST(Ranking, OrdersAnyScoresLikeASort) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Question question = RandomQuestion(seed);
    // Scores over many octaves as well.
    if (seed % 2 == 0) {
      for (std::size_t i = 0; i < question.score.size(); ++i) {
        question.score[i] *= std::exp2(static_cast<double>(i * seed % 200) - 100);
      }
    }
    std::vector<std::size_t> expected;
    for (std::size_t row = 0; row < question.score.size(); ++row) {
      if (question.score[row] > 0) expected.push_back(row);
    }
    std::ranges::stable_sort(expected, std::greater(), [&](std::size_t row) {
      return question.score[row] / question.span_pages[row];
    });
    Ranking ranking;
    for (const std::size_t likely_places : {0u, 10u, 100'000u}) {
      ranking.Reset(question.spans(), likely_places);
      ASSERT_EQ(ranking.size(), expected.size());
      for (std::size_t place = 0; place < expected.size(); ++place) {
        ASSERT_EQ(ranking.Row(place), expected[place]) << "seed " << seed << " place " << place;
      }
      EXPECT_EQ(ranking.Row(expected.size()), Ranking::kNone);
    }
  }
}

TEST(Ranking, TellsWhichRowsTie) {
  Question question;
  question.Add(1, 2);
  question.Add(2, 8, 4);  // 2 a page
  question.Add(8, 5);
  question.Add(9, 0);
  question.Add(10, 2);
  question.Add(11, 2.000001);
  Ranking ranking;
  ranking.Reset(question.spans());
  EXPECT_THAT(ranking.Tie(0), ElementsAre(2));
  EXPECT_THAT(ranking.Tie(1), ElementsAre(5));
  EXPECT_THAT(ranking.Tie(2), ElementsAre(0, 1, 4));
  EXPECT_THAT(ranking.Tie(3), ElementsAre());
}

}  // namespace policy_test
}  // namespace tmprof
