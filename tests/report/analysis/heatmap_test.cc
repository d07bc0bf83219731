// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/heatmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/pictures.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace heatmap_test {

using testing::HasSubstr;
using testing::Optional;

HeatmapOptions Sum(RankSource by, std::size_t rows) {
  return {.model = RankModel::kSum, .by = by, .max_rows = rows};
}

// Epochs 0, 1 and 3, 2 was lost. Pages 100 to 103 lie together, 900000 far away.
// Epoch 0: 100 and 101 have 2 and 4 references, 102 none in 5 looks, 900000 has 3.
// Epoch 1: 100 has 5 samples.
// Epoch 3: 103 has one reference; 100 and 101 are one span with 6 references.
Trace Small() {
  const std::vector targets = {MakeTarget(0, 10, "hot"), MakeTarget(1, 11, "cool")};
  EpochProfile zero = MakeEpoch(0, targets);
  See(zero, 0,
      {{.vpn = 100, .looks = 5, .references = 2},
       {.vpn = 101, .looks = 5, .references = 4},
       {.vpn = 102, .looks = 5},
       {.vpn = 900000, .looks = 5, .references = 3}});
  See(zero, 1, {{.vpn = 7, .looks = 5, .references = 1}});
  EpochProfile one = MakeEpoch(1, targets);
  See(one, 0, {{.vpn = 100, .loads = 4, .stores = 1}});
  EpochProfile three = MakeEpoch(3, targets);
  See(three, 0,
      {{.vpn = 100, .looks = 6, .references = 6, .span = 2},
       {.vpn = 103, .looks = 5, .references = 1}});
  return TraceOf({zero, one, three});
}

TEST(HeatmapTest, HoldsScorePerPageAndSecondOfTheHottestTarget) {
  const Result<Heatmap> map = MakeHeatmap(Small(), Sum(RankSource::kReferences, 10));
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->target->pid, Pid(10));
  ASSERT_EQ(map->addresses.segments.size(), 2u);
  ASSERT_EQ(map->addresses.rows, 5u);  // 100, 101, 102, 103 | 900000
  ASSERT_EQ(map->columns, 4u);
  EXPECT_EQ(map->column_length, std::chrono::seconds(1));
  EXPECT_THAT(map->At(0, 0), Optional(2.0));
  EXPECT_THAT(map->At(1, 0), Optional(4.0));
  EXPECT_THAT(map->At(2, 0), Optional(0.0));  // looked at and cold
  EXPECT_EQ(map->At(3, 0), std::nullopt);     // not looked at
  EXPECT_THAT(map->At(4, 0), Optional(3.0));
  EXPECT_EQ(map->At(0, 1), std::nullopt);  // samples say nothing about references
  for (std::size_t row = 0; row < 5; ++row) EXPECT_EQ(map->At(row, 2), std::nullopt);  // lost
  EXPECT_THAT(map->At(0, 3), Optional(3.0));  // half of the span's six
  EXPECT_THAT(map->At(1, 3), Optional(3.0));
}

TEST(HeatmapTest, IsTheMeanOverTheReadPagesOfACell) {
  HeatmapOptions options = Sum(RankSource::kReferences, 1);
  options.addresses = VpnRange{Vpn(100), Vpn(104)};
  const Result<Heatmap> map = MakeHeatmap(Small(), options);
  ASSERT_EQ(map->addresses.rows, 1u);
  EXPECT_THAT(map->At(0, 0), Optional(2.0));        // (2 + 4 + 0) / 3
  EXPECT_THAT(map->At(0, 3), Optional(7.0 / 3.0));  // (6 + 1) / 3
}

TEST(HeatmapTest, SpreadsSamplesOverAllPagesOfACell) {
  HeatmapOptions options = Sum(RankSource::kSamples, 1);
  options.addresses = VpnRange{Vpn(100), Vpn(104)};
  const Result<Heatmap> map = MakeHeatmap(Small(), options);
  EXPECT_THAT(map->At(0, 0), Optional(0.0));   // the sampler was on and saw nothing
  EXPECT_THAT(map->At(0, 1), Optional(1.25));  // 5 / 4
  EXPECT_EQ(map->At(0, 2), std::nullopt);      // lost
}

