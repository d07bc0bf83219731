// SPDX-License-Identifier: Apache-2.0
// Each source that works on this machine, for as long as it takes to see anything: how much it
// sees, and at what cost, is for record_live_test.cc and abit_live_test.cc on a machine with time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"

namespace tmprof::test {
namespace sources_smoke_test {

using Json = nlohmann::json;

struct Way {
  std::string name;
  std::string source;  // its name in `tmprof doctor`
  std::vector<std::string> arguments;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class EachSource : public Recording, public ::testing::WithParamInterface<Way> {};

TEST_P(EachSource, SeesPagesOfABusyProgram) {
  const Json row = DoctorRow(GetParam().source);
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  // The program runs until its recording is over, whatever time the machine has for the two: a
  // minute is for a host that gives them a hundredth of a CPU.
  std::string script =
      Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; for seconds in 2 10 60; do " +
      TmprofPath() + " record --duration ${seconds}s -o " + trace_ + " -p $target";
  for (const std::string& argument : GetParam().arguments) script += " " + argument;
  script += "; case $? in 0 | 3) ;; *) kill $target; exit 90 ;; esac; " + TmprofPath() +
            " report " + trace_ +
            " --view summary --format json | grep -q '\"footprint_pages\": *[1-9]' && break; done; "
            "kill $target; exit 0";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_TRUE(summary["finished"].get<bool>());
  EXPECT_GT(summary["footprint_pages"].get<int>(), 0);
  ASSERT_FALSE(summary["sources"].empty());
  EXPECT_EQ(summary["sources"][0]["name"], GetParam().source);
  EXPECT_NE(summary["sources"][0]["state"], "unavailable");
  // Its trace can be ranked and replayed.
  for (const std::string command : {"report", "eval"}) {
    const Outcome read = Tmprof({command, trace_});
    EXPECT_EQ(read.status, 0) << command << ": " << read.err;
  }
}

TEST_F(Recording, FiguresOfThisMachineAreKeptForTheNextStart) {
  const Json row = DoctorRow("clock");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const auto is_kept = [this](const std::string& options) {
    const Outcome outcome = RunProgram({"bash", "-c",
                                        "export TMPROF_RUN_DIRECTORY=" + trace_ + ".run; " +
                                            TmprofPath() + " record --source clock --gate off " +
                                            options + " -o " + trace_ + " -- sleep 0.1"});
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    return Tmprof({"report", trace_, "--view", "summary"}).out.find("\ncalibrated ") !=
           std::string::npos;
  };
  EXPECT_FALSE(is_kept(""));
  if (!std::filesystem::exists(trace_ + ".run/clock"))
    GTEST_SKIP() << "this machine is too busy for a price that is worth keeping";
  EXPECT_TRUE(is_kept(""));
  EXPECT_FALSE(is_kept("--calibrate"));
  EXPECT_TRUE(is_kept(""));
}

const std::vector<Way> kWays{
    {"AbitLadder", "abit-bpf", {"--source abit-bpf"}},
    {"AbitPlain", "abit-bpf", {"--source abit-bpf --abit full,plain"}},
    {"AbitRegions", "abit-bpf", {"--source abit-bpf --abit regions"}},
    {"Driver", "driver", {"--source driver"}},
    {"Clock", "clock", {"--source clock"}},
    {"Ibs", "ibs", {"--source ibs"}},
    {"Pebs", "pebs", {"--source pebs"}},
};

INSTANTIATE_TEST_SUITE_P(All, EachSource, ::testing::ValuesIn(kWays),
                         [](const auto& way) { return way.param.name; });

std::vector<std::string> FilesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

// An operator who has never recorded anything asks so.
TEST_F(Recording, TheCurveOfARunningProgramTakesOneCommandAndLeavesNoFile) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const std::string png = folder_.File("curve.png");
  const std::string script =
      "export TMPDIR=" + folder_.path().string() + "; " + Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; for seconds in 2 10 60; do " +
      TmprofPath() +
      " curve -p $target --duration ${seconds}s --by references --format json --png " + png +
      " > $TMPDIR/curve.json; status=$?; grep -q '\"whole_pages\": *[1-9]' "
      "$TMPDIR/curve.json && break; done; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json curve = Json::parse(ReadFile(folder_.File("curve.json")));
  EXPECT_GT(curve["whole_pages"].get<int>(), 0);
  EXPECT_EQ(curve["of"], "accesses");
  EXPECT_THAT(ReadFile(png), ::testing::StartsWith("\x89PNG"));
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::UnorderedElementsAre("curve.json", "curve.png"));
}

TEST_F(Recording, TheCurveOfAllProcessesSeesThemAndKeepsItsTrace) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const std::string script =
      "export TMPDIR=" + folder_.path().string() + "; " + Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; echo $target > $TMPDIR/pid; "
      "for seconds in 2 10 60; do " +
      TmprofPath() + " curve --all --duration ${seconds}s --by references --format json -o " +
      trace_ +
      " > $TMPDIR/curve.json; status=$?; grep -q '\"whole_pages\": *[1-9]' "
      "$TMPDIR/curve.json && break; done; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json curve = Json::parse(ReadFile(folder_.File("curve.json")));
  EXPECT_EQ(curve["trace"], "all processes");
  EXPECT_GT(curve["whole_pages"].get<int>(), 0);
  // The workload's 16 MiB and what the test itself has.
  EXPECT_GT(curve["resident_pages"].get<int>(), 4096);
  const Json summary = Summary(trace_);
  EXPECT_TRUE(summary["finished"].get<bool>());
  EXPECT_GT(summary["targets"].size(), 1u);
  EXPECT_EQ(std::ranges::count_if(summary["targets"],
                                  [&](const Json& target) {
                                    return std::to_string(target["pid"].get<int>()) + "\n" ==
                                           ReadFile(folder_.File("pid"));
                                  }),
            1);
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::Contains("t.data"));
  EXPECT_THAT(FilesIn(folder_.path()),
              ::testing::Not(::testing::Contains(::testing::StartsWith("tmprof-curve"))));
}

