// SPDX-License-Identifier: Apache-2.0
// Views of traces in the table; moves_test.cc has the view of ledgers.

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
#include "tests/report/every_view.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace view_test {

using namespace every_view;

TEST_P(EveryView, IsFoundByItsNameAndDescribesItself) {
  const Result<const View*> found = FindView(GetParam().name);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)->name, GetParam().name);
  EXPECT_FALSE(GetParam().description.empty());
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
