// SPDX-License-Identifier: Apache-2.0
// `tmprof record` as a stranger meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/apps/program.h"

namespace tmprof::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

std::string Workload(const std::string& name) {
  return std::string(TMPROF_BINARY_DIR) + "/" + name;
}

// Empty where recording can work here: some source of accessed bits or address samples is usable.
std::string WhyRecordingIsRefused() {
  static const std::string reason = [] {
    const Outcome doctor = Tmprof({"doctor", "--format", "json"});
    const Json probes = Json::parse(doctor.out, nullptr, /*allow_exceptions=*/false);
    if (doctor.status != 0 || probes.is_discarded()) return std::string();  // the tests then fail
    std::string refusals;
    for (const Json& probe : probes["sources"]) {
      if (probe["job"] == "gate") continue;
      if (probe["usable"].get<bool>()) return std::string();
      refusals +=
          probe["name"].get<std::string>() + ": " + probe["detail"].get<std::string>() + "; ";
    }
    return refusals;
  }();
  return reason;
}

// A shell function: `await_growth FILE N` returns once the file was seen to grow N times. A trace
// grows with its preamble, its header, and each epoch. Gives up after 20 s.
constexpr const char* kAwaitGrowth = R"(await_growth() {
  local last=0 now seen=0
  for ((i = 0; i < 1000; ++i)); do
    now=$(stat -c %s "$1" 2>/dev/null || echo 0)
    if ((now > last)); then last=$now; ((++seen >= $2)) && return 0; fi
    sleep 0.02
  done
  return 1
}
)";

class Recording : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyRecordingIsRefused(); !reason.empty()) {
      GTEST_SKIP() << "recording is refused here: " << reason;
    }
  }

  Json Summary(const std::string& trace) const {
    const Outcome report = Tmprof({"report", trace, "--view", "summary", "--format", "json"});
    EXPECT_EQ(report.status, 0) << report.err;
    return Json::parse(report.out);
  }

  // The names of the targets of a trace.
  std::vector<std::string> TargetNames(const std::string& trace) const {
    std::vector<std::string> names;
    const Json summary = Summary(trace);
    for (const Json& target : summary["targets"]) {
      names.push_back(target["name"].get<std::string>());
    }
    return names;
  }

  TemporaryFolder folder_;
  std::string trace_ = folder_.File("t.data");
};

TEST_F(Recording, SeesThePagesOfAProgramThatItLaunches) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", Workload("hotset"), "--footprint",
                                  "64MiB", "--shift", "10s", "--duration", "4s"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  // At least the 4 s that the program runs by its own clock, in epochs of 1 s that start late on a
  // busy machine.
  EXPECT_GE(summary["epochs"].get<int>(), 2);
  EXPECT_GE(summary["duration_s"].get<double>(), 3.9);
  // 64 MiB are 16 384 pages, all of which the program uses within a second.
  EXPECT_GE(summary["footprint_pages"].get<int>(), 14'000);
  EXPECT_EQ(summary["footprint_pages"], summary["pages_seen"]["either"]);
  struct stat attributes{};
  ASSERT_EQ(stat(trace_.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);
}

TEST_F(Recording, PassesTheStatusOfTheCommandOn) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "exit 42"}).status, 42);
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "kill -TERM $$"}).status, 128 + 15);
}

TEST_F(Recording, SaysThatACommandWasNotFound) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no-such-command-anywhere"), HasSubstr("ENOENT")));
}

TEST_F(Recording, SaysThatACommandCannotBeExecuted) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "/etc/passwd"}).status, 126);
}

TEST_F(Recording, ThatCouldNotExecuteLeavesAPipeInPlace) {
  const std::string pipe = folder_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string script = "timeout 20 cat " + pipe + " > /dev/null & " + TmprofPath() +
                             " record -o " + pipe + " -- no-such-command-anywhere";
  EXPECT_EQ(RunProgram({"bash", "-c", script}).status, 127);
  struct stat attributes{};
  ASSERT_EQ(stat(pipe.c_str(), &attributes), 0);
  EXPECT_TRUE(S_ISFIFO(attributes.st_mode));
}

TEST_F(Recording, ThatCouldNotExecuteLeavesThePreviousTraceInPlace) {
  WriteFile(trace_, "precious");
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"}).status, 127);
  EXPECT_EQ(ReadFile(trace_), "precious");
  EXPECT_FALSE(std::filesystem::exists(trace_ + ".old"));
}

TEST_F(Recording, ThatCouldNotExecuteLeavesNoTrace) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"}).status, 127);
  EXPECT_FALSE(std::filesystem::exists(trace_));
}

