// SPDX-License-Identifier: Apache-2.0
// All views of one trace show the same accesses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "locking/lock_advice.h"
#include "objects/analysis/object_advice.h"
#include "objects/analysis/traced_objects.h"
#include "policy/policy.h"
#include "policy/replay/replay.h"
#include "report/analysis/capacity_curve.h"
#include "report/analysis/cdf.h"
#include "report/analysis/coverage.h"
#include "report/analysis/heatmap.h"
#include "report/analysis/hot.h"
#include "report/analysis/hot_groups.h"
#include "report/analysis/nodes.h"
#include "report/analysis/summary.h"
#include "report/analysis/whole_trace.h"
#include "report/analysis/working_set.h"
#include "report/convert.h"
#include "tests/apps/program.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace totals_test {

constexpr std::uint64_t kPages = 384;
constexpr std::uint64_t kEpochs = 12;

TEST(Caveats, SayThatMissesRefuteTheCache) {
  TraceTotals totals{.modelled_llc_bytes = 1 << 20};
  EXPECT_THAT(Caveats(totals, RankSource::kMemory),
              testing::ElementsAre(testing::HasSubstr("has no room for")));
  totals.llc_is_refuted = true;
  EXPECT_THAT(Caveats(totals, RankSource::kMemory),
              testing::ElementsAre(testing::HasSubstr("each access counts the same")));
}

struct Recording {
  std::string name;
  bool bits = true;
  bool samples = true;
  bool exact = false;
  bool changes = false;         // the hot pages, in the middle
  bool rests = false;           // two epochs of three
  std::uint64_t region = 1;     // pages of a record
  std::uint32_t targets = 1;    // each like the others
  std::uint64_t exits_at = 99;  // the last target
  // All map one file. The second target accesses its pages a tenth as often as the first, and the
  // third was never observed.
  bool shares = false;
};

SourceStatus ExactSource() {
  return {.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive};
}

// A sixteenth of the pages is accessed 100 times as often as the others. A fourth of the pages is
// looked at in an epoch.
Trace Record(const Recording& recording) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < kEpochs; ++e) {
    const auto cpu = std::chrono::milliseconds(recording.rests && e % 3 != 0 ? 50 : 1000);
    std::vector<Target> targets;
    for (std::uint32_t t = 0; t < recording.targets; ++t) {
      if (t + 1 == recording.targets && e >= recording.exits_at) continue;
      targets.push_back(MakeTarget(t, static_cast<std::int32_t>(10 + t), "t"));
      targets.back().cpu_time = cpu;
      targets.back().mappings = {
          {.range = {Vpn(0), Vpn(128)}, .kind = MappingKind::kHeap},
          {.range = {Vpn(128), Vpn(300)}, .kind = MappingKind::kFile, .path = "/lib/x"}};
      if (recording.shares) {
        targets.back().mappings[1].kind = MappingKind::kShared;
        targets.back().mappings[1].file = FilePlace{.device = 1, .inode = 2};
      }
    }
    EpochProfile epoch = MakeEpoch(e, targets);
    epoch.sources.clear();
    if (recording.bits) epoch.sources.push_back(ReferenceSource(1));
    if (recording.samples) epoch.sources.push_back(SampleSource(1));
    if (recording.exact) epoch.sources.push_back(ExactSource());
    if (recording.region > 1) epoch.sources[0].details = {{"regions", kPages / recording.region}};
    for (const Target& target : targets) {
      const bool is_idle = recording.shares && target.id == TargetId(1);
      if (recording.shares && target.id == TargetId(2)) continue;
      for (std::uint64_t page = 0; page < kPages; page += recording.region) {
        const bool moved = recording.changes && e >= kEpochs / 2;
        const bool hot = page / (kPages / 16) == (moved ? 9 : 0);
        const double rate = (hot ? 2000 : 20) * (is_idle ? 0.1 : 1);
        PageRecord record{.key = {target.id, Vpn(page)}, .span = PageCount(recording.region)};
        if (recording.bits && (page / recording.region + e) % 4 == 0) {
          record.looks = 7;
          record.references = hot ? 6 : 2;
          record.first_accesses = 3;
          record.time_at_risk = LogDuration::FromNanoseconds(
              std::chrono::nanoseconds(static_cast<std::int64_t>(3e9 / rate)));
        }
        if (recording.samples && (hot ? (page + e) % 2 == 0 : (page + 7 * e) % 97 == 0)) {
          record.load_samples = 1;
        }
        if (recording.exact) {
          record.accesses =
              AccessCounts{.loads = static_cast<std::uint64_t>(rate * Seconds(cpu)), .stores = 1};
        }
        if (page % 3 != 0) record.node = NodeId(page % 2 == 0 ? 0 : 1);
        if (record.looks > 0 || record.load_samples > 0 || record.accesses) {
          Append(epoch.pages, record);
        }
      }
    }
    epochs.push_back(std::move(epoch));
  }
  return TraceOf(std::move(epochs));
}

