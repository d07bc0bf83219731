// SPDX-License-Identifier: Apache-2.0
// The commands that read a trace, and the command line itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/sample_pairs.h"
#include "proto/frame.h"
#include "proto/trace_file.h"
#include "report/view.h"
#include "tests/apps/program.h"
#include "tests/base/text/text_tables.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace tmprof_cli_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string GoldenTrace() {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/v1.tmprof.data";
}

std::string GoldenLedger() {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/v1.tmprof.ledger";
}

// A finished trace of no epoch.
std::string EmptyTrace(const TemporaryFolder& folder) {
  const std::string path = folder.File("empty.data");
  auto writer = TraceWriter::Create(path, TraceInfo{});
  EXPECT_TRUE(writer.has_value() && writer->Finish().has_value());
  return path;
}

// The trace has 64 pages, each accessed three times.
std::string ExactTrace(const TemporaryFolder& folder) {
  const std::string path = folder.File("exact.data");
  EpochProfile epoch;
  epoch.end = MonotonicTime(std::chrono::seconds(1));
  epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
  for (std::uint64_t page = 1; page <= 64; ++page) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)}, .accesses = AccessCounts{.loads = 3}});
  }
  auto writer = TraceWriter::Create(path, TraceInfo{});
  EXPECT_TRUE(writer.has_value() && writer->Write(epoch).has_value() &&
              writer->Finish().has_value());
  return path;
}

// Three epochs in which 64 pages are accessed a thousand times a second and stay in the cache, and
// 64 pages ten times and miss it.
// `sampled_pages` of the latter have two samples in each epoch.
std::string TraceWithMisses(const TemporaryFolder& folder,
                            std::optional<PageCount> resident = std::nullopt,
                            std::uint64_t sampled_pages = 64) {
  const std::string path = folder.File("misses.data");
  auto writer = TraceWriter::Create(path, TraceInfo{});
  for (std::uint64_t index = 0; index < 3; ++index) {
    EpochProfile epoch;
    epoch.index = index;
    epoch.start = MonotonicTime(std::chrono::seconds(index));
    epoch.end = MonotonicTime(std::chrono::seconds(index + 1));
    epoch.sources = {{.name = "abit", .state = SourceState::kActive},
                     {.name = "ibs",
                      .role = SourceRole::kSamples,
                      .state = SourceState::kActive,
                      .samples_of = SampleSubject::kMemory,
                      .accesses_per_sample = 10'000,
                      .observations = 2 * sampled_pages}};
    epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
    epoch.targets.front().cpu_time = std::chrono::seconds(1);
    epoch.targets.front().resident_pages = resident;
    for (std::uint64_t page = 0; page < 128; ++page) {
      const bool is_fast = page < 64;
      Append(epoch.pages, {.key = {TargetId(0), Vpn(page + 1)},
                           .looks = 100,
                           .references = 10,
                           .first_accesses = 10,
                           .time_at_risk = LogDuration::FromNanoseconds(
                               std::chrono::milliseconds(is_fast ? 10 : 1'000)),
                           .load_samples = !is_fast && page < 64 + sampled_pages ? 2u : 0u});
    }
    EXPECT_TRUE(writer->Write(epoch).has_value());
  }
  EXPECT_TRUE(writer->Finish().has_value());
  return path;
}

// The golden trace up to its last frame, as a killed recorder leaves it.
std::string WithoutEndFrame(const std::string& trace) {
  constexpr std::size_t kLengthAt = 4;  // in a frame's header, little-endian (docs/trace-format.md)
  std::size_t last = kPreambleBytes;
  for (std::size_t at = last; at < trace.size();) {
    last = at;
    std::size_t payload = 0;
    for (std::size_t i = 4; i-- > 0;) {
      payload = payload * 256 + static_cast<unsigned char>(trace[at + kLengthAt + i]);
    }
    at += kFrameHeaderBytes + payload;
  }
  return trace.substr(0, last);
}

// A phase that holds all epochs of the golden trace.
std::string WriteGoldenTruth(const TemporaryFolder& folder) {
  const std::string truth = folder.File("truth.json");
  WriteFile(truth, R"({"phases": [{"t_start_ns": 0, "t_end_ns": 9000000000000, "ranges": [
    {"start": 4096, "end": 8192, "weight": 1}]}]})");
  return truth;
}

// The commands that read a trace, each with what it needs besides.
std::vector<std::vector<std::string>> Readers(const TemporaryFolder& folder,
                                              const std::string& trace) {
  std::vector<std::vector<std::string>> readers{
      {"report", trace},
      {"eval", trace},
      {"score", trace, "--truth", WriteGoldenTruth(folder)},
      {"convert", trace, "--to", "csv"},
      {"convert", trace, "--to", "oracleGeneral", "-o", folder.File("requests")}};
  if (kHasObjects) readers.push_back({"advise", "--objects", trace});
  return readers;
}

TEST(Doctor, TellsWhetherSharedPagesMove) {
  const Json moves = Json::parse(Tmprof({"doctor", "--format", "json"}).out)["moves"];
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(moves[0]["name"], "shared");
  if (::syscall(SYS_move_pages, 0, 0UL, nullptr, nullptr, nullptr, MPOL_MF_MOVE_ALL) != 0) {
    GTEST_SKIP() << "it takes CAP_SYS_NICE";
  }
  EXPECT_EQ(moves[0]["usable"], true);
  const Outcome unprivileged =
      RunProgram({"setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-sys_nice",
                  TmprofPath(), "doctor", "--format", "json"});
  if (unprivileged.status != 0) GTEST_SKIP() << unprivileged.err;
  const Json refused = Json::parse(unprivileged.out)["moves"][0];
  EXPECT_EQ(refused["usable"], false);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("EPERM"));
  EXPECT_THAT(refused["fix"].get<std::string>(), HasSubstr("CAP_SYS_NICE"));
}

// Options that hold numbers and names, with a value that is none, and the trace or command they
// need.
TEST(CommandLine, AValueThatAnOptionCannotTakeIsRefusedByName) {
  const std::vector<std::vector<std::string>> refused = {
      {"report", "--view=hot", "--limit", "-1"},
      {"report", "--view=hot", "--limit", "x"},
      {"report", "--view=hot", "--pid", "0"},
      {"report", "--view=hot", "--by", "magic"},
      {"report", "--view=hot", "--rank-model", "magic"},
      {"report", "--format", "magic"},
      {"report", "--epochs", "5:5"},
      {"report", "--epochs", "5-6"},
      {"report", "--view=heatmap", "--addresses", "9-8"},
      {"report", "--view=heatmap", "--style", "dark"},
      {"eval", "--rank", "magic"},
      {"eval", "--judge", "magic"},
      {"eval", "--half-life", "0s"},
      {"eval", "--half-life", "3 x"},
      {"eval", "--latency-gap", "3"},
      {"eval", "--rank-model", "sum", "--half-life", "learned"},
      {"eval", "--ratio", "1/8,2"},
      {"eval", "--policy", "history,magic"},
      {"eval", "--ratio", "1/8,1/4,0.125"},
      {"eval", "--policy", "oracle,oracle"},
      {"eval", "--rank", "samples,combined,samples"},
      {"score", "--truth=/dev/null", "--k-ratio", "0"},
      {"score", "--truth=/dev/null", "--k-ratio", "1.5"},
      {"convert", "--to", "magic"},
      {"doctor", "--format", "magic"},
      {"record", "--pid", "0"},
      {"record", "--pid", "-5"},
      {"record", "--pid", "x"},
      {"record", "--epoch", "1x"},
      {"record", "--epoch", "-1s"},
      {"record", "--epoch", "1 fortnight"},
      {"record", "--duration", "9999999999h"},
      {"record", "--max-overhead", "0%"},
      {"record", "--max-overhead", "101%"},
      {"record", "--max-overhead", "nan"},
      {"record", "--max-targets", "-1"},
      {"record", "--scan-interval", "0s"},
      {"record", "--seed", "-1"},
      {"record", "--abit", "magic"},
      {"record", "--abit", "regions,"},
      {"record", "--abit", "regions,full"},
      {"record", "--abit", "plain,plain"},
      {"record", "--sample-rate", "3x"},
      {"record", "--ageing", "magic"},
      {"record", "--gate", "magic"},
      {"record", "--gate", "llc,llc"},
  };
  const TemporaryFolder folder;
  const std::string trace = folder.File("t.data");
  for (std::vector<std::string> arguments : refused) {
    const std::string option = arguments[arguments.size() - 2];
    SCOPED_TRACE(arguments[0] + " " + option + " " + arguments.back());
    if (arguments[0] == "record") {
      arguments.insert(arguments.end(), {"-o", trace});
      if (option != "--pid") arguments.insert(arguments.end(), {"--", "true"});
    } else if (arguments[0] != "doctor") {
      arguments.insert(arguments.begin() + 1, GoldenTrace());
    }
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(option), Not(HasSubstr("''"))));
    EXPECT_THAT(outcome.err.size(), Lt(400u)) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  EXPECT_FALSE(std::filesystem::exists(trace));
}

