// SPDX-License-Identifier: Apache-2.0
// Covers the way from regions to the readers of their trace: a simulated process is recorded into a
// file. Replay, the views of reports and the daemon's candidates must show from it what the process
// did.

#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "daemon/placement/candidates.h"
#include "policy/replay/replay.h"
#include "profiler/epoch_builder.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "profiler/sources/abit/region_engine.h"
#include "proto/trace_file.h"
#include "report/analysis/cdf.h"
#include "report/analysis/coverage.h"
#include "report/analysis/heatmap.h"
#include "report/analysis/hot.h"
#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof {
namespace region_trace_test {

using std::chrono::seconds;

constexpr TargetId kTarget{0};
constexpr Vpn kStart{0x7f0000000};
constexpr std::uint64_t kPages = 8192;
constexpr std::uint64_t kEighth = kPages / 8;
// These eighths are hot, one after the other, each for a phase. The others' pages are accessed once
// a second.
constexpr std::array<std::uint64_t, 2> kHotEighths{1, 5};
constexpr std::uint64_t kPhase = 8;
constexpr double kHotRate = 1'000;
constexpr double kHotShare = kHotRate / (kHotRate + 7);
// Epochs of a phase until regions have found its hot pages.
constexpr std::uint64_t kFound = 3;

VpnRange Hot(std::size_t phase) {
  const Vpn start = kStart + PageCount(kHotEighths[phase] * kEighth);
  return {start, start + PageCount(kEighth)};
}

std::uint64_t PagesWithin(VpnRange a, VpnRange b) {
  const Vpn start = std::max(a.start, b.start);
  return (std::max(start, std::min(a.end, b.end)) - start).value();
}

void SetRates(abit::SimulatedProcess& process, std::size_t phase) {
  for (std::uint64_t i = 0; i < kPages; ++i) {
    process.pages[i].rate = Hot(phase).Contains(kStart + PageCount(i)) ? kHotRate : 1;
    process.pages[i].accessed = true;
  }
}

EpochProfile ProfileOf(std::uint64_t index, MonotonicTime start, MonotonicTime end,
                       abit::Harvest harvest) {
  static const abit::NodeMap no_nodes("/nonexistent");
  SourceEpoch source;
  source.references = abit::ReferencesOf(harvest, no_nodes);
  source.status = {.name = "abit-bpf",
                   .label = "accessed bits (regions)",
                   .role = SourceRole::kReferences,
                   .state = SourceState::kActive,
                   .duty_cycle = 1.0,
                   .observations = harvest.counts.observations,
                   .lost = harvest.counts.lost,
                   .details = harvest.details,
                   .note = ""};
  Target target;
  target.id = kTarget;
  target.pid = Pid(100);
  target.name = "simulated";
  target.cpu_time = end - start;
  EpochFrame frame{.index = index, .start = start, .end = end, .targets = {target}};
  return BuildEpoch(std::move(frame), {std::move(source)});
}

// The file is recorded once for all tests.
class RegionTraceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = std::filesystem::temp_directory_path() /
            ("region_trace_test." + std::to_string(::getpid()));
    abit::SimulatedKernel kernel;
    abit::SimulatedProcess process(
        {.id = kTarget, .pid = Pid(100), .start_time_ticks = 7, .mappings = {}}, kStart,
        PageCount(1), std::vector<double>(kPages));
    kernel.processes[Pid(100)] = &process;
    SetRates(process, 0);
    abit::RegionEngine engine(
        kernel, {.looked = abit::Looked::kRegions,
                 .overhead_share = 0.05,
                 .cost = {.ns_per_set = 250, .ns_per_look = 6'400, .ns_per_point = 10'000}});
    engine.SetTargets({process.identity()});
    TraceInfo info;
    info.start = kernel.now;
    info.epoch_length = seconds(1);
    Result<TraceWriter> writer = TraceWriter::Create(path_, info);
    ASSERT_TRUE(writer.has_value());
    for (std::uint64_t epoch = 0; epoch < kHotEighths.size() * kPhase; ++epoch) {
      if (epoch == kPhase) SetRates(process, 1);
      const MonotonicTime start = kernel.now;
      const MonotonicTime end = start + seconds(1);
      while (kernel.now < end) kernel.now = std::max(kernel.now, std::min(engine.Step(), end));
      ASSERT_TRUE(
          writer->Write(ProfileOf(epoch, start, kernel.now, engine.TakeEpoch())).has_value());
    }
    ASSERT_TRUE(writer->Finish().has_value());
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }

  static Trace Recorded() { return *OpenTraceFile(path_); }
  // The epochs of a phase in which regions have found its hot pages.
  static EpochRange Settled(std::size_t phase) {
    return {.first = phase * kPhase + kFound, .end = (phase + 1) * kPhase};
  }

  static inline std::filesystem::path path_;
};

