// SPDX-License-Identifier: Apache-2.0
// Runs each program for a second and checks the truth it prints against the words it wrote.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/folders.h"

namespace programs_test {

using nlohmann::json;
using testing::HasSubstr;

struct Outcome {
  int exit_status = 0;
  std::string out;  // stdout and stderr together

  json Summary() const {
    const std::size_t end = out.find_last_not_of('\n');
    return json::parse(out.substr(out.rfind('\n', end) + 1));
  }
};

// A program under way, its output read through a pipe.
class Process {
 public:
  Process(const std::string& program, std::vector<std::string> arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    std::string path = program.starts_with('/') ? program : TMPROF_BINARY_DIR "/" + program;
    std::vector<char*> argv = {path.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (::posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ) != 0) {
      std::abort();
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ::fdopen(ends[0], "r");
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  std::string ReadLine() {
    std::string line;
    for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_)) {
      line.push_back(static_cast<char>(c));
    }
    return line;
  }

  // Reads to the end of the output and reaps.
  Outcome Finish() {
    Outcome outcome;
    for (int c = std::fgetc(output_); c != EOF; c = std::fgetc(output_)) {
      outcome.out.push_back(static_cast<char>(c));
    }
    std::fclose(output_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    outcome.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

 private:
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
};

class Programs : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/programs_test.XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
    truth_path_ = folder_ + "/truth.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  json Truth() const { return json::parse(std::ifstream(truth_path_)); }

  std::string folder_;
  std::string truth_path_;
};

// Each range was accessed as often as its weight says, within six standard deviations.
void ExpectTruthMatchesCounts(const json& truth, const json& summary, std::uint64_t pages) {
  EXPECT_EQ(truth["pid"], summary["pid"]);
  EXPECT_EQ(truth["phases"].size(), summary["phases"]);
  std::uint64_t all_accesses = 0;
  std::int64_t last_end = 0;
  for (const json& phase : truth["phases"]) {
    EXPECT_LE(last_end, phase["t_start_ns"]);
    EXPECT_LT(phase["t_start_ns"], phase["t_end_ns"]);
    last_end = phase["t_end_ns"];
    const std::uint64_t accesses = phase["accesses"];
    std::uint64_t counted = 0;
    double weight = 0;
    std::uint64_t next = phase["ranges"].front()["start"];
    for (const json& range : phase["ranges"]) {
      EXPECT_EQ(range["start"], next);
      next = range["end"];
      const double expected = range["weight"].get<double>() * static_cast<double>(accesses);
      EXPECT_NEAR(range["accesses"].get<double>(), expected, 6 * std::sqrt(expected) + 10);
      counted += range["accesses"].get<std::uint64_t>();
      weight += range["weight"].get<double>();
    }
    EXPECT_EQ(next - phase["ranges"].front()["start"].get<std::uint64_t>(), pages * 4096);
    EXPECT_EQ(counted, accesses);
    EXPECT_NEAR(weight, 1, 1e-6);
    all_accesses += accesses;
  }
  EXPECT_GT(all_accesses, 0u);
  EXPECT_EQ(summary["accesses"], all_accesses);
}

class EachProgram : public Programs, public testing::WithParamInterface<const char*> {};

TEST_P(EachProgram, AccessesEachRangeAsOftenAsItsTruthSays) {
  const Outcome outcome = Process(GetParam(), {"--footprint", "16MiB", "--duration", "1s",
                                               "--write", "--count", "--truth", truth_path_})
                              .Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  ExpectTruthMatchesCounts(Truth(), outcome.Summary(), 4096);
}

TEST_P(EachProgram, TellsWhichSpansHaveTheMissesOfACache) {
  const Outcome outcome =
      Process(GetParam(), {"--footprint", "16MiB", "--duration", "100ms", "--llc", "1MiB"})
          .Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const std::size_t line = outcome.out.find("\n{") + 1;
  const json misses = json::parse(outcome.out.substr(line, outcome.out.find('\n', line) - line));
  EXPECT_EQ(misses["llc_bytes"], 1 << 20);
  EXPECT_GT(misses["misses_per_access"], 0.05) << "a sixteenth has room";
  std::uint64_t spans = 0;
  double share = 0;
  for (const json& band : misses["misses"]) {
    spans += band["spans"].get<std::uint64_t>();
    share += band["share"].get<double>();
  }
  EXPECT_EQ(spans, 4096u);
  EXPECT_NEAR(share, 1, 1e-6);
}

TEST_P(EachProgram, TellsTheMissesOfEachPageBeforeItWorks) {
  const Outcome refused =
      Process(GetParam(), {"--footprint", "16MiB", "--miss-truth", truth_path_}).Finish();
  EXPECT_NE(refused.exit_status, 0) << "a cache has a size";
  Process process(GetParam(), {"--footprint", "16MiB", "--duration", "1s", "--llc", "1MiB",
                               "--miss-truth", truth_path_});
  ASSERT_EQ(process.Finish().exit_status, 0);
  const json truth = Truth();
  EXPECT_EQ(truth["of"], "misses");
  ASSERT_EQ(truth["phases"].size(), 1u);
  const json& phase = truth["phases"][0];
  EXPECT_LT(phase["t_start_ns"].get<std::uint64_t>(), phase["t_end_ns"].get<std::uint64_t>());
  std::uint64_t bytes = 0;
  double weight = 0;
  for (const json& range : phase["ranges"]) {
    bytes += range["end"].get<std::uint64_t>() - range["start"].get<std::uint64_t>();
    weight += range["weight"].get<double>();
  }
  EXPECT_EQ(bytes, 16u << 20);
  EXPECT_NEAR(weight, 1, 1e-6);
}

TEST_P(EachProgram, ListsEveryOptionInItsHelp) {
  const Outcome outcome = Process(GetParam(), {"--help"}).Finish();
  EXPECT_EQ(outcome.exit_status, 0);
  for (const char* option :
       {"--footprint", "--duration", "--seed", "--threads", "--rate", "--busy", "--idle",
        "--warmup", "--thp", "--write", "--truth", "--llc", "--miss-truth", "--report-interval"}) {
    EXPECT_THAT(outcome.out, HasSubstr(option));
  }
}

TEST_P(EachProgram, RefusesBadInputWithStatus2AndNamesIt) {
  const std::vector<std::vector<std::string>> bad = {
      {"--footprint", "512"},
      {"--footprint", "5000B"},
      {"--duration", "0s"},
      {"--duration", "ten"},
      {"--threads", "0"},
      {"--threads", "65"},
      {"--rate", "0"},
      {"--span", "100B"},
      {"--frobnicate"},
      {"--count"},
      {"surplus"},
      {"--seed", "-1"},
      {"--thp", "--span", "4KiB"},
      {"--busy", "1s"},
      {"--idle", "1s"},
      {"--busy", "1s", "--idle", "0s"},
      {"--llc", "1MiB", "--threads", "2"},
      {"--llc", "0"},
  };
  for (const std::vector<std::string>& arguments : bad) {
    const Outcome outcome = Process(GetParam(), arguments).Finish();
    EXPECT_EQ(outcome.exit_status, 2) << testing::PrintToString(arguments);
    EXPECT_FALSE(outcome.out.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachProgram,
                         testing::Values("gups", "half_idle", "hotset", "steps", "zipf"),
                         [](const auto& case_info) { return std::string(case_info.param); });

// Programs that compute: name and unit.
class EachComputation : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  const std::string program_ = GetParam().first;
  const std::string unit_ = GetParam().second;
};

TEST_P(EachComputation, GivesTheSameResultsForTheSameSeedAndWork) {
  std::vector<json> summaries;
  for (const char* seed : {"1", "1", "2"}) {
    const Outcome outcome = Process(program_, {"--footprint", "2MiB", "--duration", "1h",
                                               "--" + unit_, "3", "--seed", seed})
                                .Finish();
    ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
    summaries.push_back(outcome.Summary());
    EXPECT_EQ(summaries.back()[unit_], 3);
    EXPECT_LE(summaries.back()["footprint_bytes"], 2 << 20);
  }
  EXPECT_EQ(summaries[0]["checksum"], summaries[1]["checksum"]);
  EXPECT_EQ(summaries[0]["accesses"], summaries[1]["accesses"]);
  EXPECT_NE(summaries[0]["checksum"], summaries[2]["checksum"]);
}

TEST_P(EachComputation, ReportsItsAccessesAndEndsAtASignal) {
  Process process(program_, {"--footprint", "2MiB", "--duration", "10min", "--busy", "5min",
                             "--idle", "1ms", "--report-interval", "1ms"});
  EXPECT_THAT(process.ReadLine(), HasSubstr("PID " + std::to_string(process.pid())));
  json report;
  do {
    report = json::parse(process.ReadLine());
  } while (report["accesses"] == 0);
  ::kill(process.pid(), SIGTERM);
  const Outcome outcome = process.Finish();
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_GE(outcome.Summary()["accesses"], report["accesses"]);
}

TEST_P(EachComputation, RefusesBadInputWithStatus2) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--footprint", "1B"},
                                                    {"--duration", "0s"},
                                                    {"--busy", "1s"},
                                                    {"--" + unit_, "0"}}) {
    EXPECT_EQ(Process(program_, arguments).Finish().exit_status, 2)
        << testing::PrintToString(arguments);
  }
}

