// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/capacity_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/replay/told_hit_rates.h"
#include "rank/known_evidence.h"
#include "tests/report/pictures.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace capacity_curve_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::array kRates = {&HitRates::oracle, &HitRates::attainable, &HitRates::history};

// 100 pages: 10 have 8 accesses each, 20 have one, and 70 were looked at and not accessed. Every
// second access to the page of one access missed, and no other.
Trace HundredPages(bool counts_misses = false) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  for (std::uint64_t page = 0; page < 100; ++page) {
    // The hot ones are not the first.
    const std::uint64_t rank = (page + 50) % 100;
    AccessCounts counts{.loads = rank < 10 ? 8u : rank < 30 ? 1u : 0u};
    if (counts_misses) counts.llc_misses = rank >= 10 && rank < 30 && rank % 2 == 0 ? 1u : 0u;
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)}, .looks = 9, .accesses = counts});
  }
  return TraceOf({epoch});
}

// 1 024 pages, of which each eighth is accessed in every epoch and the others never. `loads`:
// samples of a page that is accessed.
std::vector<EpochProfile> EighthHot(std::uint32_t loads, std::optional<int> cpu_seconds = 1) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t index = 0; index < 4; ++index) {
    Target target = MakeTarget(0, 10, "t");
    target.cpu_time = std::chrono::seconds(*cpu_seconds);
    EpochProfile epoch = MakeEpoch(index, {target});
    for (std::uint64_t page = 0; page < 1024; ++page) {
      const bool hot = page % 8 == 0;
      See(epoch, 0,
          {{.vpn = page, .looks = 1, .references = hot ? 1u : 0u, .loads = hot ? loads : 0u}});
    }
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

// Two processes map the same 4 096 pages, of which the first 2 048 are looked at.
std::vector<EpochProfile> SharedByTwo() {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t index = 0; index < 4; ++index) {
    EpochProfile epoch = MakeEpoch(index, {MakeTarget(0, 10, "t"), MakeTarget(1, 11, "u")});
    for (std::uint32_t id = 0; id < 2; ++id) {
      Target& target = epoch.targets[id];
      target.cpu_time = std::chrono::seconds(1);
      target.resident_pages = PageCount(4096);
      target.mappings = {{.range = {Vpn(0), Vpn(4096)},
                          .kind = MappingKind::kShared,
                          .path = "/shared",
                          .file = FilePlace{.device = 1, .inode = 2, .offset = PageCount(0)}}};
      for (std::uint64_t page = 0; page < 2048; ++page)
        See(epoch, id, {{.vpn = page, .looks = 1, .references = page % 8 == 0 ? 1u : 0u}});
    }
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

CapacityCurve CurveOf(const Trace& trace, std::optional<RankSource> by = std::nullopt) {
  const Result<CapacityCurve> curve = MakeCapacityCurve(trace, {.by = by, .epochs = {}});
  EXPECT_TRUE(curve.has_value());
  return curve.value_or(CapacityCurve{});
}

double BestAt(const CapacityCurve& curve, double share) {
  for (const CapacityCurve::Point& point : curve.points) {
    if (point.share == share) return point.rates.oracle->value;
  }
  ADD_FAILURE() << "no point at " << share;
  return 0;
}

// A curve of one page in a hundred per percent, of this ranking's hit rates.
CapacityCurve MadeOf(const std::vector<std::pair<double, HitRate>>& ranked) {
  CapacityCurve curve;
  curve.options.by = RankSource::kMemory;
  curve.whole = PageCount(100);
  for (const auto& [share, rate] : ranked) {
    const PageCount capacity(static_cast<std::uint64_t>(share * 100 + 0.5));
    curve.points.push_back({.share = share,
                            .rates = {.capacity = capacity,
                                      .pages = curve.whole,
                                      .oracle = rate,
                                      .attainable = rate,
                                      .history = std::nullopt}});
  }
  return curve;
}

HitRate Told(double value) { return {.value = value, .low = value - 0.05, .high = value + 0.05}; }
HitRate Untold(double value) { return {.value = value, .low = 0, .high = 1}; }

TEST(CapacityCurveTest, SumsCountedAccessesOfTheHottestPages) {
  const CapacityCurve curve = CurveOf(HundredPages());
  EXPECT_EQ(*curve.options.by, RankSource::kTruth);
  EXPECT_EQ(curve.whole, PageCount(100));
  ASSERT_EQ(curve.points.size(), CapacityCurve::kShares.size());
  EXPECT_EQ(curve.points[4].rates.capacity, PageCount(7));
  EXPECT_NEAR(BestAt(curve, 0.01), 0.08, 1e-12);
  EXPECT_NEAR(BestAt(curve, 0.07), 0.56, 1e-12);
  EXPECT_NEAR(BestAt(curve, 0.10), 0.80, 1e-12);
  EXPECT_NEAR(BestAt(curve, 0.25), 0.95, 1e-12);
  EXPECT_EQ(BestAt(curve, 0.30), 1);
  EXPECT_EQ(BestAt(curve, 1.00), 1);
}

TEST(CapacityCurveTest, SaysWhatIsKnownOfTheTraceBesideIt) {
  Trace trace = HundredPages();
  trace.notes = {"the recording is short"};
  const CapacityCurve curve = CurveOf(trace);
  EXPECT_THAT(CapacityCurveText(curve), HasSubstr("note: the recording is short\n"));
  EXPECT_EQ(nlohmann::json::parse(CapacityCurveJson(curve))["notes"][0], "the recording is short");
}

TEST(CapacityCurveTest, PutsSeveralTracesIntoOneTable) {
  Trace second = HundredPages();
  second.name = "second";
  const std::vector<CapacityCurve> curves = {CurveOf(HundredPages()), CurveOf(second)};
  const std::string csv = CapacityCurvesCsv(curves);
  EXPECT_THAT(csv, HasSubstr("\nsecond,truth,accesses,0.1,10,40960,0.8,0.8,0.8,"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 2 * static_cast<int>(CapacityCurve::kShares.size()));
  EXPECT_EQ(CapacityCurvesJson(curves)[1]["trace"], "second");
}

TEST(CapacityCurveTest, HasNoRankingAndNoIntervalsOfExactCounts) {
  const CapacityCurve curve = CurveOf(HundredPages());
  EXPECT_FALSE(curve.Knows(&HitRates::attainable));
  EXPECT_FALSE(curve.Knows(&HitRates::history));
  for (const CapacityCurve::Point& point : curve.points)
    EXPECT_EQ(point.rates.oracle->low, point.rates.oracle->high);
  EXPECT_THAT(CapacityCurveText(curve), AllOf(Not(HasSubstr("interval")), Not(HasSubstr("["))));
}

TEST(CapacityCurveTest, CountsMissesAlone) {
  const CapacityCurve curve = CurveOf(HundredPages(/*counts_misses=*/true), RankSource::kMisses);
  EXPECT_EQ(curve.whole, PageCount(100));
  EXPECT_NEAR(BestAt(curve, 0.05), 0.5, 1e-12);
  EXPECT_EQ(BestAt(curve, 0.10), 1);
  EXPECT_THAT(CapacityCurveText(curve), HasSubstr("accesses to memory that it serves"));
}

TEST(CapacityCurveTest, LeavesSharesOfLessThanAPageOut) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = 3}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(2)}, .accesses = AccessCounts{.loads = 1}});
  const CapacityCurve curve = CurveOf(TraceOf({epoch}));
  ASSERT_FALSE(curve.points.empty());
  EXPECT_EQ(curve.points.front().share, 0.5);
  EXPECT_EQ(BestAt(curve, 0.5), 0.75);
}