TEST_F(RegionTraceTest, ReplayPlacesTheHotPagesAndFollowsThem) {
  ReplayOptions options{.policies = {},
                        .ranks = {RankSource::kReferences},
                        .ratios = {{1, 8}},
                        .judge = RankSource::kReferences};
  for (const char* policy : {"first_touch", "history", "oracle"})
    options.policies.push_back(*FindPolicy(policy));
  const Result<ReplayOutcome> outcome = Replay([] { return Recorded().open(); }, options);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->results.size(), 3u);
  for (const ReplayResult& result : outcome->results) {
    EXPECT_EQ(result.epochs, 2 * kPhase);
    EXPECT_LE(result.capacity, PageCount(kEighth));
    EXPECT_GE(result.capacity, PageCount(kEighth * 9 / 10));
  }
  const ReplayResult& first_touch = outcome->results[0];
  const ReplayResult& history = outcome->results[1];
  const ReplayResult& oracle = outcome->results[2];
  // The lowest eighth is never hot.
  EXPECT_LT(*first_touch.hit_rate, 0.15);
  EXPECT_GT(*oracle.hit_rate, 0.8 * kHotShare);
  EXPECT_LE(*oracle.hit_rate, 1);
  // It places an epoch too late, twice.
  EXPECT_GT(*history.hit_rate, *oracle.hit_rate - 0.25);
  EXPECT_LE(*history.hit_rate, *oracle.hit_rate);
  // The one eighth out, the other in, and not all of tier 1 each epoch.
  EXPECT_GT(history.moved_pages, PageCount(kEighth * 3 / 2));
  EXPECT_LT(history.moved_pages, PageCount(kEighth * 10));
}

TEST_F(RegionTraceTest, TheHottestPagesOfAPhaseAreThoseThatWereHotInIt) {
  for (std::size_t phase = 0; phase < kHotEighths.size(); ++phase) {
    const Result<HotList> list = MakeHotList(
        Recorded(),
        {.by = RankSource::kReferences, .epochs = Settled(phase), .pid = {}, .limit = {}});
    ASSERT_TRUE(list.has_value());
    std::uint64_t shown = 0;
    std::uint64_t hot = 0;
    for (const HotList::Row& row : list->rows) {
      if (shown >= kEighth) break;
      const VpnRange pages{row.start, row.start + row.span};
      shown += pages.size().value();
      hot += PagesWithin(pages, Hot(phase));
    }
    EXPECT_GT(hot, kEighth * 8 / 10) << phase;
  }
}

TEST_F(RegionTraceTest, EveryPageCountsOnceAsOneOfARegion) {
  const Result<Coverage> coverage = MakeCoverage(Recorded(), {});
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.most_looked_at, PageCount(kPages));
  EXPECT_LE(coverage->all.footprint, PageCount(kPages));
  EXPECT_GE(coverage->all.footprint, PageCount(kPages * 9 / 10));
  EXPECT_EQ(coverage->all.looked_at, std::nullopt) << "which ones is not known";
  EXPECT_EQ(coverage->all.references, std::nullopt);
  EXPECT_EQ(coverage->all.samples, std::nullopt) << "nobody took any";
}

