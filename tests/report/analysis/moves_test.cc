// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/view.h"
#include "tests/base/text/text_tables.h"
#include "tests/folders.h"
#include "tests/proto/ledgers.h"

namespace tmprof {
namespace moves_test {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kGolden = TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.ledger";

MovesSummary Golden(const MovesOptions& options = {}) {
  LedgerReader ledger = LedgerReader::Open(kGolden).value();
  return SummarizeMoves(ledger, options);
}

// Returns the summary of a ledger made from these epochs.
MovesSummary SummaryOf(const std::vector<LedgerEpoch>& epochs, const MovesOptions& options = {},
                       const LedgerInfo& info = SmallLedgerInfo()) {
  std::string folder = testing::TempDir() + "/moves.XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(folder) / "ledger";
  LedgerWriter writer = LedgerWriter::Create(path, info).value();
  for (const LedgerEpoch& epoch : epochs) EXPECT_TRUE(writer.Write(epoch).has_value());
  LedgerReader ledger = LedgerReader::Open(path).value();
  MovesSummary summary = SummarizeMoves(ledger, options);
  std::filesystem::remove_all(folder);
  return summary;
}

LedgerEpoch EpochOf(std::uint64_t index, std::vector<MoveOutcome> moves) {
  LedgerEpoch epoch = LedgerEpochAt(index);
  epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
  epoch.moves = std::move(moves);
  return epoch;
}

TEST(MovesTest, TellsWhatIsBoundFromWhatIsInBackoffOrUnknown) {
  std::vector<LedgerEpoch> epochs{EpochOf(0, {}), EpochOf(1, {})};
  epochs[0].not_moved = {
      .bound = 1, .binding_unknown = 20, .shared = 2, .mapped_elsewhere = 3, .backoff = 300};
  epochs[1].not_moved = {
      .bound = 4, .binding_unknown = 50, .shared = 30, .mapped_elsewhere = 40, .backoff = 600};
  const MovesSummary summary = SummaryOf(epochs);
  EXPECT_EQ(summary.not_moved, (NotMoved{.bound = 5,
                                         .binding_unknown = 70,
                                         .shared = 32,
                                         .mapped_elsewhere = 43,
                                         .backoff = 900}));
  EXPECT_THAT(
      MovesText(summary),
      HasSubstr("bound 5, binding unknown 70, shared 32, mapped elsewhere 43, backoff 900,"));
}

MoveOutcome Promotion(std::uint64_t vpn, double score) {
  return {
      .move = {.key = {TargetId(0), Vpn(vpn)}, .from = NodeId(1), .to = NodeId(0), .score = score},
      .attempts = 1,
      .latency = nanoseconds(1'500)};
}

// Epochs 0 and 1 take 2 s, all others 4 s. In epoch 1 two promotions of 2 and of 6 accesses an
// epoch are over. The first is settled at the end of epoch 5: it had 12 accesses in 3 epochs, which
// are 12 s.
std::vector<LedgerEpoch> PromotedAndSettled() {
  std::vector<LedgerEpoch> epochs;
  nanoseconds at(0);
  for (std::uint64_t index = 0; index < 6; ++index) {
    LedgerEpoch& epoch = epochs.emplace_back(EpochOf(index, {}));
    epoch.start = MonotonicTime(at);
    at += std::chrono::seconds(index < 2 ? 2 : 4);
    epoch.end = MonotonicTime(at);
  }
  epochs[1].moves = {Promotion(1, 2), Promotion(2, 6)};
  epochs[5].settled = {{.key = {TargetId(0), Vpn(1)},
                        .from = NodeId(1),
                        .to = NodeId(0),
                        .moved_in = 1,
                        .cause = SettledCause::kEnd,
                        .epochs = 4,
                        .epochs_known = 3,
                        .seen = 4,
                        .weight = 12}};
  return epochs;
}

LedgerInfo InfoWithGap() {
  LedgerInfo info = SmallLedgerInfo();
  info.settings = SettingsOf(GapsOf({80.0, 250.0}, std::nullopt), 2);
  return info;
}

TEST(MovesTest, TellsPredictedFromRealisedMemoryTimeOfTheSamePromotions) {
  const MovesSummary summary = SummaryOf(PromotedAndSettled(), {}, InfoWithGap());
  ASSERT_TRUE(summary.Saved().has_value());
  EXPECT_DOUBLE_EQ(summary.Saved()->predicted_s, 12 * 1 * 170e-9) << "an access a second";
  EXPECT_DOUBLE_EQ(summary.Saved()->realised_s, 12 * 170e-9);
  EXPECT_DOUBLE_EQ(summary.Saved()->page_seconds, 12);
  const nlohmann::json time = nlohmann::json::parse(MovesJson(summary))["memory_time"];
  EXPECT_EQ(time["latency_gap_basis"], "firmware");
  EXPECT_DOUBLE_EQ(time["predicted_ns_per_page_second"], 170);
  EXPECT_DOUBLE_EQ(time["realised_ns_per_page_second"], 170);
  EXPECT_DOUBLE_EQ(time["realised_s"], 12 * 170e-9);
  EXPECT_DOUBLE_EQ(time["moving_s"], 3e-6);
  EXPECT_THAT(MovesText(summary),
              HasSubstr("a settled promotion saves 170 ns of memory time a page and second as "
                        "predicted, 170 ns by later evidence (an access: 170 ns, firmware)"));
  const MovesSummary unsettled = SummaryOf({EpochOf(0, {Promotion(1, 2)})});
  EXPECT_FALSE(unsettled.Saved().has_value()) << "nothing is settled";
}

TEST(MovesTest, ScoresThatAreNoAccessesTellNoTime) {
  const auto saved = [](std::vector<std::string> ranked_by, std::string model, bool dry_run) {
    std::vector<LedgerEpoch> epochs = PromotedAndSettled();
    for (std::size_t i = 0; i < ranked_by.size(); ++i) epochs[i].ranked_by = ranked_by[i];
    LedgerInfo info = InfoWithGap();
    info.rank_model = std::move(model);
    info.dry_run = dry_run;
    return SummaryOf(epochs, {}, info);
  };
  EXPECT_TRUE(saved({"memory", "memory"}, "rate", false).Saved().has_value());
  EXPECT_FALSE(saved({"memory"}, "sum", false).Saved().has_value());
  EXPECT_FALSE(saved({"samples"}, "rate", false).Saved().has_value());
  const MovesSummary mixed = saved({"combined", "memory"}, "rate", false);
  EXPECT_FALSE(mixed.Saved().has_value());
  EXPECT_THAT(MovesText(mixed), HasSubstr("saved         unknown: the scores"));
  EXPECT_TRUE(nlohmann::json::parse(MovesJson(mixed))["memory_time"]["realised_s"].is_null());
}

TEST(MovesTest, TheTimeOfMovingIsUnknownInADryRun) {
  LedgerInfo info = SmallLedgerInfo();
  info.dry_run = true;
  MoveOutcome assumed = Promotion(1, 2);
  assumed.error = ECANCELED;
  assumed.attempts = 0;
  const MovesSummary summary = SummaryOf({EpochOf(0, {assumed})}, {}, info);
  EXPECT_THAT(MovesText(summary), HasSubstr("moving took unknown"));
  EXPECT_TRUE(nlohmann::json::parse(MovesJson(summary))["memory_time"]["moving_s"].is_null());
}

TEST(MovesTest, NamesTheUnitOfEachColumnOfNumbers) {
  EXPECT_THAT(TitlesWithoutUnit(MovesText(Golden())), testing::IsEmpty());
}

TEST(MovesTest, SaysWhatPagesWereRankedBy) {
  std::vector<LedgerEpoch> epochs{EpochOf(0, {}), EpochOf(1, {}), EpochOf(2, {})};
  EXPECT_THAT(MovesText(SummaryOf(epochs)), HasSubstr("rank model rate, in epochs of"));
  epochs[0].ranked_by = "combined";
  epochs[1].ranked_by = epochs[2].ranked_by = "memory";
  const MovesSummary summary = SummaryOf(epochs);
  EXPECT_THAT(summary.ranked_by, ElementsAre("combined", "memory"));
  EXPECT_THAT(MovesText(summary),
              HasSubstr("rank model rate, ranked by combined and memory, in epochs of"));
  EXPECT_EQ(nlohmann::json::parse(MovesJson(summary))["ranked_by"],
            nlohmann::json({"combined", "memory"}));
}

// make_golden_ledger.cc writes the ledger.
TEST(MovesTest, AddsUpALedger) {
  const MovesSummary summary = Golden();
  EXPECT_EQ(summary.epochs, 3u);
  EXPECT_EQ(summary.lost_epochs, 1u);
  EXPECT_EQ(summary.duration(), nanoseconds(4'001'000'000));
  EXPECT_EQ(summary.promotions.moves, 301u);
  EXPECT_EQ(summary.promotions.pages, PageCount(812));
  EXPECT_EQ(summary.demotions.moves, 2u);
  EXPECT_EQ(summary.demotions.pages, PageCount(2));
  EXPECT_THAT(summary.failures, ElementsAre(Pair(EBUSY, 1)));
  EXPECT_EQ(summary.retries, 100u + 2u);
  EXPECT_EQ(summary.not_moved, (NotMoved{.bound = 1,
                                         .cooling = 2,
                                         .without_gain = 3,
                                         .without_room = 4,
                                         .over_quota = 5,
                                         .unplaced = 6}));
  EXPECT_EQ(summary.replaced, 7u);
  EXPECT_EQ(summary.ping_pongs, 1u);
  ASSERT_EQ(summary.targets.size(), 2u);
  EXPECT_EQ(summary.targets[0].target.pid, Pid(1234));
  EXPECT_EQ(summary.targets[0].promotions.moves, 301u);
  EXPECT_EQ(summary.targets[0].demotions.moves, 1u);
  EXPECT_EQ(summary.targets[0].failed, 1u);
  EXPECT_EQ(summary.targets[1].demotions.moves, 1u);
  EXPECT_EQ(summary.end.finished, true);
}

TEST(MovesTest, LatencyIsOfAllThatWereTried) {
  const MovesSummary summary = Golden();
  ASSERT_TRUE(summary.latency.has_value());
  // 1000 + 7 i for i < 300, a huge page, a failure, two demotions.
  const double sum = 300 * 1000 + 7 * (299 * 300 / 2) + 400'000 + 5'000'000 + 2 * 2000;
  EXPECT_NEAR(static_cast<double>(summary.latency->mean.count()), sum / 304, 1);
  // The 301st of 304: all but the three longest.
  EXPECT_NEAR(static_cast<double>(summary.latency->p99.count()), 3086, 3086 * 0.022);
  EXPECT_EQ(summary.latency->max, nanoseconds(5'000'000));
  EXPECT_EQ(SummaryOf({EpochOf(0, {})}).latency, std::nullopt);
}

TEST(MovesTest, UnknownPaybackIsNeitherWastedNorPaidBack) {
  const MovesSummary summary = Golden();
  EXPECT_EQ(summary.promoted.settled, 3u);
  EXPECT_EQ(summary.promoted.known, 2u);
  EXPECT_EQ(summary.promoted.unseen, 1u);
  EXPECT_EQ(summary.promoted.seen, 40);
  EXPECT_EQ(summary.promoted.weight, 120.5);
  EXPECT_EQ(summary.promoted.page_epochs, 512 * 1 + 1 * 2);
  EXPECT_EQ(summary.demoted.known, 1u);
  EXPECT_EQ(summary.demoted.unseen, 0u);
  EXPECT_EQ(summary.Wasted(), 0.5);
  const auto json = nlohmann::json::parse(MovesJson(summary));
  EXPECT_EQ(json["payback"]["promotions"]["unknown"], 1);
  EXPECT_EQ(json["payback"]["promotions"]["unsettled"], 298);

  const MovesSummary none = SummaryOf({EpochOf(0, {Moved(0, 1, 1, 0)})});
  EXPECT_EQ(none.Wasted(), std::nullopt);
  const auto unknown = nlohmann::json::parse(MovesJson(none));
  EXPECT_TRUE(unknown["wasted_ratio"].is_null());
  EXPECT_TRUE(unknown["payback"]["promotions"]["weight"].is_null());
  EXPECT_THAT(MovesText(none), HasSubstr("wasted        unknown"));
}

TEST(MovesTest, PingPongIsWhatUndoesAMoveOfSoManyEpochsBefore) {
  const MoveOutcome up = Moved(0, 1, 1, 0);
  const MoveOutcome down = Moved(0, 1, 0, 3, MoveReason::kRoom);  // another node of the same tier
  MoveOutcome refused = down;
  refused.error = EBUSY;
  const std::vector<LedgerEpoch> epochs = {EpochOf(0, {up}), EpochOf(1, {refused}),
                                           EpochOf(3, {down})};
  EXPECT_EQ(SummaryOf(epochs, {.ping_pong_epochs = 2}).ping_pongs, 0u);
  const MovesSummary summary = SummaryOf(epochs, {.ping_pong_epochs = 3});
  EXPECT_EQ(summary.ping_pongs, 1u);
  EXPECT_EQ(summary.PingPong(), 0.5) << "what failed is not among the moves";
  EXPECT_EQ(SummaryOf({EpochOf(0, {up, down})}, {.ping_pong_epochs = 0}).ping_pongs, 1u);
  EXPECT_EQ(SummaryOf({EpochOf(0, {})}).PingPong(), std::nullopt);
  constexpr std::uint64_t kAlways = ~std::uint64_t{0};
  EXPECT_EQ(SummaryOf(epochs, {.ping_pong_epochs = kAlways}).ping_pongs, 1u);
}

TEST(MovesTest, ADryRunTellsWhatItWouldHaveMoved) {
  LedgerInfo info = SmallLedgerInfo();
  info.dry_run = true;
  MoveOutcome untried = Moved(0, 1, 1, 0);
  untried.error = ECANCELED;
  untried.attempts = 0;
  const MovesSummary dry = SummaryOf({EpochOf(0, {untried})}, {}, info);
  EXPECT_EQ(dry.promotions.moves, 1u);
  EXPECT_EQ(dry.failed(), 0u);
  EXPECT_EQ(dry.latency, std::nullopt);
  EXPECT_THAT(MovesText(dry), HasSubstr("nothing was moved"));
  const MovesSummary wet = SummaryOf({EpochOf(0, {untried})});
  EXPECT_EQ(wet.promotions.moves, 0u);
  EXPECT_EQ(wet.failed(), 1u);
}

TEST(MovesTest, MovesOfNoOtherTierAreApart) {
  const MovesSummary summary = SummaryOf({EpochOf(0, {Moved(0, 1, 1, 3), Moved(0, 2, 9, 0)})});
  EXPECT_EQ(summary.others.moves, 2u);
  EXPECT_EQ(summary.promotions.moves + summary.demotions.moves, 0u);
}

TEST(MovesTest, EpochsChooseMovesAndWhatBecameOfThem) {
  const MovesSummary first = Golden({.epochs = {.first = 0, .end = 1}});
  EXPECT_EQ(first.epochs, 1u);
  EXPECT_EQ(first.promotions.moves, 301u);
  EXPECT_EQ(first.demotions.moves, 0u);
  EXPECT_EQ(first.promoted.settled, 3u) << "told of in later epochs";
  EXPECT_EQ(first.demoted.settled, 0u);
  const MovesSummary later = Golden({.epochs = {.first = 2}});
  EXPECT_EQ(later.demotions.moves, 2u);
  EXPECT_EQ(later.ping_pongs, 1u) << "it undoes a move before them";
  EXPECT_EQ(later.promoted.settled, 0u);
  EXPECT_EQ(later.lost_epochs, 0u);
}

TEST(MovesTest, FailuresHaveTheirNames) {
  const auto json = nlohmann::json::parse(MovesJson(Golden()));
  EXPECT_EQ(json["failures"]["EBUSY"], 1);
  EXPECT_EQ(json["bytes_moved"], 814 * 4096);
  EXPECT_EQ(json["tiers"], nlohmann::json::parse("[[0], [1, 2]]"));
  EXPECT_THAT(MovesText(Golden()), HasSubstr("1 of 304 moves: EBUSY 1\n"));
  EXPECT_THAT(MovesCsv(Golden()), HasSubstr("\nfailures.EBUSY,1\n"));
}

TEST(MovesTest, TextIsPrintable) {
  LedgerEpoch epoch = EpochOf(0, {Moved(0, 1, 1, 0)});
  epoch.targets[0].name = "\x1b[2J\xff";
  LedgerInfo info = SmallLedgerInfo();
  info.policy = "\x1b[2J";
  EXPECT_THAT(MovesText(SummaryOf({epoch}, {}, info)), testing::Not(HasSubstr("\x1b")));
}

TEST(MovesTest, ViewsOfLedgersAndOfTracesAreNotMixedUp) {
  LedgerReader ledger = LedgerReader::Open(kGolden).value();
  const auto hot = RenderLedgerView("hot", ledger, {}, Format::kText);
  ASSERT_FALSE(hot.has_value());
  EXPECT_THAT(hot.error().Message(), HasSubstr("of a trace, not of a ledger"));
  const auto moves = RenderView("moves", Trace{}, {}, Format::kText);
  ASSERT_FALSE(moves.has_value());
  EXPECT_THAT(moves.error().Message(), HasSubstr("of a ledger, not of a trace"));
  const auto none =
      RenderLedgerView("moves", ledger, {.epochs = {.first = 7, .end = 9}}, Format::kText);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().Message(), HasSubstr("'7:9'"));
}

}  // namespace moves_test
}  // namespace tmprof