TEST(CapacityCurveTest, IsATableAndASentenceInText) {
  const std::string text = CapacityCurveText(CurveOf(HundredPages()));
  EXPECT_THAT(text, testing::StartsWith(
                        "Hit rate of tier 1, the fast memory, by its capacity: the share of the\n"
                        "accesses that it serves\n"
                        "by accesses (truth): all were counted\n"
                        "whole: 400 KiB (100 pages) that were looked at, sampled or accessed\n"
                        "\n"
                        "capacity  of the whole  best placement\n"
                        "   4 KiB           1 %             8 %\n"
                        "   8 KiB           2 %            16 %\n"));
  EXPECT_THAT(text, HasSubstr("The best placement needs 28 KiB of fast memory to serve 50 % of the "
                              "accesses, 40 KiB to serve 80 % and 80 KiB to serve 90 %.\n"));
}

TEST(CapacityCurveTest, RisesWithTheCapacityAndServesAllFromTheWhole) {
  for (const std::optional<RankSource> by :
       {std::optional<RankSource>(), std::optional(RankSource::kReferences),
        std::optional(RankSource::kCombined), std::optional(RankSource::kMemory)}) {
    const CapacityCurve curve = CurveOf(TraceOf(EighthHot(/*loads=*/1)), by);
    EXPECT_EQ(curve.whole, PageCount(1024));
    ASSERT_EQ(curve.points.size(), CapacityCurve::kShares.size());
    for (const auto rate : kRates) {
      double before = 0;
      for (const CapacityCurve::Point& point : curve.points) {
        EXPECT_EQ(point.rates.pages, curve.whole);
        const std::optional<HitRate>& each = point.rates.*rate;
        if (!each || !each->is_told()) continue;
        EXPECT_GE(each->value, before);
        EXPECT_LE(each->low, each->value);
        EXPECT_GE(each->high, each->value);
        before = each->value;
      }
    }
    for (const auto rate : {&HitRates::oracle, &HitRates::attainable}) {
      const std::optional<HitRate>& last = curve.points.back().rates.*rate;
      ASSERT_TRUE(last);
      EXPECT_EQ(last->value, 1);
      EXPECT_EQ(last->low, 1);
    }
  }
}

