// SPDX-License-Identifier: Apache-2.0
// Tests that run over every view of traces in the table; moves_test.cc has the view of ledgers.

#include "report/view.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "proto/trace_file.h"
#include "tests/apps/program.h"
#include "tests/base/text/text_tables.h"
#include "tests/folders.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace view_test {

Trace OnePage(std::string name = "one") {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, std::move(name))});
  See(epoch, 0, {{.vpn = 5, .looks = 3, .references = 2, .loads = 1}});
  return TraceOf({epoch});
}

// The same, and exact counts beside them.
Trace OneCountedPage(const AccessCounts& counts) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "one")});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(5)},
                       .looks = 3,
                       .references = 2,
                       .load_samples = 1,
                       .accesses = counts});
  return TraceOf({epoch});
}

// 40 pages that were looked at, each with a sample of an access to memory.
Trace SampledMisses(std::optional<std::uint64_t> accesses_per_sample, std::uint32_t samples = 1) {
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

TEST_P(EveryView, IsFoundByItsNameAndDescribesItself) {
  const Result<const View*> found = FindView(GetParam().name);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)->name, GetParam().name);
  EXPECT_FALSE(GetParam().description.empty());
}

TEST_P(EveryView, SpeaksEveryFormatWhateverTheTraceHolds) {
  for (const Trace& trace : {TraceOf({}), OnePage()}) {
    for (const RankModel model : {RankModel::kSum, RankModel::kRate}) {
      for (const RankSource by : {RankSource::kReferences, RankSource::kSamples,
                                  RankSource::kCombined, RankSource::kTruth}) {
        // They refuse to estimate accesses from samples.
        const bool of_accesses = GetParam().name == "wss" || GetParam().name == "curve";
        if (of_accesses && by == RankSource::kSamples) continue;
        const ViewOptions options{.model = model, .by = by};
        const auto text = RenderView(GetParam().name, trace, options, Format::kText);
        ASSERT_TRUE(text.has_value());
        EXPECT_TRUE(text->output.ends_with('\n'));
        const auto csv = RenderView(GetParam().name, trace, options, Format::kCsv);
        ASSERT_TRUE(csv.has_value());
        EXPECT_TRUE(csv->output.ends_with("\n"));
        EXPECT_EQ(csv->output.find('\r'), std::string::npos);
        const auto json = RenderView(GetParam().name, trace, options, Format::kJson);
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
      EXPECT_TRUE(
          RenderView(GetParam().name, trace, {.by = RankSource::kMisses}, format).has_value());
    }
  }
}

TEST_P(EveryView, RefusesMissesThatAreUnknownIfItReadsThem) {
  // The objects view reads another --by.
  const bool reads_them =
      std::ranges::count(GetParam().reads, "by") == 1 && GetParam().render_objects == nullptr;
  for (const Trace& trace : {OnePage(), OneCountedPage({.loads = 9})}) {
    const auto rendered =
        RenderView(GetParam().name, trace, {.by = RankSource::kMisses}, Format::kText);
    ASSERT_NE(rendered.has_value(), reads_them);
    if (rendered) continue;
    EXPECT_EQ(rendered.error().ExitStatus(), 2);
    EXPECT_THAT(rendered.error().Message(), testing::HasSubstr("--exact-llc"));
  }
}

TEST_P(EveryView, DrawsAPictureOrRefusesTo) {
  const auto rendered = RenderView(GetParam().name, OnePage(), {}, Format::kText, true);
  ASSERT_EQ(rendered.has_value(), GetParam().has_png);
  if (rendered) {
    EXPECT_THAT(*rendered->png, testing::StartsWith("\x89PNG"));
  }
}

TEST_P(EveryView, ReportsWhatCameBeforeTheDamageAndTheDamage) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 5, .looks = 3, .references = 2}});
  const Trace trace = TraceOf({epoch}, BadInput("read trace", "x.data", "checksum differs"));
  const auto whole = RenderView(GetParam().name, TraceOf({epoch}), {}, Format::kCsv);
  const auto rendered = RenderView(GetParam().name, trace, {}, Format::kCsv);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->output, whole->output);
  EXPECT_TRUE(rendered->end.damage.has_value());
  EXPECT_FALSE(whole->end.damage.has_value());
  const auto json_of = [](const Trace& shown) {
    return nlohmann::json::parse(RenderView(GetParam().name, shown, {}, Format::kJson)->output);
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
    const auto rendered = RenderView(GetParam().name, TraceOf(epochs), options, Format::kJson);
    return nlohmann::json::parse(rendered->output).at("lost_epochs").get<int>();
  };
  EXPECT_EQ(lost_of({}), 3) << "4, 5 and 7";
  EXPECT_EQ(lost_of({.epochs = {.first = 3, .end = 7}}), 2) << "of these epochs";
  EXPECT_EQ(lost_of({.epochs = {.first = 2, .end = 4}}), 0);
}

