// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tmprof {
namespace candidates_test {

constexpr TargetId kTarget{1};

// Rows of a table, and where pages are, as text: "100+4=8" is four pages from page 100 on with a
// score of 8, "100+4@0" a candidate's place, "@-" none.
struct Row {
  std::uint64_t vpn;
  std::uint32_t pages;
  double score;
};

class CandidatesTest : public testing::Test {
 protected:
  void Score(std::uint32_t target, std::vector<Row> rows) {
    for (const Row& row : rows) {
      table_.key.push_back({TargetId(target), Vpn(row.vpn)});
      table_.span_pages.push_back(row.pages);
      table_.evidence.emplace_back();
      scores_.push_back(row.score);
    }
  }
  void Place(std::uint32_t target, std::uint64_t start, std::uint64_t end, NodeId::rep node,
             std::uint64_t leaf = 1) {
    const VpnRange range{Vpn(start), Vpn(end)};
    map_.Learn(TargetId(target), range,
               std::vector{PlacedRun{range, NodeId(node), PageCount(leaf)}});
  }
  std::vector<std::string> Found(std::vector<TargetId> targets = {kTarget}) {
    std::vector<PlacedTarget> placed;
    for (const TargetId target : targets) placed.push_back({.id = target, .binding = binding_});
    RankedRows rows;
    rows.Take(table_, scores_, owners_);
    FindCandidates(rows, map_, placed, tiers_, limited_, found_);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      texts.push_back(std::to_string(found_.key[i].vpn.value()) + "+" +
                      std::to_string(found_.span_pages[i]) + "=" +
                      std::to_string(static_cast<int>(found_.score[i])) + "@" +
                      (found_.node[i] ? std::to_string(found_.node[i]->value()) : "-"));
    }
    return texts;
  }