// An eighth of the pages has all accesses.
TEST(CapacityCurveTest, TellsTheHitRateOfAHotSet) {
  const CapacityCurve curve = CurveOf(TraceOf(EighthHot(/*loads=*/1)), RankSource::kMemory);
  const HitRate& best = *curve.points[6].rates.oracle;  // at 15 %
  EXPECT_TRUE(best.is_told());
  EXPECT_GT(best.value, 0.9);
  const HitRate& less = *curve.points[3].rates.attainable;  // at 5 %, 2.5 times too small
  EXPECT_TRUE(less.low <= 0.4 && 0.4 <= less.high) << less.low << " " << less.high;
}

TEST(CapacityCurveTest, GoesByAccessesToMemoryIfEnoughWereSampled) {
  EXPECT_EQ(*CurveOf(TraceOf(EighthHot(/*loads=*/1))).options.by, RankSource::kMemory);
  EXPECT_EQ(*CurveOf(TraceOf(EighthHot(/*loads=*/0))).options.by, RankSource::kReferences);
}

TEST(CapacityCurveTest, GoesByAllAccessesIfSamplesAreOfPagesThatWereNotLookedAt) {
  std::vector<EpochProfile> epochs = EighthHot(/*loads=*/0);
  for (EpochProfile& epoch : epochs) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(5000)}, .load_samples = 100});
  }
  EXPECT_EQ(*CurveOf(TraceOf(epochs)).options.by, RankSource::kCombined);
  const CapacityCurve asked = CurveOf(TraceOf(epochs), RankSource::kMemory);
  EXPECT_EQ(*asked.options.by, RankSource::kMemory);
  EXPECT_THAT(asked.why_unknown, HasSubstr("too few accesses to memory"));
}