TEST_P(EveryView, LetsNoControlCharacterThroughToTheTerminal) {
  const auto text =
      RenderView(GetParam().name, OnePage("\x1b[2J\xff\xc2\x9b"), {}, Format::kText, false);
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
      const auto rendered = RenderView(GetParam().name, *trace, {}, format);
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
      const auto rendered = RenderView(GetParam().name, *trace, {}, Format::kJson);
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

std::vector<ViewOptions> OptionsOfGroups(const View& view) {
  std::vector<ViewOptions> options{{}, {.model = RankModel::kSum}};
  if (std::ranges::count(view.reads, "group") == 0) return options;
  for (const HotGroup group :
       {HotGroup::kMapping, HotGroup::kProcess, HotGroup::kObject, HotGroup::kFile})
    options.push_back({.hot_group = group});
  return options;
}

TEST_P(EveryView, NamesTheUnitOfEachColumnOfNumbers) {
  std::vector<Trace> traces{OnePage(), SampledMisses(16384), SampledMisses(std::nullopt),
                            OneCountedPage({.loads = 9, .llc_misses = 4})};
  for (const char* file : kGoldenTraces) traces.push_back(*OpenTraceFile(file));
  for (const Trace& trace : traces) {
    for (const ViewOptions& options : OptionsOfGroups(GetParam())) {
      const auto rendered = RenderView(GetParam().name, trace, options, Format::kText);
      ASSERT_TRUE(rendered.has_value()) << rendered.error().Message();
      EXPECT_THAT(TitlesWithoutUnit(rendered->output), testing::IsEmpty()) << rendered->output;
    }
  }
}

TEST(TextTables, FindsColumnsOfNumbersWithoutAUnit) {
  EXPECT_THAT(
      TitlesWithoutUnit(
          "a table: 7 rows\n"
          "rank   size  heat       at least  MiB [90 % interval]  idle [90 % interval]  what\n"
          "   1  4 KiB     ?            1.5           1 [0.5, 1]            1 [0.5, 1]  heap\n"
          "  10  5 KiB  10.5            < 1                 ? [2]        ? [0.5, 1.2]  file /7\n"),
      testing::ElementsAre("heat", "idle [90 % interval]"));
}

TEST(ViewTest, BarsAndMapsKeepToTheWidthAskedFor) {
  for (const std::size_t width : {70u, 80u, 100u, 120u}) {
    for (const std::string_view name : {"cdf", "heatmap"}) {
      const auto rendered = RenderView(name, *OpenTraceFile(kGoldenTraces[1]),
                                       {.text_columns = width}, Format::kText);
      ASSERT_TRUE(rendered.has_value());
      std::istringstream lines(rendered->output);
      std::size_t widest = 0;
      for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('|')) widest = std::max(widest, line.size());
      }
      EXPECT_LE(widest, width) << name;
      EXPECT_GT(widest, width / 2) << name;
    }
  }
}

TEST_P(EveryView, IsTheSameEachTime) {
  for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
    EXPECT_EQ(RenderView(GetParam().name, OnePage(), {}, format)->output,
              RenderView(GetParam().name, OnePage(), {}, format)->output);
  }
}

TEST_P(EveryView, RefusesEpochsAndProcessesThatTheTraceDoesNotHave) {
  const auto refusal = [](const ViewOptions& options) {
    const auto rendered = RenderView(GetParam().name, OnePage(), options, Format::kText);
    return rendered ? std::string() : rendered.error().Message();
  };
  EXPECT_EQ(refusal({.epochs = {.first = 0, .end = 1}}), "");
  EXPECT_THAT(refusal({.epochs = {.first = 1, .end = 60}}), testing::HasSubstr("'1:60'"));
  EXPECT_THAT(refusal({.epochs = {.first = 1}}), testing::HasSubstr("'1:'"));
  if (std::ranges::count(GetParam().reads, "pid") == 0) return;
  EXPECT_EQ(refusal({.pid = Pid(10)}), "");
  EXPECT_THAT(refusal({.pid = Pid(99)}), testing::HasSubstr("PID 99"));
}

TEST_P(EveryView, ReadsOptionsThatAreNamedOnce) {
  const std::vector<std::string_view> all = OptionsOfViews();
  for (const std::string_view option : GetParam().reads) {
    EXPECT_EQ(std::ranges::count(GetParam().reads, option), 1) << option;
    EXPECT_EQ(std::ranges::count(all, option), 1) << option;
  }
}

// The names of the views that `is` holds for, as messages list them.
template <typename Is>
std::string NamesOf(Is is) {
  std::string names;
  for (const View& view : Views()) {
    if (is(view)) names += (names.empty() ? "" : ", ") + std::string(view.name);
  }
  return names;
}