TEST(CommandLine, AFullDiskIsNamedByEveryCommandThatPrints) {
  const TemporaryFolder folder;
  const std::string truth = WriteGoldenTruth(folder);
  for (const std::string& command :
       {"report " + GoldenTrace(), "eval " + GoldenTrace(),
        "score " + GoldenTrace() + " --truth " + truth, "convert --to csv " + GoldenTrace(),
        "convert --to csv " + GoldenTrace() + " -o " + folder.File("csv"), std::string("doctor"),
        std::string("--help"), std::string("record --help")}) {
    const Outcome outcome = RunProgram({"sh", "-c", TmprofPath() + " " + command + " >/dev/full"});
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("ENOSPC")) << command;
  }
}

TEST(CommandLine, AnOutputFileThatCannotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  const std::string nowhere = folder.File("none/file");
  for (const auto& [file, error] : {std::pair(nowhere, "ENOENT"), {"/dev/full", "ENOSPC"}}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"convert", GoldenTrace(), "--to", "csv", "-o", file},
          {"report", GoldenTrace(), "--view", "cdf", "--png", file},
          {"report", GoldenTrace(), "--view", "heatmap", "--png", file}}) {
      const Outcome outcome = Tmprof(arguments);
      EXPECT_EQ(outcome.status, 1) << arguments[0];
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(file), HasSubstr(error))) << arguments[0];
    }
  }
}

TEST(CommandLine, ATraceThatWasNotFinishedIsReadWithAWarning) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.data");
  const std::string before = WithoutEndFrame(ReadFile(GoldenTrace()));
  WriteFile(cut, before);
  const std::string where = "byte offset " + std::to_string(before.size()) + " ";
  for (const std::vector<std::string>& command : Readers(folder, cut)) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 0) << command[0];
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning"), HasSubstr("'" + cut + "'"),
                                   HasSubstr(where), HasSubstr("stopped")))
        << command[0];
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << command[0];
  }
  for (const std::vector<std::string>& command : Readers(folder, GoldenTrace())) {
    EXPECT_THAT(Tmprof(command).err, IsEmpty()) << command[0];
  }
}

TEST(CommandLine, ADamagedTraceHasAStatusOfItsOwnInEveryCommandAndEvalAndScoreTellItInJson) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.data");
  const std::string before = WithoutEndFrame(ReadFile(GoldenTrace()));
  WriteFile(cut, before.substr(0, before.size() - 1));
  for (const std::vector<std::string>& command : Readers(folder, cut)) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 4) << command[0] << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'" + cut + "'")) << command[0];
  }
  const Json eval = Json::parse(Tmprof({"eval", GoldenTrace(), cut, "--format", "json"}).out);
  EXPECT_TRUE(eval["traces"][0]["damage"].is_null());
  EXPECT_EQ(eval["traces"][0]["finished"], true);
  EXPECT_EQ(eval["traces"][1]["trace"], cut);
  EXPECT_THAT(eval["traces"][1]["damage"].get<std::string>(), HasSubstr("offset"));
  const std::string truth = WriteGoldenTruth(folder);
  const Json score = Json::parse(Tmprof({"score", cut, "--truth", truth, "--format", "json"}).out);
  EXPECT_THAT(score["damage"].get<std::string>(), HasSubstr("offset"));
}

TEST(CommandLine, ADamagedOrUnfinishedTruthIsRefusedUnlessItIsAskedFor) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.data");
  const std::string whole = ExactTrace(folder);
  const std::string unfinished = WithoutEndFrame(ReadFile(whole));
  for (const bool damaged : {false, true}) {
    WriteFile(cut, damaged ? unfinished + "x" : unfinished);
    const Outcome refused = Tmprof({"score", whole, "--truth", cut});
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("'" + cut + "'"), HasSubstr("--partial-truth"),
                                   HasSubstr(damaged ? "offset" : "was stopped")));
    EXPECT_THAT(refused.out, IsEmpty());
    const Outcome partial =
        Tmprof({"score", whole, "--truth", cut, "--partial-truth", "--format", "json"});
    EXPECT_EQ(partial.status, damaged ? 4 : 0) << partial.err;
    EXPECT_EQ(Json::parse(partial.out)["truth"]["damage"].is_null(), !damaged);
  }
}

TEST(CommandLine, ANameThatATerminalWouldActOnIsEscapedInMessages) {
  const Outcome outcome = Tmprof({"report", "no\x1b[31m\nsuch.data"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no\\x1b[31m\\x0asuch.data"));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1);
}

TEST(CommandLine, AConversionThatCannotBeWrittenLeavesTheFileThatWasThere) {
  const TemporaryFolder folder;
  for (const std::string to : {"csv", "oracleGeneral"}) {
    const std::string output = folder.File(to);
    WriteFile(output, "before");
    const std::string limited = "ulimit -f 1; trap '' XFSZ; exec " + TmprofPath() + " convert " +
                                ExactTrace(folder) + " --to " + to + " -o " + output;
    const Outcome outcome = RunProgram({"sh", "-c", limited});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("EFBIG"));
    EXPECT_EQ(ReadFile(output), "before");
  }
}

TEST(CommandLine, ALedgerInPlaceOfATraceIsRefusedAsALedger) {
  const TemporaryFolder folder;
  std::vector<std::vector<std::string>> commands = Readers(folder, GoldenLedger());
  commands.push_back({"score", GoldenTrace(), "--truth", GoldenLedger()});
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 2) << command[0];
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("v1.tmprof.ledger"), HasSubstr("a tmprof ledger"),
                                   HasSubstr("--view moves")))
        << command[0];
    EXPECT_THAT(outcome.out, IsEmpty()) << command[0];
  }
}

TEST(CommandLine, APipeInPlaceOfATraceIsRefusedAsAPipe) {
  const TemporaryFolder folder;
  for (const std::vector<std::string>& command : Readers(folder, "/dev/stdin")) {
    std::string line = "cat " + GoldenTrace() + " | " + TmprofPath();
    for (const std::string& argument : command) line += " " + argument;
    const Outcome outcome = RunProgram({"sh", "-c", line});
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("'/dev/stdin'"), HasSubstr("a pipe"),
                                   HasSubstr("save it to a file")))
        << line;
  }
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

TEST(Report, ATraceOfAFutureVersionIsBadInput) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("t.data");
  const std::uint32_t future = kTraceFormat.version + 1;
  const std::string preamble = EncodePreamble(kTraceFormat.magic, future);
  WriteFile(trace, preamble + ReadFile(GoldenTrace()).substr(preamble.size()));
  for (const std::string command : {"report", "eval"}) {
    const Outcome outcome = Tmprof({command, trace});
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("t.data"), HasSubstr("version 3"))) << command;
  }
}

TEST(Report, AnEmptyFileIsBadInput) {
  const Outcome outcome = Tmprof({"report", "/dev/null"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/dev/null"), HasSubstr("empty")));
}

TEST(Report, EpochsBeforeTheDamageAreReportedWithAWarningAndAStatusOfItsOwn) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.data");
  const std::string whole = ReadFile(GoldenTrace());
  WriteFile(cut, whole.substr(0, whole.size() - 40));
  const Outcome outcome = Tmprof({"report", cut, "--view", "summary", "--format", "json"});
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  EXPECT_GE(Json::parse(outcome.out)["epochs"].get<int>(), 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning"), HasSubstr("cut.data"), HasSubstr("offset")));
}

// A finished trace of epochs 0, 1, 4 and 6.
std::string TraceWithLosses(const TemporaryFolder& folder) {
  const std::string path = folder.File("losses.data");
  auto writer = TraceWriter::Create(path, TraceInfo{});
  EXPECT_TRUE(writer.has_value());
  for (const std::uint64_t index : {0u, 1u, 4u, 6u}) {
    EpochProfile epoch;
    epoch.index = index;
    epoch.start = MonotonicTime(std::chrono::seconds(index));
    epoch.end = MonotonicTime(std::chrono::seconds(index + 1));
    epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
    Append(epoch.pages, {.key = {TargetId(0), Vpn(5)}, .accesses = AccessCounts{.loads = 3}});
    EXPECT_TRUE(writer->Write(epoch).has_value());
  }
  EXPECT_TRUE(writer->Finish().has_value());
  return path;
}

TEST(Report, EveryViewHasJsonThatTellsDamageAndLostEpochs) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut");
  std::vector<std::string> names;
  for (const View& view : Views()) names.emplace_back(view.name);
  if (kHasObjects) names.emplace_back("objects");
  ASSERT_GE(names.size(), 9u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const bool is_of_ledger = name == "moves";
    const std::string whole = is_of_ledger ? GoldenLedger() : TraceWithLosses(folder);
    const auto report = [&](const std::string& file, int status) {
      const Outcome outcome = Tmprof({"report", file, "--view", name, "--format", "json"});
      EXPECT_EQ(outcome.status, status) << outcome.err;
      return Json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
    };
    const Json complete = report(whole, 0);
    EXPECT_TRUE(complete.at("damage").is_null());
    EXPECT_EQ(complete.at("finished"), true);
    EXPECT_EQ(complete.at("lost_epochs"), is_of_ledger ? 1 : 3) << "the ledger has epochs 0, 2, 3";

    const std::string unfinished = WithoutEndFrame(ReadFile(whole));
    WriteFile(cut, unfinished);
    EXPECT_EQ(report(cut, 0).at("finished"), false);

    WriteFile(cut, unfinished.substr(0, unfinished.size() - 1));
    const Json damaged = report(cut, 4);
    EXPECT_THAT(damaged.at("damage").get<std::string>(), HasSubstr("offset"));
    EXPECT_TRUE(damaged.at("finished").is_null());
    EXPECT_EQ(damaged.at("lost_epochs"), is_of_ledger ? 1 : 2) << "the last epoch is cut off";
  }
}

// Each command that reads a trace, in all formats that it has.
TEST(CommandLine, LinesEndWithALineFeedAlone) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const std::string truth = WriteGoldenTruth(folder);
  for (const std::string& file : {GoldenTrace(), trace}) {
    std::vector<std::vector<std::string>> commands = {{"convert", file, "--to", "csv"}};
    for (const std::string format : {"text", "json", "csv"}) {
      commands.push_back({"eval", file, "--format", format});
      commands.push_back({"score", file, "--truth", truth, "--format", format});
      if (format != "csv" && kHasObjects)
        commands.push_back({"advise", "--objects", file, "--format", format});
      commands.push_back({"report", GoldenLedger(), "--view", "moves", "--format", format});
    }
    for (const std::vector<std::string>& command : commands) {
      const Outcome outcome = Tmprof(command);
      SCOPED_TRACE(command[0] + " " + command.back());
      if (command[0] != "score") {
        EXPECT_EQ(outcome.status, 0) << outcome.err;
      }
      EXPECT_EQ(outcome.out.find('\r'), std::string::npos);
      EXPECT_TRUE(std::ranges::none_of(outcome.out, [](unsigned char c) {
        return (c < 0x20 && c != '\n') || c == 0x7f;
      })) << outcome.out;
    }
  }
}