TEST_F(RegionTraceTest, TheHottestEighthHoldsWhatItWasGivenOfTheAccesses) {
  const Result<Cdf> cdf =
      MakeCdf(Recorded(), {.by = RankSource::kReferences, .epochs = Settled(0)});
  ASSERT_TRUE(cdf.has_value());
  EXPECT_EQ(Cdf::kShares[4], 0.125);
  EXPECT_NEAR(cdf->FindCurve(RankSource::kReferences)->at_shares[4], kHotShare, 0.2);
}

TEST_F(RegionTraceTest, TheHeatmapIsOfAllMemoryAndDarkWhereItWasHot) {
  const Result<Heatmap> map =
      MakeHeatmap(Recorded(), {.by = RankSource::kReferences, .max_rows = 8});
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->style, HeatmapStyle::kWhole);
  ASSERT_EQ(map->addresses.segments.size(), 1u);
  ASSERT_EQ(map->addresses.rows, 8u);
  ASSERT_EQ(map->columns, 2 * kPhase);
  for (std::size_t phase = 0; phase < kHotEighths.size(); ++phase) {
    for (std::uint64_t epoch = Settled(phase).first; epoch < Settled(phase).end; ++epoch) {
      std::vector<double> column;
      for (std::size_t row = 0; row < 8; ++row) column.push_back(map->At(row, epoch).value_or(-1));
      const auto hottest = std::ranges::max_element(column);
      EXPECT_EQ(hottest - column.begin(), kHotEighths[phase]) << epoch;
      EXPECT_GT(*hottest, 0.3 * kHotRate) << epoch;
      EXPECT_LT(*hottest, 3 * kHotRate) << epoch;
      EXPECT_LT(column[3], 0.1 * kHotRate) << epoch << ": never hot";
      EXPECT_GE(column[3], 0) << epoch << ": and looked at";
    }
  }
}

TEST_F(RegionTraceTest, TheDaemonsCandidatesAreItsPagesOnceInPiecesTheHotOnesFirst) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ASSERT_TRUE(ReadEpochs(Recorded(), {.first = 0, .end = kPhase}, [&](const EpochProfile& epoch) {
                ranker.Absorb(epoch);
              }).has_value());
  const Scores scores = ranker.Score(RankSource::kReferences);
  const VpnRange all{kStart, kStart + PageCount(kPages)};
  PlacementMap map;
  map.Learn(kTarget, all, std::array{PlacedRun{.pages = all, .node = NodeId(1)}});
  const Tiers tiers = *Tiers::Make({{NodeId(0)}, {NodeId(1)}});
  const MemoryBinding binding({}, {}, {});
  const std::vector<VpnRange> mapped{all};
  const std::array placed{
      PlacedTarget{.id = kTarget, .pid = Pid(100), .mapped = mapped, .binding = &binding}};
  Candidates found;
  RankedRows rows;
  rows.Take(ranker.table(), scores, PageOwners());
  FindCandidates(rows, map, placed, tiers, TierSet().set(kTier1.value()), found);
  Vpn at = kStart;
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::size_t i : order) {
    EXPECT_GE(found.key[i].vpn, at) << "once";
    at = found.key[i].vpn + PageCount(found.span_pages[i]);
    EXPECT_LE(found.span_pages[i], 512u) << "larger ones may not fit";
    EXPECT_EQ(found.node[i], NodeId(1));
  }
  EXPECT_LE(at, all.end);
  const auto of_a_page = [&](std::size_t i) { return found.score[i] / found.span_pages[i]; };
  std::ranges::stable_sort(order, std::greater{}, of_a_page);
  std::uint64_t taken = 0;
  std::uint64_t hot = 0;
  for (const std::size_t i : order) {
    if (taken >= kEighth) break;
    const VpnRange pages{found.key[i].vpn, found.key[i].vpn + PageCount(found.span_pages[i])};
    taken += pages.size().value();
    hot += PagesWithin(pages, Hot(0));
  }
  EXPECT_GE(taken, kEighth);
  EXPECT_GT(hot, kEighth * 8 / 10);
}

}  // namespace region_trace_test
}  // namespace tmprof