TEST_F(Recording, OfAShortCommandTellsItsCpuTimeAndScoresItsPages) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", Workload("hotset"), "--footprint",
                                  "16MiB", "--duration", "300ms"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  ASSERT_EQ(summary["targets"].size(), 1u);
  // The program's own account of its access loop, which leaves its start out.
  const Json own = Json::parse(outcome.out.substr(outcome.out.find('{')));
  EXPECT_GE(summary["targets"][0]["cpu_s"].get<double>(), own["cpu_seconds"].get<double>());
  const Outcome hot = Tmprof({"report", trace_, "--view", "hot", "--format", "json"});
  ASSERT_EQ(hot.status, 0) << hot.err;
  const Json rows = Json::parse(hot.out)["rows"];
  ASSERT_FALSE(rows.empty());
  EXPECT_GT(rows[0]["score"].get<double>(), 0);
}

TEST_F(Recording, FollowsAnOrphanOfTheCommand) {
  // The subshell ends at once, so that its child is no descendant of the command any more.
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "sh", "-c",
                                  "sleep 0.4; (" + Workload("hotset") +
                                      " --footprint 16MiB --duration 1500ms &); exec sleep 2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(TargetNames(trace_), Contains("hotset"));
}

TEST_F(Recording, OfItsParentDoesNotRecordItself) {
  const std::string script = TmprofPath() + " record -o " + trace_ +
                             " --no-process-filter --epoch 200ms --duration 1s -p $$; exit $?";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(TargetNames(trace_), ElementsAre("bash"));
}

TEST_F(Recording, EndsWhenTheProcessItWasPointedAtExitsInMidEpoch) {
  const std::string script =
      "sleep 2 & " + TmprofPath() + " record --epoch 1000s -o " + trace_ + " -p $!";
  const Outcome outcome = RunProgram({"timeout", "60", "bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Summary(trace_)["epochs"].get<int>(), 1);
}

TEST_F(Recording, EndsWhenItsTargetExitsInMidEpoch) {
  const Outcome outcome =
      Tmprof({"record", "-o", trace_, "--epoch", "1000s", "--", "sleep", "0.3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Summary(trace_)["epochs"].get<int>(), 1);
}

TEST_F(Recording, NamesTheFullDisk) {
  const Outcome outcome = Tmprof({"record", "-o", "/dev/full", "--", "sleep", "0.1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/dev/full"), HasSubstr("ENOSPC")));
}

TEST_F(Recording, NamesTheFolderThatIsNotThere) {
  const Outcome outcome =
      Tmprof({"record", "-o", folder_.File("none/t.data"), "--", "sleep", "0.1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none/t.data"));
}

TEST_F(Recording, KeepsThePreviousTraceAsOld) {
  WriteFile(trace_, "precious");
  ASSERT_EQ(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"}).status, 0);
  EXPECT_EQ(ReadFile(trace_ + ".old"), "precious");
}

TEST_F(Recording, DoesNotDisturbAnotherRecorderOfTheSameFile) {
  const std::string record = TmprofPath() + " record --epoch 100ms -o " + trace_ + " -p $$";
  const std::string script = std::string(kAwaitGrowth) + record +
                             " 2> /dev/null & first=$!; await_growth " + trace_ +
                             " 3 || exit 90; " + record +
                             " --duration 200ms; second=$?; kill -TERM $first; wait $first || "
                             "exit 91; exit $second";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(trace_), HasSubstr("another recorder")));
  EXPECT_FALSE(std::filesystem::exists(trace_ + ".old"));
  EXPECT_TRUE(Summary(trace_)["finished"].get<bool>());
}

TEST_F(Recording, ThatCannotGoOnSaysSoWhileTheCommandRuns) {
  // A file may have 8 KiB: room for the header, and for some epochs. The command waits to be told.
  const std::string err = folder_.File("err");
  const std::string command = "for ((i = 0; i < 1000; ++i)); do grep -q 'has stopped' " + err +
                              " && echo told && exit 0; sleep 0.02; done";
  const std::string script = "trap '' XFSZ; ulimit -f 8; " + TmprofPath() +
                             " record --epoch 20ms -o " + trace_ + " -- bash -c \"" + command +
                             "\" 2> " + err;
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "told\n");
  EXPECT_THAT(ReadFile(err), AllOf(HasSubstr(trace_), HasSubstr("EFBIG")));
}

TEST_F(Recording, LeavesAReadableTraceWhenKilled) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; await_growth " + trace_ +
                             " 6 || exit 90; kill -KILL $recorder; wait $recorder; exit 0";
  ASSERT_EQ(RunProgram({"bash", "-c", script}).status, 0);
  const Outcome report = Tmprof({"report", trace_, "--view", "summary", "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_GE(Json::parse(report.out)["epochs"].get<int>(), 3);  // 6, less preamble and header
  EXPECT_THAT(report.err, HasSubstr("warning"));
}

TEST_F(Recording, EndsCleanlyOnSigterm) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; await_growth " + trace_ +
                             " 4 || exit 90; kill -TERM $recorder; wait $recorder";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome report = Tmprof({"report", trace_, "--view", "summary"});
  EXPECT_EQ(report.status, 0);
  EXPECT_THAT(report.err, IsEmpty());
}

TEST_F(Recording, PassesSigtermOnToTheCommand) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -- sleep 600 & recorder=$!; await_growth " + trace_ +
                             " 3 || exit 90; kill -TERM $recorder; wait $recorder";
  EXPECT_EQ(RunProgram({"timeout", "60", "bash", "-c", script}).status, 128 + 15);
}