const Recording kRecordings[] = {
    {.name = "steady"},
    {.name = "bits", .samples = false},
    {.name = "samples", .bits = false},
    {.name = "changing", .changes = true},
    {.name = "resting", .rests = true},
    {.name = "resting and changing", .changes = true, .rests = true},
    {.name = "regions", .region = 16},
    {.name = "several", .targets = 3},
    {.name = "exited", .changes = true, .targets = 2, .exits_at = 5},
    {.name = "shared", .targets = 4, .shares = true},
    {.name = "shared, exited", .changes = true, .targets = 4, .exits_at = 5, .shares = true},
    {.name = "shared regions", .region = 16, .targets = 4, .shares = true},
    {.name = "shared, exact",
     .bits = false,
     .samples = false,
     .exact = true,
     .targets = 4,
     .shares = true},
    {.name = "exact", .bits = false, .samples = false, .exact = true},
    {.name = "beside exact", .exact = true},
};

// The judge's weights, summed up by `tmprof eval`.
double TotalOfEval(const Trace& trace, RankModel model) {
  const RankSource judge = *MakeHotList(trace, {.model = model})->options.by;
  const Result<ReplayOutcome> outcome =
      Replay(trace.open, {.policies = {*FindPolicy("oracle")},
                          .sizes = {PageCount(1)},
                          .judge = judge,
                          .ranker = Ranker::DefaultOptions(model)});
  EXPECT_TRUE(outcome.has_value());
  return outcome->results.front().weight_total;
}

// Each view's sum of the accesses of the whole trace.
std::map<std::string, double> Totals(const Trace& trace, RankModel model, bool of_one_target) {
  const test::TemporaryFolder folder;
  std::map<std::string, double> totals;
  const HotOptions all{.model = model, .limit = std::nullopt};
  const Result<HotList> hot = MakeHotList(trace, all);
  EXPECT_TRUE(hot.has_value());
  totals["hot"] = hot->total_score;
  totals["hot, rows"] = 0;
  for (const HotList::Row& row : hot->rows) totals["hot, rows"] += row.score;
  for (const HotGroup group :
       {HotGroup::kMapping, HotGroup::kProcess, HotGroup::kObject, HotGroup::kFile}) {
    const Result<HotGroups> groups = MakeHotGroups(trace, all, group);
    EXPECT_TRUE(groups.has_value());
    double& total = totals["hot by " + std::string(Name(group))];
    PageCount pages;
    for (const HotGroups::Row& row : groups->rows) {
      total += row.score;
      pages += row.pages;
    }
    // A shared page is in each of its processes, but once in its file.
    if (group == HotGroup::kFile) {
      EXPECT_EQ(pages, hot->pages);
    } else {
      EXPECT_GE(pages, hot->pages);
    }
    EXPECT_EQ(groups->pages, hot->pages);
  }
  totals["nodes"] = MakeNodes(trace, {.model = model})->all.score;
  const Result<Cdf> cdf = MakeCdf(trace, {.model = model});
  totals["cdf"] = cdf->FindCurve(*cdf->options.by)->total_score;
  if (of_one_target) {
    totals["locks"] = MakeLockAdvice(trace, {.model = model, .limit = 1.0})->accesses;
  }
  totals["advice on objects"] = MakeObjectAdvice(trace, {.model = model})->accesses;
  if (of_one_target && model == RankModel::kRate) {  // counts leave cells unknown
    const Heatmap map = *MakeHeatmap(
        trace, {.model = model, .style = HeatmapStyle::kWhole, .max_rows = kPages + 1});
    double& total = totals["heat map"];
    for (std::size_t row = 0; row < map.addresses.rows; ++row) {
      const auto pages = static_cast<double>(map.addresses.RowRange(row).size().value());
      for (std::size_t column = 0; column < map.columns; ++column) {
        total += map.At(row, column).value_or(0) * pages * Seconds(map.column_length);
      }
    }
  }
  if (model == RankModel::kSum || IsExact(*hot->options.by))
    totals["eval"] = TotalOfEval(trace, model);
  const Result<ConvertStats> requests = ConvertToOracleGeneral(
      trace, {.model = model, .most_requests = 100'000}, folder.File("requests"));
  EXPECT_TRUE(requests.has_value());
  totals["requests"] = static_cast<double>(requests->records) / requests->ratio;
  return totals;
}

void ExpectAlike(const std::map<std::string, double>& totals) {
  for (const auto& [view, total] : totals) {
    EXPECT_GT(total, 0) << view;
    for (const auto& [other, of_other] : totals) {
      EXPECT_NEAR(total, of_other, of_other / 100) << view << " and " << other;
    }
  }
}

TEST(Totals, AgreeInEveryPairOfViewsByRate) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.name);
    ExpectAlike(Totals(Record(recording), RankModel::kRate, recording.targets == 1));
  }
}