  EvidenceTable table_;
  Scores scores_;
  PageOwners owners_;
  PlacementMap map_;
  Tiers tiers_ = *Tiers::Make({{NodeId(0)}, {NodeId(1)}});
  TierSet limited_ = TierSet().set(kTier1.value());
  const MemoryBinding* binding_ = nullptr;
  Candidates found_;
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(CandidatesTest, HasNothingWhereNothingIsKnown) { EXPECT_THAT(Found(), IsEmpty()); }

TEST_F(CandidatesTest, TellsWhereScoredPagesAre) {
  Score(1, {{10, 1, 5}, {20, 1, 7}, {30, 1, 9}});
  Place(1, 5, 15, 1);
  Place(1, 20, 21, 0);
  EXPECT_THAT(Found(), ElementsAre("10+1=5@1", "20+1=7@0", "30+1=9@-"));
}

TEST_F(CandidatesTest, LeavesOutRowsWithoutAScore) {
  Score(1, {{10, 1, 0}, {11, 1, 3}});
  Place(1, 0, 100, 1);
  EXPECT_THAT(Found(), ElementsAre("11+1=3@1"));
}

TEST_F(CandidatesTest, HasAllOfATierWithACapacityAndSupposesNothingBelowTier1) {
  tiers_ = *Tiers::Make({{NodeId(0)}, {NodeId(1)}, {NodeId(2)}});
  limited_.set(2);
  Score(1, {{10, 1, 4}, {11, 1, 0}});
  for (Evidence& evidence : table_.evidence) evidence.looks = 3;
  Place(1, 10, 14, 1);
  Place(1, 20, 24, 2);
  EXPECT_THAT(Found(), ElementsAre("10+1=4@1", "11+1=0@1", "12+2=0@1"));
  EXPECT_THAT(found_.assumed, ElementsAre(0, 0, 1));
}

// Two pages that were looked at, 4 and 0 hot, and one that was sampled, too.
TEST_F(CandidatesTest, SupposesOfWhatNobodyLookedAtThatItIsLikeTheRest) {
  Score(1, {{10, 1, 4}, {12, 1, 0}, {13, 1, 50}});
  for (Evidence& evidence : table_.evidence) evidence.looks = 3;
  table_.evidence[2].load_samples = 1;
  Place(1, 8, 15, 0);
  Place(1, 20, 30, 1);
  EXPECT_THAT(Found(),
              ElementsAre("8+2=4@0", "10+1=4@0", "11+1=2@0", "12+1=0@0", "13+1=50@0", "14+1=2@0"));
  EXPECT_THAT(found_.assumed, ElementsAre(1, 0, 1, 0, 0, 1));
}

// Samples of long ago fade, and are never quite gone.
TEST_F(CandidatesTest, AcceptsPagesSampledLongAgoAsExamplesOfUnsampledOnes) {
  Score(1, {{10, 1, 4}, {12, 1, 0}});
  for (Evidence& evidence : table_.evidence) evidence.looks = 3;
  table_.evidence[0].load_samples = 1e-9;
  Place(1, 11, 12, 0);
  EXPECT_THAT(Found(), ElementsAre("10+1=4@-", "11+1=2@0"));
}

// Locked memory is an example: its bit is read and never cleared.
TEST_F(CandidatesTest, ARowWithoutLooksIsNotLookedAt) {
  Score(1, {{10, 1, 4}, {11, 1, 0}});
  table_.evidence[0].looks = 1;
  Place(1, 10, 12, 0);
  EXPECT_THAT(Found(), ElementsAre("10+1=4@0", "11+1=4@0"));
  EXPECT_THAT(found_.assumed, ElementsAre(0, 1));
}

TEST_F(CandidatesTest, SupposesByOthersOfATargetThatNobodyHasLookedAtYet) {
  Score(1, {{10, 1, 4}});
  table_.evidence[0].looks = 1;
  Place(2, 10, 12, 0);
  EXPECT_THAT(Found({kTarget, TargetId(2)}), ElementsAre("10+1=4@-", "10+2=8@0"));
}

TEST_F(CandidatesTest, JoinsColdPagesThatWereLookedAtIntoOnePiece) {
  Score(1, {{10, 1, 0}, {11, 1, 0}, {12, 4, 0}, {17, 1, 0}});
  for (Evidence& evidence : table_.evidence) evidence.looks = 1;
  Place(1, 8, 20, 0);
  EXPECT_THAT(Found(), ElementsAre("8+2=0@0", "10+6=0@0", "16+1=0@0", "17+1=0@0", "18+2=0@0"));
  EXPECT_THAT(found_.assumed, ElementsAre(1, 0, 1, 0, 1));
}

TEST_F(CandidatesTest, SupposesNothingWhereNobodyLooks) {
  Score(1, {{10, 1, 4}});
  table_.evidence[0].load_samples = 1;
  Place(1, 8, 11, 0);
  EXPECT_THAT(Found(), ElementsAre("8+2=0@0", "10+1=4@0"));
  EXPECT_THAT(found_.assumed, ElementsAre(0, 0));
}

TEST_F(CandidatesTest, SupposesOfAHugePageThatNobodyLookedAt) {
  Score(1, {{512, 512, 512}});
  table_.evidence[0].looks = 1;
  Place(1, 512, 1536, 0, 512);
  EXPECT_THAT(Found(), ElementsAre("512+512=512@0", "1024+512=512@0"));
  EXPECT_THAT(found_.assumed, ElementsAre(0, 1));
}

TEST_F(CandidatesTest, HasWhatNobodyAccessesInTier1Only) {
  Score(1, {{10, 1, 5}});
  Place(1, 8, 13, 0);
  Place(1, 20, 30, 1);
  EXPECT_THAT(Found(), ElementsAre("8+2=0@0", "10+1=5@0", "11+2=0@0"));
}

TEST_F(CandidatesTest, CutsWhatNobodyAccessesAtMultiplesOfAHugePage) {
  Place(1, 500, 1100, 0);
  EXPECT_THAT(Found(), ElementsAre("500+12=0@0", "512+512=0@0", "1024+76=0@0"));
}

TEST_F(CandidatesTest, CutsASpanWhereItsPlaceChanges) {
  Score(1, {{512, 512, 512}});
  Place(1, 600, 700, 0);
  Place(1, 700, 1000, 1);
  EXPECT_THAT(Found(),
              ElementsAre("512+88=88@-", "600+100=100@0", "700+300=300@1", "1000+24=24@-"));
}

// It may be larger than tier 1, and would stay away from it as a whole.
TEST_F(CandidatesTest, CutsARegionAtMultiplesOfAHugePage) {
  Score(1, {{500, 1100, 1100}});
  Place(1, 0, 4096, 1);
  EXPECT_THAT(Found(),
              ElementsAre("500+12=12@1", "512+512=512@1", "1024+512=512@1", "1536+64=64@1"));
}

TEST_F(CandidatesTest, CutsSpansWhereTheirMemoryPolicyChanges) {
  const MemoryBinding binding(std::nullopt, std::nullopt,
                              {{{Vpn(12), Vpn(14)}, std::vector{NodeId(0)}},
                               {{Vpn(104), Vpn(108)}, std::vector{NodeId(1)}}});
  binding_ = &binding;
  Score(1, {{100, 16, 32}});
  Place(1, 8, 20, 0);
  Place(1, 100, 116, 1);
  EXPECT_THAT(Found(), ElementsAre("8+4=0@0", "12+2=0@0", "14+6=0@0", "100+4=8@1", "104+4=8@1",
                                   "108+8=16@1"));
}

TEST_F(CandidatesTest, JoinsPartsOfAHugePage) {
  Score(1, {{512, 1, 3}, {700, 2, 4}, {1023, 2, 10}});
  Place(1, 512, 2048, 1, 512);
  EXPECT_THAT(Found(), ElementsAre("512+512=12@1", "1024+512=5@1"));
}

TEST_F(CandidatesTest, HasEachHugePageOfTier1) {
  Score(1, {{1024, 512, 7}});
  Place(1, 512, 2048, 0, 512);
  EXPECT_THAT(Found(), ElementsAre("512+512=0@0", "1024+512=7@0", "1536+512=0@0"));
}

TEST_F(CandidatesTest, KeepsToTheTargetsThatItIsGiven) {
  Score(1, {{10, 1, 5}});
  Score(2, {{10, 1, 6}});
  Place(1, 0, 20, 1);
  Place(2, 0, 20, 1);
  EXPECT_THAT(Found({TargetId(2)}), ElementsAre("10+1=6@1"));
  EXPECT_THAT(Found({TargetId(1), TargetId(2)}), ElementsAre("10+1=5@1", "10+1=6@1"));
  EXPECT_EQ(found_.key[1].target, TargetId(2));
}

TEST_F(CandidatesTest, TellsWhatMovesWhole) {
  Score(1, {{10, 4, 5}, {512, 1, 1}});
  Place(1, 0, 100, 1);
  Place(1, 512, 1024, 1, 512);
  Found();
  EXPECT_THAT(found_.leaf, ElementsAre(PageCount(1), PageCount(512)));
}

TEST_F(CandidatesTest, LeavesAPageInNoTierWhereItIs) {
  Score(1, {{10, 1, 5}});
  Place(1, 0, 20, 7);
  EXPECT_THAT(Found(), ElementsAre("10+1=5@7"));
}

}  // namespace candidates_test
}  // namespace tmprof