// A terminal sends SIGINT at Ctrl-C, a service manager SIGTERM.
class StoppedCurve : public Recording, public ::testing::WithParamInterface<std::string> {};

TEST_P(StoppedCurve, IsThatOfWhatWasSeenSoFarAndSaysThatItIsShort) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  // A shell's job in the background ignores SIGINT.
  const std::string script =
      "export TMPDIR=" + folder_.path().string() + "; " + Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; env --default-signal=INT " +
      TmprofPath() +
      " curve -p $target --duration 30m --by references > $TMPDIR/curve.txt & curve=$!; "
      // Its trace has a header before there is an epoch.
      "for ((i = 0; i < 6000; ++i)); do "
      "[ $(cat $TMPDIR/tmprof-curve-*/* 2> /dev/null | wc -c) -gt 20000 ] && break; "
      "kill -0 $curve || break; sleep 0.1; done; kill -" +
      GetParam() + " $curve; wait $curve; status=$?; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.status << outcome.err;
  EXPECT_THAT(ReadFile(folder_.File("curve.txt")),
              ::testing::AllOf(::testing::HasSubstr("best placement"),
                               ::testing::HasSubstr("the recording is short: it was stopped after"),
                               ::testing::HasSubstr("instead of 1800s")));
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::UnorderedElementsAre("curve.txt"));
}

INSTANTIATE_TEST_SUITE_P(Signals, StoppedCurve, ::testing::Values("INT", "TERM"),
                         [](const auto& signal) { return signal.param; });

// Sends the signal to a child at the end of its first call of mkdir(2).
void SignalAfterMakingAFolder(int signal) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    return;  // to execute the program under test
  }
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool made = false;
  bool is_entry = false;
  while (!made) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) _exit(125);
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    is_entry = !is_entry;
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    made = !is_entry && registers.orig_rax == SYS_mkdir;
  }
  kill(child, signal);
  ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

TEST_F(Recording, ACurveThatIsStoppedAtOnceLeavesNoFolder) {
  const std::string folder = folder_.path().string();
  const Outcome outcome =
      RunProgram({TmprofPath(), "curve", "-p", std::to_string(getpid()), "--format", "json"}, [&] {
        setenv("TMPDIR", folder.c_str(), 1);
        SignalAfterMakingAFolder(SIGINT);
      });
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  const Json curve = Json::parse(outcome.out);
  EXPECT_THAT(curve["notes"].dump(), ::testing::HasSubstr("it was stopped "));
  EXPECT_FALSE(curve["why_unknown"].is_null());
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::IsEmpty());
}

TEST_F(Recording, ACurveOfAProgramThatEndsSaysThatItIsShort) {
  const std::string script = Workload("hotset") +
                             " --footprint 16MiB --duration 3s > /dev/null & " + TmprofPath() +
                             " curve -p $! --duration 30m --format csv > /dev/null";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("all processes had ended"));
}

TEST(Sources, AllSourcesOfTheDoctorThatRecordAreTriedHere) {
  const Outcome doctor = Tmprof({"doctor", "--format", "json"});
  const Json probes = Json::parse(doctor.out);
  for (const Json& row : probes["sources"]) {
    // The virtual PMU has a row only in its own machine, and tmprof_cli_test runs the tracer that
    // gives the truth.
    if (row["job"] == "gate" || row["job"] == "truth" || row["name"] == "vibs") continue;
    EXPECT_THAT(
        kWays, ::testing::Contains(::testing::Field(&Way::source, row["name"].get<std::string>())));
  }
}

}  // namespace sources_smoke_test
}  // namespace tmprof::test