TEST(Totals, AgreeInEveryPairOfViewsBySum) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.name);
    ExpectAlike(Totals(Record(recording), RankModel::kSum, recording.targets == 1));
  }
}

TEST(Totals, TotalsOfObjectsEqualThoseOfTheHotListOverAllEpochs) {
  for (const Recording& recording : kRecordings) {
    if (!recording.bits || recording.exact) continue;
    SCOPED_TRACE(recording.name);
    const Trace trace = Record(recording);
    const double hot = MakeHotList(trace, {.by = RankSource::kCombined})->total_score;
    const Result<TracedObjects> objects = MakeTracedObjects(trace, {});
    ASSERT_TRUE(objects.has_value());
    ASSERT_TRUE(objects->accesses.has_value());
    EXPECT_NEAR(*objects->accesses, hot, hot / 100);
  }
}

// Eval judges an epoch by what was seen up to it.
TEST(Totals, TotalsOfEvalByRateEqualThoseOfTheViewsIfRatesStay) {
  for (const Recording& recording : kRecordings) {
    if (recording.exact) continue;
    SCOPED_TRACE(recording.name);
    const Trace trace = Record(recording);
    const double hot = MakeHotList(trace, {})->total_score;
    const double eval = TotalOfEval(trace, RankModel::kRate);
    EXPECT_NEAR(eval, hot, hot * (recording.changes ? 0.6 : 0.15));
  }
}

TEST(Totals, EveryPairOfViewsAgreesOnPages) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.name);
    const Trace trace = Record(recording);
    std::map<std::string, PageCount> pages;
    pages["hot"] = MakeHotList(trace, {})->pages;
    pages["cdf"] = MakeCdf(trace, {})->footprint;
    pages["coverage"] = MakeCoverage(trace)->all.footprint.value_or(PageCount(0));
    pages["summary"] = MakeSummary(trace)->coverage.all.footprint.value_or(PageCount(0));
    const Result<ReplayOutcome> eval =
        Replay(trace.open, {.policies = {*FindPolicy("oracle")}, .ratios = {{1, 8}}});
    ASSERT_TRUE(eval.has_value());
    pages["eval"] = eval->whole;
    // These refuse samples alone.
    if (recording.bits || recording.exact) {
      pages["curve"] = MakeCapacityCurve(trace, {})->whole;
      pages["wss"] = MakeWorkingSet(trace, {})->visited;
    }
    for (const auto& [view, count] : pages) {
      EXPECT_GT(count, PageCount(0)) << view;
      EXPECT_EQ(count, pages["hot"]) << view;
    }
  }
}

}  // namespace totals_test
}  // namespace tmprof
