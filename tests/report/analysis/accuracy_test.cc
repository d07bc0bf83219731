// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/base/hand_made.h"

namespace tmprof {
namespace accuracy_test {

using std::chrono::nanoseconds;
using testing::HasSubstr;

constexpr std::string_view kGood = R"({"pid": 7, "seed": 1, "phases": [
  {"t_start_ns": 0, "t_end_ns": 1000, "accesses": 5, "ranges": [
    {"start": 4096, "end": 12288, "weight": 0.5},
    {"start": 12288, "end": 16384, "weight": 0.5, "pid": 8}]}]})";

Truth Parsed(std::string_view json) {
  auto truth = ParseTruth(json, "truth.json");
  EXPECT_TRUE(truth.has_value()) << truth.error().Message();
  return *truth;
}

std::string Refusal(std::string_view json) {
  const auto truth = ParseTruth(json, "truth.json");
  EXPECT_FALSE(truth.has_value());
  if (truth) return "";
  EXPECT_EQ(truth.error().ExitStatus(), 2);
  EXPECT_THAT(truth.error().Message(), HasSubstr("truth.json"));
  return truth.error().Message();
}

TEST(ParseTruth, ReadsPhasesRangesAndPids) {
  const Truth truth = Parsed(kGood);
  ASSERT_EQ(truth.phases.size(), 1u);
  EXPECT_EQ(truth.phases[0].end, MonotonicTime(nanoseconds(1000)));
  ASSERT_EQ(truth.phases[0].processes.size(), 2u);
  const ProcessTruth& own = truth.phases[0].processes[0];
  EXPECT_EQ(own.pid, Pid(7));
  ASSERT_EQ(own.spans.size(), 1u);
  EXPECT_EQ(own.spans[0].range, (VpnRange{Vpn(1), Vpn(3)}));
  EXPECT_EQ(own.spans[0].page_weight, 0.25);
  EXPECT_EQ(truth.phases[0].processes[1].pid, Pid(8));
}

TEST(ParseTruth, WidensToWholePagesAndAddsWhereRangesOverlap) {
  // [1, 3) at 2 a page, and bytes 8192 .. 8193 that are page 2 at 6: pages 1 and 2 weigh 2 and 8.
  const Truth truth = Parsed(R"({"phases": [{"t_start_ns": 0, "t_end_ns": 1, "ranges": [
    {"start": 4096, "end": 12288, "weight": 4}, {"start": 8192, "end": 8193, "weight": 6}]}]})");
  const ProcessTruth& all = truth.phases[0].processes[0];
  EXPECT_EQ(all.pid, std::nullopt);
  ASSERT_EQ(all.spans.size(), 2u);
  EXPECT_EQ(all.spans[0].range, (VpnRange{Vpn(1), Vpn(2)}));
  EXPECT_DOUBLE_EQ(all.spans[0].page_weight, 2);
  EXPECT_EQ(all.spans[1].range, (VpnRange{Vpn(2), Vpn(3)}));
  EXPECT_DOUBLE_EQ(all.spans[1].page_weight, 8);
}

