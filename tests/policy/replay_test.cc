// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/pieces.h"
#include "policy/replay/footprint.h"
#include "policy/replay/shared_rows.h"
#include "tests/base/hand_made.h"
#include "tests/policy/naive_replay.h"

namespace tmprof {
namespace replay_test {

using std::chrono::seconds;

using Row = Counted;

EpochProfile Epoch(std::uint64_t index, const std::vector<Row>& rows) {
  EpochProfile epoch =
      EpochOf(MonotonicTime(seconds(index)), MonotonicTime(seconds(index + 1)), rows);
  epoch.index = index;
  return epoch;
}

std::vector<EpochProfile> Epochs(const std::vector<std::vector<Row>>& rows) {
  std::vector<EpochProfile> epochs;
  for (std::size_t i = 0; i < rows.size(); ++i) epochs.push_back(Epoch(i, rows[i]));
  return epochs;
}

OpenTrace Opener(std::vector<EpochProfile> epochs) {
  return [epochs = std::move(epochs)]() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<VectorEpochStream>(epochs);
  };
}

const PolicyEntry* Named(std::string_view name) { return *FindPolicy(name); }

std::vector<const PolicyEntry*> AllPolicies() {
  std::vector<const PolicyEntry*> all;
  for (const PolicyEntry& entry : Policies()) all.push_back(&entry);
  return all;
}

ReplayOptions Sum(std::vector<const PolicyEntry*> policies, std::vector<Ratio> ratios,
                  std::vector<RankSource> ranks = {RankSource::kCombined},
                  RankSource judge = RankSource::kCombined) {
  return {.policies = std::move(policies),
          .ranks = std::move(ranks),
          .ratios = std::move(ratios),
          .judge = judge,
          .ranker = Ranker::DefaultOptions(RankModel::kSum)};
}

ReplayResult One(const std::vector<std::vector<Row>>& rows, std::string_view policy, Ratio ratio,
                 RankSource rank = RankSource::kCombined,
                 RankSource judge = RankSource::kCombined) {
  const auto outcome = Replay(Opener(Epochs(rows)), Sum({Named(policy)}, {ratio}, {rank}, judge));
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->results.size(), 1u);
  return outcome->results.at(0);
}

// Pages a = 1, b = 2, c = 3, d = 4; tier 1 holds two of the four.
//
//      references        first_touch       history            oracle
//  e0  a1 b2 c5          {a b}   3 of 8    {a b}    3         {b c}   7
//  e1  a4 b1 c3 d2       {a b}   5 of 10   {b c}    4         {a c}   7
//  e2  b6 d3             {a b}   6 of 9    {a c}    0         {b d}   9
//  moves                 0                 c+ a-, a+ b-: 4    a+ b-, b+ d+ a- c-: 6
//
// Each policy has its line here: a new one is worked out by hand and added.
struct Golden {
  double weight_hit;
  std::uint64_t moved_pages;
};
const std::map<std::string_view, Golden> kGolden = {
    {"first_touch", {14, 0}}, {"history", {7, 4}}, {"oracle", {23, 6}}};
const std::vector<std::vector<Row>> kGoldenTrace = {
    {{1, 1}, {2, 2}, {3, 5}}, {{1, 4}, {2, 1}, {3, 3}, {4, 2}}, {{2, 6}, {4, 3}}};

TEST(Replay, GivesEveryPolicyItsGoldenLine) {
  for (const PolicyEntry& entry : Policies()) {
    SCOPED_TRACE(entry.name);
    ASSERT_TRUE(kGolden.contains(entry.name)) << "work out the golden line of the new policy";
    const ReplayResult result = One(kGoldenTrace, entry.name, {1, 2});
    EXPECT_EQ(result.policy, entry.name);
    EXPECT_EQ(result.capacity, PageCount(2));
    EXPECT_EQ(result.epochs, 3u);
    EXPECT_EQ(result.weight_hit, kGolden.at(entry.name).weight_hit);
    EXPECT_EQ(result.weight_total, 27);
    EXPECT_DOUBLE_EQ(result.hit_rate.value(), kGolden.at(entry.name).weight_hit / 27);
    EXPECT_EQ(result.moved_pages, PageCount(kGolden.at(entry.name).moved_pages));
  }
}

TEST(Replay, GivesOneResultPerPolicyRankAndRatioInThatNesting) {
  const auto outcome =
      Replay(Opener(Epochs(kGoldenTrace)),
             Sum(AllPolicies(), {{1, 2}, {1, 4}}, {RankSource::kReferences, RankSource::kSamples}));
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->results.size(), 12u);
  EXPECT_FALSE(outcome->end.damage);
  EXPECT_EQ(outcome->results[0].policy, "first_touch");
  EXPECT_EQ(outcome->results[1].ratio, (Ratio{1, 4}));
  EXPECT_EQ(outcome->results[2].rank, RankSource::kSamples);
  EXPECT_EQ(outcome->results[4].policy, "history");
  EXPECT_EQ(outcome->results[11].policy, "oracle");
}

TEST(Replay, CapacityIsRoundedDownButNeverToNothing) {
  const std::vector<std::vector<Row>> seven = {
      {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}};
  EXPECT_EQ(One(seven, "oracle", {1, 2}).capacity, PageCount(3));
  EXPECT_EQ(One(seven, "oracle", {1, 128}).capacity, PageCount(1));
  EXPECT_EQ(One(seven, "oracle", {1, 1}).hit_rate, 1.0);
}