TEST(CapacityCurveTest, CapacitiesAreSharesOfResidentMemory) {
  std::vector<EpochProfile> epochs = EighthHot(/*loads=*/1);
  for (EpochProfile& epoch : epochs) epoch.targets[0].resident_pages = PageCount(10 * 1024);
  const CapacityCurve curve = CurveOf(TraceOf(epochs), RankSource::kCombined);
  EXPECT_EQ(curve.whole, PageCount(1024));
  EXPECT_EQ(curve.resident, PageCount(10 * 1024));
  EXPECT_EQ(curve.points[6].rates.capacity, PageCount(1536)) << "15 %";
  EXPECT_THAT(CapacityCurveText(curve),
              HasSubstr("Only the whole is known to serve 50 % of the accesses: a longer recording "
                        "looks at more of it.\n"));
  EXPECT_THAT(CapacityCurveText(curve),
              HasSubstr("whole: 40 MiB of resident memory, with 4 MiB (1 024 pages) that were "
                        "looked at or sampled\n"
                        "9 216 of these pages were neither looked at nor sampled: they are taken "
                        "to be like the others, and no ranking chooses them\n"));
  const auto json = nlohmann::json::parse(CapacityCurveJson(curve));
  EXPECT_EQ(json["whole_pages"], 1024);
  EXPECT_EQ(json["resident_pages"], 10 * 1024);
  EXPECT_EQ(json["unknown_pages"], 9 * 1024);
  EXPECT_EQ(json["points"][6]["capacity_pages"], 1536);
}

TEST(CapacityCurveTest, TellsNoCapacityThatHoldsUnknownPages) {
  CapacityCurve many = MadeOf({{0.1, Told(0.1)}, {0.5, Told(0.2)}, {1, {1, 1, 1}}});
  many.whole = PageCount(50);
  many.resident = PageCount(100);
  EXPECT_EQ(many.CapacityFor(0.5), std::nullopt) << "50 pages are known, and serve 20 %";
  EXPECT_EQ(many.CapacityFor(0.15), (CapacityCurve::Capacity{PageCount(30), false}));
  many.whole = PageCount(75);
  EXPECT_EQ(many.CapacityFor(0.5), std::nullopt) << "the known pages end between two points";
  EXPECT_THAT(CapacityCurveText(many),
              HasSubstr("\nOnly the whole is known to serve 50 % of the accesses to memory.\n"));
}

// A page that was never sampled has no share of the accesses to memory.
TEST(CapacityCurveTest, SamplesOfMissesTellOfMemoryThatWasNotLookedAt) {
  std::vector<EpochProfile> epochs = EighthHot(/*loads=*/1);
  for (EpochProfile& epoch : epochs) epoch.targets[0].resident_pages = PageCount(10 * 1024);
  const CapacityCurve curve = CurveOf(TraceOf(epochs), RankSource::kMemory);
  EXPECT_EQ(curve.size(), PageCount(10 * 1024));
  EXPECT_EQ(curve.points[5].rates.capacity, PageCount(1024)) << "10 %";
  EXPECT_NEAR(curve.points[5].rates.attainable->value, 1, 0.01);
  EXPECT_THAT(CapacityCurveText(curve),
              HasSubstr("\nsamples tell of the memory that was not looked at, too\n"));
  EXPECT_EQ(nlohmann::json::parse(CapacityCurveJson(curve))["unknown_pages"], 0);
}