TEST(HeatmapTest, FallsBackToSamplesWhereNoBitWasReadIfTheyAreEnough) {
  const Result<Heatmap> map = MakeHeatmap(Small(), Sum(RankSource::kCombined, 10));
  EXPECT_THAT(map->At(0, 0), Optional(2.0));
  EXPECT_THAT(map->At(0, 1), Optional(5.0));
  EXPECT_EQ(map->At(1, 1), std::nullopt);  // no sample is no evidence
}

TEST(HeatmapTest, DoesNotTakeAGatedSamplerForACalmProgram) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 1, .looks = 1, .references = 1}});
  epoch.sources[1].state = SourceState::kGated;
  const Result<Heatmap> map = MakeHeatmap(TraceOf({epoch}), Sum(RankSource::kSamples, 4));
  ASSERT_FALSE(map->cells.empty());
  EXPECT_EQ(map->At(0, 0), std::nullopt);
}

TEST(HeatmapTest, PutsSeveralEpochsIntoAColumnWhenThereAreMoreThanFit) {
  HeatmapOptions options = Sum(RankSource::kReferences, 1);
  options.addresses = VpnRange{Vpn(100), Vpn(101)};
  options.max_columns = 2;
  const Result<Heatmap> map = MakeHeatmap(Small(), options);
  ASSERT_EQ(map->columns, 2u);
  EXPECT_EQ(map->column_length, std::chrono::seconds(2));
  EXPECT_THAT(map->At(0, 0), Optional(2.0));  // read in one epoch of two
  EXPECT_THAT(map->At(0, 1), Optional(3.0));
}

TEST(HeatmapTest, ShowsTheProcessAskedForOrRefuses) {
  HeatmapOptions options = Sum(RankSource::kReferences, 10);
  options.pid = Pid(11);
  EXPECT_EQ(MakeHeatmap(Small(), options)->target->name, "cool");
  options.pid = Pid(12);
  const Result<Heatmap> none = MakeHeatmap(Small(), options);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().ExitStatus(), 2);
}

TEST(HeatmapTest, IsDrawnWithCharactersInText) {
  EXPECT_EQ(HeatmapText(*MakeHeatmap(Small(), Sum(RankSource::kReferences, 10)), 37),
            "test.data: hot (PID 10), by references\n"
            "       address\n"
            "    0xdbba0000 |%%%%%               |\n"
            "~~~~~~~~~~ cut: 3.433 GiB ~~~~~~~~~~~\n"
            "       0x67000 |               =====|\n"
            "       0x66000 |.....               |\n"
            "       0x65000 |@@@@@          %%%%%|\n"
            "       0x64000 |*****          %%%%%|\n"
            "               +---------+---------+\n"
            "       time, s 0         2         4\n"
            "scale: blank not observed, '.' 0, ':-=+*#%@' 0 to 4 references per page per second\n"
            "a row is 4 KiB, a column 1 s; shown: 100 % of the score of this target\n");
}

TEST(HeatmapTest, HasTwoLabelsOfTimeWhereALongStepWouldHaveOne) {
  Heatmap map = *MakeHeatmap(Small(), Sum(RankSource::kReferences, 10));
  map.start = std::chrono::seconds(1);
  map.column_length = std::chrono::milliseconds(1050);  // four columns: steps of 5 s are for two
  EXPECT_THAT(HeatmapText(map, 37), HasSubstr("               -----+--------+------\n"
                                              "       time, s      2        4\n"));
}

// Imitates a recording by regions: program, mappings and stack. Each epoch looked at every region,
// in other bounds. 16 of the mappings' first 24 pages are hot; in epoch 1 they are the last ones.
Trace ByRegions() {
  const std::vector targets = {MakeTarget(0, 10, "swept")};
  EpochProfile zero = MakeEpoch(0, targets);
  See(zero, 0,
      {{.vpn = 0x400, .looks = 10, .span = 8},
       {.vpn = 0x7f000, .looks = 10, .references = 8, .span = 16},
       {.vpn = 0x7f010, .looks = 10, .span = 16},
       {.vpn = 0x90000, .looks = 10, .references = 1, .span = 8}});
  EpochProfile one = MakeEpoch(1, targets);
  See(one, 0,
      {{.vpn = 0x400, .looks = 10, .span = 8},
       {.vpn = 0x7f000, .looks = 10, .span = 24},
       {.vpn = 0x7f018, .looks = 10, .references = 8, .span = 8},
       {.vpn = 0x90000, .looks = 10, .span = 8}});
  for (EpochProfile* epoch : {&zero, &one}) epoch->sources[0].details = {{"regions", 4}};
  return TraceOf({zero, one});
}