// Four pages are seen accessed. Two processes have so many resident pages each at the ends of the
// epochs; 0: the process has exited; nullopt: unknown.
using Resident = std::vector<std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>>>;
Result<ReplayOutcome> ReplayOfResident(const Resident& resident) {
  std::vector<EpochProfile> epochs;
  for (const auto& [first, second] : resident) {
    epochs.push_back(Epoch(epochs.size(), {{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
    for (const auto& pages : {first, second}) {
      Target target;
      target.id = TargetId(static_cast<std::uint32_t>(epochs.back().targets.size()));
      target.exited = pages == 0u;
      if (pages && !target.exited) target.resident_pages = PageCount(*pages);
      epochs.back().targets.push_back(target);
    }
  }
  ReplayOptions options = Sum({Named("oracle")}, {{1, 8}});
  options.ratio_of = RatioOf::kResident;
  return Replay(Opener(std::move(epochs)), options);
}

TEST(Replay, TakesRatiosOfTheMostResidentMemoryIfAsked) {
  const auto outcome = ReplayOfResident({{10, 5}, {16, 8}, {20, 0}});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->whole, PageCount(24));
  EXPECT_EQ(outcome->results[0].capacity, PageCount(3));
  EXPECT_EQ(outcome->results[0].hit_rate, 0.75);
}

TEST(Replay, PassesOverEpochsWhoseResidentMemoryIsUnknown) {
  const auto outcome = ReplayOfResident({{8, 8}, {100, std::nullopt}});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->whole, PageCount(16));
}

TEST(Replay, RefusesRatiosOfResidentMemoryThatNoEpochTells) {
  const auto outcome = ReplayOfResident({{std::nullopt, 8}});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().Message(), testing::HasSubstr("resident"));
}

TEST(Replay, TakesSizesForCapacitiesAsTheyAre) {
  ReplayOptions options = Sum({Named("oracle")}, {});
  options.sizes = {PageCount(1), PageCount(100)};
  const auto outcome = Replay(Opener(Epochs({{{1, 3}, {2, 1}}})), options);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->results.size(), 2u);
  EXPECT_EQ(outcome->results[0].hit_rate, 0.75);
  EXPECT_EQ(outcome->results[0].ratio, std::nullopt);
  EXPECT_EQ(outcome->results[1].capacity, PageCount(100));
  EXPECT_EQ(outcome->results[1].hit_rate, 1.0);
}

// Page 9 was looked at and never seen accessed: it is no part of the footprint.
TEST(Replay, PagesNeverSeenAccessedDoNotCount) {
  EXPECT_EQ(One({{{1, 1}, {2, 1}, {9, 0}}}, "oracle", {1, 1}).capacity, PageCount(2));
}

// a and b tie in e1. History filled tier 1 with b by e0, so b stays.
TEST(Replay, TiesGoToPagesAlreadyInTier1) {
  const ReplayResult result =
      One({{{1, 1}, {2, 5}}, {{1, 3}, {2, 3}}, {{1, 1}, {2, 1}}}, "history", {1, 2});
  // e0: a by first touch, 1. e1: b (5 > 1) in, a out: 2 moves, hit 3. e2: tie, b stays: hit 1.
  EXPECT_EQ(result.weight_hit, 1 + 3 + 1);
  EXPECT_EQ(result.moved_pages, PageCount(2));
}

// e1's profile names only b; there is room for one page more, so c (in tier 1 since e0) stays: 3
// pages of room 2: a, placed first in e0, and b by first touch; plan for e2 = {b}, nobody has to
// go.
TEST(Replay, APlanSmallerThanTheCapacityEvictsNobody) {
  const ReplayResult result =
      One({{{1, 1}, {2, 1}, {3, 1}, {4, 1}}, {{2, 4}}, {{1, 7}}}, "history", {1, 2});
  // e0 {1 2}: 2. e1 by e0: all tie, residents first: {1 2}: 4. e2 by e1 wants 2: {1 2}: 7.
  EXPECT_EQ(result.weight_hit, 2 + 4 + 7);
  EXPECT_EQ(result.moved_pages, PageCount(0));
}

// Page 3 is wanted, page 2 (known, not scored) stays before page 1, 4 (not known) would go first.
TEST(Replay, RoomIsMadeFromTheWorst) {
  const ReplayResult result =
      One({{{1, 2}, {4, 2}, {5, 1}, {6, 1}}, {{1, 1}, {5, 9}}, {{1, 1}, {4, 1}, {5, 1}}}, "history",
          {1, 2});
  // e0 {1 4} by first touch: 4. e1 by e0 wants 1, 4: 1. e2 by e1 wants 5, 1: 4 goes: hit 1 + 1.
  EXPECT_EQ(result.weight_hit, 4 + 1 + 2);
  EXPECT_EQ(result.moved_pages, PageCount(2));
}

// The span holds 8 references on 4 pages, 2 each: page 9 with 3 is denser, page 10 with 1 is not.
TEST(Replay, SpansRankByDensityAndMoveWhole) {
  const std::vector<std::vector<Row>> rows = {{{0, 8, 0, 4}, {9, 3}, {10, 1}}};
  EXPECT_EQ(One(rows, "oracle", {5, 6}).weight_hit, 8 + 3);
  // Four pages of room: 9 first; the span no longer fits; 10 still does.
  EXPECT_EQ(One(rows, "oracle", {4, 6}).weight_hit, 3 + 1);
  // First touch in order of keys: the span fits, nothing else.
  EXPECT_EQ(One(rows, "first_touch", {4, 6}).weight_hit, 8);
}

