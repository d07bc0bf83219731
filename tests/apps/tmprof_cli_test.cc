// SPDX-License-Identifier: Apache-2.0
// The commands that read a trace, and the command line itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "proto/trace_file.h"
#include "tests/apps/program.h"

namespace tmprof::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string GoldenTrace() {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/v1.tmprof.data";
}

// A finished trace of no epoch.
std::string EmptyTrace(const TemporaryFolder& folder) {
  const std::string path = folder.File("empty.data");
  auto writer = TraceWriter::Create(path, TraceInfo{});
  EXPECT_TRUE(writer.has_value() && writer->Finish().has_value());
  return path;
}

TEST(CommandLine, EveryCommandHasHelp) {
  for (const std::string command : {"record", "report", "eval", "score", "convert", "doctor"}) {
    const Outcome outcome = Tmprof({command, "--help"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("--help")) << command;
  }
}

TEST(CommandLine, AnUnknownCommandIsRefused) { EXPECT_EQ(Tmprof({"frobnicate"}).status, 2); }

TEST(CommandLine, AnUnknownOptionIsRefused) {
  EXPECT_EQ(Tmprof({"report", "--frobnicate"}).status, 2);
}

TEST(CommandLine, GeneratesAManualPageForEachCommand) {
  const TemporaryFolder folder;
  ASSERT_EQ(Tmprof({"generate", folder.File("man")}).status, 0);
  for (const std::string page : {"tmprof", "tmprof-record", "tmprof-report", "tmprof-eval",
                                 "tmprof-score", "tmprof-convert", "tmprof-doctor"}) {
    EXPECT_THAT(ReadFile(folder.File("man/" + page + ".1")), HasSubstr(".SH OPTIONS")) << page;
  }
  EXPECT_THAT(ReadFile(folder.File("man/tmprof.bash")), HasSubstr("--max-overhead"));
}

TEST(Report, AnUnknownViewNamesTheKnownOnes) {
  const Outcome outcome = Tmprof({"report", GoldenTrace(), "--view", "nonsense"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("nonsense"), HasSubstr("heatmap")));
}

TEST(Report, AMissingFileIsTheWorldsRefusal) {
  const Outcome outcome = Tmprof({"report", "no-such-file"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no-such-file"), HasSubstr("ENOENT")));
}

TEST(Report, AFileThatIsNoTraceIsBadInput) {
  const Outcome outcome = Tmprof({"report", "/etc/passwd"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/etc/passwd"), HasSubstr("not a tmprof trace")));
}

TEST(Report, EpochsBeforeTheDamageAreReportedWithAWarning) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.data");
  const std::string whole = ReadFile(GoldenTrace());
  WriteFile(cut, whole.substr(0, whole.size() - 40));
  const Outcome outcome = Tmprof({"report", cut, "--view", "summary", "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GE(Json::parse(outcome.out)["epochs"].get<int>(), 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning"), HasSubstr("cut.data"), HasSubstr("offset")));
}

TEST(Report, EveryViewHasJson) {
  for (const std::string view : {"summary", "hot", "coverage", "heatmap", "cdf"}) {
    const Outcome outcome = Tmprof({"report", GoldenTrace(), "--view", view, "--format", "json"});
    EXPECT_EQ(outcome.status, 0) << view << outcome.err;
    EXPECT_TRUE(Json::accept(outcome.out)) << view;
  }
}

TEST(Report, APictureInPlaceOfTheTraceIsRefused) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("t.data");
  const std::string whole = ReadFile(GoldenTrace());
  WriteFile(trace, whole);
  const Outcome outcome = Tmprof({"report", trace, "--view", "heatmap", "--png", trace});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("t.data"), HasSubstr("the trace")));
  EXPECT_EQ(ReadFile(trace), whole);
}

TEST(Convert, AnOutputInPlaceOfTheTraceIsRefused) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("t.data");
  const std::string whole = ReadFile(GoldenTrace());
  WriteFile(trace, whole);
  const Outcome outcome = Tmprof({"convert", trace, "--to", "csv", "-o", trace});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the trace"));
  EXPECT_EQ(ReadFile(trace), whole);
}