// The terminal sends the signal of Ctrl-C to the command, too: that must remain the only one.
TEST_F(Recording, DoesNotDoubleCtrlC) {
  const std::string interrupted = folder_.File("interrupted");
  const std::string command = "trap 'echo once >> " + interrupted +
                              "' INT; echo ready; for ((i = 0; i < 400; ++i)); do [ -e " +
                              interrupted + " ] && sleep 0.5 && exit 7; sleep 0.05; done";
  const std::string program = TmprofPath();
  int terminal = -1;
  const pid_t recorder = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(recorder, 0);
  if (recorder == 0) {
    alarm(60);  // survives exec
    execl(program.c_str(), "tmprof", "record", "-q", "-o", trace_.c_str(), "--", "bash", "-c",
          command.c_str(), nullptr);
    _exit(127);
  }
  const UniqueFd owned(terminal);
  std::string shown;
  bool pressed = false;
  // Ends with EIO, when no process has the terminal open any more.
  for (std::array<char, 256> part{}; true;) {
    const ssize_t got = read(terminal, part.data(), part.size());
    if (got <= 0) break;
    shown.append(part.data(), static_cast<std::size_t>(got));
    if (!pressed && shown.find("ready") != std::string::npos) {
      pressed = write(terminal, "\x03", 1) == 1;
    }
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(recorder, &wait_status, 0), recorder);
  EXPECT_TRUE(WIFEXITED(wait_status)) << shown;
  EXPECT_EQ(WEXITSTATUS(wait_status), 7) << shown;
  EXPECT_EQ(ReadFile(interrupted), "once\n");
}

TEST_F(Recording, WorksTwiceOnOneTarget) {
  const std::string record = TmprofPath() + " record --epoch 200ms --duration 1s -o ";
  const std::string script = record + trace_ + " -p $$ & first=$!; " + record + folder_.File("u") +
                             " -p $$ || exit 1; wait $first";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST(RecordArguments, WithoutATargetAreRefused) {
  const Outcome outcome = Tmprof({"record"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no target"), HasSubstr("-p PID")));
}

TEST(RecordArguments, WithAZeroEpochAreRefused) {
  EXPECT_EQ(Tmprof({"record", "--epoch", "0", "--", "true"}).status, 2);
  EXPECT_EQ(Tmprof({"record", "--epoch", "0s", "--", "true"}).status, 2);
}

TEST(RecordArguments, ThatLeaveNothingToRecordAreRefused) {
  EXPECT_EQ(Tmprof({"record", "--duration", "0s", "--", "true"}).status, 2);
  EXPECT_EQ(Tmprof({"record", "--max-targets", "0", "--", "true"}).status, 2);
}

TEST(RecordArguments, WithAnUnknownSourceNameTheKnownOnes) {
  const Outcome outcome = Tmprof({"record", "--source", "magic", "--", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("clock"));
}

TEST(RecordArguments, WithAProcessThatDoesNotExistAreRefused) {
  // The largest PID the kernel can be configured for is below 2^22.
  const Outcome outcome = Tmprof({"record", "-p", "4194304"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("4194304"), HasSubstr("ESRCH")));
}

TEST(RecordWithoutPrivilege, NamesTheMissingCapability) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become an ordinary user";
  const Outcome outcome =
      RunAsNobody({TmprofPath(), "record", "--source", "abit", "-o", "/dev/null", "--", "true"});
  if (outcome.status == 127 || outcome.status == 126) {
    GTEST_SKIP() << "an ordinary user cannot reach the build folder " << TMPROF_BINARY_DIR;
  }
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("CAP_"));
}

}  // namespace
}  // namespace tmprof::testing