// 8192 pages: pieces are of 8. A hot region of 20 pages, 12 samples each, next to 8172 that were
// seen once, of which tier 1 holds 16 pages: the pieces [4, 8), [8, 16), not [16, 24), and four
// pages of the others.
TEST(Replay, ARegionLargerThanTier1IsPlacedInPart) {
  std::vector<Row> rows = {{4, 0, 240, 20}};
  for (std::uint64_t vpn = 24; vpn < 24 + 8172; ++vpn) rows.push_back({vpn, 1});
  EXPECT_EQ(One({rows}, "oracle", {1, 512}).weight_hit, 12 * 12 + 4);
  EXPECT_EQ(One({rows}, "oracle", {1, 512}).weight_total, 240 + 8172);
  EXPECT_EQ(One({rows, rows}, "history", {1, 512}).weight_hit, 2 * (12 * 12 + 4));
  EXPECT_EQ(One({rows, rows}, "history", {1, 512}).moved_pages, PageCount(0));
  EXPECT_EQ(One({rows}, "first_touch", {1, 512}).weight_hit, 12 * 12 + 4);
}

// The same as a span of one page-table entry does not fit, and 16 pages of the others are there.
TEST(Replay, AHugePageIsPlacedWholeOrNotAtAll) {
  std::vector<Row> rows = {{512, 0, 512 * 12, 512}};
  for (std::uint64_t vpn = 1024; vpn < 1024 + 7680; ++vpn) rows.push_back({vpn, 1});
  EXPECT_EQ(One({rows}, "oracle", {1, 512}).weight_hit, 16);
  EXPECT_EQ(One({rows}, "oracle", {1, 16}).weight_hit, 512 * 12);
}

TEST(Pieces, AreAThousandthOfTheMemoryUpToAHugePage) {
  EXPECT_EQ(PieceOf(PageCount(1)), PageCount(8));
  EXPECT_EQ(PieceOf(PageCount(16383)), PageCount(8));
  EXPECT_EQ(PieceOf(PageCount(16384)), PageCount(16));
  EXPECT_EQ(PieceOf(PageCount(524287)), PageCount(256));
  EXPECT_EQ(PieceOf(PageCount(524288)), PageCount(512));
  EXPECT_EQ(PieceOf(PageCount(std::uint64_t{1} << 40)), PageCount(512));
}

std::vector<std::string> PiecesOf(std::uint64_t start, std::uint64_t pages, std::uint64_t piece) {
  std::vector<std::string> found;
  ForEachPiece({Vpn(start), Vpn(start + pages)}, PageCount(piece), [&found](VpnRange part) {
    found.push_back(std::to_string(part.start.value()) + "+" + std::to_string(part.size().value()));
  });
  return found;
}

TEST(Pieces, EndAtMultiplesOfTheirSizeAndLeaveEntriesWhole) {
  EXPECT_EQ(PiecesOf(60, 80, 64), (std::vector<std::string>{"60+4", "64+64", "128+12"}));
  EXPECT_EQ(PiecesOf(64, 64, 64), (std::vector<std::string>{"64+64"}));
  EXPECT_EQ(PiecesOf(60, 40, 64), (std::vector<std::string>{"60+40"}));  // no larger than one
  EXPECT_EQ(PiecesOf(60, 512, 64), (std::vector<std::string>{"60+512"}));
  EXPECT_EQ(PiecesOf(512, 262144, 512), (std::vector<std::string>{"512+262144"}));
}

TEST(Replay, TheJudgeMayDifferFromTheRank) {
  const std::vector<std::vector<Row>> rows = {{{1, 9, 0}, {2, 0, 5}}};
  EXPECT_EQ(One(rows, "oracle", {1, 2}, RankSource::kReferences, RankSource::kSamples).hit_rate,
            0.0);
  EXPECT_EQ(One(rows, "oracle", {1, 2}, RankSource::kSamples, RankSource::kSamples).hit_rate, 1.0);
}

TEST(Replay, AJudgeThatSawNothingLeavesTheHitRateUnknown) {
  const ReplayResult result =
      One({{{1, 9, 0}}}, "oracle", {1, 1}, RankSource::kCombined, RankSource::kSamples);
  EXPECT_EQ(result.hit_rate, std::nullopt);
  EXPECT_EQ(result.weight_total, 0);
}

TEST(Replay, AHitRateByFewReferencesAndSamplesIsNotTold) {
  const auto replay = [](std::uint32_t references, std::uint32_t samples, RankSource judge) {
    const auto outcome = Replay(Opener(Epochs({{{1, references, samples}}})),
                                Sum({Named("oracle")}, {{1, 1}}, {RankSource::kCombined}, judge));
    EXPECT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->results[0].hit_rate, 1.0);
    return *outcome;
  };
  EXPECT_EQ(replay(0, 1, RankSource::kSamples).observations, 1u);
  EXPECT_FALSE(replay(0, 1, RankSource::kSamples).is_told());
  EXPECT_FALSE(replay(15, 14, RankSource::kCombined).is_told());
  EXPECT_TRUE(replay(15, 15, RankSource::kCombined).is_told());
  EXPECT_FALSE(replay(29, 100, RankSource::kReferences).is_told());
  EXPECT_FALSE(replay(100, 29, RankSource::kSamples).is_told());
}

