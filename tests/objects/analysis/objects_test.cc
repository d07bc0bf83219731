// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/base/text/text_tables.h"

namespace tmprof {
namespace objects_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

ObjectsInfo Info() {
  ObjectsInfo info{.pid = Pid(42), .program = "/bin/tree"};
  info.start = MonotonicTime(seconds(100));
  info.written = MonotonicTime(seconds(110));
  return info;
}

// 10 s: of the 3 nodes one lived for 2 s, two live since the 4th and the 8th second.
ObjectsPart Part() {
  ObjectsPart part;
  part.modules = {{.path = "", .start = 0x1000, .end = 0x2000, .instrumented = true},
                  {.path = "/lib/libc.so.6", .start = 0x5000, .end = 0x6000}};
  part.sites = {{.id = 1,
                 .return_addresses = {0x1010, 0x1020},
                 .objects = 3,
                 .bytes = 300,
                 .freed_objects = 1,
                 .freed_bytes = 100,
                 .freed_accesses = 5,
                 .freed_age = seconds(2)},
                {.id = 2, .return_addresses = {0x1030}, .objects = 1, .bytes = 50}};
  part.variables = {{.name = "_ZN2at4homeE", .start = 0x1800, .bytes = 8, .accesses = 15},
                    {.name = "_ZN2at4homeE", .start = 0x1800, .bytes = 8, .accesses = 5}};
  part.stacks = {{.number = 1, .threads = 1, .start = 0x9000, .end = 0x9800, .accesses = 30}};
  part.elsewhere = 10;
  part.objects = {{.start = 0x7000, .bytes = 100, .site = 1, .birth = seconds(4), .accesses = 40},
                  {.start = 0x7100, .bytes = 50, .site = 2, .birth = seconds(0), .accesses = 0},
                  {.start = 0x7200, .bytes = 100, .site = 1, .birth = seconds(8), .accesses = 95}};
  return part;
}

std::vector<SourceFrame> Name(std::uint64_t return_address) {
  if (return_address == 0x1010) {
    return {{.function = "make;node", .file = "/src/tree.c", .line = 7, .module = "/bin/tree"}};
  }
  if (return_address == 0x1020) return {{.function = "main", .module = "/bin/tree"}};
  return {{.module = "/bin/tree", .offset = return_address}};
}

ObjectsReport Report(ObjectsBy by, std::optional<std::size_t> most_objects = std::nullopt) {
  ObjectsTally tally(by, most_objects);
  // In two parts: it adds up.
  ObjectsPart first = Part();
  ObjectsPart second;
  second.objects.assign(first.objects.begin() + 1, first.objects.end());
  first.objects.resize(1);
  tally.Add(std::move(first));
  tally.Add(std::move(second));
  return tally.Take(Info(), Name);
}

TEST(Objects, AskForEachCallOnce) {
  std::vector<std::uint64_t> asked;
  const Symbolize symbolize = AskedOnce([&](std::uint64_t address) {
    asked.push_back(address);
    return std::vector<SourceFrame>{{.offset = address}};
  });
  for (const std::uint64_t address : {7, 8, 7, 7, 8}) {
    EXPECT_EQ(symbolize(address).at(0).offset, address);
  }
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{7, 8}));
}

TEST(ObjectsReport, AVariableHasTheSizeThatOneModuleKnows) {
  for (const bool known_last : {false, true}) {
    ObjectsTally tally(ObjectsBy::kSite);
    tally.Add({.variables = {{.name = "table", .start = 0x1800, .bytes = known_last ? 0U : 400U},
                             {.name = "table", .start = 0x1800, .bytes = known_last ? 400U : 0U}}});
    const ObjectsReport report = tally.Take(Info(), Name);
    ASSERT_EQ(report.rows.size(), 1U);
    EXPECT_EQ(report.rows[0].bytes, 400U);
    EXPECT_EQ(report.rows[0].live_bytes, 400U);
  }
}