TEST(Report, GroupsInPlaceOfEvidenceAreRefusedWithTheOptionThatTakesThem) {
  for (const std::string group : {"mapping", "process", "object", "file"}) {
    const Outcome outcome = Tmprof({"report", GoldenTrace(), "--view", "hot", "--by", group});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("--by " + group), HasSubstr("'--view hot --group " + group + "'")));
    if (group == "object" && !kHasObjects) continue;
    EXPECT_EQ(Tmprof({"report", GoldenTrace(), "--view", "hot", "--group", group}).status, 0);
  }
}

TEST(Report, TheCurveTellsHowMuchFastMemoryIsEnough) {
  const TemporaryFolder folder;
  const std::string trace = ExactTrace(folder);
  const std::string png = folder.File("curve.png");
  const Outcome text = Tmprof({"report", trace, "--view", "curve", "--png", png});
  EXPECT_EQ(text.status, 0) << text.err;
  // All of the 64 pages are equally hot.
  EXPECT_THAT(text.out,
              HasSubstr("The best placement needs 128 KiB of fast memory to serve 50 % of "
                        "the accesses, "));
  EXPECT_THAT(ReadFile(png), StartsWith("\x89PNG"));
  const Outcome json = Tmprof({"report", trace, "--view", "curve", "--format", "json"});
  EXPECT_EQ(Json::parse(json.out)["points"].back()["best"]["value"], 1.0);
  const Outcome memory = Tmprof({"report", trace, "--view", "curve", "--by", "memory"});
  EXPECT_EQ(memory.status, 2);
  EXPECT_THAT(memory.err, HasSubstr("no accessed bit was read"));
  EXPECT_THAT(memory.out, IsEmpty());
}

TEST(Curve, RefusesWhatCannotBeRecorded) {
  const Outcome of_nobody = Tmprof({"curve"});
  EXPECT_EQ(of_nobody.status, 2);
  EXPECT_THAT(of_nobody.err, AllOf(HasSubstr("no process was named"), HasSubstr("--all"),
                                   HasSubstr("tmprof report --view curve")));
  const Outcome of_both = Tmprof({"curve", "--all", "-p", "1"});
  EXPECT_EQ(of_both.status, 2);
  EXPECT_THAT(of_both.err, HasSubstr("both -p and --all"));
  EXPECT_EQ(Tmprof({"curve", "--all", "--duration", "0s"}).status, 2);
}

TEST(Report, MovesOfALedgerHaveEveryFormat) {
  const Outcome json = Tmprof({"report", GoldenLedger(), "--view", "moves", "--format", "json"});
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["promotions"]["moves"], 301);
  EXPECT_THAT(json.err, IsEmpty());
  EXPECT_THAT(Tmprof({"report", GoldenLedger(), "--view", "moves", "--format", "csv"}).out,
              StartsWith("key,value\n"));
  EXPECT_THAT(Tmprof({"report", GoldenLedger(), "--view", "moves", "--ping-pong", "1"}).out,
              HasSubstr("0 moves undid one of at most 1 epoch before"));
}

TEST(Report, MovesAreOfALedgerThatIsNamed) {
  const Outcome trace = Tmprof({"report", GoldenTrace(), "--view", "moves"});
  EXPECT_EQ(trace.status, 2);
  EXPECT_THAT(trace.err, AllOf(HasSubstr("v1.tmprof.data"), HasSubstr("it is a tmprof trace")));
  const Outcome unnamed = Tmprof({"report", "--view", "moves"});
  EXPECT_EQ(unnamed.status, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("name the ledger"));
  const Outcome picture = Tmprof({"report", GoldenLedger(), "--view", "moves", "--png", "x.png"});
  EXPECT_EQ(picture.status, 2);
  EXPECT_THAT(picture.err, HasSubstr("this view has none"));
}

TEST(Report, ALedgerThatWasNotFinishedIsReadWithAWarning) {
  const TemporaryFolder folder;
  const std::string cut = folder.File("cut.ledger");
  const std::string before = WithoutEndFrame(ReadFile(GoldenLedger()));
  WriteFile(cut, before);
  const Outcome open = Tmprof({"report", cut, "--view", "moves"});
  EXPECT_EQ(open.status, 0);
  EXPECT_THAT(open.err, AllOf(HasSubstr("ledger file '" + cut + "'"), HasSubstr("still runs"),
                              HasSubstr("byte offset " + std::to_string(before.size()))));
  WriteFile(cut, before.substr(0, before.size() - 1));
  const Outcome damaged = Tmprof({"report", cut, "--view", "moves", "--format", "json"});
  EXPECT_EQ(damaged.status, 4);
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("warning"), HasSubstr("reported is what comes before")));
  EXPECT_EQ(Json::parse(damaged.out)["epochs"], 2);
}

TEST(Report, AnOptionThatTheViewDoesNotReadIsRefusedByName) {
  const std::vector<std::vector<std::string>> unread = {
      {"summary", "--limit", "5"},
      {"summary", "--pid", "1"},
      {"summary", "--by", "samples"},
      {"summary", "--rank-model", "sum"},
      {"summary", "--addresses", "0-1000"},
      {"coverage", "--by", "samples"},
      {"hot", "--addresses", "0-1000"},
      {"heatmap", "--limit", "5"},
      {"hot", "--style", "whole"},
      {"cdf", "--ping-pong", "3"},
      {"cdf", "--pid", "1"},
      {"hot", "--rates", "10"},
      {"curve", "--rank-model", "sum"},
      {"cdf", "--limit", "20"},  // though it is the default
  };
  for (const std::vector<std::string>& option : unread) {
    const Outcome outcome =
        Tmprof({"report", GoldenTrace(), "--view", option[0], option[1], option[2]});
    EXPECT_EQ(outcome.status, 2) << option[0] << option[1];
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("'" + option[1] + "'"), HasSubstr("the " + option[0] + " view")));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(Report, TellsTheWorkingSetAtTheRatesAskedFor) {
  const Outcome outcome =
      Tmprof({"report", GoldenTrace(), "--view", "wss", "--rates", "50,0.5", "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json sizes = Json::parse(outcome.out)["working_set"];
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0]["at_least_per_s"], 0.5);
  EXPECT_GE(sizes[0]["pages"], sizes[1]["pages"]);
}