TEST(Replay, AHitRateOfCountedAccessesIsTold) {
  std::vector<EpochProfile> epochs = Epochs({{{1, 1}}});
  epochs[0].pages = {};
  Append(epochs[0].pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = 1}});
  const auto outcome = Replay(
      Opener(epochs), Sum({Named("oracle")}, {{1, 1}}, {RankSource::kTruth}, RankSource::kTruth));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->observations, std::nullopt);
  EXPECT_TRUE(outcome->is_told());
}

// In e2 nothing is known of e1 but page 2. With a half-life of one epoch, page 1's 8 of e0 weigh 4.
TEST(Replay, AHalfLifeLetsHistoryRememberOlderEpochs) {
  const std::vector<std::vector<Row>> rows = {{{1, 8}, {2, 1}}, {{2, 1}}, {{1, 8}, {2, 1}}};
  ReplayOptions options = Sum({Named("history")}, {{1, 2}});
  options.ranker.memory = Ranker::Memory::kThisEpoch;
  const auto forgetful = Replay(Opener(Epochs(rows)), options);
  options.ranker.memory = Ranker::Memory::kHalfLife;
  options.ranker.half_life = seconds(1);
  const auto remembering = Replay(Opener(Epochs(rows)), options);
  ASSERT_TRUE(forgetful && remembering);
  // Forgetful: e1 by e0 wants 1; e2 by e1 wants 2. Remembering stays with 1.
  EXPECT_EQ(forgetful->results[0].moved_pages, PageCount(2));
  EXPECT_EQ(remembering->results[0].moved_pages, PageCount(0));
}

TEST(Replay, DamageKeepsTheEpochsBeforeIt) {
  const OpenTrace open = []() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<FaultyStream>(Epochs({{{1, 1}, {2, 2}}}));
  };
  const auto outcome = Replay(open, Sum({Named("oracle")}, {{1, 2}}));
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->end.damage.has_value());
  EXPECT_EQ(outcome->end.damage->reason, "damaged");
  EXPECT_EQ(outcome->results[0].epochs, 1u);
  EXPECT_EQ(outcome->results[0].weight_hit, 2);
}

TEST(Replay, ATraceWithoutAnyEpochIsRefused) {
  const auto empty = Replay(Opener({}), Sum({Named("oracle")}, {{1, 2}}));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().ExitStatus(), 2);
  EXPECT_THAT(empty.error().Message(), testing::HasSubstr("no complete epoch"));
  const OpenTrace damaged = []() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<FaultyStream>(std::vector<EpochProfile>());
  };
  EXPECT_EQ(Replay(damaged, Sum({Named("oracle")}, {{1, 2}})).error().reason, "damaged");
}

TEST(Replay, ATraceWithoutAnyAccessIsRefused) {
  const auto idle = Replay(Opener(Epochs({{{1, 0}}, {}})), Sum({Named("oracle")}, {{1, 2}}));
  ASSERT_FALSE(idle);
  EXPECT_THAT(idle.error().Message(), testing::HasSubstr("no page was seen accessed"));
}

TEST(Replay, AFootprintThatNoMachineHasIsRefused) {
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < 300; ++i) rows.push_back({i << 32, 1, 0, 0xffffffff});
  const auto huge = Replay(Opener(Epochs({rows})), Sum({Named("oracle")}, {{1, 2}}));
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().ExitStatus(), 2);
  EXPECT_THAT(huge.error().Message(), testing::HasSubstr("footprint"));
}