// `tmprof eval` computes hit rates by TellHitRates().
TEST(CapacityCurveTest, TellsWhatEvalTellsIfPagesAreUnknown) {
  std::vector<EpochProfile> alone = EighthHot(/*loads=*/1);
  for (EpochProfile& epoch : alone) epoch.targets[0].resident_pages = PageCount(5000);
  for (const auto& [trace, by] : {std::pair(TraceOf(alone), RankSource::kReferences),
                                  {TraceOf(alone), RankSource::kCombined},
                                  {TraceOf(alone), RankSource::kMemory},
                                  {TraceOf(SharedByTwo()), RankSource::kCombined}}) {
    const CapacityCurve curve = CurveOf(trace, by);
    ASSERT_TRUE(curve.resident) << Name(by);
    std::vector<PageCount> capacities;
    for (const CapacityCurve::Point& point : curve.points)
      capacities.push_back(point.rates.capacity);
    const Result<std::vector<HitRates>> eval =
        TellHitRates(trace.open, Ranker::DefaultOptions(RankModel::kRate), by, capacities);
    ASSERT_TRUE(eval.has_value());
    // The last holds all, whatever is known of it.
    for (std::size_t i = 0; i + 1 < capacities.size(); ++i) {
      const HitRates& point = curve.points[i].rates;
      EXPECT_EQ(point.pages, (*eval)[i].pages);
      EXPECT_EQ(point.unknown, (*eval)[i].unknown);
      for (const auto rate : {&HitRates::oracle, &HitRates::attainable}) {
        const std::optional<HitRate>& other = (*eval)[i].*rate;
        ASSERT_TRUE(point.*rate && other);
        EXPECT_NEAR((point.*rate)->value, other->value, 1e-6) << Name(by) << " " << i;
        EXPECT_NEAR((point.*rate)->low, other->low, 1e-6) << Name(by) << " " << i;
        EXPECT_NEAR((point.*rate)->high, other->high, 1e-6) << Name(by) << " " << i;
      }
    }
  }
}

// The kernel counts 4 096 pages twice, and half of them are known.
TEST(CapacityCurveTest, CountsMemoryOnceThatSeveralProgramsMap) {
  const CapacityCurve curve = CurveOf(TraceOf(SharedByTwo()), RankSource::kReferences);
  EXPECT_EQ(curve.whole, PageCount(2048));
  EXPECT_EQ(curve.resident, PageCount(4096));
}

TEST(CapacityCurveTest, SaysThatResidentMemoryIsUnknown) {
  const CapacityCurve curve = CurveOf(TraceOf(EighthHot(/*loads=*/1)), RankSource::kCombined);
  EXPECT_EQ(curve.resident, std::nullopt);
  EXPECT_THAT(CapacityCurveText(curve),
              HasSubstr("\nMemory that was not looked at is in no figure: the trace does not tell "
                        "how much memory was resident.\n"));
}

TEST(CapacityCurveTest, SaysWhyNoHitRateIsKnown) {
  const CapacityCurve rests = CurveOf(TraceOf(EighthHot(/*loads=*/0, /*cpu_seconds=*/0)));
  EXPECT_EQ(rests.why_unknown, "no process used CPU time");
  EXPECT_THAT(CapacityCurveText(rests),
              HasSubstr("\nNo hit rate is known: no process used CPU time.\n"));
  const auto json = nlohmann::json::parse(CapacityCurveJson(rests));
  EXPECT_EQ(json["why_unknown"], "no process used CPU time");
  EXPECT_TRUE(json["points"][0]["best"].is_null());
  EXPECT_TRUE(json["needs"][0]["capacity_pages"].is_null());
  EXPECT_THAT(CapacityCurveCsv(rests), HasSubstr("references,accesses,0.01,10,40960,,,,,,,,,\n"));
  EXPECT_TRUE(CapacityCurvePng(rests).has_value());

  EXPECT_EQ(CurveOf(TraceOf({}), RankSource::kReferences).why_unknown, "no page was looked at");
  EXPECT_EQ(CurveOf(TraceOf({}), RankSource::kTruth).why_unknown, "no access was counted");
}

TEST(CapacityCurveTest, RefusesMemoryAsKnownEvidenceDoes) {
  const std::vector<EpochProfile> epochs = EighthHot(/*loads=*/0);
  KnownEvidence known;
  for (const EpochProfile& epoch : epochs) known.Look(epoch);
  const Status refused =
      known.Require(RankSource::kMemory, "tell hit rates by memory", "test.data");
  ASSERT_FALSE(refused.has_value());
  const Result<CapacityCurve> curve =
      MakeCapacityCurve(TraceOf(epochs), {.by = RankSource::kMemory, .epochs = {}});
  ASSERT_FALSE(curve.has_value());
  EXPECT_EQ(curve.error().Message(), refused.error().Message());
  EXPECT_EQ(curve.error().ExitStatus(), 2);
}

