// SPDX-License-Identifier: Apache-2.0
// Tests of every view of traces. A program that has views instantiates them with its own.

#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/view.h"
#include "tests/apps/program.h"
#include "tests/base/text/text_tables.h"
#include "tests/folders.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace every_view {

inline Trace OnePage(std::string name = "one") {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, std::move(name))});
  See(epoch, 0, {{.vpn = 5, .looks = 3, .references = 2, .loads = 1}});
  return TraceOf({epoch});
}

// The same, and exact counts beside them.
inline Trace OneCountedPage(const AccessCounts& counts) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "one")});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(5)},
                       .looks = 3,
                       .references = 2,
                       .load_samples = 1,
                       .accesses = counts});
  return TraceOf({epoch});
}

// 40 pages that were looked at, each with a sample of an access to memory.
inline Trace SampledMisses(std::optional<std::uint64_t> accesses_per_sample,
                           std::uint32_t samples = 1) {
  Target target = MakeTarget(0, 10, "t");
  target.cpu_time = std::chrono::seconds(1);
  EpochProfile epoch = MakeEpoch(0, {target});
  epoch.sources = {ReferenceSource(40),
                   {.name = "ibs",
                    .role = SourceRole::kSamples,
                    .state = SourceState::kActive,
                    .samples_of = SampleSubject::kMemory,
                    .accesses_per_sample = accesses_per_sample,
                    .observations = 40}};
  for (std::uint64_t page = 0; page < 40; ++page)
    See(epoch, 0, {{.vpn = page, .looks = 3, .references = 2, .loads = samples}});
  return TraceOf({epoch});
}

class EveryView : public testing::TestWithParam<View> {};

TEST_P(EveryView, SpeaksEveryFormatWhateverTheTraceHolds) {
  for (const Trace& trace : {TraceOf({}), OnePage()}) {
    for (const RankModel model : {RankModel::kSum, RankModel::kRate}) {
      for (const RankSource by : {RankSource::kReferences, RankSource::kSamples,
                                  RankSource::kCombined, RankSource::kTruth}) {
        // They refuse to estimate accesses from samples.
        const bool of_accesses = GetParam().name == "wss" || GetParam().name == "curve";
        if (of_accesses && by == RankSource::kSamples) continue;
        const ViewOptions options{.model = model, .by = by};
        const auto text = RenderView(GetParam(), trace, options, Format::kText);
        ASSERT_TRUE(text.has_value());
        EXPECT_TRUE(text->output.ends_with('\n'));
        const auto csv = RenderView(GetParam(), trace, options, Format::kCsv);
        ASSERT_TRUE(csv.has_value());
        EXPECT_TRUE(csv->output.ends_with("\n"));
        EXPECT_EQ(csv->output.find('\r'), std::string::npos);
        const auto json = RenderView(GetParam(), trace, options, Format::kJson);
        ASSERT_TRUE(json.has_value());
        EXPECT_EQ(nlohmann::json::parse(json->output)["view"], GetParam().name);
      }
    }
  }
}

TEST_P(EveryView, SpeaksEveryFormatByMissesThatAreKnown) {
  for (const Trace& trace : {TraceOf({}), OneCountedPage({.loads = 9, .llc_misses = 4}),
                             OneCountedPage({.loads = 9, .llc_misses = 0})}) {
    for (const Format format : {Format::kText, Format::kCsv, Format::kJson}) {
      EXPECT_TRUE(RenderView(GetParam(), trace, {.by = RankSource::kMisses}, format).has_value());
    }
  }
}

TEST_P(EveryView, SpeaksEveryFormatByStallsThatAreKnownAndRefusesOthers) {
  const bool reads_them = GetParam().by_evidence && std::ranges::count(GetParam().reads, "by") == 1;
  const ViewOptions by_stall{.by = RankSource::kStall};
  for (const Format format : {Format::kText, Format::kCsv, Format::kJson}) {
    for (const std::uint64_t ns : {0, 400}) {
      const Trace waited = OneCountedPage({.loads = 9, .llc_misses = 4, .stall_ns = ns});
      EXPECT_TRUE(RenderView(GetParam(), waited, by_stall, format).has_value());
    }
    const Trace unmodelled = OneCountedPage({.loads = 9, .llc_misses = 4});
    const auto rendered = RenderView(GetParam(), unmodelled, by_stall, format);
    ASSERT_NE(rendered.has_value(), reads_them);
    if (rendered) continue;
    EXPECT_EQ(rendered.error().ExitStatus(), 2);
    EXPECT_THAT(rendered.error().Message(), testing::HasSubstr("--exact-stalls"));
  }
}