TEST_F(Programs, ComputationsCountOfOneUnitWhatTheirPagesAreAccessed) {
  for (const auto& [program, unit] : {std::pair("bfs", "--searches"), {"stencil", "--sweeps"}}) {
    const Outcome outcome = Process(program, {"--footprint", "2MiB", "--duration", "10min", unit,
                                              "2", "--truth", truth_path_})
                                .Finish();
    ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
    const json truth = Truth();
    const json summary = outcome.Summary();
    EXPECT_EQ(truth["pid"], summary["pid"]);
    ASSERT_EQ(truth["phases"].size(), 1u) << program;
    const json& phase = truth["phases"][0];
    EXPECT_EQ(phase["accesses"], summary["accesses"]);
    double weight = 0;
    std::uint64_t next = phase["ranges"].front()["start"];
    for (const json& range : phase["ranges"]) {
      EXPECT_EQ(range["start"], next);
      next = range["end"];
      weight += range["weight"].get<double>();
    }
    EXPECT_EQ(next - phase["ranges"].front()["start"].get<std::uint64_t>(),
              summary["footprint_bytes"]);
    EXPECT_NEAR(weight, 1, 1e-6);
  }
  EXPECT_EQ(Process("xslookup", {"--truth", truth_path_}).Finish().exit_status, 2);
}