TEST(ParseTruth, NamesTheFieldAtFault) {
  const auto with_range = [](std::string_view range) {
    return R"({"phases": [{"t_start_ns": 0, "t_end_ns": 9, "ranges": [)"
           R"({"start": 0, "end": 4096, "weight": 1}, )" +
           std::string(range) + "]}]}";
  };
  EXPECT_THAT(Refusal(""), HasSubstr("byte"));
  EXPECT_THAT(Refusal("{\"phases\": [}"), HasSubstr("byte 13"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("is not an object"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("phases: is missing"));
  EXPECT_THAT(Refusal(R"({"phases": 1})"), HasSubstr("phases: is not a list"));
  EXPECT_THAT(Refusal(R"({"phases": []})"), HasSubstr("phases: is empty"));
  EXPECT_THAT(Refusal(R"({"phases": [{"t_start_ns": -1}]})"), HasSubstr("phases[0].t_start_ns"));
  EXPECT_THAT(Refusal(R"({"phases": [{"t_start_ns": 5, "t_end_ns": 5, "ranges": []}]})"),
              HasSubstr("phases[0]: ends before it starts"));
  EXPECT_THAT(Refusal(R"({"phases": [{"t_start_ns": 5, "t_end_ns": 6, "ranges": []}]})"),
              HasSubstr("phases[0].ranges: weigh nothing"));
  EXPECT_THAT(Refusal(with_range("3")), HasSubstr("phases[0].ranges[1]: is not an object"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 1.5})")),
              HasSubstr("ranges[1].start: is not a whole"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 18446744073709551615, "end": 1, "weight": 1})")),
              HasSubstr("ranges[1].start: is above"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 1, "end": 1, "weight": 1})")),
              HasSubstr("ranges[1]: ends before"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 1, "end": 2, "weight": -1})")),
              HasSubstr("ranges[1].weight"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 1, "end": 2, "weight": "1"})")),
              HasSubstr("ranges[1].weight: is not a number"));
  EXPECT_THAT(Refusal(with_range(R"({"start": 1, "end": 2, "weight": 1, "pid": "x"})")),
              HasSubstr("ranges[1].pid"));
  EXPECT_THAT(Refusal(R"({"phases": [{"t_start_ns": 1e999}]})"), HasSubstr("truth.json"));
}

TEST(ParseTruth, TellsWhatItsWeightsCount) {
  const auto text = [](const std::string& of) {
    return "{" + of +
           R"("phases": [{"t_start_ns": 0, "t_end_ns": 9, "ranges": [
             {"start": 0, "end": 4096, "weight": 1}]}]})";
  };
  EXPECT_EQ(ParseTruth(text(""), "truth.json")->of, RankSource::kTruth);
  EXPECT_EQ(ParseTruth(text(R"("of": "accesses",)"), "truth.json")->of, RankSource::kTruth);
  EXPECT_EQ(ParseTruth(text(R"("of": "misses",)"), "truth.json")->of, RankSource::kMisses);
  EXPECT_THAT(Refusal(text(R"("of": "loads",)")), HasSubstr("of: is neither"));
  EXPECT_THAT(Refusal(text(R"("of": 3,)")), HasSubstr("of: is neither"));
}

TEST(ParseTruth, RefusesPhasesOutOfOrder) {
  EXPECT_THAT(Refusal(R"({"phases": [
      {"t_start_ns": 0, "t_end_ns": 9, "ranges": [{"start": 0, "end": 4096, "weight": 1}]},
      {"t_start_ns": 8, "t_end_ns": 12, "ranges": [{"start": 0, "end": 4096, "weight": 1}]}]})"),
              HasSubstr("phases[1].t_start_ns: lies before"));
}

TEST(ParseTruth, SurvivesDeepNestingAndEveryCut) {
  Refusal(std::string(200000, '['));
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    EXPECT_FALSE(ParseTruth(kGood.substr(0, length), "truth.json")) << length;
  }
}

TEST(ReadTruth, GivesTheErrorOfTheSystem) {
  EXPECT_EQ(ReadTruth("/nonexistent/truth.json").error().system_error, ENOENT);
  EXPECT_EQ(ReadTruth("/").error().ExitStatus(), 1);
}

TEST(ReadTruth, ReadsAFile) {
  std::string folder = std::filesystem::temp_directory_path() / "tmprof-accuracy-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(folder) / "truth.json";
  std::ofstream(path) << kGood;
  const auto truth = ReadTruth(path);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(truth.has_value());
  EXPECT_EQ(truth->phases.size(), 1u);
}

// Nanoseconds [start, end).
EpochProfile Epoch(std::int64_t start, std::int64_t end, const std::vector<Counted>& pages) {
  EpochProfile epoch =
      EpochOf(MonotonicTime(nanoseconds(start)), MonotonicTime(nanoseconds(end)), pages);
  for (const std::uint32_t target : {0u, 1u}) {
    epoch.targets.push_back({.id = TargetId(target), .pid = Pid(7 + static_cast<int>(target))});
  }
  return epoch;
}