TEST(Report, RefusesRatesThatAreNoNumberAboveZeroOrTwiceTheSame) {
  for (const std::string rates :
       {"0", "-1", "x", "5,5", "nan", "inf", "-inf", "1e999", "", "5,", ",5", "1,,2"}) {
    const Outcome outcome = Tmprof({"report", GoldenTrace(), "--view", "wss", "--rates", rates});
    EXPECT_EQ(outcome.status, 2) << rates;
    EXPECT_THAT(outcome.err, HasSubstr("--rates"));
    EXPECT_THAT(outcome.out, IsEmpty());
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
  for (const std::string view : {"summary", "hot", "coverage", "heatmap", "cdf", "curve", "wss"}) {
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

TEST(Eval, TakesCapacitiesInBytes) {
  const Outcome outcome = Tmprof(
      {"eval", GoldenTrace(), "--fast", "8KiB,1GiB", "--policy", "oracle", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json results = Json::parse(outcome.out)["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["capacity_bytes"], 8192);
  EXPECT_TRUE(results[0]["ratio"].is_null());
  EXPECT_EQ(results[1]["capacity_bytes"], 1 << 30);
  EXPECT_EQ(results[1]["hit_rate"], 1.0);
  EXPECT_THAT(Tmprof({"eval", GoldenTrace(), "--fast", "8KiB"}).out,
              AllOf(HasSubstr("by capacity of tier 1"), HasSubstr("8 KiB"), Not(HasSubstr("1/"))));
}

TEST(Eval, HeadsColumnsOfBothTablesWithRatioAndBytes) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const std::string text = Tmprof({"eval", trace, "--ratio", "1/2,1/4"}).out;
  for (const std::string_view row : {"policy", "hit rate  "}) {
    const std::size_t at = text.find("\n" + std::string(row));
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_THAT(text.substr(at + 1, text.find('\n', at + 1) - at),
                AllOf(HasSubstr("  1/2 = 256 KiB"), HasSubstr("  1/4 = 128 KiB")));
  }
  EXPECT_THAT(TitlesWithoutUnit(text), IsEmpty()) << text;
}

TEST(Eval, TellsInJsonWhatRatiosOfHitRatesAreOf) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder, PageCount(256));
  const auto row = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", trace, "--format", "json"});
    return Json::parse(Tmprof(more).out)["hit_rates"][0];
  };
  EXPECT_EQ(row({"--ratio", "1/2"})["ratio_of"], "footprint");
  const Json resident = row({"--ratio", "1/2", "--of", "resident"});
  EXPECT_EQ(resident["ratio_of"], "resident");
  EXPECT_EQ(resident["capacity_pages"], 128);
  EXPECT_TRUE(row({"--fast", "8KiB"})["ratio_of"].is_null());
}

TEST(Eval, OneSampleNeverSaysAHundredPercent) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("one.data");
  EpochProfile epoch;
  epoch.end = MonotonicTime(std::chrono::seconds(1));
  epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .load_samples = 1});
  auto writer = TraceWriter::Create(trace, TraceInfo{});
  ASSERT_TRUE(writer.has_value() && writer->Write(epoch).has_value() &&
              writer->Finish().has_value());
  const Outcome text = Tmprof({"eval", trace});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("? %"), Not(HasSubstr("100 %")),
                    HasSubstr("\n?: too little was seen to tell: the judge goes by samples, of "
                              "which 1 was seen; it takes 30\n")));
  const Json json = Json::parse(Tmprof({"eval", trace, "--format", "json"}).out);
  EXPECT_EQ(json["results"][0]["hit_rate"], 1.0);
  EXPECT_EQ(json["results"][0]["told"], false);
  EXPECT_EQ(json["traces"][0]["observations"], 1);
  EXPECT_THAT(Tmprof({"eval", trace, "--format", "csv"}).out,
              AllOf(HasSubstr(",told\n"), HasSubstr(",false\n"), Not(HasSubstr(",true\n"))));
  EXPECT_EQ(
      Json::parse(
          Tmprof({"eval", TraceWithMisses(folder), "--format", "json"}).out)["results"][0]["told"],
      true);
}

TEST(Eval, RefusesCapacitiesThatAreNoneOrBesideRatios) {
  const std::vector<std::vector<std::string>> bad = {{"--fast", "0"},
                                                     {"--fast", "4095"},
                                                     {"--fast", "x"},
                                                     {"--fast", "8KiB,8KiB"},
                                                     {"--fast", "8KiB", "--ratio", "1/8"},
                                                     {"--fast", "8KiB", "--of", "resident"}};
  for (std::vector<std::string> arguments : bad) {
    arguments.insert(arguments.begin(), {"eval", GoldenTrace()});
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments.back();
    EXPECT_THAT(outcome.err, HasSubstr("--fast"));
  }
}

// The exact trace has pages 1 to 64, each accessed three times.
TEST(Eval, CountsThePagesInARangeOfAddressesAlone) {
  const TemporaryFolder folder;
  const std::string trace = ExactTrace(folder);
  const std::vector<std::string> arguments{"eval",    trace, "--policy", "oracle",
                                           "--ratio", "1/4", "--format", "json"};
  const auto total = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    const Outcome outcome = Tmprof(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["results"][0];
  };
  EXPECT_EQ(total({})["weight_total"], 3 * 64);
  const Json part = total({"--addresses", "0x1000-0x5000,9000-a000"});
  EXPECT_EQ(part["weight_total"], 3 * 5);
  EXPECT_EQ(part["capacity_pages"], 1);
  EXPECT_EQ(Tmprof({"eval", trace, "--addresses", "5000-1000"}).status, 2);
  EXPECT_EQ(Tmprof({"eval", trace, "--addresses", "1000-2000", "--of", "resident"}).status, 2);
  EXPECT_THAT(Tmprof({"eval", trace, "--addresses", "a0000-b0000"}).err,
              HasSubstr("no page was seen accessed"));
}

TEST(Eval, ChecksHitRatesByTheTruthOfAWorkload) {
  const TemporaryFolder folder;
  const std::string truth = folder.File("truth.json");
  // The trace's first range weighs three quarters.
  WriteFile(truth, R"({"phases": [{"t_start_ns": 0, "t_end_ns": 9000000000000, "ranges": [
    {"start": 139637976727552, "end": 139637976731648, "weight": 3},
    {"start": 139637976731648, "end": 139637976735744, "weight": 1}]}]})");
  const std::vector<std::string> arguments{"eval",    GoldenTrace(), "--fast",  "4KiB,1GiB",
                                           "--truth", truth,         "--format"};
  const auto run = [&](const std::string& format) {
    std::vector<std::string> all = arguments;
    all.push_back(format);
    const Outcome outcome = Tmprof(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const Json rates = Json::parse(run("json"))["hit_rates"];
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0]["truth"]["best"], 0.75);
  EXPECT_EQ(rates[1]["truth"]["best"], 1.0);
  EXPECT_EQ(rates[1]["truth"]["ranked"], 1.0);
  EXPECT_EQ(rates[1]["truth"]["history"], 1.0);
  EXPECT_THAT(run("text"), AllOf(HasSubstr("truth: best"), HasSubstr("75 %")));
  EXPECT_THAT(run("csv"), HasSubstr(",truth_best,truth_ranked,truth_history"));
  const Outcome of_trace = Tmprof({"eval", GoldenTrace(), "--truth", ExactTrace(folder)});
  EXPECT_EQ(of_trace.status, 2);
  EXPECT_THAT(of_trace.err, HasSubstr("convert --beside"));
  const Outcome unchecked = Tmprof({"eval", GoldenTrace(), "--truth", truth, "--judge", "samples"});
  EXPECT_EQ(unchecked.status, 2);
  EXPECT_THAT(unchecked.err, AllOf(HasSubstr("--truth"), HasSubstr("samples")));
}