std::vector<View> ViewsOfTraces() {
  std::vector<View> views;
  std::ranges::copy_if(Views(), std::back_inserter(views),
                       [](const View& view) { return view.render != nullptr; });
  return views;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryView, testing::ValuesIn(ViewsOfTraces()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ViewTest, RefusesAddressesOfWhichNothingIsKnown) {
  const auto rendered =
      RenderView("heatmap", OnePage(), {.addresses = VpnRange{Vpn(6), Vpn(9)}}, Format::kText);
  ASSERT_FALSE(rendered.has_value());
  EXPECT_THAT(rendered.error().Message(), testing::HasSubstr("'0x6000-0x9000'"));
  EXPECT_TRUE(
      RenderView("heatmap", OnePage(), {.addresses = VpnRange{Vpn(5), Vpn(9)}}, Format::kText)
          .has_value());
}

TEST(ViewTest, RefusesAPageOfWhichNothingIsKnown) {
  const auto rendered = RenderView("objects", OnePage(), {.page = Vpn(6)}, Format::kText);
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().ExitStatus(), 2);
  EXPECT_THAT(rendered.error().Message(),
              testing::AllOf(testing::HasSubstr("'0x6000'"), testing::HasSubstr("not observed")));
  EXPECT_TRUE(RenderView("objects", OnePage(), {.page = Vpn(5)}, Format::kText).has_value());
}

TEST(ViewTest, RefusesAccessesToMemoryToViewsThatDoNotGoByThem) {
  const auto wss = RenderView("wss", OnePage(), {.by = RankSource::kMemory}, Format::kText);
  ASSERT_FALSE(wss.has_value());
  EXPECT_EQ(wss.error().ExitStatus(), 2);
  EXPECT_THAT(
      wss.error().Message(),
      testing::HasSubstr("these do: " + NamesOf([](const View& view) { return view.by_memory; })));
  for (const std::string_view name : {"hot", "heatmap", "cdf", "curve", "nodes"}) {
    const auto rendered = RenderView(name, OnePage(), {.by = RankSource::kMemory}, Format::kText);
    EXPECT_TRUE(rendered.has_value()) << name;
  }
}

TEST(ViewTest, RefusesAccessesToMemoryOfARankModelWithoutRates) {
  for (const std::string_view name : {"hot", "heatmap", "nodes"}) {
    const auto rendered = RenderView(
        name, OnePage(), {.model = RankModel::kSum, .by = RankSource::kMemory}, Format::kText);
    ASSERT_FALSE(rendered.has_value()) << name;
    EXPECT_THAT(rendered.error().Message(), testing::HasSubstr("estimates no rates"));
  }
}

std::string TextOf(std::string_view view, const Trace& trace) {
  const auto rendered = RenderView(view, trace, {}, Format::kText);
  return rendered.has_value() ? rendered->output : rendered.error().Message();
}

TEST(ViewTest, PagesAreShownByMemoryWhereEnoughMissesWereSampled) {
  for (const std::string_view name : {"hot", "nodes"}) {
    EXPECT_THAT(TextOf(name, SampledMisses(16384)),
                testing::HasSubstr("accesses to memory (estimated)"))
        << name;
    EXPECT_THAT(TextOf(name, SampledMisses(std::nullopt)), testing::HasSubstr("samples (expected)"))
        << name;
    EXPECT_THAT(TextOf(name, SampledMisses(16384, /*samples=*/0)),
                testing::Not(testing::HasSubstr("accesses to memory")))
        << name;
  }
  EXPECT_THAT(TextOf("cdf", SampledMisses(16384)),
              testing::HasSubstr("share of the accesses to memory that the hottest pages hold"));
  EXPECT_THAT(TextOf("objects", SampledMisses(16384)),
              testing::HasSubstr("by memory: accesses to memory (estimated) of their pages"));
  EXPECT_THAT(TextOf("wss", SampledMisses(16384)), testing::HasSubstr("by accesses (combined)"));
  EXPECT_THAT(TextOf("heatmap", SampledMisses(16384)), testing::HasSubstr("by memory"));
}

TEST(ViewTest, NamesTheViewsThatReadAnOption) {
  for (const std::string_view option : OptionsOfViews()) {
    EXPECT_EQ(ViewsThatRead(option), NamesOf([option](const View& view) {
                return std::ranges::count(view.reads, option) > 0;
              }));
  }
  EXPECT_EQ(ViewsThatRead("addresses"), "heatmap");
}

TEST(ViewTest, RefusesAnUnknownNameAndListsTheKnownOnes) {
  const auto rendered = RenderView("flame", OnePage(), {}, Format::kText);
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().ExitStatus(), 2);
  EXPECT_THAT(rendered.error().Message(),
              testing::HasSubstr("use one of " + NamesOf([](const View&) { return true; })));
}