std::string Ranges(const std::vector<double>& page_weights) {
  std::string ranges;
  for (std::size_t i = 0; i < page_weights.size(); ++i) {
    ranges += (i == 0 ? "" : ", ") + std::string(R"({"start": )") + std::to_string(i * 4096) +
              R"(, "end": )" + std::to_string((i + 1) * 4096) + R"(, "weight": )" +
              std::to_string(page_weights[i]) + "}";
  }
  return ranges;
}
std::string Phase(std::int64_t start, std::int64_t end, const std::vector<double>& page_weights) {
  return R"({"t_start_ns": )" + std::to_string(start) + R"(, "t_end_ns": )" + std::to_string(end) +
         R"(, "ranges": [)" + Ranges(page_weights) + "]}";
}
Truth TruthOf(const std::vector<std::string>& phases, const std::string& more = "") {
  std::string json = "{" + more + "\"phases\": [";
  for (std::size_t i = 0; i < phases.size(); ++i) json += (i == 0 ? "" : ", ") + phases[i];
  return Parsed(json + "]}");
}

Result<AccuracyOutcome> Score(std::vector<EpochProfile> epochs, const Truth& truth, Ratio k) {
  VectorEpochStream stream(std::move(epochs));
  return ScoreAgainstTruth(stream, truth, {.k_ratio = k, .model = RankModel::kSum});
}

// Pages 0 to 3 weigh 8, 4, 2 and 2 of 16.
TEST(ShareOfTruth, CountsAPageOnceHoweverManyProcessesHaveIt) {
  const Truth truth = TruthOf({Phase(0, 10, {8, 4, 2, 2})});
  const TruthPhase& phase = truth.phases[0];
  const PagesOfProcess first{.pid = Pid(1), .pages = {Vpn(0), Vpn(2)}};
  const PagesOfProcess second{.pid = Pid(2), .pages = {Vpn(1), Vpn(3)}};
  EXPECT_DOUBLE_EQ(ShareOf(phase, std::vector{first}), 12.0 / 16);
  EXPECT_DOUBLE_EQ(ShareOf(phase, std::vector{first, second}), 14.0 / 16);
  EXPECT_DOUBLE_EQ(ShareOf(phase, std::vector<PagesOfProcess>{}), 0);
}

TEST(ShareOfTruth, IsOfTheRangesAloneIfTheTruthIsCutToThem) {
  const std::vector<VpnRange> ranges{{Vpn(1), Vpn(3)}, {Vpn(2), Vpn(4)}};
  const Truth truth =
      TruthWithin(TruthOf({Phase(0, 10, {8, 4, 2, 2}), Phase(10, 20, {1, 0, 0, 0})}), ranges);
  ASSERT_EQ(truth.phases.size(), 1u);
  EXPECT_DOUBLE_EQ(BestShare(truth.phases[0], PageCount(1)), 0.5);
  const PagesOfProcess page{.pid = Pid(1), .pages = {Vpn(0), Vpn(2)}};
  EXPECT_DOUBLE_EQ(ShareOf(truth.phases[0], std::vector{page}), 0.5);
}

TEST(ShareOfTruth, IsTheLargestForTheHeaviestPages) {
  const Truth truth = TruthOf({Phase(0, 10, {2, 8, 2, 4})});
  EXPECT_DOUBLE_EQ(BestShare(truth.phases[0], PageCount(0)), 0);
  EXPECT_DOUBLE_EQ(BestShare(truth.phases[0], PageCount(2)), 12.0 / 16);
  EXPECT_DOUBLE_EQ(BestShare(truth.phases[0], PageCount(9)), 1);
}

