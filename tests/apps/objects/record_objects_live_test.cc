// SPDX-License-Identifier: Apache-2.0
// `tmprof record --objects` of programs whose objects are known, on a machine with time to look.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace record_objects_live_test {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// References and samples of a row of objects; what is unknown is none of them.
double HeatOf(const Json& row) {
  double heat = 0;
  for (const char* figure : {"references", "samples"}) {
    if (!row[figure].is_null()) heat += row[figure].get<double>();
  }
  return heat;
}

class LiveObjects : public Recording {};

TEST_F(LiveObjects, ShowsWhichOfTwoAllocationsIsHot) {
  const Outcome outcome =
      Tmprof({"record", "--objects", "-o", trace_, "--", Workload("tests/objects_heats")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome report = Tmprof({"report", trace_, "--view", "objects", "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  const Json objects = Json::parse(report.out);
  EXPECT_EQ(objects["lost"], 0);
  const auto heat_of = [&](const std::string& function) {
    for (const Json& row : objects["rows"]) {
      if (row["frames"].empty() || row["frames"][0]["function"] != function) continue;
      EXPECT_EQ(row["objects"], 1);
      EXPECT_EQ(row["bytes"], 32 << 20);
      EXPECT_THAT(row["frames"][0]["file"].get<std::string>(), HasSubstr("heats.c"));
      return HeatOf(row);
    }
    ADD_FAILURE() << "no row of " << function << " in " << report.out;
    return 0.0;
  };
  const double hot = heat_of("make_hot");
  EXPECT_GT(hot, 0);
  EXPECT_GT(hot, 3 * heat_of("make_cold"));
}

TEST_F(LiveObjects, HasWhatAProgramCountedItselfBesideTheHeatOfItsPages) {
  const std::string program = folder_.File("heats");
  const std::string counts = folder_.File("heats.objects");
  const Outcome built =
      Tmprof({"cc", "--", "clang-19", "-O2", "-g",
              TMPROF_SOURCE_DIR "/tests/objects/programs/heats.c", "-o", program});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome outcome =
      Tmprof({"record", "-o", trace_, "--", "env", "TMPROF_OBJECTS=" + counts, program});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome report =
      Tmprof({"report", trace_, "--view", "objects", "--counts", counts, "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  const Json objects = Json::parse(report.out);
  const auto row_of = [&](const std::string& function) -> Json {
    for (const Json& row : objects["rows"]) {
      if (!row["frames"].empty() && row["frames"][0]["function"] == function) return row;
    }
    ADD_FAILURE() << "no row of " << function << " in " << report.out;
    return {{"references", 0}, {"samples", 0}, {"counted", 0}};
  };
  const Json hot = row_of("make_hot");
  const Json cold = row_of("make_cold");
  // memset(3) counts a word each; each round over the hot one reads and writes each line.
  constexpr int kBytes = 32 << 20;
  constexpr int kRound = kBytes / 64 * 2;
  EXPECT_EQ(cold["counted"], kBytes / 8);
  EXPECT_GT(hot["counted"], kBytes / 8);
  EXPECT_EQ((hot["counted"].get<std::uint64_t>() - kBytes / 8) % kRound, 0u);
  EXPECT_GT(HeatOf(hot), 3 * HeatOf(cold));

  const Outcome another = Tmprof({"report", TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.data",
                                  "--view", "objects", "--counts", counts});
  EXPECT_EQ(another.status, 2);
  EXPECT_THAT(another.err, AllOf(HasSubstr(counts), HasSubstr("the trace has nothing")));
}

TEST_F(LiveObjects, AdviceOnObjectsUsesTheCountsOfAnotherBuild) {
  const std::string counted = folder_.File("heats.counted");
  const std::string counts = folder_.File("heats.objects");
  const Outcome built =
      Tmprof({"cc", "--", "clang-19", "-O2", "-g",
              TMPROF_SOURCE_DIR "/tests/objects/programs/heats.c", "-o", counted});
  ASSERT_EQ(built.status, 0) << built.err;
  ASSERT_EQ(RunProgram({"/usr/bin/env", "TMPROF_OBJECTS=" + counts, counted}).status, 0);
  const Outcome outcome =
      Tmprof({"record", "--objects", "-o", trace_, "--", Workload("tests/objects_heats")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string file = folder_.File("heats.advice");
  const Outcome advised = Tmprof({"advise", "--objects", trace_, "--counts", counts, "--room",
                                  "64MiB", "-o", file, "--format", "json"});
  ASSERT_EQ(advised.status, 0) << advised.err;
  const Json advice = Json::parse(advised.out);
  const auto site_of = [&](const std::string& function) -> Json {
    for (const Json& site : advice["sites"]) {
      if (!site["frames"].empty() && site["frames"][0]["function"] == function) return site;
    }
    ADD_FAILURE() << "no site of " << function << " in " << advised.out;
    return {{"advice", ""}, {"known_by", ""}, {"counted", 0}};
  };
  // memset(3) counts a word each, as above.
  constexpr int kBytes = 32 << 20;
  const Json hot = site_of("make_hot");
  const Json cold = site_of("make_cold");
  EXPECT_EQ(hot["advice"], "hot");
  EXPECT_EQ(cold["advice"], "cold");
  EXPECT_EQ(hot["known_by"], "counts");
  EXPECT_EQ(cold["known_by"], "counts");
  EXPECT_EQ(cold["counted"], kBytes / 8);
  EXPECT_GT(hot["counted"], kBytes / 8);
  EXPECT_EQ(advice["counts"]["found_share"], 1);
  // The calls are those of the build that was recorded.
  EXPECT_THAT(ReadFile(file),
              AllOf(HasSubstr("tests/objects_heats"), Not(HasSubstr("heats.counted"))));

  const Outcome itself = Tmprof({"advise", "--objects", counts});
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.err, HasSubstr("--counts " + counts));
}

TEST_F(LiveObjects, NamesVariablesOfFilesAndStacksOfThreads) {
  const std::string library = std::string(TMPROF_BINARY_DIR) + "/lib/libobjects_made.so";
  const Outcome outcome = Tmprof(
      {"record", "--objects", "-o", trace_, "--", Workload("tests/objects_statics"), library});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome report =
      Tmprof({"report", trace_, "--view", "objects", "--limit", "0", "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  const Json objects = Json::parse(report.out);
  const auto row_of = [&](const std::string& kind, const std::string& name) -> Json {
    for (const Json& row : objects["rows"]) {
      if (row["kind"] == kind && row["name"] == name) return row;
    }
    ADD_FAILURE() << "no " << kind << " " << name << " in " << report.out;
    return {{"references", 0}, {"samples", 0}};
  };
  // An object that was not looked at has no row.
  const auto heat_of_cold = [&](const std::string& kind, const std::string& name) {
    double heat = 0;
    for (const Json& row : objects["rows"])
      if (row["kind"] == kind && row["name"] == name) heat += HeatOf(row);
    return heat;
  };
  const Json hot = row_of("variable", "hot_table");
  EXPECT_EQ(hot["bytes"], 4 << 20);
  EXPECT_THAT(hot["frames"][0]["module"].get<std::string>(), EndsWith("objects_statics"));
  EXPECT_GT(hot["lifetime_s"], 1.5);
  const Json of_library = row_of("variable", "library_table");
  EXPECT_EQ(of_library["bytes"], 4 << 20);
  EXPECT_EQ(of_library["frames"][0]["module"], library);
  const Json stack = row_of("stack", "hot thread");
  EXPECT_GT(stack["thread"], 0);
  EXPECT_GT(stack["lifetime_s"], 1.5);
  EXPECT_GT(HeatOf(hot), 0);
  EXPECT_GT(HeatOf(of_library), 0);
  EXPECT_GT(HeatOf(stack), 0);
  EXPECT_GT(HeatOf(hot), 3 * heat_of_cold("variable", "cold_table"));
  EXPECT_GT(HeatOf(stack), 3 * heat_of_cold("stack", "cold thread"));
  // Little of the heat belongs to no object.
  EXPECT_LT(HeatOf(objects["elsewhere"]), 0.2 * HeatOf(objects));
  const Outcome of_pages = Tmprof({"report", trace_, "--view", "hot", "--limit", "0"});
  EXPECT_THAT(of_pages.out, HasSubstr("4 MiB variable hot_table of objects_statics"));
  EXPECT_THAT(of_pages.out, HasSubstr("stack thread"));
}

}  // namespace record_objects_live_test
}  // namespace tmprof::test