TEST(Eval, NamesABadFileAndKeepsTheOthers) {
  const TemporaryFolder folder;
  const std::string empty = EmptyTrace(folder);
  const Outcome outcome = Tmprof({"eval", empty, GoldenTrace(), "--format", "json"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("'" + empty + "'"), HasSubstr("no complete epoch")));
  const Json all = Json::parse(outcome.out);
  EXPECT_THAT(all["traces"][0]["refused"].get<std::string>(), HasSubstr("no complete epoch"));
  EXPECT_TRUE(all["traces"][0]["damage"].is_null());
  EXPECT_TRUE(all["traces"][1]["refused"].is_null());
  ASSERT_FALSE(all["results"].empty());
  for (const Json& row : all["results"]) EXPECT_EQ(row["trace"], GoldenTrace());
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

TEST(Eval, GivesARowPerPolicyRankAndRatio) {
  const Outcome outcome =
      Tmprof({"eval", GoldenTrace(), "--policy", "first_touch,oracle", "--ratio", "1/2,1/4",
              "--rank", "references,combined", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json all = Json::parse(outcome.out);
  EXPECT_EQ(all["rank_model"], "rate");
  EXPECT_EQ(all["half_life"], "learned");
  const Json& results = all["results"];
  EXPECT_EQ(results.size(), 2u * 2 * 2);
  for (const Json& row : results) {
    for (const char* field : {"trace", "policy", "rank", "judge", "ratio", "capacity_pages",
                              "epochs", "hit_rate", "weight_hit", "weight_total", "moved_pages"}) {
      EXPECT_TRUE(row.contains(field)) << field;
    }
    EXPECT_GE(row["capacity_pages"].get<int>(), 1);
  }
}

TEST(Eval, TellsThreeHitRatesWithTheirIntervalsForEachRatio) {
  const std::vector<std::string> eval{"eval",    GoldenTrace(), "--ratio",
                                      "1/2,1/4", "--judge",     "accesses"};
  const auto show = [&](const char* format) {
    std::vector<std::string> arguments = eval;
    arguments.insert(arguments.end(), {"--format", format});
    return Tmprof(arguments).out;
  };
  const Json all = Json::parse(show("json"));
  ASSERT_EQ(all["hit_rates"].size(), 2u);
  for (const Json& row : all["hit_rates"]) {
    EXPECT_EQ(row["capacity_bytes"].get<int>(), 4096 * row["capacity_pages"].get<int>());
    EXPECT_GT(row["pages"].get<int>(), 0);
    for (const char* rate : {"oracle_curve", "attainable", "history_judged_apart"}) {
      ASSERT_TRUE(row.contains(rate)) << rate;
      if (row[rate].is_null()) continue;
      EXPECT_LE(row[rate]["low"].get<double>(), row[rate]["value"].get<double>()) << rate;
      EXPECT_GE(row[rate]["high"].get<double>(), row[rate]["value"].get<double>()) << rate;
    }
  }
  for (const Json& row : all["results"]) EXPECT_EQ(row["judge"], "combined");
  EXPECT_THAT(show("csv"), HasSubstr(",half_life,capacity_bytes,oracle_curve,oracle_curve_low,"
                                     "oracle_curve_high,attainable,"));
  EXPECT_THAT(show("text"), HasSubstr("best placement"));
}

TEST(Eval, GoesByTheBestEvidenceOfTheTraceUnlessToldOtherwise) {
  const std::vector<std::string> eval{"eval", GoldenTrace(), "--ratio", "1/2", "--format"};
  const auto show = [&](const char* format) {
    std::vector<std::string> arguments = eval;
    arguments.emplace_back(format);
    return Tmprof(arguments).out;
  };
  // The golden trace has accessed bits and samples.
  const Json results = Json::parse(show("json"))["results"];
  EXPECT_EQ(results.size(), 3u);  // the policies
  for (const Json& row : results) {
    EXPECT_EQ(row["rank"], "combined");
    EXPECT_EQ(row["judge"], "combined");
  }
  EXPECT_THAT(show("csv"), HasSubstr(",oracle,combined,combined,"));
  EXPECT_THAT(show("text"), HasSubstr("judged by combined"));
}

TEST(Eval, TellsNoHitRatesWhereTheJudgeIsExact) {
  const Outcome outcome = Tmprof({"eval", GoldenTrace(), "--judge", "truth", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(Json::parse(outcome.out)["hit_rates"].empty());
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

TEST(Eval, NamesTheHalfLifeInForceInEveryFormat) {
  for (const auto& [option, half_life] : {std::pair("--half-life=2500ms", "2.5s"),
                                          {"--half-life=none", "none"},
                                          {"--half-life=learned", "learned"},
                                          {"--rank-model=rate", "learned"},
                                          {"--rank-model=sum", "none"}}) {
    const auto show = [&option](const std::string& format) {
      return Tmprof({"eval", GoldenTrace(), option, "--format", format}).out;
    };
    EXPECT_EQ(Json::parse(show("json"))["half_life"], half_life);
    EXPECT_THAT(show("csv"), HasSubstr(std::string(",") + half_life + ","));
    EXPECT_THAT(show("text"), HasSubstr(std::string("half-life ") + half_life + "\n"));
  }
}

TEST(Eval, GoesByAccessesToMemoryWhereMissesWereSampled) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const auto show = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", trace, "--ratio", "1/2", "--policy", "history"});
    const Outcome outcome = Tmprof(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const Json memory = Json::parse(show({"--format", "json"}));
  EXPECT_EQ(memory["results"][0]["rank"], "memory");
  EXPECT_EQ(memory["results"][0]["judge"], "memory");
  EXPECT_EQ(memory["hit_rates"][0]["of"], "memory");
  EXPECT_GT(memory["hit_rates"][0]["oracle_curve"]["value"], 0.9);
  EXPECT_EQ(memory["hit_rates"][0]["history_judged_apart"]["value"], 1.0);
  EXPECT_NEAR(memory["traces"][0]["accesses_to_memory_per_cpu_second"], 1'280'000, 1);
  EXPECT_THAT(show({}),
              AllOf(HasSubstr("hit rates count accesses to memory\n"),
                    HasSubstr("judged by memory"), HasSubstr("Hit rates of accesses to memory")));
  EXPECT_THAT(show({"--latency-gap", "200ns"}),
              AllOf(HasSubstr("25.6 %"), HasSubstr("200 ns slower below tier 1 (given)")));
  const Json given = Json::parse(show({"--latency-gap", "200ns", "--format", "json"}));
  EXPECT_NEAR(given["traces"][0]["memory_time_share"], 0.256, 1e-6);
  EXPECT_EQ(given["traces"][0]["latency_gap_ns"], 200);
  EXPECT_EQ(given["traces"][0]["latency_gap_basis"], "given");
  EXPECT_EQ(memory["traces"][0]["latency_gap_basis"], "assumed");
  const Json accesses =
      Json::parse(show({"--judge", "accesses", "--rank", "memory", "--format", "json"}));
  EXPECT_EQ(accesses["hit_rates"][0]["of"], "accesses");
  EXPECT_LT(accesses["results"][0]["hit_rate"], 0.5) << "the fast pages are left out";
}

TEST(Eval, TellsTheCurveOfTheReportInEveryFormat) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder, PageCount(128));
  const auto show = [&](const std::string& format, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"eval", trace, "--curve", "--format", format};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const Json all = Json::parse(show("json"));
  ASSERT_EQ(all["curves"].size(), 1u);
  const Json& curve = all["curves"][0];
  EXPECT_EQ(curve["trace"], trace);
  EXPECT_EQ(curve["of"], "accesses to memory");
  const Outcome report = Tmprof({"report", trace, "--view", "curve", "--format", "json"});
  EXPECT_EQ(curve["points"], Json::parse(report.out)["points"]) << "one definition";
  EXPECT_EQ(curve["points"].back()["share"], 1.0);
  EXPECT_EQ(curve["points"].back()["capacity_bytes"], 128 * 4096);
  for (const Json& point : curve["points"]) {
    for (const char* rate : {"best", "ranked"}) {
      EXPECT_LE(point[rate]["low"].get<double>(), point[rate]["value"].get<double>());
      EXPECT_GE(point[rate]["high"].get<double>(), point[rate]["value"].get<double>());
    }
  }
  // The 64 pages that miss have all that reaches memory.
  EXPECT_THAT(show("text"), AllOf(StartsWith(trace + "\n"), HasSubstr("accesses to memory"),
                                  HasSubstr("256 KiB"), HasSubstr("this ranking")));
  const std::string csv = show("csv");
  EXPECT_THAT(csv, AllOf(StartsWith("trace,by,of,share,capacity_pages,capacity_bytes,best,best_low,"
                                    "best_high,ranked,"),
                         HasSubstr("\n" + trace + ",memory,accesses to memory,0.5,64,262144,")));
  EXPECT_EQ(Json::parse(show("json", {"--judge", "accesses"}))["curves"][0]["of"], "accesses");
  // Half of the pages, those that do not miss.
  const Json part = Json::parse(show("json", {"--judge", "accesses", "--addresses", "0-0x41000"}));
  EXPECT_EQ(part["curves"][0]["whole_pages"], 64);
}

TEST(Eval, TellsTheCurvesOfTheOtherTracesIfOneIsRefused) {
  const TemporaryFolder folder;
  const std::string missing = folder.File("missing.data");
  const Outcome outcome = Tmprof({"eval", GoldenTrace(), missing, "--curve", "--format", "json"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr(missing));
  const Json all = Json::parse(outcome.out);
  ASSERT_EQ(all["curves"].size(), 1u);
  EXPECT_EQ(all["curves"][0]["trace"], GoldenTrace());
  ASSERT_EQ(all["traces_without"].size(), 1u);
  EXPECT_EQ(all["traces_without"][0]["trace"], missing);
}

TEST(Eval, APointOfTheCurveIsWhatIsToldAtThatCapacity) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder, PageCount(128));
  const auto all_of = [&](const std::string& half_life, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", trace, "--judge", "accesses", "--half-life", half_life,
                               "--format", "json"});
    const Outcome outcome = Tmprof(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json all = Json::parse(outcome.out);
    EXPECT_EQ(all["half_life"], half_life);
    return all;
  };
  std::vector<Json> of_half_life;
  for (const std::string half_life : {"none", "3600s"}) {
    const Json points = all_of(half_life, {"--curve"})["curves"][0]["points"];
    const auto half = std::ranges::find_if(
        points, [](const Json& point) { return point["capacity_pages"] == 64; });
    ASSERT_NE(half, points.end());
    const Json told = all_of(half_life, {"--fast", "256KiB"})["hit_rates"][0];
    EXPECT_EQ((*half)["ranked"], told["attainable"]);
    EXPECT_EQ((*half)["best"], told["oracle_curve"]);
    of_half_life.push_back((*half)["ranked"]);
  }
  EXPECT_NE(of_half_life[0], of_half_life[1]) << "one epoch tells less than three";
}

TEST(Eval, RefusesOptionsThatTheCurveDoesNotRead) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--policy", "oracle"},
                                             {"--ratio", "1/8"},
                                             {"--fast", "1MiB"},
                                             {"--of", "resident"},
                                             {"--rank", "combined"},
                                             {"--latency-gap", "200ns"},
                                             {"--truth", "/dev/null"}}) {
    std::vector<std::string> arguments{"eval", GoldenTrace(), "--curve"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << more.front();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--curve"), HasSubstr(more.front())));
  }
  const Outcome sum = Tmprof({"eval", GoldenTrace(), "--curve", "--rank-model", "sum"});
  EXPECT_EQ(sum.status, 2);
  EXPECT_THAT(sum.err, HasSubstr("choose '--rank-model rate'"));
}