TEST(ObjectsReport, ASiteSumsLivingAndFreedObjects) {
  const ObjectsReport report = Report(ObjectsBy::kSite);
  EXPECT_EQ(report.accesses, 5 + 40 + 95 + 20 + 30 + 10U);
  ASSERT_EQ(report.rows.size(), 5U);
  const ObjectsRow& nodes = report.rows[0];
  EXPECT_EQ(nodes.accesses, 140U);
  EXPECT_EQ(nodes.objects, 3U);
  EXPECT_EQ(nodes.live_objects, 2U);
  EXPECT_EQ(nodes.bytes, 300U);
  EXPECT_EQ(nodes.live_bytes, 200U);
  EXPECT_DOUBLE_EQ(*nodes.AccessesPerByte(), 140.0 / 300);
  EXPECT_EQ(nodes.lifetime, milliseconds(10'000 / 3)) << "of 2, 6 and 2 s";
  EXPECT_EQ(report.rows[1].name, "stack of thread 1");
  EXPECT_FALSE(report.rows[1].bytes);
  EXPECT_EQ(report.rows[2].name, "at::home");
  EXPECT_EQ(report.rows[2].accesses, 20U) << "of both modules that have it";
  EXPECT_EQ(report.rows[3].kind, ObjectKind::kElsewhere);
  EXPECT_EQ(report.rows[4].accesses, 0U);
  EXPECT_EQ(report.rows[4].lifetime, seconds(10));
}

TEST(ObjectsReport, EachLivingObjectHasARowByObject) {
  const ObjectsReport report = Report(ObjectsBy::kObject);
  ASSERT_EQ(report.rows.size(), 6U);
  EXPECT_EQ(report.rows[0].start, 0x7200U);
  EXPECT_EQ(report.rows[0].lifetime, seconds(2));
  EXPECT_EQ(report.rows[1].start, 0x7000U);
  EXPECT_EQ(report.freed_objects, 1U);
  EXPECT_EQ(report.freed_accesses, 5U);
  EXPECT_EQ(report.accesses, 200U) << "those of freed objects, too";
  EXPECT_THAT(ObjectsText(report), HasSubstr("1 object with 5 accesses, which --by site shows"));
}

TEST(ObjectsReport, KeepsTheObjectsShownAndCountsAll) {
  const ObjectsReport report = Report(ObjectsBy::kObject, 2);
  ASSERT_EQ(report.rows.size(), 5U) << "with a variable, a stack and elsewhere";
  EXPECT_EQ(report.rows[0].start, 0x7200U);
  EXPECT_EQ(report.rows[1].start, 0x7000U);
  EXPECT_NE(report.rows[4].start, 0x7100U);
  EXPECT_EQ(report.all_rows, 6U);
  EXPECT_EQ(report.accesses, 200U);
  EXPECT_EQ(ObjectsFolded(report), ObjectsFolded(Report(ObjectsBy::kObject)));
  EXPECT_THAT(ObjectsFolded(report), HasSubstr("heap;main;make:node 135\n"));
}

TEST(ObjectsReport, AnArraysHottestElementsAreShownWithIt) {
  ObjectsTally tally(ObjectsBy::kObject);
  tally.Add({.elements = {
                 {.start = 0x7000, .element_bytes = 8, .accesses = {0, 3, 9, 0, 3, 1, 2, 40, 1}}}});
  tally.Add(Part());
  const ObjectsReport report = tally.Take(Info(), Name);
  ASSERT_EQ(report.rows.at(1).start, 0x7000U);
  ASSERT_TRUE(report.rows[1].elements);
  EXPECT_FALSE(report.rows[0].elements);
  EXPECT_THAT(
      ObjectsText(report),
      HasSubstr("0x7000: 9 elements of 8 B, 7 accessed: [7] 40, [2] 9, [1] 3, [4] 3, [6] 2, "
                "...\n"));
  const auto json = nlohmann::json::parse(ObjectsJson(report));
  EXPECT_EQ(json["rows"][1]["elements"]["accessed"], 7);
  EXPECT_EQ(json["rows"][1]["elements"]["hottest"][1]["index"], 2);
  EXPECT_TRUE(json["rows"][0]["elements"].is_null());
}

TEST(ObjectsReport, TextNamesCallsAndWhatWasNotCounted) {
  ObjectsReport report = Report(ObjectsBy::kSite);
  const std::string text = ObjectsText(report);
  EXPECT_THAT(TitlesWithoutUnit(text), testing::IsEmpty()) << text;
  EXPECT_THAT(text, HasSubstr("make;node (tree.c:7) < main"));
  EXPECT_THAT(text, HasSubstr("tree+0x1030"));
  EXPECT_THAT(text, HasSubstr("code of libc.so.6"));
  EXPECT_THAT(text, HasSubstr("heap 70 %, variables 10 %, thread stacks 15 %, elsewhere 5 %"));
  EXPECT_THAT(text, Not(HasSubstr("rows;")));
  LimitRows(report, 1);
  EXPECT_THAT(ObjectsText(report), HasSubstr("1 of 5 rows"));
}

TEST(ObjectsReport, AStackThatWasCutSaysSo) {
  const auto report = [](ObjectsBy by) {
    ObjectsTally tally(by);
    ObjectsPart part = Part();
    part.sites[0].is_cut = true;
    tally.Add(std::move(part));
    return tally.Take(Info(), Name);
  };
  for (const ObjectsBy by : {ObjectsBy::kSite, ObjectsBy::kObject}) {
    const ObjectsReport cut = report(by);
    EXPECT_THAT(ObjectsText(cut), HasSubstr("make;node (tree.c:7) < main < unknown\n"));
    EXPECT_THAT(ObjectsText(cut), HasSubstr("tree+0x1030\n"));
    EXPECT_THAT(ObjectsCsv(cut), HasSubstr(",make;node (tree.c:7) < main < unknown\n"));
    EXPECT_THAT(ObjectsFolded(cut), HasSubstr("heap;unknown;main;make:node 1"));
    const auto json = nlohmann::json::parse(ObjectsJson(cut));
    EXPECT_EQ(json["rows"][0]["stack_cut"], true);
    EXPECT_EQ(json["rows"][0]["frames"].size(), 2U);
    EXPECT_EQ(json["rows"][4]["stack_cut"], false);
  }
}

TEST(ObjectsReport, JsonHasAllFramesAndNullForWhatIsUnknown) {
  const auto json = nlohmann::json::parse(ObjectsJson(Report(ObjectsBy::kSite)));
  EXPECT_EQ(json["rows"][0]["frames"][0]["line"], 7);
  EXPECT_EQ(json["rows"][0]["frames"][1]["function"], "main");
  EXPECT_TRUE(json["rows"][0]["frames"][1]["line"].is_null());
  EXPECT_TRUE(json["rows"][1]["lifetime_s"].is_null());
  EXPECT_TRUE(json["rows"][3]["bytes"].is_null());
  EXPECT_EQ(json["accesses_by_kind"]["heap"], 140);
}

TEST(ObjectsReport, CsvHasALineForEachRow) {
  EXPECT_THAT(ObjectsCsv(Report(ObjectsBy::kSite)),
              HasSubstr("heap,,140,0.7,300,0.4666666666666667,3,2,200,3.333,make;node (tree.c:7) "
                        "< main\n"));
}

TEST(ObjectsReport, FoldedStacksGoFromTheOutermostCallInwards) {
  EXPECT_EQ(ObjectsFolded(Report(ObjectsBy::kSite)),
            "elsewhere 10\n"
            "heap;main;make:node 140\n"
            "stack;stack of thread 1 30\n"
            "variable;at::home 20\n");
}

TEST(ObjectsReport, LeavesOutWhatASiteLacksInADamagedFile) {
  ObjectsTally tally(ObjectsBy::kObject);
  ObjectsPart part;
  part.objects = {{.start = 0x7000, .bytes = 100, .site = 9, .accesses = 40}};
  tally.Add(std::move(part));
  const ObjectsReport report = tally.Take(Info(), Name);
  EXPECT_THAT(ObjectsText(report), HasSubstr("0x7000 stack unknown"));
}

TEST(ParseObjectsBy, RefusesWhatIsEvidenceOfPages) {
  EXPECT_EQ(*ParseObjectsBy("object"), ObjectsBy::kObject);
  EXPECT_FALSE(ParseObjectsBy("samples"));
}

TEST(Demangled, LeavesWhatIsNotMangled) {
  EXPECT_EQ(Demangled("main"), "main");
  EXPECT_EQ(Demangled("_Z4findPKi"), "find(int const*)");
}

}  // namespace objects_test
}  // namespace tmprof