TEST(HeatmapTest, ShowsTheWholeAddressSpaceOfRegionsWithoutItsTwoLargestGaps) {
  const Result<Heatmap> map = MakeHeatmap(ByRegions(), Sum(RankSource::kReferences, 6));
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->style, HeatmapStyle::kWhole);
  // A region's references are spread over its pages: 8 over 16 are half as much a page as 8 over 8,
  // and 1 over 8 an eighth. The gaps: 0x7f000 - 0x408 pages and 0x90000 - 0x7f020.
  EXPECT_EQ(HeatmapText(*map, 37),
            "test.data: swept (PID 10), by references\n"
            "       address\n"
            "    0x90000000 |----------..........|\n"
            "~~~~~~~~~~ cut: 271.9 MiB ~~~~~~~~~~~\n"
            "    0x7f018000 |..........@@@@@@@@@@|\n"
            "    0x7f010000 |....................|\n"
            "    0x7f008000 |**********..........|\n"
            "    0x7f000000 |**********..........|\n"
            "~~~~~~~~~~~ cut: 1.98 GiB ~~~~~~~~~~~\n"
            "      0x400000 |....................|\n"
            "               +---------+---------+\n"
            "       time, s 0         1         2\n"
            "scale: blank not observed, '.' 0, ':-=+*#%@' 0 to 1 references per page per second\n"
            "a row is 32 KiB, a column 1 s; shown: 100 % of the score of this target\n");
}

TEST(HeatmapTest, IsInTheStyleThatIsAskedFor) {
  HeatmapOptions options = Sum(RankSource::kReferences, 6);
  options.style = HeatmapStyle::kHottest;
  const Result<Heatmap> hottest = MakeHeatmap(ByRegions(), options);
  ASSERT_EQ(hottest->addresses.segments.size(), 2u) << "the program is cold";
  EXPECT_EQ(hottest->addresses.segments[0].range.start, Vpn(0x7f000));
  options.style = HeatmapStyle::kWhole;
  EXPECT_EQ(MakeHeatmap(Small(), options)->style, HeatmapStyle::kWhole);
  EXPECT_EQ(MakeHeatmap(Small(), Sum(RankSource::kReferences, 6))->style, HeatmapStyle::kHottest)
      << "it is of every page";
  EXPECT_EQ(nlohmann::json::parse(HeatmapJson(*hottest))["style"], "hottest");
  EXPECT_EQ(ParseHeatmapStyle(Name(HeatmapStyle::kWhole)), HeatmapStyle::kWhole);
  EXPECT_FALSE(ParseHeatmapStyle("dark").has_value());
}

TEST(HeatmapTest, PaintsRegionsDarkOnThePaperButNotTheCuts) {
  const Result<std::string> png =
      HeatmapPng(*MakeHeatmap(ByRegions(), Sum(RankSource::kReferences, 6)));
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  // Six rows of 88 pixels, one of the program, four of the mappings and one of the stack, and two
  // cuts of 16: from below 0x400, a cut, 0x7f000 to 0x7f018, a cut, 0x90000. A column is 440 wide.
  const auto row = [](int from_below, int cuts) { return 640 - 88 * from_below - 44 - 16 * cuts; };
  const int first = 190 + 220;
  const int second = first + 440;
  EXPECT_EQ(picture.At(first, row(0, 0)), kWhite) << "not accessed";
  EXPECT_LE(Difference(picture.At(second, row(4, 1)), Rgb(DarkColour(1))), 2u) << "the hottest";
  const std::uint32_t warm = picture.At(first, row(1, 1));
  EXPECT_LT(warm, Rgb(DarkColour(0)));
  EXPECT_GT(warm, Rgb(DarkColour(1)));
  EXPECT_EQ(picture.At(second, row(1, 1)), kWhite);
  EXPECT_EQ(picture.At(first, 640 - 88 - 8), kWhite) << "a cut";
}