TEST_P(EveryView, RefusesMissesThatAreUnknownIfItReadsThem) {
  const bool reads_them = GetParam().by_evidence && std::ranges::count(GetParam().reads, "by") == 1;
  for (const Trace& trace : {OnePage(), OneCountedPage({.loads = 9})}) {
    const auto rendered = RenderView(GetParam(), trace, {.by = RankSource::kMisses}, Format::kText);
    ASSERT_NE(rendered.has_value(), reads_them);
    if (rendered) continue;
    EXPECT_EQ(rendered.error().ExitStatus(), 2);
    EXPECT_THAT(rendered.error().Message(), testing::HasSubstr("--exact-llc"));
  }
}

TEST_P(EveryView, DrawsAPictureOrRefusesTo) {
  const auto rendered = RenderView(GetParam(), OnePage(), {}, Format::kText, true);
  ASSERT_EQ(rendered.has_value(), GetParam().has_png);
  if (rendered) {
    EXPECT_THAT(*rendered->png, testing::StartsWith("\x89PNG"));
  }
}

TEST_P(EveryView, ReportsWhatCameBeforeTheDamageAndTheDamage) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 5, .looks = 3, .references = 2}});
  const Trace trace = TraceOf({epoch}, BadInput("read trace", "x.data", "checksum differs"));
  const auto whole = RenderView(GetParam(), TraceOf({epoch}), {}, Format::kCsv);
  const auto rendered = RenderView(GetParam(), trace, {}, Format::kCsv);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->output, whole->output);
  EXPECT_TRUE(rendered->end.damage.has_value());
  EXPECT_FALSE(whole->end.damage.has_value());
  const auto json_of = [](const Trace& shown) {
    return nlohmann::json::parse(RenderView(GetParam(), shown, {}, Format::kJson)->output);
  };
  const auto damaged = json_of(trace);
  EXPECT_THAT(damaged.at("damage").get<std::string>(), testing::HasSubstr("checksum differs"));
  EXPECT_TRUE(damaged.at("finished").is_null());
  EXPECT_TRUE(json_of(TraceOf({epoch})).at("damage").is_null());
  EXPECT_EQ(json_of(TraceOf({epoch}, {}, false)).at("finished"), false);
}

TEST_P(EveryView, TellsInJsonHowManyEpochsTheTraceLost) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {2u, 3u, 6u, 8u}) {
    epochs.push_back(MakeEpoch(index, {MakeTarget(0, 10, "t")}));
    See(epochs.back(), 0, {{.vpn = 5, .looks = 3, .references = 2}});
  }
  const auto lost_of = [&](const ViewOptions& options) {
    const auto rendered = RenderView(GetParam(), TraceOf(epochs), options, Format::kJson);
    return nlohmann::json::parse(rendered->output).at("lost_epochs").get<int>();
  };
  EXPECT_EQ(lost_of({}), 3) << "4, 5 and 7";
  EXPECT_EQ(lost_of({.epochs = {.first = 3, .end = 7}}), 2) << "of these epochs";
  EXPECT_EQ(lost_of({.epochs = {.first = 2, .end = 4}}), 0);
}

TEST_P(EveryView, LetsNoControlCharacterThroughToTheTerminal) {
  const auto text =
      RenderView(GetParam(), OnePage("\x1b[2J\xff\xc2\x9b"), {}, Format::kText, false);
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(text->output, testing::Not(testing::HasSubstr("\x1b")));
  EXPECT_THAT(text->output, testing::Not(testing::HasSubstr("\xc2\x9b")));
}

constexpr const char* kGoldenTraces[] = {TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.data",
                                         TMPROF_SOURCE_DIR "/tests/golden/v2.tmprof.data"};