TEST(CapacityCurveTest, GoesByAModelOfTheCacheWhereItsSizeIsKnown) {
  Trace trace = TraceOf(EighthHot(/*loads=*/0));
  trace.llc_bytes = 256 * kBasePageBytes;
  const CapacityCurve curve = CurveOf(trace);
  EXPECT_EQ(*curve.options.by, RankSource::kMemory);
  EXPECT_TRUE(curve.Knows(&HitRates::attainable)) << curve.why_unknown;
  EXPECT_FALSE(curve.Knows(&HitRates::history));
  EXPECT_THAT(CapacityCurveText(curve),
              AllOf(HasSubstr("share of the\naccesses to memory that it serves"),
                    HasSubstr("accessed bits and a model of the cache"),
                    HasSubstr("those that a last-level cache of 1 MiB has no room for")));
  trace.llc_bytes = 1024 * kBasePageBytes;
  const CapacityCurve fits = CurveOf(trace);
  EXPECT_THAT(fits.why_unknown, HasSubstr("the pages fit in a last-level cache of 4 MiB"));
}

TEST(CapacityCurveTest, RefusesToTellAccessesFromSamplesAlone) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 1, .loads = 9}});
  for (const std::optional<RankSource> by :
       {std::optional<RankSource>(), std::optional(RankSource::kSamples),
        std::optional(RankSource::kCombined)}) {
    const Result<CapacityCurve> curve =
        MakeCapacityCurve(TraceOf({epoch}), {.by = by, .epochs = {}});
    ASSERT_FALSE(curve.has_value());
    EXPECT_EQ(curve.error().ExitStatus(), 2);
    EXPECT_THAT(curve.error().Message(), HasSubstr("by samples"));
  }
}

TEST(CapacityCurveTest, FindsACapacityBetweenPointsThatAreTold) {
  const CapacityCurve curve = MadeOf({{0.1, Told(0.4)}, {0.2, Told(0.6)}, {1, Told(0.95)}});
  EXPECT_EQ(curve.CapacityFor(0.5), (CapacityCurve::Capacity{PageCount(15), false}));
  EXPECT_EQ(curve.CapacityFor(0.3), (CapacityCurve::Capacity{PageCount(10), true}));
  EXPECT_EQ(curve.CapacityFor(0.99), std::nullopt);
}

TEST(CapacityCurveTest, TellsNoCapacityIfOnlyTheWholeIsKnownToBeEnough) {
  const CapacityCurve curve = MadeOf({{0.1, Told(0.1)}, {0.2, Untold(0.6)}, {1, {1, 1, 1}}});
  EXPECT_EQ(curve.CapacityFor(0.5), std::nullopt);
  EXPECT_THAT(CapacityCurveText(curve),
              HasSubstr("\nOnly the whole is known to serve 50 % of the accesses to memory.\n"));
}

TEST(CapacityCurveTest, BoundsACapacityBehindAPointThatIsNotTold) {
  const CapacityCurve curve = MadeOf(
      {{0.1, Told(0.4)}, {0.2, Untold(0.6)}, {0.3, Told(0.8)}, {0.4, Told(0.85)}, {1, Told(0.95)}});
  EXPECT_EQ(curve.CapacityFor(0.5), (CapacityCurve::Capacity{PageCount(30), true}));
  const std::string text = CapacityCurveText(curve);
  EXPECT_THAT(
      text, AllOf(HasSubstr("? % [0.0, 100.0]"), HasSubstr("\n?: too little was seen to tell\n")));
  // One bound for 50 % and 80 % is said once.
  EXPECT_THAT(text, HasSubstr("This ranking needs 120 KiB or less of fast memory to serve 80 % of "
                              "the accesses to memory (to be sure: "));
  EXPECT_THAT(text, HasSubstr(" and 280 KiB to serve 90 % (to be sure: "));
}