// Pages 0 .. 7 weigh 8 4 4 2 1 1 0 0 of 20; k = 8/4 = 2. Relevant: page 0 and, tied, 1 and 2.
//   references  3:9 0:5     -> 0 is relevant: precision 1/2, recall 1/2, coverage (2 + 8) / 20
//   samples     1:7 2:6     -> both are:      1,             1,          (4 + 4) / 20
//   combined    3:9 1:7     -> 1 is:          1/2,           1/2,        (2 + 4) / 20
// Ideal coverage (8 + 4) / 20.
TEST(ScoreAgainstTruth, GivesPrecisionRecallAndCoverageOfEachSource) {
  const auto outcome = Score({Epoch(0, 10, {{0, 5}, {1, 0, 7}, {2, 0, 6}, {3, 9}})},
                             TruthOf({Phase(0, 10, {8, 4, 4, 2, 1, 1, 0, 0})}), {1, 4});
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->rows.size(), 3u);
  const AccuracyRow& references = outcome->rows[0];
  EXPECT_EQ(references.rank, RankSource::kReferences);
  EXPECT_EQ(references.k, PageCount(2));
  EXPECT_EQ(references.phases, 1u);
  EXPECT_DOUBLE_EQ(references.precision.value(), 0.5);
  EXPECT_DOUBLE_EQ(references.recall, 0.5);
  EXPECT_DOUBLE_EQ(references.coverage, 0.5);
  EXPECT_DOUBLE_EQ(references.coverage_of_ideal, 10.0 / 12);
  const AccuracyRow& samples = outcome->rows[1];
  EXPECT_EQ(samples.rank, RankSource::kSamples);
  EXPECT_DOUBLE_EQ(samples.precision.value(), 1);
  EXPECT_DOUBLE_EQ(samples.recall, 1);
  EXPECT_DOUBLE_EQ(samples.coverage, 0.4);
  const AccuracyRow& combined = outcome->rows[2];
  EXPECT_EQ(combined.rank, RankSource::kCombined);
  EXPECT_DOUBLE_EQ(combined.recall, 0.5);
  EXPECT_DOUBLE_EQ(combined.coverage, 0.3);
}

// The same. Ranks of truth, off their mean: 3.5 2 2 .5 -1 -1 -3 -3, squares 40.5 in all; 25 of 28
// pairs differ.
//   samples     1:7 2:6, six pages tied last: -1 3.5 2.5 -1 -1 -1 -1 -1, squares 24.5, products 16;
//               13 pairs differ. Pages 1 and 2 are rightly before 3 to 7 and wrongly before 0.
//   references  3:9 0:5: 2.5 -1 -1 3.5 -1 -1 -1 -1, products 14.5; page 0 is rightly before 1, 2, 4
//               to 7 and wrongly behind 3, which is rightly before 4 to 7, wrongly before 1 and 2.
TEST(ScoreAgainstTruth, CorrelatesAllPagesOfTheTruthThoseNotSeenTiedLast) {
  const auto outcome = Score({Epoch(0, 10, {{0, 5}, {1, 0, 7}, {2, 0, 6}, {3, 9}})},
                             TruthOf({Phase(0, 10, {8, 4, 4, 2, 1, 1, 0, 0})}), {1, 4});
  ASSERT_TRUE(outcome.has_value());
  const AccuracyRow& references = outcome->rows[0];
  EXPECT_DOUBLE_EQ(references.spearman_rho.value(), 14.5 / std::sqrt(40.5 * 24.5));
  EXPECT_DOUBLE_EQ(references.kendall_tau_b.value(), (6 - 1 + 4 - 2) / std::sqrt(25.0 * 13));
  const AccuracyRow& samples = outcome->rows[1];
  EXPECT_DOUBLE_EQ(samples.spearman_rho.value(), 16 / std::sqrt(40.5 * 24.5));
  EXPECT_DOUBLE_EQ(samples.kendall_tau_b.value(), (10 - 2) / std::sqrt(25.0 * 13));
}