TEST(EmptyTrace, IsReportedInEveryView) {
  const TemporaryFolder folder;
  const std::string trace = EmptyTrace(folder);
  for (const std::string view : {"summary", "hot", "coverage", "heatmap", "cdf"}) {
    const Outcome outcome = Tmprof({"report", trace, "--view", view, "--format", "json"});
    EXPECT_EQ(outcome.status, 0) << view << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)["view"], view);
  }
}

TEST(EmptyTrace, IsConvertedToTheHeaderRowAlone) {
  const TemporaryFolder folder;
  const Outcome outcome = Tmprof({"convert", EmptyTrace(folder), "--to", "csv"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("epoch,"));
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1);
}

TEST(EmptyTrace, CannotBeReplayed) {
  const TemporaryFolder folder;
  const Outcome outcome = Tmprof({"eval", EmptyTrace(folder)});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no complete epoch"));
}

TEST(EmptyTrace, CannotBeScored) {
  const TemporaryFolder folder;
  const std::string truth = folder.File("truth.json");
  WriteFile(truth, R"({"phases": [{"t_start_ns": 0, "t_end_ns": 1000, "ranges": [
    {"start": 4096, "end": 8192, "weight": 1}]}]})");
  const Outcome outcome = Tmprof({"score", EmptyTrace(folder), "--truth", truth});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no complete epoch"));
}

TEST(Report, AFullDiskIsNamed) {
  const Outcome outcome = RunProgram(
      {"sh", "-c", TmprofPath() + " report " + GoldenTrace() + " --view summary >/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ENOSPC"));
}

TEST(Eval, GivesARowPerPolicyRankAndRatio) {
  const Outcome outcome =
      Tmprof({"eval", GoldenTrace(), "--policy", "first_touch,oracle", "--ratio", "1/2,1/4",
              "--rank", "references,combined", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json results = Json::parse(outcome.out)["results"];
  EXPECT_EQ(results.size(), 2u * 2 * 2);
  for (const Json& row : results) {
    for (const char* field : {"trace", "policy", "rank", "judge", "ratio", "capacity_pages",
                              "epochs", "hit_rate", "weight_hit", "weight_total", "moved_pages"}) {
      EXPECT_TRUE(row.contains(field)) << field;
    }
    EXPECT_GE(row["capacity_pages"].get<int>(), 1);
  }
}

TEST(Eval, SaysNullWhereTheJudgeSawNothing) {
  // Nobody told the golden trace the truth.
  const Outcome outcome = Tmprof({"eval", GoldenTrace(), "--judge", "truth", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json results = Json::parse(outcome.out)["results"];
  ASSERT_FALSE(results.empty());
  for (const Json& row : results) {
    EXPECT_TRUE(row["hit_rate"].is_null());
    EXPECT_TRUE(row["weight_total"].is_null());
  }
}

TEST(Eval, RefusesUnknownPoliciesAndRatiosOutsideOfRange) {
  const Outcome unknown = Tmprof({"eval", GoldenTrace(), "--policy", "clairvoyant"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("clairvoyant"), HasSubstr("history")));
  EXPECT_EQ(Tmprof({"eval", GoldenTrace(), "--ratio", "0"}).status, 2);
  EXPECT_EQ(Tmprof({"eval", GoldenTrace(), "--ratio", "2"}).status, 2);
  EXPECT_EQ(Tmprof({"eval", GoldenTrace(), "--ratio", "1.5"}).status, 2);
  EXPECT_EQ(Tmprof({"eval", GoldenTrace(), "--ratio", "1/0"}).status, 2);
}

TEST(Score, RefusesATruthThatIsNotJson) {
  const Outcome outcome = Tmprof({"score", GoldenTrace(), "--truth", "/etc/passwd"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/etc/passwd"));
}

TEST(Doctor, TellsOfEveryJob) {
  const Outcome outcome = Tmprof({"doctor", "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* job : {"accessed bits", "address samples", "gate"}) {
    EXPECT_THAT(outcome.out, HasSubstr(job));
  }
}

TEST(Doctor, TellsAnOrdinaryUserWhichCapabilityIsMissing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become an ordinary user";
  const Outcome outcome = RunAsNobody({TmprofPath(), "doctor"});
  if (outcome.status == 127 || outcome.status == 126) {
    GTEST_SKIP() << "an ordinary user cannot reach the build folder " << TMPROF_BINARY_DIR;
  }
  EXPECT_THAT(outcome.out, HasSubstr("CAP_"));
}

}  // namespace
}  // namespace tmprof::testing