TEST(Replay, ATraceThatCannotBeOpenedIsTheCallersError) {
  const OpenTrace refused = []() -> Result<std::unique_ptr<EpochStream>> {
    return Fail(Refused("open trace", "x", ENOENT));
  };
  EXPECT_EQ(Replay(refused, Sum({Named("oracle")}, {{1, 2}})).error().system_error, ENOENT);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint64_t Below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

std::vector<EpochProfile> RandomTrace(std::uint64_t seed, std::uint64_t pages, std::uint64_t epochs,
                                      bool spans) {
  Random random(seed);
  std::vector<std::vector<Row>> rows(epochs);
  for (auto& epoch : rows) {
    for (std::uint32_t target = 0; target < 2; ++target) {
      for (std::uint64_t vpn = 0; vpn < pages;) {
        const std::uint64_t span = spans ? 1 + random.Below(3) * random.Below(4) : 1;
        if (random.Below(3) != 0) {
          epoch.push_back({vpn, static_cast<std::uint32_t>(random.Below(5)),
                           static_cast<std::uint32_t>(random.Below(3)), span, target});
        }
        vpn += span;
      }
    }
  }
  return Epochs(rows);
}

// `plain` says the same as `epochs` does, by what the naive replay knows.
void ExpectAsNaive(const std::vector<EpochProfile>& epochs,
                   const std::vector<EpochProfile>& plain) {
  const std::vector<Ratio> ratios = {{1, 1}, {1, 2}, {1, 3}, {1, 8}, {1, 64}};
  const std::vector<std::pair<RankSource, NaiveCount>> sources = {
      {RankSource::kReferences, NaiveCount::kReferences},
      {RankSource::kSamples, NaiveCount::kSamples},
      {RankSource::kCombined, NaiveCount::kCombined}};
  for (const auto& [judge, naive_judge] : sources) {
    const auto outcome =
        Replay(Opener(epochs),
               Sum(AllPolicies(), ratios,
                   {RankSource::kReferences, RankSource::kSamples, RankSource::kCombined}, judge));
    ASSERT_TRUE(outcome.has_value());
    for (const ReplayResult& result : outcome->results) {
      const auto rank =
          std::ranges::find(sources, result.rank, &decltype(sources)::value_type::first);
      const NaiveResult naive =
          NaiveReplay(plain, result.policy, rank->second, naive_judge, *result.ratio);
      SCOPED_TRACE(result.policy + " by " + std::string(Name(result.rank)) + " at " +
                   ToString(*result.ratio));
      ASSERT_EQ(result.capacity, PageCount(naive.capacity_pages));
      ASSERT_NEAR(result.weight_hit, naive.weight_hit, 1e-9);
      ASSERT_NEAR(result.weight_total, naive.weight_total, 1e-9);
      ASSERT_EQ(result.moved_pages, PageCount(naive.moved_pages));
    }
  }
}

void ExpectAsNaive(const std::vector<EpochProfile>& epochs) { ExpectAsNaive(epochs, epochs); }

// Both targets map one file from page kSharedFrom on, the second one two pages further into it.
constexpr std::uint64_t kSharedFrom = 10;

std::vector<EpochProfile> WithSharedFile(std::vector<EpochProfile> epochs) {
  for (EpochProfile& epoch : epochs) {
    for (std::uint32_t id = 0; id < 2; ++id) {
      const Mapping file{
          .range = {Vpn(kSharedFrom), Vpn(100)},
          .kind = MappingKind::kShared,
          .path = "/memfd:ring (deleted)",
          .file = FilePlace{.device = 1, .inode = 5, .offset = PageCount(2 * std::uint64_t{id})}};
      epoch.targets.push_back({.id = TargetId(id), .mappings = {file}});
    }
  }
  return epochs;
}

// Returns the epochs with each page under the key that `key_of` gives it. Counts of pages that then
// have one key are added up.
std::vector<EpochProfile> Merged(const std::vector<EpochProfile>& epochs,
                                 const std::function<PageKey(PageKey)>& key_of) {
  std::vector<EpochProfile> merged;
  for (const EpochProfile& epoch : epochs) {
    std::map<PageKey, PageRecord> records;
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      PageRecord record = RecordAt(epoch.pages, i);
      record.key = key_of(record.key);
      const auto [known, is_new] = records.try_emplace(record.key, record);
      if (is_new) continue;
      known->second.looks += record.looks;
      known->second.references += record.references;
      known->second.load_samples += record.load_samples;
    }
    merged.push_back(epoch);
    merged.back().pages = {};
    for (const auto& [key, record] : records) Append(merged.back().pages, record);
  }
  return merged;
}

// They are the same pages as those of a third target, behind all others, by which every count is
// there once.
std::vector<EpochProfile> WithFileAsTarget(const std::vector<EpochProfile>& epochs) {
  return Merged(epochs, [](PageKey key) {
    const std::uint64_t vpn = key.vpn.value();
    if (vpn < kSharedFrom) return key;
    return PageKey{TargetId(2), Vpn(vpn - kSharedFrom + 2 * key.target.value())};
  });
}

TEST(Replay, CountsAPageOnceThoughSeveralProcessesMapIt) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<EpochProfile> epochs = RandomTrace(seed, 20, 6, false);
    ExpectAsNaive(WithSharedFile(epochs), WithFileAsTarget(epochs));
  }
}

// The pages of both targets from here on are those of one memory after a fork.
constexpr std::uint64_t kForkedFrom = 6;

std::vector<EpochProfile> WithFork(std::vector<EpochProfile> epochs) {
  for (EpochProfile& epoch : epochs) {
    const Mapping memory{.range = {Vpn(0), Vpn(100)}, .kind = MappingKind::kAnonymous};
    for (std::uint32_t id = 0; id < 2; ++id) {
      epoch.targets.push_back({.id = TargetId(id), .mappings = {memory}});
    }
    std::vector<std::uint32_t> same_as;
    for (std::uint32_t i = 0; i < epoch.pages.size(); ++i) {
      std::uint32_t first = i;
      for (std::uint32_t j = 0; j < i; ++j) {
        if (epoch.pages.vpn[j] == epoch.pages.vpn[i] && epoch.pages.vpn[i] >= Vpn(kForkedFrom) &&
            epoch.pages.span_pages[j] == epoch.pages.span_pages[i])
          first = j;
      }
      same_as.push_back(first);
    }
    epoch.pages.same_as = same_as;
  }
  return epochs;
}

// In the first epoch all pages are seen, so that all forked ones are joined from then on.
std::vector<EpochProfile> RandomFork(std::uint64_t seed) {
  std::vector<Row> all;
  for (std::uint32_t target = 0; target < 2; ++target) {
    for (std::uint64_t vpn = 0; vpn < 20; ++vpn) all.push_back({vpn, 1, 1, 1, target});
  }
  std::vector<EpochProfile> epochs = Epochs({all});
  for (EpochProfile& epoch : RandomTrace(seed, 20, 6, false)) epochs.push_back(std::move(epoch));
  return epochs;
}

// Returns the epochs with all that was seen of forked pages as that of the first target's.
std::vector<EpochProfile> WithoutFork(const std::vector<EpochProfile>& epochs) {
  return Merged(epochs, [](PageKey key) {
    if (key.vpn >= Vpn(kForkedFrom)) key.target = TargetId(0);
    return key;
  });
}