// A span of 2 pages ranked first, of which only one is of the truth; a page outside is no pair.
TEST(ScoreAgainstTruth, CorrelatesPagesOfSpansAndNoneOutsideTheTruth) {
  const auto outcome =
      Score({Epoch(0, 10, {{2, 8, 0, 2}, {900, 9}})}, TruthOf({Phase(0, 10, {4, 1, 6})}), {1, 3});
  ASSERT_TRUE(outcome.has_value());
  // Ranks of truth 2 1 3, of score 1.5 1.5 3.
  EXPECT_DOUBLE_EQ(outcome->rows[0].spearman_rho.value(), 1.5 / std::sqrt(2.0 * 1.5));
  EXPECT_DOUBLE_EQ(outcome->rows[0].kendall_tau_b.value(), 2 / std::sqrt(3.0 * 2));
  EXPECT_EQ(outcome->rows[1].spearman_rho, std::nullopt) << "no sample ranked anything";
  EXPECT_EQ(outcome->rows[1].kendall_tau_b, std::nullopt);
}

// In the first phase the order is right, in the second reversed.
TEST(ScoreAgainstTruth, AveragesCorrelationsOverPhases) {
  const auto outcome = Score({Epoch(0, 10, {{0, 5}}), Epoch(10, 20, {{0, 5}})},
                             TruthOf({Phase(0, 10, {9, 1}), Phase(10, 20, {1, 9})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].spearman_rho.value(), 0);
  EXPECT_DOUBLE_EQ(outcome->rows[0].kendall_tau_b.value(), 0);
}

// One page found of a list of one: precise, though half of what was asked for is missing.
TEST(ScoreAgainstTruth, PrecisionIsOfThePagesThatWereRanked) {
  const auto outcome =
      Score({Epoch(0, 10, {{0, 5}})}, TruthOf({Phase(0, 10, {8, 4, 2, 1})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].precision.value(), 1);
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 0.5);
  EXPECT_EQ(outcome->rows[1].precision, std::nullopt) << "no sample ranked anything";
  EXPECT_EQ(outcome->rows[1].recall, 0);
}

// Only one page is accessed at all: finding it is a recall of 1 even at k = 2.
TEST(ScoreAgainstTruth, PagesNeverAccessedAreNotRelevant) {
  const auto outcome =
      Score({Epoch(0, 10, {{0, 5}, {1, 1}})}, TruthOf({Phase(0, 10, {8, 0, 0, 0})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 1);
  EXPECT_DOUBLE_EQ(outcome->rows[0].precision.value(), 0.5);
}

// k is at least one page, and epochs are summed: page 1 has 3 + 3, page 0 only 5.
TEST(ScoreAgainstTruth, SumsTheEpochsOfAPhase) {
  const auto outcome = Score({Epoch(0, 5, {{0, 5}, {1, 3}}), Epoch(5, 10, {{1, 3}})},
                             TruthOf({Phase(0, 10, {1, 9})}), {1, 100});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->rows[0].k, PageCount(1));
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 1);
}

// Epochs [8, 12) and [18, 22) lie across a phase's bounds; the second phase has [12, 18) alone and
// fails, the first succeeds, the third has none and does not count.
TEST(ScoreAgainstTruth, AveragesPhasesWithAWholeEpochAndLeavesOutEpochsAcrossBounds) {
  const auto outcome =
      Score({Epoch(0, 8, {{0, 5}}), Epoch(8, 12, {{1, 99}}), Epoch(12, 18, {{0, 1}}),
             Epoch(18, 22, {{1, 99}})},
            TruthOf({Phase(0, 10, {9, 1}), Phase(10, 20, {1, 9}), Phase(20, 30, {1, 9})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->rows[0].phases, 2u);
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, (0.9 + 0.1) / 2);
}

TEST(ScoreAgainstTruth, TruthOfOneProcessIsNotFoundInAnother) {
  const std::vector<Counted> counts = {{0, 5, 0, 1, 0}, {1, 9, 0, 1, 1}};
  const std::string phase = Phase(0, 10, {1, 9});
  const auto of_target_0 = Score({Epoch(0, 10, counts)}, TruthOf({phase}, "\"pid\": 7, "), {1, 2});
  const auto of_target_1 = Score({Epoch(0, 10, counts)}, TruthOf({phase}, "\"pid\": 8, "), {1, 2});
  const auto of_all = Score({Epoch(0, 10, counts)}, TruthOf({phase}), {1, 2});
  ASSERT_TRUE(of_target_0 && of_target_1 && of_all);
  EXPECT_DOUBLE_EQ(of_target_0->rows[0].recall, 0);
  EXPECT_DOUBLE_EQ(of_target_1->rows[0].recall, 1);
  EXPECT_DOUBLE_EQ(of_all->rows[0].recall, 1);
}

// Both targets have pages at the addresses of a truth that names no process, as a forked child has.
// k = 2 of pages 0 .. 3: ranked best are page 0 of one target and page 0 of the other.
TEST(ScoreAgainstTruth, TruthOfNoProcessFindsAPageOnceHoweverManyTargetsHaveIt) {
  const auto outcome = Score({Epoch(0, 10, {{0, 9, 0, 1, 0}, {0, 9, 0, 1, 1}, {1, 5, 0, 1, 1}})},
                             TruthOf({Phase(0, 10, {6, 4, 0, 0})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(outcome->rows[0].precision.value(), 0.5);
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, 0.6);
  const auto all = Score({Epoch(0, 10, {{0, 9, 0, 4, 0}, {0, 9, 0, 4, 1}})},
                         TruthOf({Phase(0, 10, {6, 4, 3, 2})}), {1, 1});
  ASSERT_TRUE(all.has_value());
  EXPECT_DOUBLE_EQ(all->rows[0].recall, 1);
}

// A span of 4 pages with 8 references (2 each) against page 4 with 3; k = 3: page 4 and two of the
// span.
TEST(ScoreAgainstTruth, SpansAreRankedByDensityAndCutAtK) {
  const auto outcome = Score({Epoch(0, 10, {{0, 8, 0, 4}, {4, 3}})},
                             TruthOf({Phase(0, 10, {4, 4, 1, 1, 10, 0})}), {1, 2});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].precision.value(), 1);
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, 18.0 / 20);
}

// Pages 0 to 3 weigh 4 3 2 1, k = 2; five that the truth leaves out are ranked before them.
TEST(ScoreAgainstTruth, AmongTheTruthOthersTakeNoPlace) {
  EpochProfile epoch = Epoch(0, 10, {{0, 5}, {2, 6}, {8, 9}, {9, 9}});
  epoch.pages.span_pages.back() = 4;
  VectorEpochStream stream({epoch});
  const auto outcome =
      ScoreAgainstTruth(stream, TruthOf({Phase(0, 10, {4, 3, 2, 1})}),
                        {.k_ratio = {1, 2}, .model = RankModel::kSum, .among_truth = true});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(outcome->rows[0].precision.value(), 0.5);
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, 0.6);
}