TEST(ViewTest, ReadsATraceFileAndKnowsWhetherItWasFinished) {
  std::string folder = testing::TempDir() + "/view.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(folder) / "t.data";
  const Trace made = OnePage();
  EpochProfile epoch;
  ASSERT_TRUE(*(*made.open())->Next(epoch));
  for (const bool finish : {false, true}) {
    Result<TraceWriter> writer = TraceWriter::Create(path, made.info);
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE(writer->Write(epoch).has_value());
    const RecordingOutcome outcome{
        .saw_enough = false,
        .text = "saw\x1b little",
        .looked_at = PageCount(5),
        .accessed = PageCount(4),
        .resident = PageCount(3),
        .unobservable = {.refused = PageCount(2),
                         .device = PageCount(0),
                         .locked = PageCount(~std::uint64_t{0})},
        .filtered = FilteredChildren{.processes = 6, .resident = PageCount(7), .cpu_share = 0.25}};
    if (finish) {
      ASSERT_TRUE(writer->Finish(outcome).has_value());
    }
    const Result<Trace> trace = OpenTraceFile(path);
    ASSERT_TRUE(trace.has_value());
    const auto json = RenderView("summary", *trace, {}, Format::kJson);
    ASSERT_TRUE(json.has_value());
    const auto parsed = nlohmann::json::parse(json->output);
    EXPECT_EQ(parsed["finished"], finish);
    EXPECT_EQ(parsed["trace"], "t.data");
    EXPECT_EQ(parsed["footprint_pages"], 1);
    const std::string text = RenderView("summary", *trace, {}, Format::kText)->output;
    if (finish) {
      EXPECT_EQ(parsed["outcome"]["saw_enough"], false);
      EXPECT_EQ(parsed["outcome"]["text"], outcome.text);
      EXPECT_EQ(parsed["outcome"]["pages_looked_at"], 5);
      EXPECT_EQ(parsed["outcome"]["pages_seen"], 4);
      EXPECT_EQ(parsed["outcome"]["resident_bytes"], 3 * 4096);
      EXPECT_EQ(
          parsed["outcome"]["not_observable"],
          nlohmann::json({{"refused", 2 * 4096}, {"device", 0}, {"locked", ~std::uint64_t{0}}}))
          << "what is unknown is absent, and no number of a file overflows";
      EXPECT_EQ(
          parsed["outcome"]["left_out_by_process_filter"],
          nlohmann::json({{"processes", 6}, {"resident_bytes", 7 * 4096}, {"cpu_share", 0.25}}));
      const std::string csv = RenderView("summary", *trace, {}, Format::kCsv)->output;
      EXPECT_THAT(csv, testing::HasSubstr("outcome.resident_bytes,12288\n"));
      EXPECT_THAT(csv, testing::HasSubstr("outcome.not_observable.refused,8192\n"));
      EXPECT_THAT(csv, testing::HasSubstr("outcome.not_observable.hugetlb,\n"));
      EXPECT_THAT(csv, testing::HasSubstr("outcome.left_out_by_process_filter.processes,6\n"));
      EXPECT_THAT(csv, testing::HasSubstr("outcome.left_out_by_process_filter.cpu_share,0.25\n"));
      EXPECT_THAT(text, testing::HasSubstr("\noutcome       saw\\x1b little\n"));
    } else {
      EXPECT_TRUE(parsed["outcome"].is_null());
      EXPECT_THAT(text, testing::Not(testing::HasSubstr("outcome")));
    }
  }
  EXPECT_FALSE(OpenTraceFile(path.parent_path() / "none.data").has_value());
  std::filesystem::remove_all(folder);
}

TEST(ExplainOwner, SaysWhoseAFileIsThatMayNotBeRead) {
  const Error refused = Refused("open trace file", "t.data", EACCES);
  const std::string of_root = ExplainOwner(refused, 0, 1000).Message();
  EXPECT_THAT(of_root, testing::HasSubstr("EACCES"));
  EXPECT_THAT(of_root, testing::HasSubstr("it belongs to root"));
  EXPECT_THAT(of_root, testing::HasSubstr("sudo chown \"$USER\" t.data"));
  EXPECT_THAT(ExplainOwner(refused, 7, 1000).Message(), testing::HasSubstr("user 7"));
  EXPECT_EQ(ExplainOwner(refused, 1000, 1000).Message(), refused.Message());
  const Error missing = Refused("open trace file", "t.data", ENOENT);
  EXPECT_EQ(ExplainOwner(missing, 0, 1000).Message(), missing.Message());
}

TEST(WriteFileTest, ReportsAFullDisk) {
  const Status written = WriteFile("/dev/full", "x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().system_error, ENOSPC);
}

}  // namespace view_test
}  // namespace tmprof