// A sample stands for 10 000 accesses to memory in a second of CPU time, each of which takes 100 ns
// longer: 0.1 % of the time.
TEST(Eval, SaysFirstWhatPlacementCanSave) {
  const TemporaryFolder folder;
  const auto first_line = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    const std::string out = Tmprof(arguments).out;
    return out.substr(0, out.find('\n'));
  };
  const auto memory_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    arguments.insert(arguments.end(), {"--format", "json"});
    return Json::parse(Tmprof(arguments).out)["traces"][0];
  };
  const std::string trace = TraceWithMisses(folder);
  EXPECT_EQ(first_line({trace}),
            trace +
                ": placement can save at most 12.8 % of the CPU time: 1 280 000 accesses to memory "
                "per CPU second (384 samples), each 100 ns slower below tier 1 (assumed; set "
                "--latency-gap). Overlapping accesses save less.");
  EXPECT_EQ(memory_of({trace})["accesses_to_memory_basis"], "samples");
  EXPECT_THAT(first_line({GoldenTrace()}),
              StartsWith(GoldenTrace() + ": what placement can save is unknown: it takes samples"));
  const Outcome outcome = Tmprof({"eval", GoldenTrace(), "--latency-gap", "0ns"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--latency-gap"));
  // CPU time is not that of the part.
  EXPECT_THAT(first_line({trace, "--addresses", "0x1000-0x81000"}),
              StartsWith(trace + ": hit rates count "));
  EXPECT_TRUE(memory_of({trace, "--addresses", "0x1000-0x81000"})["memory_time_share"].is_null());
}

TEST(Eval, ThirtySamplesTellWhatPlacementCanSave) {
  const TemporaryFolder folder;
  const auto show = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    return Tmprof(arguments).out;
  };
  const std::string few = TraceWithMisses(folder, std::nullopt, 4);
  EXPECT_THAT(show({few}), HasSubstr("what placement can save is unknown: 24 accesses to memory "
                                     "were sampled; it takes 30, or --llc\n"));
  EXPECT_THAT(show({few, "--llc", "4KiB"}), HasSubstr("placement can save about "));
  EXPECT_THAT(show({few, "--llc", "4KiB", "--judge", "references"}),
              HasSubstr("unknown: the model of the cache tells it if hit rates are judged by "
                        "memory, not references\n"));
  const Json unknown = Json::parse(show({few, "--format", "json"}))["traces"][0];
  EXPECT_EQ(unknown["samples_of_memory"], 24);
  for (const char* key :
       {"accesses_to_memory_per_cpu_second", "accesses_to_memory_basis", "memory_time_share"})
    EXPECT_TRUE(unknown[key].is_null()) << key;
  EXPECT_THAT(show({TraceWithMisses(folder, std::nullopt, 5)}),
              HasSubstr("100 000 accesses to memory per CPU second (30 samples)"));
}

TEST(Eval, ACounterOfMissesTellsWhatPlacementCanSave) {
  const TemporaryFolder folder;
  const std::string trace = folder.File("counted.data");
  EpochProfile epoch;
  epoch.end = MonotonicTime(std::chrono::seconds(2));
  epoch.sources = {{.name = "clock",
                    .role = SourceRole::kSamples,
                    .state = SourceState::kActive,
                    .samples_of = SampleSubject::kTime,
                    .observations = 0,
                    .details = {{std::string(kCountedMisses), 6'000'000}}}};
  epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
  epoch.targets.front().cpu_time = std::chrono::seconds(2);
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .looks = 9, .references = 9});
  auto writer = TraceWriter::Create(trace, TraceInfo{});
  ASSERT_TRUE(writer.has_value() && writer->Write(epoch).has_value() &&
              writer->Finish().has_value());
  EXPECT_THAT(
      Tmprof({"eval", trace}).out,
      StartsWith(trace + ": placement can save at most 30 % of the CPU time: 3 000 000 loads from "
                         "memory per CPU second (counted), each 100 ns slower"));
  const Json told = Json::parse(Tmprof({"eval", trace, "--format", "json"}).out)["traces"][0];
  EXPECT_EQ(told["accesses_to_memory_basis"], "counted_loads");
  EXPECT_TRUE(told["samples_of_memory"].is_null());
}

TEST(Eval, RefusesAWeightThatNeitherRanksNorJudges) {
  const auto eval = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"eval", GoldenTrace(), "--rank-weight", "accesses"});
    return Tmprof(arguments);
  };
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--rank", "combined", "--judge", "references"},
        {"--curve", "--judge", "references"}}) {
    const Outcome outcome = eval(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments.front();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--rank-weight"), HasSubstr("instead of a weight")));
  }
  EXPECT_EQ(eval({"--rank", "references"}).status, 0) << "it judges";
  EXPECT_EQ(eval({"--judge", "references"}).status, 0) << "it ranks";
}

TEST(Eval, TheCurveCountsWhatTheWeightSays) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const auto curve = [&](const std::string& weight) {
    return Json::parse(
        Tmprof({"eval", trace, "--curve", "--rank-weight", weight, "--format", "json"})
            .out)["curves"][0];
  };
  EXPECT_EQ(curve("memory")["of"], "accesses to memory");
  EXPECT_EQ(curve("accesses")["of"], "accesses");
  EXPECT_EQ(curve("references")["by"], "references");
  const std::string without = Tmprof({"eval", GoldenTrace(), "--curve"}).out;
  EXPECT_THAT(without, HasSubstr("all accesses count because those to memory are unknown"));
  EXPECT_EQ(Tmprof({"eval", trace, "--curve", "--rank-weight", "stall"}).status, 2);
}

TEST(Convert, RefusesOptionsThatTheFormatDoesNotRead) {
  const TemporaryFolder folder;
  for (const auto& [option, value] : {std::pair("--rank-weight", "memory"),
                                      {"--rank-model", "rate"},
                                      {"--llc", "1MiB"},
                                      {"--requests", "9"},
                                      {"--seed", "1"}}) {
    for (const std::string to : {"csv", "objects", "trace"}) {
      if (to == "objects" && !kHasObjects) continue;
      const Outcome outcome =
          Tmprof({"convert", GoldenTrace(), "--to", to, "-o", folder.File("out"), option, value});
      EXPECT_EQ(outcome.status, 2) << option << to;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(option), HasSubstr("it is for --to oracleGeneral")));
    }
  }
}