TEST(Replay, CountsAForkedPageOnceThoughSeveralProcessesHaveIt) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<EpochProfile> epochs = RandomFork(seed);
    const std::vector<Ratio> ratios = {{1, 1}, {1, 2}, {1, 8}};
    // Ties go by the order of rows, in which forked pages come last. The best pages' weight does
    // not depend on ties.
    const auto forked = Replay(Opener(WithFork(epochs)), Sum(AllPolicies(), ratios));
    const auto merged = Replay(Opener(WithoutFork(epochs)), Sum(AllPolicies(), ratios));
    ASSERT_TRUE(forked && merged);
    for (std::size_t i = 0; i < forked->results.size(); ++i) {
      EXPECT_EQ(forked->results[i].capacity, merged->results[i].capacity);
      EXPECT_NEAR(forked->results[i].weight_total, merged->results[i].weight_total, 1e-9);
      if (forked->results[i].policy == "oracle") {
        EXPECT_NEAR(forked->results[i].weight_hit, merged->results[i].weight_hit, 1e-9);
      }
    }
  }
}

// The parent is seen alone, then with its child, which has written to half of the pages later.
TEST(Replay, CountsCopiesApartAndPagesFromBeforeAForkOnce) {
  constexpr std::uint64_t kPages = 16;
  const auto epoch_of = [](std::uint32_t targets) {
    std::vector<Row> rows;
    for (std::uint32_t target = 0; target < targets; ++target) {
      for (std::uint64_t vpn = 0; vpn < kPages; ++vpn)
        rows.push_back({kForkedFrom + vpn, 1, 0, 1, target});
    }
    return rows;
  };
  std::vector<EpochProfile> epochs = WithFork(Epochs({epoch_of(1), epoch_of(2), epoch_of(2)}));
  const auto footprint = [&epochs] {
    VectorEpochStream stream(epochs);
    return ScanFootprint(stream).footprint.size();
  };
  EXPECT_EQ(footprint(), PageCount(kPages));
  std::vector<std::uint32_t>& same_as = *epochs[2].pages.same_as;
  for (std::uint32_t i = kPages; i < kPages + kPages / 2; ++i) same_as[i] = i;
  EXPECT_EQ(footprint(), PageCount(kPages + kPages / 2));
}

TEST(Replay, SpansOfSharedPagesKeepTheirWeight) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<EpochProfile> epochs = RandomTrace(seed, 24, 6, true);
    const ReplayOptions options = Sum(AllPolicies(), {{1, 1}, {1, 3}});
    const auto apart = Replay(Opener(epochs), options);
    const auto shared = Replay(Opener(WithSharedFile(epochs)), options);
    ASSERT_TRUE(apart && shared);
    for (std::size_t i = 0; i < shared->results.size(); ++i) {
      EXPECT_LT(shared->results[i].capacity, apart->results[i].capacity);
      EXPECT_NEAR(shared->results[i].weight_total, apart->results[i].weight_total, 1e-9);
    }
  }
}

// --max-targets lists processes without mappings while they are not observed.
TEST(Replay, SharedPagesKeepTheirNamesWhileTheirMapperIsNotObserved) {
  const std::vector<EpochProfile> known = WithSharedFile(RandomTrace(1, 24, 6, true));
  std::vector<EpochProfile> unknown = known;
  for (std::size_t e = 1; e < unknown.size(); e += 2) {
    for (Target& target : unknown[e].targets) target.mappings.clear();
  }
  const ReplayOptions options = Sum(AllPolicies(), {{1, 3}});
  const auto by_known = Replay(Opener(known), options);
  const auto by_unknown = Replay(Opener(unknown), options);
  ASSERT_TRUE(by_known && by_unknown);
  for (std::size_t i = 0; i < by_known->results.size(); ++i) {
    EXPECT_EQ(by_unknown->results[i].capacity, by_known->results[i].capacity) << i;
    EXPECT_EQ(by_unknown->results[i].hit_rate, by_known->results[i].hit_rate) << i;
  }
}

TEST(SharedRows, AreCutWhereAMapperBeginsOrEnds) {
  SharedRows rows;
  rows.Take(0, 10, 8);
  rows.Take(2, 30, 1);
  rows.Take(1, 12, 4);
  rows.Take(3, 18, 2);
  rows.Cut();
  const auto pieces = [&rows] {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const SharedRows::Piece& piece : rows.pieces()) all.emplace_back(piece.first, piece.pages);
    return all;
  };
  using Pieces = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(pieces(), (Pieces{{10, 2}, {12, 4}, {16, 2}, {18, 2}, {30, 1}}));
  std::vector<double> score = {80, 4, 5, 6};
  rows.AppendScores(score);
  EXPECT_EQ(score, (std::vector<double>{80, 4, 5, 6, 20, 40 + 4, 20, 6, 5}));
}

TEST(Replay, AgreesWithTheNaiveReplayOnBasePages) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    ExpectAsNaive(RandomTrace(seed, 20, 6, false));
  }
}

TEST(Replay, AgreesWithTheNaiveReplayOnSpansThatComeAndGo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    ExpectAsNaive(RandomTrace(seed, 24, 6, true));
  }
}

// More lanes than one machine word holds.
TEST(Replay, KeepsMoreThan64PlacementsApart) {
  std::vector<Ratio> ratios;
  for (std::uint64_t n = 1; n <= 70; ++n) ratios.push_back({n, 70});
  const std::vector<EpochProfile> epochs = RandomTrace(3, 40, 5, false);
  const auto outcome = Replay(Opener(epochs), Sum({Named("history"), Named("oracle")}, ratios));
  ASSERT_TRUE(outcome.has_value());
  for (const ReplayResult& result : outcome->results) {
    const NaiveResult naive = NaiveReplay(epochs, result.policy, NaiveCount::kCombined,
                                          NaiveCount::kCombined, *result.ratio);
    ASSERT_NEAR(result.weight_hit, naive.weight_hit, 1e-9) << ToString(*result.ratio);
    ASSERT_EQ(result.moved_pages, PageCount(naive.moved_pages));
  }
}