INSTANTIATE_TEST_SUITE_P(All, EachComputation,
                         testing::Values(std::pair("bfs", "searches"),
                                         std::pair("stencil", "sweeps"),
                                         std::pair("xslookup", "lookups")),
                         [](const auto& case_info) { return std::string(case_info.param.first); });

TEST_F(Programs, HotsetShiftsOnTime) {
  const Outcome outcome =
      Process("hotset", {"--footprint", "16MiB", "--duration", "700ms", "--shift", "300ms",
                         "--write", "--count", "--truth", truth_path_})
          .Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  ExpectTruthMatchesCounts(Truth(), outcome.Summary(), 4096);
  EXPECT_EQ(Truth()["phases"].size(), 3u);
}

TEST_F(Programs, PausesAreGapsBetweenThePhasesOfTheTruth) {
  const Outcome outcome =
      Process("gups", {"--footprint", "16MiB", "--duration", "2500ms", "--busy", "500ms", "--idle",
                       "500ms", "--write", "--count", "--truth", truth_path_})
          .Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const json truth = Truth();
  ExpectTruthMatchesCounts(truth, outcome.Summary(), 4096);
  // At 0, 1 and 2 s; a machine that is late in one is at least not early in the next.
  ASSERT_LE(truth["phases"].size(), 3u);
  for (std::size_t i = 1; i < truth["phases"].size(); ++i) {
    const std::int64_t work_start = truth["phases"][i]["t_start_ns"];
    EXPECT_GE(work_start - truth["phases"][0]["t_start_ns"].get<std::int64_t>(), 500'000'000);
  }
}

TEST_F(Programs, SigtermEndsAPause) {
  Process process("gups", {"--footprint", "16MiB", "--duration", "10min", "--busy", "1ms", "--idle",
                           "9min", "--report-interval", "1ms"});
  process.ReadLine();
  const json first = json::parse(process.ReadLine());
  json report;
  do {
    report = json::parse(process.ReadLine());
  } while (report["t_ns"] < first["t_ns"].get<std::int64_t>() + 2'000'000);  // it pauses now
  ::kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.Finish().exit_status, 0);
}

TEST_F(Programs, ThreadsTogetherFollowThePattern) {
  const Outcome outcome = Process("gups", {"--footprint", "16MiB", "--duration", "3s", "--threads",
                                           "3", "--write", "--truth", truth_path_})
                              .Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const json summary = outcome.Summary();
  EXPECT_EQ(summary["threads"], 3);
  EXPECT_EQ(summary["accesses"], Truth()["phases"][0]["accesses"]);
}

TEST_F(Programs, ARateIsAnUpperBound) {
  const Outcome outcome =
      Process("zipf", {"--footprint", "16MiB", "--duration", "500ms", "--rate", "100k"}).Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  // Half a second's worth and at most one batch of a millisecond's worth.
  EXPECT_LE(outcome.Summary()["accesses"], 50000 + 100);
}