TEST(HeatmapTest, IsAMatrixInJsonAndALinePerCellInCsv) {
  const Result<Heatmap> map = MakeHeatmap(Small(), Sum(RankSource::kReferences, 10));
  const auto json = nlohmann::json::parse(HeatmapJson(*map));
  EXPECT_EQ(json["unit"], "references per page per second");
  ASSERT_EQ(json["rows"].size(), 5u);
  EXPECT_EQ(json["rows"][0]["start"], "0x64000");
  EXPECT_EQ(json["rows"][1]["values"], (nlohmann::json{4.0, nullptr, nullptr, 3.0}));
  const std::string csv = HeatmapCsv(*map);
  EXPECT_THAT(csv, testing::StartsWith(
                       "time_start_s,time_end_s,address_start,address_end,value,relative_sd\n"
                       "0,1,0x64000,0x65000,2,\n"
                       "1,2,0x64000,0x65000,,\n"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 5 * 4);
}

TEST(HeatmapTest, PaintsHotZeroAndUnknownApart) {
  HeatmapOptions options = Sum(RankSource::kReferences, 4);
  options.addresses = VpnRange{Vpn(100), Vpn(104)};
  const Result<std::string> png = HeatmapPng(*MakeHeatmap(Small(), options));
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  EXPECT_EQ(picture.width(), 1280);
  EXPECT_EQ(picture.height(), 800);
  // The plot is 880 x 560 at (190, 80): a column is 220 wide, a row 140 high, low addresses below.
  const std::uint32_t hottest = picture.At(190 + 110, 80 + 140 * 2 + 70);  // 101: 4 references
  const std::uint32_t zero = picture.At(190 + 110, 80 + 140 + 70);         // 102
  EXPECT_LE(Difference(hottest, Rgb(HeatColour(1))), 2u);
  EXPECT_EQ(zero, 0u);
  // An unknown cell is hatched in light greys.
  bool stroke = false;
  for (int dx = 0; dx < 16; ++dx) {
    const std::uint32_t pixel = picture.At(190 + 330 + dx, 80 + 70);
    EXPECT_GE(pixel & 0xff, 0xb0u);
    EXPECT_EQ(pixel & 0xff, pixel >> 16);
    stroke = stroke || pixel != picture.At(190 + 330, 80 + 70);
  }
  EXPECT_TRUE(stroke);
}

// Page 1 is hot and page 2 is not; they are looked at in turns, and a quarter of the time.
Trace LookedAtInTurns() {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 8; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    if (e % 4 == 3) {
      Append(epochs[e].pages,
             {.key = {TargetId(0), Vpn(1)},
              .looks = 9,
              .references = 9,
              .first_accesses = 20,
              .time_at_risk = LogDuration::FromNanoseconds(std::chrono::milliseconds(20))});
    }
    if (e % 4 == 1) {
      Append(epochs[e].pages,
             {.key = {TargetId(0), Vpn(2)},
              .looks = 9,
              .references = 1,
              .first_accesses = 1,
              .time_at_risk = LogDuration::FromNanoseconds(std::chrono::seconds(1))});
    }
  }
  return TraceOf(epochs);
}

TEST(HeatmapTest, DrawsEstimatesWhereNobodyLookedAndTellsTheirError) {
  const Result<Heatmap> map = MakeHeatmap(LookedAtInTurns(), {.max_rows = 4});
  ASSERT_TRUE(map.has_value());
  ASSERT_EQ(map->columns, 8u);
  ASSERT_EQ(map->addresses.RowRange(0).start, Vpn(1));
  for (std::size_t column = 0; column < 8; ++column) {
    EXPECT_THAT(map->At(0, column), Optional(testing::DoubleNear(1000, 300))) << column;
    EXPECT_GT(map->RelativeSdAt(0, column), 0) << column;
  }
  const auto json = nlohmann::json::parse(HeatmapJson(*map));
  EXPECT_EQ(json["estimated"], true);
  EXPECT_EQ(json["rows"][0]["relative_sd"].size(), 8u);

  const Result<Heatmap> raw = MakeHeatmap(LookedAtInTurns(), {.max_rows = 4, .raw = true});
  for (std::size_t column = 0; column < 8; ++column) {
    EXPECT_EQ(raw->At(0, column).has_value(), column % 4 == 3) << column;
  }
  EXPECT_FALSE(nlohmann::json::parse(HeatmapJson(*raw))["rows"][0].contains("relative_sd"));
}

