// SPDX-License-Identifier: Apache-2.0
// All views of one trace show the same accesses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
#include "tests/report/recordings.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace totals_test {

using namespace recordings;

TEST(Caveats, SayThatMissesRefuteTheCache) {
  TraceTotals totals{.modelled_llc_bytes = 1 << 20};
  EXPECT_THAT(Caveats(totals, RankSource::kMemory),
              testing::ElementsAre(testing::HasSubstr("has no room for")));
  totals.llc_is_refuted = true;
  EXPECT_THAT(Caveats(totals, RankSource::kMemory),
              testing::ElementsAre(testing::HasSubstr("each access counts the same")));
}

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
  for (const HotGroup group : {HotGroup::kMapping, HotGroup::kProcess, HotGroup::kFile}) {
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