// A span of pages 2 to 9, of which 2 and 3 are of the truth: one of them has a place beside page 0.
TEST(ScoreAgainstTruth, AmongTheTruthASpanCountsAsFarAsItIsOfIt) {
  EpochProfile epoch = Epoch(0, 10, {{0, 9}, {2, 24}});
  epoch.pages.span_pages.back() = 8;
  VectorEpochStream stream({epoch});
  const auto outcome =
      ScoreAgainstTruth(stream, TruthOf({Phase(0, 10, {4, 3, 2, 1})}),
                        {.k_ratio = {1, 2}, .model = RankModel::kSum, .among_truth = true});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, 0.6);
}

TEST(ScoreAgainstTruth, WithoutAWholeEpochSaysHowLongTheyWere) {
  const auto outcome =
      Score({Epoch(0, 3'000'000, {{0, 5}})}, TruthOf({Phase(0, 2'000'000, {1})}), {1, 2});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().ExitStatus(), 2);
  EXPECT_THAT(outcome.error().Message(), HasSubstr("longest phase is 2ms, the shortest epoch 3ms"));
  EXPECT_THAT(Score({}, TruthOf({Phase(0, 1, {1})}), {1, 2}).error().Message(),
              HasSubstr("no complete epoch"));
}

TEST(ScoreAgainstTruth, DamageKeepsThePhasesBeforeIt) {
  const Truth truth = TruthOf({Phase(0, 10, {9, 1})});
  FaultyStream stream({Epoch(0, 10, {{0, 5}})});
  const auto outcome = ScoreAgainstTruth(stream, truth, {.k_ratio = {1, 2}});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->end.damage->reason, "damaged");
  EXPECT_DOUBLE_EQ(outcome->rows[2].recall, 1);
  FaultyStream nothing({});
  EXPECT_EQ(ScoreAgainstTruth(nothing, truth, {}).error().reason, "damaged");
}