// No way to fill tier 1 in one epoch holds more of the weight of the oracle's own judge.
TEST(Oracle, IsTheBestPlacementOfItsJudgeInEachEpoch) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<EpochProfile> epochs = RandomTrace(seed, 6, 1, false);
    const PageColumns& pages = epochs[0].pages;
    for (const Ratio ratio : {Ratio{1, 2}, Ratio{1, 3}, Ratio{2, 3}}) {
      const auto outcome = Replay(Opener(epochs), Sum({Named("oracle")}, {ratio}));
      if (!outcome) continue;  // no page is accessed with this seed
      const ReplayResult& result = outcome->results[0];
      double best = 0;
      for (std::uint32_t subset = 0; subset < 1u << pages.size(); ++subset) {
        if (PageCount(std::popcount(subset)) > result.capacity) continue;
        double weight = 0;
        for (std::size_t i = 0; i < pages.size(); ++i) {
          if (subset >> i & 1) weight += pages.references[i] + pages.load_samples[i];
        }
        best = std::max(best, weight);
      }
      EXPECT_EQ(result.weight_hit, best) << seed << " " << ToString(ratio);
    }
  }
}

TEST(Footprint, CountsEachObservedPageOnceAndNumbersThemInOrder) {
  Footprint footprint;
  footprint.Add(Epoch(0, {{5, 1}, {7, 0, 1}, {9, 0}}).pages);
  footprint.Add(Epoch(1, {{0, 0}, {4, 1, 0, 4}, {20, 1, 0, 2, 1}}).pages);
  // Target 0: 4 5 6 7, target 1: 20 21.
  EXPECT_EQ(footprint.size(), PageCount(6));
  Footprint::Walk walk(footprint);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(3)}, 1), std::nullopt);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(4)}, 4), 0u);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(6)}, 2), 2u);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(7)}, 2), std::nullopt) << "sticks out";
  EXPECT_EQ(walk.IndexOf({TargetId(1), Vpn(21)}, 1), 5u);
  EXPECT_EQ(walk.IndexOf({TargetId(2), Vpn(0)}, 1), std::nullopt);
}

TEST(Footprint, CountsPagesWithExactAccessesAndNoneWithoutAny) {
  EpochProfile epoch = Epoch(0, {{1, 0}});
  Append(epoch.pages,
         {.key = {TargetId(0), Vpn(2)}, .accesses = AccessCounts{.loads = 1, .llc_misses = 0}});
  Append(
      epoch.pages,
      {.key = {TargetId(0), Vpn(4)}, .span = PageCount(2), .accesses = AccessCounts{.stores = 1}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(9)}, .accesses = AccessCounts{}});
  Footprint footprint;
  footprint.Add(epoch.pages);
  EXPECT_EQ(footprint.size(), PageCount(3));
  Footprint::Walk walk(footprint);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(1)}, 1), std::nullopt);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(2)}, 1), 0u);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(4)}, 2), 1u);
  EXPECT_EQ(walk.IndexOf({TargetId(0), Vpn(9)}, 1), std::nullopt);
}

// Page 1 has the accesses, page 2 the misses.
EpochProfile Missed(std::uint64_t index, std::optional<std::uint64_t> misses) {
  EpochProfile epoch = Epoch(index, {});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)},
                       .accesses = AccessCounts{.loads = 90, .llc_misses = misses}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(2)},
                       .accesses = AccessCounts{.loads = 10, .llc_misses = misses}});
  if (misses) (*epoch.pages.accesses->llc_misses)[0] = 0;
  return epoch;
}

TEST(Replay, JudgesByMissesWhereACacheWasModelled) {
  const auto outcome =
      Replay(Opener({Missed(0, 7), Missed(1, 7)}),
             Sum({Named("oracle")}, {{1, 2}}, {RankSource::kMisses}, RankSource::kMisses));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->results[0].hit_rate, 1.0);
  EXPECT_EQ(outcome->results[0].weight_total, 14);
}

TEST(Replay, JudgesByStallsOnlyWhereTheyWereModelled) {
  // Page 1 has the accesses and all of the stalls, page 2 the misses.
  const auto waited = [](std::uint64_t index) {
    EpochProfile epoch = Missed(index, 7);
    epoch.pages.accesses->stall_ns = {30, 0};
    return epoch;
  };
  ReplayOptions options = Sum({Named("oracle")}, {{1, 2}});
  options.ranks.clear();
  options.judge.reset();
  options.weight = RankWeight::kStall;
  const auto outcome = Replay(Opener({waited(0), waited(1)}), options);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->judge, RankSource::kStall);
  EXPECT_EQ(outcome->basis.weight, RankWeight::kStall);
  EXPECT_EQ(outcome->results[0].rank, RankSource::kStall);
  EXPECT_EQ(outcome->results[0].weight_total, 60);
  EXPECT_EQ(outcome->results[0].hit_rate, 1.0);

  const auto refused = Replay(Opener({waited(0), Missed(1, 7)}), options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().Message(),
              testing::AllOf(testing::HasSubstr("rank by stall"),
                             testing::HasSubstr("1 of its 2 epochs counted accesses without"),
                             testing::HasSubstr("--exact-stalls")));
}