TEST(Eval, SaysOfHowManyPagesNothingIsKnown) {
  const TemporaryFolder folder;
  const auto show = [&](std::optional<PageCount> resident, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", TraceWithMisses(folder, resident), "--ratio", "1/2"});
    const Outcome outcome = Tmprof(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const Json row = Json::parse(
      show(PageCount(2128), {"--judge", "accesses", "--format", "json"}))["hit_rates"][0];
  EXPECT_EQ(row["pages"], 128) << "the known ones";
  EXPECT_EQ(row["unknown_pages"], 2000);
  EXPECT_LT(row["attainable"]["value"], 0.1);
  EXPECT_EQ(row["attainable"]["told"], false) << "the others may be idle";
  EXPECT_THAT(show(PageCount(2128), {"--judge", "accesses"}),
              AllOf(HasSubstr("all 2 128 pages"), HasSubstr("2 000 of these pages were neither")));
  EXPECT_THAT(show(PageCount(100), {"--judge", "accesses"}),
              AllOf(HasSubstr("the 128 pages that were looked at"), Not(HasSubstr("neither"))));
  EXPECT_EQ(
      Json::parse(show(PageCount(2128), {"--format", "json"}))["hit_rates"][0]["unknown_pages"], 0)
      << "samples tell of all pages what reaches memory";
}

TEST(Eval, ACacheOfKnownSizeTellsWhatReachesMemoryWithoutSamples) {
  const auto show = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", GoldenTrace(), "--ratio", "1/2", "--policy", "history"});
    return Tmprof(more);
  };
  const Outcome outcome = show({"--llc", "4KiB", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json modelled = Json::parse(outcome.out);
  EXPECT_EQ(modelled["llc_bytes"], 4096);
  EXPECT_GT(modelled["traces"][0]["memory_time_share"], 0.0);
  // 100 ns each.
  EXPECT_NEAR(modelled["traces"][0]["accesses_to_memory_per_cpu_second"].get<double>() * 1e-7,
              modelled["traces"][0]["memory_time_share"].get<double>(), 1e-12);
  EXPECT_EQ(modelled["traces"][0]["accesses_to_memory_basis"], "model");
  EXPECT_EQ(modelled["traces"][0]["memory_is_modelled"], true);
  EXPECT_EQ(modelled["results"][0]["rank"], "memory");
  EXPECT_EQ(modelled["hit_rates"][0]["of"], "memory");
  EXPECT_THAT(show({"--llc", "4KiB"}).out,
              AllOf(HasSubstr("by a model of the cache, without those that a prefetcher hides), "
                              "each 100 ns slower"),
                    HasSubstr("those that a last-level cache of 4 KiB has no room for"),
                    HasSubstr("judged by memory")));
  EXPECT_THAT(show({"--llc", "4KiB", "--rank", "references", "--judge", "references"}).out,
              Not(HasSubstr("has no room for")))
      << "nothing goes by memory";
  const Json without = Json::parse(show({"--format", "json"}).out);
  EXPECT_EQ(without["traces"][0]["memory_is_modelled"], false);
  EXPECT_TRUE(without["llc_bytes"].is_null());

  const Outcome too_small = show({"--llc", "1KiB"});
  EXPECT_EQ(too_small.status, 2);
  EXPECT_THAT(too_small.err, HasSubstr("a cache holds a page of 4 KiB at least"));
  const Outcome sum = show({"--llc", "1MiB", "--rank-model", "sum"});
  EXPECT_EQ(sum.status, 2);
  EXPECT_THAT(sum.err, HasSubstr("choose '--rank-model rate'"));
}

TEST(Report, ViewsOfMemoryGoByAModelOfTheCache) {
  for (const std::string view : {"hot", "heatmap", "nodes", "curve", "cdf"}) {
    const Outcome outcome =
        Tmprof({"report", GoldenTrace(), "--view", view, "--llc", "4KiB", "--format", "json"});
    EXPECT_EQ(outcome.status, 0) << view << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("\"memory\"")) << view;
  }
  EXPECT_THAT(Tmprof({"report", GoldenTrace(), "--view", "hot", "--llc", "4KiB"}).out,
              AllOf(HasSubstr("by a model of the cache"), HasSubstr("cache of 4 KiB")));
  EXPECT_THAT(Tmprof({"report", GoldenTrace(), "--view", "cdf", "--llc", "4KiB"}).out,
              HasSubstr("share of the accesses to memory that the hottest pages hold, by memory"));
  const Outcome of_wss = Tmprof({"report", GoldenTrace(), "--view", "wss", "--llc", "4KiB"});
  EXPECT_EQ(of_wss.status, 2);
  EXPECT_THAT(of_wss.err, HasSubstr("the wss view does not read it"));
}

TEST(RankWeight, IsOneDefinitionOfAllThatRank) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const auto weight_of = [&](std::vector<std::string> command) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 0) << command[0] << outcome.err;
    const Json json = Json::parse(outcome.out);
    if (json.contains("rank_weight")) return json["rank_weight"];
    return json[json.contains("curves") ? "curves" : "traces"][0]["rank_weight"];
  };
  std::vector<std::vector<std::string>> commands = {
      {"report", trace, "--view", "hot"}, {"report", trace, "--view", "heatmap"},
      {"report", trace, "--view", "cdf"}, {"report", trace, "--view", "nodes"},
      {"eval", trace, "--ratio", "1/2"},  {"report", trace, "--view", "curve"},
      {"eval", trace, "--curve"},
  };
  if (kHasLocking) commands.push_back({"advise", "--mlock", trace});
  if (kHasObjects) {
    commands.push_back({"report", trace, "--view", "objects"});
    commands.push_back({"advise", "--objects", trace});
  }
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--format", "json"});
    const bool locks = command[1] == "--mlock";
    EXPECT_EQ(weight_of(command), locks ? "accesses" : "memory") << command[0] << command[3];
    command.insert(command.end(), {"--rank-weight", "memory"});
    EXPECT_EQ(weight_of(command), "memory") << command[0] << command[3];
    command.back() = "accesses";
    EXPECT_EQ(weight_of(command), "accesses") << command[0] << command[3];
    command.back() = "stall";
    const Outcome stall = Tmprof(command);
    EXPECT_EQ(stall.status, 2) << command[0] << stall.out;
    EXPECT_THAT(stall.err, HasSubstr("none of its epochs tells how long accesses stalled"));
    EXPECT_THAT(stall.err, HasSubstr("--exact-stalls"));
  }
  const std::string requests = folder.File("requests");
  const auto convert = [&](const std::string& weight) {
    return Tmprof(
        {"convert", trace, "--to", "oracleGeneral", "-o", requests, "--rank-weight", weight});
  };
  EXPECT_THAT(convert("memory").out, HasSubstr("by memory:"));
  EXPECT_THAT(convert("accesses").out, HasSubstr("by accesses (combined):"));
  EXPECT_EQ(convert("stall").status, 2);
  const Outcome both =
      Tmprof({"report", trace, "--view", "hot", "--by", "memory", "--rank-weight", "accesses"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("instead of a weight"));
}

// Page 1 has the most accesses, page 2 the most misses, page 3 the most stalls.
std::string TraceWithStalls(const TemporaryFolder& folder) {
  const std::string path = folder.File("stalls.data");
  auto writer = TraceWriter::Create(path, TraceInfo{});
  for (std::uint64_t index = 0; index < 2; ++index) {
    EpochProfile epoch;
    epoch.index = index;
    epoch.start = MonotonicTime(std::chrono::seconds(index));
    epoch.end = MonotonicTime(std::chrono::seconds(index + 1));
    epoch.sources = {{.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive}};
    epoch.targets = {{.id = TargetId(0), .pid = Pid(10), .name = "t"}};
    epoch.targets.front().cpu_time = std::chrono::seconds(1);
    const std::array<AccessCounts, 3> counts = {
        AccessCounts{.loads = 1'000, .llc_misses = 1, .stall_ns = 6},
        AccessCounts{.loads = 500, .llc_misses = 90, .stall_ns = 24},
        AccessCounts{.loads = 20, .llc_misses = 9, .stall_ns = 70}};
    for (std::uint64_t page = 0; page < counts.size(); ++page)
      Append(epoch.pages, {.key = {TargetId(0), Vpn(page + 1)}, .accesses = counts[page]});
    EXPECT_TRUE(writer->Write(epoch).has_value());
  }
  EXPECT_TRUE(writer->Finish().has_value());
  return path;
}

TEST(RankWeight, CountsStallsWhereATraceTellsThem) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithStalls(folder);
  for (const std::vector<std::string>& choice :
       std::vector<std::vector<std::string>>{{"--rank-weight", "stall"}, {"--by", "stall"}}) {
    std::vector<std::string> command{"report", trace, "--view", "hot", "--format", "json"};
    command.insert(command.end(), choice.begin(), choice.end());
    const Outcome hot = Tmprof(command);
    ASSERT_EQ(hot.status, 0) << hot.err;
    const Json json = Json::parse(hot.out);
    EXPECT_EQ(json["rank_weight"], "stall");
    EXPECT_EQ(json["by"], "stall");
    EXPECT_EQ(json["score_unit"], "ns of stall time");
    EXPECT_EQ(json["rows"][0]["score"], 140);
  }
  for (const std::vector<std::string>& choice :
       std::vector<std::vector<std::string>>{{"--rank-weight", "stall"}, {"--judge", "stall"}}) {
    std::vector<std::string> command{"eval",   trace,  "--policy", "oracle",
                                     "--fast", "4KiB", "--format", "json"};
    command.insert(command.end(), choice.begin(), choice.end());
    if (choice.front() == "--judge") command.insert(command.end(), {"--rank", "stall"});
    const Outcome eval = Tmprof(command);
    ASSERT_EQ(eval.status, 0) << eval.err;
    const Json json = Json::parse(eval.out);
    EXPECT_EQ(json["traces"][0]["rank_weight"], "stall");
    EXPECT_DOUBLE_EQ(json["results"][0]["hit_rate"].get<double>(), 0.7);
  }
  EXPECT_THAT(Tmprof({"eval", trace, "--rank-weight", "stall"}).out,
              HasSubstr("hit rates count stall time"));
}

// Pages 1 to 64 are accessed a hundred times as often, and stay in the cache.
TEST(RankWeight, DecidesWhichMemoryIsLocked) {
  if (!kHasLocking) GTEST_SKIP() << "this build lacks locking";
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const auto first_locked = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"advise", "--mlock", "--limit", "50%", trace, "--format", "json"});
    const Outcome outcome = Tmprof(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["ranges"][0]["start"];
  };
  EXPECT_EQ(first_locked({}), "0x1000") << "what a cache serves is swapped out, too";
  EXPECT_EQ(first_locked({"--rank-weight", "memory"}), "0x41000");
  EXPECT_EQ(first_locked({"--rank-weight", "accesses"}), "0x1000");
  const Outcome unread = Tmprof({"advise", "--mlock", trace, "--llc", "4KiB"});
  EXPECT_EQ(unread.status, 2);
  EXPECT_THAT(unread.err, AllOf(HasSubstr("--llc"), HasSubstr("add --rank-weight memory")));
  EXPECT_EQ(first_locked({"--llc", "4KiB", "--rank-weight", "memory"}), "0x41000");
}