TEST_F(Programs, SigtermWritesThePhasesSoFar) {
  Process process("hotset", {"--footprint", "16MiB", "--duration", "10min", "--shift", "5min",
                             "--truth", truth_path_, "--report-interval", "1ms"});
  std::string line = process.ReadLine();
  EXPECT_THAT(line, HasSubstr(std::to_string(process.pid())));
  json report;
  do {
    line = process.ReadLine();
    report = json::parse(line);
  } while (report["accesses"] == 0);
  ::kill(process.pid(), SIGTERM);
  const Outcome outcome = process.Finish();
  EXPECT_EQ(outcome.exit_status, 0);
  ASSERT_EQ(Truth()["phases"].size(), 1u);
  EXPECT_GE(Truth()["phases"][0]["accesses"], report["accesses"]);
  EXPECT_EQ(outcome.Summary()["accesses"], Truth()["phases"][0]["accesses"]);
}

TEST_F(Programs, OutputThatCannotBeWrittenIsTold) {
  for (const std::string program : {"gups", "mmap_loop"}) {
    const std::string command =
        "exec " TMPROF_BINARY_DIR "/" + program + " --footprint 16MiB --duration 10ms >/dev/full";
    const Outcome outcome = Process("/bin/sh", {"-c", command}).Finish();
    EXPECT_EQ(outcome.exit_status, 1) << program;
    EXPECT_EQ(outcome.out, program + ": cannot write to standard output\n");
  }
}

TEST_F(Programs, MmapLoopPrintsTheLatenciesOfEachWindowInOrder) {
  Process process("mmap_loop", {"--footprint", "16MiB", "--duration", "100ms", "--window", "20ms"});
  EXPECT_THAT(process.ReadLine(), HasSubstr(std::to_string(process.pid())));
  std::int64_t last_end = 0;
  std::uint64_t windows = 0;
  for (json line = json::parse(process.ReadLine()); line.contains("rounds");
       line = json::parse(process.ReadLine())) {
    EXPECT_GE(line["t_start_ns"], last_end);
    last_end = line["t_end_ns"];
    EXPECT_GE(line["rounds"], 1);
    EXPECT_LE(line["p50_ns"], line["p99_ns"]);
    EXPECT_LE(line["p99_ns"], line["max_ns"]);
    ++windows;
  }
  EXPECT_GE(windows, 1u);
  EXPECT_LE(windows, 5u);
  EXPECT_EQ(process.Finish().exit_status, 0);
}

TEST_F(Programs, RefusesAWrongOptionValueByTheOptionsName) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--window", "0s"}, {"--window", "soon"}}) {
    const Outcome outcome = Process("mmap_loop", arguments).Finish();
    EXPECT_EQ(outcome.exit_status, 2);
    EXPECT_THAT(outcome.out, HasSubstr("--window"));
  }
}

TEST_F(Programs, AServerThatDoesNotAnswerIsToldByItsPort) {
  // Bound and not listened to, so that nobody else can be there.
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(::ntohs(address.sin_port));
  const Outcome outcome = Process("redis_load", {"--port", port}).Finish();
  ::close(taken);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("redis_load: cannot connect to 127.0.0.1 port " + port));
}

TEST_F(Programs, ALoadWithAServerOfItsOwnFindsItsKeysAndLeavesNoServer) {
  if (std::system("command -v redis-server >/dev/null") != 0) {  // NOLINT(concurrency-mt-unsafe)
    GTEST_SKIP() << "no redis-server here";
  }
  Process process("redis_load", {"--serve", "--keys", "1000", "--value", "16B", "--duration", "1s",
                                 "--busy", "300ms", "--idle", "100ms"});
  const std::string first = process.ReadLine();
  int server = 0;
  ASSERT_EQ(std::sscanf(first.c_str(), "redis_load: PID %d, the server", &server), 1) << first;
  const Outcome outcome = process.Finish();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const json summary = outcome.Summary();
  EXPECT_EQ(summary["pid"], server);
  EXPECT_EQ(summary["missing"], 0);
  EXPECT_GT(summary["operations"], 0);
  EXPECT_NE(::kill(server, 0), 0);
}

TEST_F(Programs, AServerThatIsNotInstalledIsTold) {
  const Outcome outcome =
      Process("/bin/sh", {"-c", "PATH=/nowhere exec " TMPROF_BINARY_DIR "/redis_load --serve"})
          .Finish();
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("cannot run redis-server"));
}

TEST_F(Programs, ATruthThatCannotBeWrittenIsToldBeforeTheRun) {
  const Outcome outcome =
      Process("gups", {"--duration", "10min", "--truth", folder_ + "/missing/truth.json"}).Finish();
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("missing/truth.json"));
  EXPECT_THAT(outcome.out, HasSubstr("ENOENT"));
}

}  // namespace programs_test