TEST_P(EveryView, WritesPrintableLinesOfGoldenTraces) {
  for (const char* file : kGoldenTraces) {
    const Result<Trace> trace = OpenTraceFile(file);
    ASSERT_TRUE(trace.has_value());
    for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
      const auto rendered = RenderView(GetParam(), *trace, {}, format);
      ASSERT_TRUE(rendered.has_value()) << rendered.error().Message();
      EXPECT_TRUE(rendered->output.ends_with('\n'));
      EXPECT_TRUE(std::ranges::none_of(rendered->output, [](unsigned char c) {
        return (c < 0x20 && c != '\n') || c == 0x7f;
      })) << rendered->output;
      if (format == Format::kJson) {
        const auto json = nlohmann::json::parse(rendered->output);
        EXPECT_TRUE(json.at("damage").is_null());
        EXPECT_EQ(json.at("finished"), true);
      }
    }
  }
}

// Each trace has one wrong byte, or an end too early.
TEST_P(EveryView, TellsTheDamageOfGoldenTracesOrRefusesThem) {
  const test::TemporaryFolder folder;
  const std::string path = folder.File("damaged.data");
  for (const char* file : kGoldenTraces) {
    const std::string whole = test::ReadFile(file);
    std::vector<std::string> damaged;
    for (std::size_t at = 3; at < whole.size(); at += 59) {
      damaged.push_back(whole);
      damaged.back()[at] ^= 0x10;
      damaged.push_back(whole.substr(0, at));
    }
    int shown = 0;
    for (const std::string& bytes : damaged) {
      test::WriteFile(path, bytes);
      const Result<Trace> trace = OpenTraceFile(path);
      if (!trace) continue;
      const auto rendered = RenderView(GetParam(), *trace, {}, Format::kJson);
      if (!rendered) continue;
      ++shown;
      const auto json = nlohmann::json::parse(rendered->output);
      EXPECT_TRUE(rendered->end.damage || rendered->end.finished == false);
      EXPECT_EQ(json.at("damage").is_null(), !rendered->end.damage.has_value());
      EXPECT_EQ(json.at("finished") == false, rendered->end.finished == false);
    }
    EXPECT_GT(shown, 0);
  }
}

inline std::vector<ViewOptions> OptionsOfGroups(const View& view) {
  std::vector<ViewOptions> options{{}, {.model = RankModel::kSum}};
  if (std::ranges::count(view.reads, "group") == 0) return options;
  for (const HotGroup group : {HotGroup::kMapping, HotGroup::kProcess, HotGroup::kFile})
    options.push_back({.hot_group = group});
  return options;
}

TEST_P(EveryView, NamesTheUnitOfEachColumnOfNumbers) {
  std::vector<Trace> traces{OnePage(), SampledMisses(16384), SampledMisses(std::nullopt),
                            OneCountedPage({.loads = 9, .llc_misses = 4})};
  for (const char* file : kGoldenTraces) traces.push_back(*OpenTraceFile(file));
  for (const Trace& trace : traces) {
    for (const ViewOptions& options : OptionsOfGroups(GetParam())) {
      const auto rendered = RenderView(GetParam(), trace, options, Format::kText);
      ASSERT_TRUE(rendered.has_value()) << rendered.error().Message();
      EXPECT_THAT(TitlesWithoutUnit(rendered->output), testing::IsEmpty()) << rendered->output;
    }
  }
}

TEST_P(EveryView, IsTheSameEachTime) {
  for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
    EXPECT_EQ(RenderView(GetParam(), OnePage(), {}, format)->output,
              RenderView(GetParam(), OnePage(), {}, format)->output);
  }
}

TEST_P(EveryView, RefusesEpochsAndProcessesThatTheTraceDoesNotHave) {
  const auto refusal = [](const ViewOptions& options) {
    const auto rendered = RenderView(GetParam(), OnePage(), options, Format::kText);
    return rendered ? std::string() : rendered.error().Message();
  };
  EXPECT_EQ(refusal({.epochs = {.first = 0, .end = 1}}), "");
  EXPECT_THAT(refusal({.epochs = {.first = 1, .end = 60}}), testing::HasSubstr("'1:60'"));
  EXPECT_THAT(refusal({.epochs = {.first = 1}}), testing::HasSubstr("'1:'"));
  if (std::ranges::count(GetParam().reads, "pid") == 0) return;
  EXPECT_EQ(refusal({.pid = Pid(10)}), "");
  EXPECT_THAT(refusal({.pid = Pid(99)}), testing::HasSubstr("PID 99"));
}

}  // namespace every_view
}  // namespace tmprof
