// SPDX-License-Identifier: Apache-2.0
// Commands on the objects of traces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "objects/format/allocations.h"
#include "proto/trace_file.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace objects_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

std::string GoldenTrace() {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/v1.tmprof.data";
}

std::string GoldenLedger() {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/v1.tmprof.ledger";
}

// Page 1 of node 0 with 30 samples, page 2 of node 1 with 10, an object each.
std::string TraceOfTwoNodes(const TemporaryFolder& folder) {
  EpochProfile epoch;
  epoch.end = epoch.start + std::chrono::seconds(1);
  epoch.targets.resize(1);
  epoch.targets[0].pid = Pid(42);
  epoch.sources = {{.name = "clock",
                    .label = "clock",
                    .role = SourceRole::kSamples,
                    .state = SourceState::kActive,
                    .samples_of = SampleSubject::kTime,
                    .details = {},
                    .note = ""}};
  SetAllocations(epoch);
  for (const std::uint32_t page : {1, 2}) {
    AllocationsOf(epoch)->sites.push_back({.id = page, .frames = {{.function = "make"}}});
    AllocationsOf(epoch)->events.push_back({.target = TargetId(0),
                                            .kind = AllocationKind::kAllocated,
                                            .address = page * kBasePageBytes,
                                            .bytes = kBasePageBytes,
                                            .site = page,
                                            .weight = 1});
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                         .load_samples = page == 1 ? 30u : 10u,
                         .node = NodeId(static_cast<NodeId::rep>(page - 1))});
  }
  const std::string trace = folder.File("nodes.data");
  auto writer = TraceWriter::Create(trace, TraceInfo{.tiers = {{NodeId(0)}, {NodeId(1)}}});
  EXPECT_TRUE(writer && writer->Write(epoch) && writer->Finish());
  return trace;
}

TEST(ReportObjects, TakesTier2FromTheTraceOrAsItIsTold) {
  const TemporaryFolder folder;
  const std::string trace = TraceOfTwoNodes(folder);
  const auto report = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"report", trace, "--view", "objects", "--format", "json"});
    const Outcome outcome = Tmprof(options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const Json of_trace = report({});
  EXPECT_EQ(of_trace["tier2_nodes"], Json::parse("[1]"));
  EXPECT_EQ(of_trace["in_tier2_share"], 0.25);
  EXPECT_EQ(of_trace["rows"][0]["in_tier2_share"], 0);
  EXPECT_EQ(of_trace["rows"][1]["of_tier2_share"], 1);
  const Json told = report({"--tier2", "0-0"});
  EXPECT_EQ(told["tier2_nodes"], Json::parse("[0]"));
  EXPECT_EQ(told["in_tier2_share"], 0.75);
  EXPECT_EQ(told["rows"][0]["of_tier2_share"], 1);
  for (const std::string wrong : {"x", "2-1", ",", "70000"}) {
    const Outcome outcome = Tmprof({"report", trace, "--view", "objects", "--tier2", wrong});
    EXPECT_EQ(outcome.status, 2) << wrong;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--tier2 " + wrong), HasSubstr("write 2,3")));
  }
  const Outcome of_another = Tmprof({"report", trace, "--view", "objects", "--tier2", "0,5-6"});
  EXPECT_EQ(of_another.status, 2);
  EXPECT_THAT(of_another.err, HasSubstr("no memory on node 5; it has some on nodes 0, 1"));
  const Outcome of_hot = Tmprof({"report", trace, "--view", "hot", "--tier2", "1"});
  EXPECT_EQ(of_hot.status, 2);
  EXPECT_THAT(of_hot.err, HasSubstr("the hot view does not read it"));
}

TEST(Advise, OnATraceWithoutAllocationsSaysHowToRecordThem) {
  const Outcome outcome = Tmprof({"advise", "--objects", GoldenTrace()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("record it with --objects"));
}

TEST(Advise, WritesNoAdviceOfATraceWithoutAllocations) {
  const TemporaryFolder folder;
  const std::string advice = folder.File("program.advice");
  const Outcome outcome = Tmprof({"advise", "--objects", GoldenTrace(), "-o", advice});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("nobody tracked allocations"));
  EXPECT_FALSE(std::filesystem::exists(advice));
}