TEST(HeatmapTest, MarksWhatIsLittleKnownByOtherCharactersAndByTransparency) {
  Heatmap map = *MakeHeatmap(LookedAtInTurns(), {.max_rows = 4});
  const auto row_of = [&map] {
    const std::string text = HeatmapText(map, 37);
    const std::size_t at = text.find("0x1000 |");
    return text.substr(at + 8, 20);
  };
  const auto ink = [&map] {
    const Picture picture(*HeatmapPng(map));
    return picture.At(190 + 55, 640 - 10);
  };
  std::ranges::fill(map.relative_sd, 0.1);
  EXPECT_THAT(row_of(), testing::HasSubstr("@@"));
  const std::uint32_t sure = ink();
  std::ranges::fill(map.relative_sd, 4);
  EXPECT_THAT(row_of(), testing::HasSubstr("hh"));
  EXPECT_THAT(HeatmapText(map, 37), testing::HasSubstr("'abcdefgh'"));
  const std::uint32_t vague = ink();
  EXPECT_GT(Difference(sure, vague), 40u);
}

// An epoch of 3 s between short ones.
TEST(HeatmapTest, DrawsTimeAsTimeWhateverTheLengthsOfEpochs) {
  std::vector<EpochProfile> epochs;
  MonotonicTime now = kTraceStart;
  for (std::uint64_t e = 0; e < 11; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    epochs.back().start = now;
    now += std::chrono::milliseconds(e == 5 ? 3000 : 100);
    epochs.back().end = now;
    if (e != 5) See(epochs.back(), 0, {{.vpn = 1, .looks = 5, .references = 2}});
  }
  const Result<Heatmap> map = MakeHeatmap(TraceOf(epochs), Sum(RankSource::kReferences, 4));
  ASSERT_EQ(map->columns, 40u);
  for (std::size_t column = 0; column < 40; ++column) {
    EXPECT_EQ(map->At(0, column).has_value(), column < 5 || column >= 35) << column;
  }
}

TEST(HeatmapTest, LeavesOutThePauseOfARecorder) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t e : {0, 1, 2}) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    if (e == 2) epochs.back().start += std::chrono::seconds(5);
    epochs.back().end = epochs.back().start + std::chrono::seconds(1);
    See(epochs.back(), 0, {{.vpn = 1, .looks = 5, .references = 2}});
  }
  const Result<Heatmap> map = MakeHeatmap(TraceOf(epochs), Sum(RankSource::kReferences, 4));
  ASSERT_EQ(map->columns, 8u);
  for (std::size_t column = 0; column < 8; ++column) {
    EXPECT_EQ(map->At(0, column).has_value(), column < 2 || column == 7) << column;
  }
}

TEST(HeatmapTest, IsNoWiderThanItIsAskedToBe) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 64; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    See(epochs.back(), 0, {{.vpn = 1, .looks = 5, .references = 2}});
  }
  for (const std::size_t width : {40, 79, 80, 81, 120}) {
    HeatmapOptions options = Sum(RankSource::kReferences, 4);
    options.max_columns = HeatmapTextColumns(width);
    const std::string text = HeatmapText(*MakeHeatmap(TraceOf(epochs), options), width);
    std::size_t widest = 0;
    std::size_t from = text.find('\n') + 1;  // behind the title
    const std::size_t end = text.find("scale:");
    while (from < end) {
      const std::size_t next = text.find('\n', from);
      widest = std::max(widest, next - from);
      from = next + 1;
    }
    EXPECT_LE(widest, width);
    EXPECT_GT(widest, width / 2);
  }
}

TEST(HeatmapTest, SaysThatATraceIsEmpty) {
  const Result<Heatmap> map = MakeHeatmap(TraceOf({}), {});
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(HeatmapText(*map, 80), "test.data: no page observed\n");
  EXPECT_TRUE(HeatmapPng(*map).has_value());
  EXPECT_TRUE(nlohmann::json::parse(HeatmapJson(*map))["rows"].empty());
}

}  // namespace heatmap_test
}  // namespace tmprof