TEST(RankWeight, DecidesWhichCurvesAreShown) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const auto curves_of = [&](const std::string& weight) {
    const Outcome outcome =
        Tmprof({"report", trace, "--view", "cdf", "--rank-weight", weight, "--format", "json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json cdf = Json::parse(outcome.out);
    std::vector<std::string> curves;
    for (const Json& curve : cdf["curves"]) curves.push_back(curve["by"]);
    return curves;
  };
  EXPECT_THAT(curves_of("memory"), Contains("memory"));
  EXPECT_THAT(curves_of("accesses"), Not(Contains("memory")));
}

TEST(RankWeight, ReportsSayWhyAccessesToMemoryAreNotCounted) {
  const auto note = HasSubstr("all accesses count because those to memory are unknown");
  for (const std::string view : {"hot", "cdf", "nodes", "heatmap"}) {
    EXPECT_THAT(Tmprof({"report", GoldenTrace(), "--view", view}).out, note) << view;
  }
  EXPECT_THAT(Tmprof({"report", GoldenTrace(), "--view", "hot", "--rank-weight", "accesses"}).out,
              Not(note));
  EXPECT_THAT(Tmprof({"eval", GoldenTrace()}).out,
              AllOf(HasSubstr("hit rates count all accesses"), HasSubstr("memory are unknown: ")));
}

TEST(Eval, RefusesToCheckHitRatesOfMemoryByATruthOfAccesses) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const std::string truth = WriteGoldenTruth(folder);
  const Outcome outcome = Tmprof({"eval", trace, "--truth", truth, "--judge", "memory"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("memory"), HasSubstr("--judge accesses")));
  const Outcome of_accesses = Tmprof({"eval", trace, "--truth", truth});
  EXPECT_EQ(of_accesses.status, 0) << of_accesses.err;
  EXPECT_THAT(of_accesses.out, HasSubstr("judged by combined"));
}

// Page 65 has half of the misses. Samples of misses are of pages 65 to 128, alike.
TEST(Eval, ChecksHitRatesOfMemoryByATruthOfMisses) {
  const TemporaryFolder folder;
  const std::string trace = TraceWithMisses(folder);
  const std::string truth = folder.File("misses.json");
  WriteFile(truth, R"({"of": "misses", "phases": [{"t_start_ns": 0, "t_end_ns": 9000000000000,
    "ranges": [{"start": 4096, "end": 266240, "weight": 0},
               {"start": 266240, "end": 270336, "weight": 63},
               {"start": 270336, "end": 528384, "weight": 63}]}]})");
  const Outcome checked =
      Tmprof({"eval", trace, "--truth", truth, "--fast", "4KiB,256KiB", "--format", "json"});
  ASSERT_EQ(checked.status, 0) << checked.err;
  const Json rates = Json::parse(checked.out)["hit_rates"];
  EXPECT_EQ(rates[0]["of"], "memory");
  EXPECT_DOUBLE_EQ(rates[0]["truth"]["best"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(rates[1]["truth"]["best"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(rates[1]["truth"]["ranked"].get<double>(), 1);
  const Outcome of_accesses = Tmprof({"eval", trace, "--truth", truth, "--judge", "accesses"});
  EXPECT_EQ(of_accesses.status, 2);
  EXPECT_THAT(of_accesses.err, AllOf(HasSubstr("tells of misses"), HasSubstr("--judge memory")));
  const Outcome score = Tmprof({"score", trace, "--truth", truth});
  EXPECT_EQ(score.status, 2);
  EXPECT_THAT(score.err, AllOf(HasSubstr("misses alone"), HasSubstr("--by misses")));
  EXPECT_EQ(Tmprof({"score", trace, "--truth", truth, "--by", "misses"}).status, 0);
}

TEST(Eval, RefusesToRankByMemoryWithoutRates) {
  const Outcome outcome =
      Tmprof({"eval", GoldenTrace(), "--rank", "memory", "--rank-model", "sum"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("choose '--rank-model rate'"));
}

TEST(Eval, RefusesATraceThatIsGivenTwice) {
  const Outcome outcome = Tmprof({"eval", GoldenTrace(), GoldenTrace()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("FILE " + GoldenTrace()));
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

TEST(Score, RefusesMissesOfATruthThatTellsOfAccessesAlone) {
  const TemporaryFolder folder;
  const Outcome outcome =
      Tmprof({"score", GoldenTrace(), "--truth", WriteGoldenTruth(folder), "--by", "misses"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("accesses alone"), HasSubstr("--exact-llc")));
}

TEST(Score, TellsRankCorrelationsInEveryFormat) {
  const TemporaryFolder folder;
  const std::vector<std::string> command = {"score", GoldenTrace(), "--truth",
                                            WriteGoldenTruth(folder)};
  const auto in = [&command](const std::string& format) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--format", format});
    return Tmprof(words).out;
  };
  const Json json = Json::parse(in("json"));
  EXPECT_EQ(json["by"], "accesses");
  EXPECT_TRUE(json["results"][0].contains("spearman_rho"));
  EXPECT_TRUE(json["results"][0].contains("kendall_tau_b"));
  EXPECT_THAT(in("csv"), HasSubstr("phases,spearman_rho,kendall_tau_b,by\n"));
  EXPECT_THAT(in("text"), AllOf(HasSubstr("true accesses"), HasSubstr("rho"), HasSubstr("tau-b")));
  EXPECT_THAT(TitlesWithoutUnit(in("text")), IsEmpty()) << in("text");
}

TEST(Score, AMissingTruthIsTheWorldsRefusal) {
  const Outcome outcome = Tmprof({"score", GoldenTrace(), "--truth", "no-such-file"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no-such-file"), HasSubstr("ENOENT")));
}

TEST(Advise, NeedsToBeToldOnWhat) {
  if (!kHasObjects && !kHasLocking) GTEST_SKIP() << "this build lacks objects and locking";
  const Outcome outcome = Tmprof({"advise", GoldenTrace()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(kHasObjects ? "--objects advises" : "--mlock advises"));
}

// A component that is not there is neither offered nor passed over in silence.
TEST(Components, ThatThisBuildLacksAreNamedByWhoAsksForThem) {
  std::vector<std::pair<std::string, std::vector<std::string>>> asked;
  if (!kHasObjects) {
    const std::string trace = GoldenTrace();
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"cc", "clang-19", "a.c"},
             {"record", "--objects", "true"},
             {"record", "--advice", "a", "true"},
             {"report", trace, "--view", "objects"},
             {"report", trace, "--view", "hot", "--group", "object"},
             {"report", trace, "--view", "hot", "--object", "0x1000"},
             {"report", trace, "--counts", "x.objects"},
             {"advise", "--objects", trace},
             {"convert", trace, "--to", "objects"}}) {
      asked.emplace_back("objects", words);
    }
  }
  if (!kHasLocking) asked.push_back({"locking", {"advise", "--mlock", GoldenTrace()}});
  const std::string help = Tmprof({"help"}).out;
  const std::string version = Tmprof({"--version"}).out;
  const Json doctor = Json::parse(Tmprof({"doctor", "--format", "json"}).out);
  EXPECT_EQ(doctor["missing_components"].size(), (kHasObjects ? 0U : 1U) + (kHasLocking ? 0U : 1U));
  if (asked.empty()) {
    EXPECT_THAT(help, HasSubstr("\n  cc "));
    EXPECT_THAT(version, Not(HasSubstr("without")));
  }
  for (const auto& [component, words] : asked) {
    const Outcome outcome = Tmprof(words);
    EXPECT_EQ(outcome.status, 2) << words[0];
    EXPECT_THAT(outcome.err, HasSubstr("lacks the component")) << words[0];
    EXPECT_THAT(outcome.err, HasSubstr(component)) << words[0];
    EXPECT_THAT(version, HasSubstr(component));
    EXPECT_THAT(doctor["missing_components"].dump(), HasSubstr(component));
    EXPECT_THAT(Tmprof({"doctor"}).out, HasSubstr("lacks the component " + component));
  }
  if (!kHasObjects) {
    EXPECT_THAT(help, Not(HasSubstr("\n  cc ")));
    for (const char* command : {"record", "report", "advise", "convert"}) {
      EXPECT_THAT(Tmprof({"help", command}).out, Not(HasSubstr("--objects"))) << command;
    }
  }
}

TEST(Doctor, TellsOfEveryJob) {
  const Outcome outcome = Tmprof({"doctor", "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* job : {"accessed bits", "address samples", "gate"}) {
    EXPECT_THAT(outcome.out, HasSubstr(job));
  }
}

TEST(Doctor, BeginsWithTheVerdict) {
  const Outcome json_outcome = Tmprof({"doctor", "--format", "json"});
  const Json verdict = Json::parse(json_outcome.out)["verdict"];
  const Outcome text = Tmprof({"doctor"});
  EXPECT_THAT(text.out, StartsWith(verdict["text"].get<std::string>().substr(0, 30)));
  EXPECT_EQ(verdict["fine"], verdict["text"].get<std::string>().starts_with("You are fine"));
  EXPECT_EQ(verdict["sources"].empty(),
            verdict["text"].get<std::string>().starts_with("Nothing can be recorded here: "));
}

TEST(Doctor, ShowsOnRequestWhatIsImpossibleHere) {
  const Json sources = Json::parse(Tmprof({"doctor", "--format", "json"}).out)["sources"];
  const std::string some = Tmprof({"doctor"}).out;
  const std::string all = Tmprof({"doctor", "--all"}).out;
  EXPECT_THAT(all, Not(HasSubstr("not possible on this machine")));
  for (const Json& source : sources) {
    const std::string row = "\n  " + source["name"].get<std::string>() + " ";
    EXPECT_THAT(all, HasSubstr(row));
    if (source["impossible"].is_null()) continue;
    EXPECT_THAT(some, HasSubstr(source["impossible"].get<std::string>().substr(0, 10)));
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

}  // namespace tmprof_cli_test
}  // namespace tmprof::test