TEST(Replay, GoesByTheBestEvidenceOfTheTraceUnlessToldOtherwise) {
  const OpenTrace exact = Opener({Missed(0, 7), Missed(1, 7)});
  const OpenTrace bits =
      Opener({Epoch(0, {{.vpn = 1, .references = 3}}), Epoch(1, {{.vpn = 2, .references = 3}})});
  for (const auto& [trace, best] :
       {std::pair(exact, RankSource::kMisses), {bits, RankSource::kReferences}}) {
    ReplayOptions options = Sum({Named("oracle")}, {{1, 2}});
    options.ranks.clear();
    options.judge.reset();
    const auto outcome = Replay(trace, options);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
    ASSERT_EQ(outcome->results.size(), 1u);
    EXPECT_EQ(outcome->judge, best);
    EXPECT_EQ(outcome->results[0].judge, best);
    EXPECT_EQ(outcome->results[0].rank, best);
    EXPECT_TRUE(outcome->results[0].hit_rate.has_value());
  }
}

TEST(Replay, RefusesMissesThatAreUnknownAsRankAndAsJudge) {
  const OpenTrace unmodelled = Opener({Missed(0, 7), Missed(1, std::nullopt)});
  for (const auto& [rank, judge] : {std::pair(RankSource::kMisses, RankSource::kTruth),
                                    std::pair(RankSource::kTruth, RankSource::kMisses)}) {
    const auto outcome = Replay(unmodelled, Sum({Named("oracle")}, {{1, 2}}, {rank}, judge));
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().ExitStatus(), 2);
    EXPECT_THAT(outcome.error().Message(),
                testing::HasSubstr("1 of its 2 epochs counted accesses without a model"));
    EXPECT_THAT(outcome.error().Message(), testing::HasSubstr("--exact-llc"));
  }
  EXPECT_FALSE(Replay(Opener(Epochs({{{1, 5}}})), Sum({Named("oracle")}, {{1, 2}},
                                                      {RankSource::kCombined}, RankSource::kMisses))
                   .has_value());
}

TEST(Replay, RefusesToRankByAccessesToMemoryWhereNoneWereSampled) {
  const auto outcome =
      Replay(Opener(Epochs({{{1, 5}}})),
             Sum({Named("history")}, {{1, 2}}, {RankSource::kMemory}, RankSource::kCombined));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().ExitStatus(), 2);
  EXPECT_THAT(outcome.error().Message(), testing::HasSubstr("rank by memory"));
  EXPECT_THAT(outcome.error().Message(), testing::HasSubstr("ibs or pebs"));
}

// Pages 1 and 2 miss at first, and then pages 3 and 4; tier 1 holds two of four.
TEST(Replay, JudgesByMemoryWithSamplesThatDidNotRank) {
  std::vector<std::vector<Row>> rows(4, {{1, 5, 0}, {2, 5, 0}, {3, 5, 0}, {4, 5, 0}});
  for (std::size_t e = 0; e < rows.size(); ++e) {
    for (const std::size_t i : {0u, 1u}) rows[e][(e < 3 ? 0 : 2) + i].samples = 100;
  }
  std::vector<EpochProfile> epochs = Epochs(rows);
  const auto replayed = [&] {
    ReplayOptions options = Sum({Named("history"), Named("oracle")}, {{1, 2}},
                                {RankSource::kMemory}, RankSource::kMemory);
    options.ranker = Ranker::DefaultOptions(RankModel::kRate);
    const auto outcome = Replay(Opener(epochs), options);
    EXPECT_TRUE(outcome.has_value());
    return outcome->results;
  };
  std::vector<ReplayResult> results = replayed();
  EXPECT_EQ(results[0].weight_total, 800) << "samples";
  EXPECT_EQ(results[0].weight_hit, 600) << "history puts the wrong pages into tier 1 at last";
  EXPECT_GT(*results[1].hit_rate, 0.75) << "the oracle knows better, as far as the samples go";

  epochs.push_back(Epoch(4, {{1, 5, 0}, {2, 5, 0}, {3, 5, 0}, {4, 5, 0}}));
  results = replayed();
  EXPECT_EQ(results[0].weight_total, 800) << "an epoch without samples has no say";

  for (EpochProfile& epoch : epochs) {
    epoch.sources = {{.name = "ibs",
                      .role = SourceRole::kSamples,
                      .state = SourceState::kActive,
                      .samples_of = SampleSubject::kMemory,
                      .accesses_per_sample = 1000}};
  }
  results = replayed();
  EXPECT_EQ(results[0].weight_total, 800'000) << "accesses to memory";
  EXPECT_EQ(results[0].weight_hit, 600'000);
}

// A huge page's samples are spread evenly over its pages.
TEST(Replay, JudgesByMemoryWithTheSamplesOfSpans) {
  ReplayOptions options =
      Sum({Named("history")}, {{1, 2}}, {RankSource::kMemory}, RankSource::kMemory);
  options.ranker = Ranker::DefaultOptions(RankModel::kRate);
  const auto outcome = Replay(
      Opener(Epochs({{{512, 5, 300, 512}, {2048, 5, 1}}, {{512, 5, 30, 512}, {2048, 5, 10}}})),
      options);
  ASSERT_TRUE(outcome.has_value());
  // The huge page does not fit: it is put into tier 1 in pieces.
  EXPECT_EQ(outcome->results[0].weight_total, 341);
  EXPECT_GT(outcome->results[0].weight_hit, 10);
  EXPECT_LT(outcome->results[0].weight_hit, 341);
}

}  // namespace replay_test
}  // namespace tmprof