TEST(Advise, SaysWhereTheTraceAndTheAdviceBeforeDoNotGoTogether) {
  const TemporaryFolder folder;
  const std::string before = folder.File("before.advice");
  WriteFile(before, "tmprof-advice 1\n");
  const std::string placed = folder.File("placed.data");
  auto writer = TraceWriter::Create(placed, TraceInfo{.settings = {{"advice", "x.advice"}}});
  ASSERT_TRUE(writer.has_value() && writer->Finish().has_value());
  EXPECT_THAT(Tmprof({"advise", "--objects", placed}).err, HasSubstr("--advice 'x.advice'"));
  EXPECT_THAT(Tmprof({"advise", "--objects", placed, "--advice", before}).err, IsEmpty());
  EXPECT_THAT(Tmprof({"advise", "--objects", GoldenTrace(), "--advice", before}).err,
              HasSubstr("does not say"));
}

TEST(Advise, HotSitesHaveTheRoomThatIsSaid) {
  // Two sites of ten hot pages each, one hotter than the other; and what they were judged before.
  const TemporaryFolder folder;
  EpochProfile epoch;
  epoch.end = epoch.start + std::chrono::seconds(1);
  epoch.targets = {{.id = TargetId(0), .pid = Pid(42), .name = "program"}};
  Allocations& allocations = SetAllocations(epoch);
  allocations.all_from_bytes = 1;
  for (const std::uint32_t site : {1, 2}) {
    allocations.sites.push_back(
        {.id = site, .frames = {{.module = "/bin/program", .offset = 0x100 * site}}});
    for (std::uint64_t page = 100 * site; page < 100 * site + 10; ++page) {
      allocations.events.push_back({.target = TargetId(0),
                                    .kind = AllocationKind::kAllocated,
                                    .address = page * kBasePageBytes,
                                    .bytes = kBasePageBytes,
                                    .site = site,
                                    .weight = 1});
      Append(epoch.pages, {.key = {TargetId(0), Vpn(page)}, .looks = 50, .references = 10 * site});
    }
  }
  const std::string trace = folder.File("program.data");
  auto writer = TraceWriter::Create(trace, TraceInfo{});
  ASSERT_TRUE(writer && writer->Write(epoch) && writer->Finish());
  const std::string before = folder.File("before.advice");
  WriteFile(before, "tmprof-advice 1\nmodule 1 /bin/program\nsite 0 1+0x100\nsite 0 1+0x200\n");
  const auto verdicts = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"advise", "--objects", trace, "--hot", "100%", "--rank-model",
                                     "sum", "--format", "json"});
    const Outcome outcome = Tmprof(options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::uint64_t, std::string> of;
    const Json advice = Json::parse(outcome.out);
    for (const Json& site : advice["sites"]) {
      of[site["frames"][0]["offset"]] = site["advice"];
    }
    return of;
  };
  using Verdicts = std::map<std::uint64_t, std::string>;
  const Verdicts both{{0x100, "hot"}, {0x200, "hot"}};
  const Verdicts hotter{{0x100, "stays"}, {0x200, "hot"}};
  EXPECT_EQ(verdicts({"--room", "1MiB"}), both);
  EXPECT_EQ(verdicts({"--room", "1/1"}), both);
  EXPECT_EQ(verdicts({"--room", "40KiB"}), hotter);
  EXPECT_EQ(verdicts({"--room", "1/2"}), hotter);
  EXPECT_EQ(verdicts({"--room", "1MiB", "--advice", before}), both);
  EXPECT_EQ(verdicts({"--room", "40KiB", "--advice", before}), hotter);
  for (const char* none : {"0", "x", "2/1"}) {
    const Outcome refused = Tmprof({"advise", "--objects", trace, "--room", none});
    EXPECT_EQ(refused.status, 2) << none;
    EXPECT_THAT(refused.err, HasSubstr("--room"));
  }
}