// One epoch of 100 ns in which pid 7 loads from page 1 `loads` times and from page 2 once.
EpochProfile CountedEpoch(std::int64_t start, std::uint64_t loads) {
  EpochProfile epoch;
  epoch.start = MonotonicTime(nanoseconds(start));
  epoch.end = MonotonicTime(nanoseconds(start + 100));
  epoch.targets = {{.id = TargetId(0), .pid = Pid(7)}};
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = loads}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(2)}, .accesses = AccessCounts{.stores = 1}});
  return epoch;
}

TEST(TruthOfEpochs, AddsThemUpInOnePhaseOrInPhasesOfTheLengthAskedFor) {
  const std::vector<EpochProfile> epochs = {CountedEpoch(0, 10), CountedEpoch(100, 20),
                                            CountedEpoch(200, 40)};
  VectorEpochStream all(epochs);
  const auto whole = TruthOfEpochs(all, "x", std::nullopt);
  ASSERT_TRUE(whole.has_value()) << whole.error().Message();
  ASSERT_EQ(whole->phases.size(), 1u);
  EXPECT_EQ(whole->phases[0].start, epochs[0].start);
  EXPECT_EQ(whole->phases[0].end, epochs[2].end);
  ASSERT_EQ(whole->phases[0].processes.size(), 1u);
  EXPECT_EQ(whole->phases[0].processes[0].pid, Pid(7));
  ASSERT_EQ(whole->phases[0].processes[0].spans.size(), 2u);
  EXPECT_EQ(whole->phases[0].processes[0].spans[0].page_weight, 70);
  EXPECT_EQ(whole->phases[0].processes[0].spans[1].page_weight, 3);

  VectorEpochStream again(epochs);
  const auto phases = TruthOfEpochs(again, "x", nanoseconds(150));
  ASSERT_EQ(phases->phases.size(), 2u) << "two epochs, and the one that is left";
  EXPECT_EQ(phases->phases[0].end, epochs[1].end);
  EXPECT_EQ(phases->phases[0].processes[0].spans[0].page_weight, 30);
  EXPECT_EQ(phases->phases[1].processes[0].spans[0].page_weight, 40);
}

TEST(TruthOfEpochs, TellsTheDamageThatCutItShort) {
  const EpochProfile epoch = CountedEpoch(0, 3);
  FaultyStream cut({epoch}, BadInput("read trace", "x.data", "checksum differs"), std::nullopt);
  const auto truth = TruthOfEpochs(cut, "x", std::nullopt);
  ASSERT_TRUE(truth.has_value());
  EXPECT_TRUE(truth->end.damage.has_value());
  FaultyStream killed({epoch}, std::nullopt, false);
  EXPECT_EQ(TruthOfEpochs(killed, "x", std::nullopt)->end.finished, false);
}