TEST(CapacityCurveTest, IsSureOfACapacityWhoseIntervalLiesAtTheHitRateOrAbove) {
  const CapacityCurve curve = MadeOf(
      {{0.1, {0.6, 0.4, 0.8}}, {0.2, {0.7, 0.5, 0.9}}, {0.3, {0.9, 0.7, 1}}, {1, {1, 1, 1}}});
  EXPECT_EQ(curve.SureCapacityFor(0.5), PageCount(20));
  EXPECT_EQ(curve.SureCapacityFor(0.6), PageCount(30));
  EXPECT_EQ(curve.SureCapacityFor(0.8), std::nullopt) << "only the whole is surely enough";
  const std::string text = CapacityCurveText(curve);
  EXPECT_THAT(text, HasSubstr("\nThis ranking needs 80 KiB or less of fast memory to serve 50 % of "
                              "the accesses to memory.\n"))
      << "the whole serves 80 % and 90 %, which says nothing";
  const auto json = nlohmann::json::parse(CapacityCurveJson(curve));
  EXPECT_EQ(json["needs"][0]["sure_capacity_bytes"], 80 * 1024);
  EXPECT_TRUE(json["needs"][2]["sure_capacity_bytes"].is_null());
}

TEST(CapacityCurveTest, LeavesValuesThatAreNotToldOutOfCsv) {
  const std::string csv = CapacityCurveCsv(MadeOf({{0.1, Untold(0.4)}, {1, {1, 1, 1}}}));
  EXPECT_EQ(csv,
            "by,of,share,capacity_pages,capacity_bytes,best,best_low,best_high,ranked,ranked_low,"
            "ranked_high,history,history_low,history_high\n"
            "memory,accesses to memory,0.1,10,40960,,0,1,,0,1,,,\n"
            "memory,accesses to memory,1,100,409600,1,1,1,1,1,1,,,\n");
}

TEST(CapacityCurveTest, HasItsFiguresInJson) {
  const auto json = nlohmann::json::parse(CapacityCurveJson(CurveOf(HundredPages())));
  EXPECT_EQ(json["view"], "curve");
  EXPECT_EQ(json["by"], "truth");
  EXPECT_EQ(json["of"], "accesses");
  EXPECT_EQ(json["whole_pages"], 100);
  EXPECT_EQ(json["whole_bytes"], 409600);
  EXPECT_EQ(json["points"][5]["capacity_bytes"], 40960);
  EXPECT_NEAR(json["points"][5]["best"]["value"].get<double>(), 0.8, 1e-12);
  EXPECT_EQ(json["points"][5]["best"]["told"], true);
  EXPECT_TRUE(json["points"][5]["ranked"].is_null());
  EXPECT_EQ(json["needs_of"], "best");
  EXPECT_EQ(json["needs"][2]["hit_rate"], 0.9);
  EXPECT_EQ(json["needs"][2]["capacity_pages"], 20);
  EXPECT_EQ(json["needs"][2]["less_may_do"], false);
}

TEST(CapacityCurveTest, DrawsTheCurveInItsFrame) {
  const Result<std::string> png = CapacityCurvePng(CurveOf(HundredPages()));
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  EXPECT_EQ(picture.width(), 1000);
  EXPECT_EQ(picture.height(), 764);
  EXPECT_EQ(picture.At(2, 2), kWhite);
  // 80 % at a tenth, the middle of the logarithmic axis.
  EXPECT_LT(Difference(picture.At(530, 208), Rgb({0.0, 0.45, 0.70})), 40u);
  EXPECT_NE(picture.At(530, 208), picture.At(530, 300));
}

TEST(CapacityCurveTest, ShadesIntervalsOfWhatIsNotTold) {
  const Result<std::string> png = CapacityCurvePng(MadeOf({{0.01, Untold(0.5)}, {1, Untold(0.9)}}));
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  const std::uint32_t band = picture.At(360, 300);
  EXPECT_NE(band, kWhite);
  EXPECT_GT(Difference(band, Rgb({0.0, 0.45, 0.70})), 40u);
  EXPECT_EQ(picture.At(420, 340), band);  // no line crosses it
}

}  // namespace capacity_curve_test
}  // namespace tmprof