TEST(Advise, CountsNeedATraceBesideThem) {
  const TemporaryFolder folder;
  const std::string counts = folder.File("run.objects");
  WriteFile(counts, "\x89TMOBJS\n");  // and nothing of what follows
  const Outcome alone = Tmprof({"advise", "--objects", counts});
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("record --objects"),
                               HasSubstr("advise --objects TRACE --counts " + counts)));
  const Outcome damaged = Tmprof({"advise", "--objects", GoldenTrace(), "--counts", counts});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.err, HasSubstr(counts));
  const Outcome over =
      Tmprof({"advise", "--objects", GoldenTrace(), "--counts", counts, "-o", counts});
  EXPECT_EQ(over.status, 2);
  EXPECT_THAT(over.err, HasSubstr("it is the trace, or what is read beside it"));
  EXPECT_EQ(ReadFile(counts), "\x89TMOBJS\n") << "it is as it was";
  const Outcome trace = Tmprof({"advise", "--objects", GoldenTrace(), "--counts", GoldenTrace()});
  EXPECT_EQ(trace.status, 2);
  EXPECT_THAT(trace.err, HasSubstr("no object profile"));
  for (const std::vector<std::string>& of_what :
       {std::vector<std::string>{}, std::vector<std::string>{"--mlock"}}) {
    std::vector<std::string> arguments{"advise", GoldenTrace(), "--counts", counts};
    arguments.insert(arguments.end(), of_what.begin(), of_what.end());
    const Outcome refused = Tmprof(arguments);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("'--counts': it is for '--objects'"));
  }
}

TEST(Report, RefusesAnyRankWeightOfAnObjectProfile) {
  const TemporaryFolder folder;
  const std::string counts = folder.File("run.objects");
  WriteFile(counts, "\x89TMOBJS\n");
  for (const char* weight : {"memory", "accesses"}) {
    const Outcome outcome =
        Tmprof({"report", counts, "--view", "objects", "--rank-weight", weight});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("--rank-weight"), HasSubstr("an object profile is of one process")))
        << weight;
  }
}

TEST(Advise, InPlaceOfTheTraceIsRefused) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("a.data");
  std::filesystem::copy_file(GoldenTrace(), trace);
  const std::string before = ReadFile(trace);
  EXPECT_EQ(Tmprof({"advise", "--objects", trace, "-o", trace}).status, 2);
  EXPECT_EQ(ReadFile(trace), before);
}

TEST(Advise, RefusesWhatItCannotTake) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--ratio", "2"},
                                                        {"--hot", "0%"},
                                                        {"--hot", "x"},
                                                        {"--cold-nodes", "64"},
                                                        {"--by", "magic"},
                                                        {"--format", "csv"}}) {
    const Outcome outcome = Tmprof({"advise", "--objects", GoldenTrace(), option, value});
    EXPECT_NE(outcome.status, 0) << option;
    EXPECT_THAT(outcome.err, HasSubstr(option));
  }
  const Outcome before = Tmprof({"advise", "--objects", GoldenTrace(), "--advice", GoldenLedger()});
  EXPECT_EQ(before.status, 2);
  EXPECT_THAT(before.err, HasSubstr("line 1"));
}

TEST(ReportObjects, HasEvidenceOfItsOwn) {
  EXPECT_EQ(Tmprof({"report", GoldenTrace(), "--view", "objects", "--by", "object"}).status, 0);
  EXPECT_EQ(Tmprof({"report", GoldenTrace(), "--view", "objects", "--by", "file"}).status, 2);
}

TEST(Advise, NamesAFullDisk) {
  const Outcome outcome =
      RunProgram({"sh", "-c", TmprofPath() + " advise --objects " + GoldenTrace() + " >/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ENOSPC"));
}

Outcome TmprofInColumns(const std::string& columns, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{TmprofPath()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProgram(argv, [columns] { ::setenv("COLUMNS", columns.c_str(), 1); });
}

TEST(Help, BreaksExamplesSoThatAShellTakesThemForOneCommand) {
  const std::string line =
      "  tmprof advise --objects second.data --advice first.advice -o last.advice\n";
  EXPECT_THAT(Tmprof({"help", "advise"}).out, HasSubstr(line));
  EXPECT_THAT(TmprofInColumns("60", {"help", "advise"}).out,
              HasSubstr("  tmprof advise --objects second.data --advice \\\n"
                        "      first.advice -o last.advice\n"));
}

}  // namespace objects_cli_test
}  // namespace tmprof::test