TEST(TruthOfEpochs, RefusesATraceInWhichNobodyCounted) {
  VectorEpochStream epochs({EpochOf(MonotonicTime(), MonotonicTime(nanoseconds(1)), {{.vpn = 1}})});
  const auto truth = TruthOfEpochs(epochs, "x", std::nullopt);
  ASSERT_FALSE(truth.has_value());
  EXPECT_THAT(truth.error().Message(), HasSubstr("no epoch of it holds exact accesses"));
}

// Page 1 has the more accesses, page 2 the more misses; page 3 none of them.
EpochProfile MissedEpoch() {
  EpochProfile epoch;
  epoch.end = MonotonicTime(nanoseconds(100));
  epoch.targets = {{.id = TargetId(0), .pid = Pid(7)}};
  const auto add = [&epoch](std::uint64_t vpn, const AccessCounts& counts) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(vpn)}, .accesses = counts});
  };
  add(1, {.loads = 90, .llc_misses = 1});
  add(2, {.loads = 10, .llc_misses = 9});
  add(3, {.stores = 5, .llc_misses = 0});
  return epoch;
}

TEST(TruthOfEpochs, WeighsByMissesAndKeepsThePagesThatHadNone) {
  VectorEpochStream epochs({MissedEpoch()});
  const auto truth = TruthOfEpochs(epochs, "x", std::nullopt, RankSource::kMisses);
  ASSERT_TRUE(truth.has_value()) << truth.error().Message();
  const std::vector<TruthSpan>& spans = truth->phases[0].processes[0].spans;
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].page_weight, 1);
  EXPECT_EQ(spans[1].page_weight, 9);
  EXPECT_EQ(spans[2].page_weight, 0);

  const auto outcome = Score({Epoch(0, 10, {{1, 9}, {2, 1}})}, *truth, {1, 3});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_DOUBLE_EQ(outcome->rows[0].coverage, 0.1);
  // Ranks of truth 2 3 1, of score 3 2 1.
  EXPECT_DOUBLE_EQ(outcome->rows[0].spearman_rho.value(), 0.5);
}

TEST(TruthOfEpochs, WeighsByTheTimeThatAccessesWaited) {
  EpochProfile epoch = MissedEpoch();
  epoch.pages.accesses->stall_ns = {100, 20, 0};
  VectorEpochStream epochs({epoch});
  const auto truth = TruthOfEpochs(epochs, "x", std::nullopt, RankSource::kStall);
  ASSERT_TRUE(truth.has_value()) << truth.error().Message();
  const std::vector<TruthSpan>& spans = truth->phases[0].processes[0].spans;
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].page_weight, 100);
  EXPECT_EQ(spans[1].page_weight, 20);
  EXPECT_EQ(spans[2].page_weight, 0);

  VectorEpochStream unmodelled({MissedEpoch()});
  const auto unknown = TruthOfEpochs(unmodelled, "x", std::nullopt, RankSource::kStall);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().Message(),
              testing::AllOf(HasSubstr("read stall"), HasSubstr("--exact-stalls")));
}

TEST(TruthOfEpochs, RefusesMissesThatAreUnknown) {
  VectorEpochStream epochs({CountedEpoch(0, 10)});
  const auto truth = TruthOfEpochs(epochs, "x", std::nullopt, RankSource::kMisses);
  ASSERT_FALSE(truth.has_value());
  EXPECT_EQ(truth.error().ExitStatus(), 2);
  EXPECT_THAT(truth.error().Message(), HasSubstr("unknown, not 0"));
  EXPECT_THAT(truth.error().Message(), HasSubstr("--exact-llc"));
}

TEST(TruthOfEpochs, RefusesMissesWhereNoneWere) {
  EpochProfile epoch = CountedEpoch(0, 10);
  epoch.pages.accesses->llc_misses.emplace(epoch.pages.size());
  VectorEpochStream epochs({epoch});
  const auto truth = TruthOfEpochs(epochs, "x", std::nullopt, RankSource::kMisses);
  ASSERT_FALSE(truth.has_value());
  EXPECT_THAT(truth.error().Message(), HasSubstr("no access of it missed"));
}

}  // namespace accuracy_test
}  // namespace tmprof
