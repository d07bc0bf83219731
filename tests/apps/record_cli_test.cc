// SPDX-License-Identifier: Apache-2.0
// `tmprof record` as a stranger meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <pty.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/apps/program.h"
#include "tests/apps/recording.h"
#include "tests/apps/recording_of_a_child.h"
#include "tests/apps/refusal.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace record_cli_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

// A shell function: `await_growth FILE N` returns once the file was seen to grow N times. A trace
// grows with its preamble, its header, and each epoch. Gives up after ten minutes.
constexpr const char* kAwaitGrowth = R"(await_growth() {
  local last=0 now seen=0
  for ((i = 0; i < 30000; ++i)); do
    now=$(stat -c %s "$1" 2>/dev/null || echo 0)
    if ((now > last)); then last=$now; ((++seen >= $2)) && return 0; fi
    sleep 0.02
  done
  return 1
}
)";

std::ptrdiff_t FilesIn(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// True: accessed bits can be observed by BPF, from the initial PID namespace.
bool BpfWorksHere() { return DoctorRow("abit-bpf")["usable"].get<bool>(); }

TEST_F(RecordingOfAChild, InAPidNamespaceOfTmprofsOwnIsOfTheRightProcess) {
  if (RunProgram({"unshare", "--pid", "--fork", "--mount-proc", "true"}).status != 0)
    GTEST_SKIP() << "PID namespaces cannot be made here";
  ASSERT_TRUE(Build("cc"));
  const std::string record = TmprofPath() + " record --gate off -o " + trace_;
  for (const std::string& script :
       {record + " -- " + busy_, busy_ + " & " + record + " --duration 1s -p $!"}) {
    SCOPED_TRACE(script);
    const Outcome outcome =
        RunProgram({"unshare", "--pid", "--fork", "--mount-proc", "bash", "-c", script});
    ASSERT_TRUE(Recorded(outcome));
    EXPECT_THAT(TargetNames(trace_), ElementsAre("busy"));
    EXPECT_GT(ShareInItsMemory(trace_, outcome.out), 0.8);
    if (BpfWorksHere()) {
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("tmprof runs in a PID namespace of its own"),
                                     HasSubstr("--pid=host")));
    }
  }
}

// Makes a forked child go on as a process that has one number both here and in a new PID namespace
// with a /proc of its own. Exits with 77 where that cannot be.
void BecomeOneWithTheSameNumberInAPidNamespace() {
  const auto pass_on = [](pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) _exit(77);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  };
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(77);
  if (const pid_t init = fork(); init != 0) pass_on(init);
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", 0, nullptr) != 0)
    _exit(77);
  for (pid_t number = 20'000; number < 20'100; ++number) {
    const std::array<pid_t, 2> numbers{number, number};  // inside, outside
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(numbers.data());
    arguments.set_tid_size = numbers.size();
    const auto child = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
    if (child == 0) return;
    if (child > 0 || errno != EEXIST) pass_on(child);
  }
  _exit(77);
}

TEST_F(RecordingOfAChild, InAPidNamespaceWhereTmprofHasItsOldNumberIsOfTheRightProcess) {
  ASSERT_TRUE(Build("cc"));
  const Outcome outcome =
      RunProgram({TmprofPath(), "record", "--gate", "off", "-o", trace_, "--", busy_},
                 BecomeOneWithTheSameNumberInAPidNamespace);
  if (outcome.status == 77) GTEST_SKIP() << "numbers of processes cannot be chosen here";
  ASSERT_TRUE(Recorded(outcome));
  EXPECT_GT(ShareInItsMemory(trace_, outcome.out), 0.8);
  if (BpfWorksHere()) {
    EXPECT_THAT(outcome.err, HasSubstr("tmprof runs in a PID namespace of its own"));
  }
}

TEST_F(RecordingOfAChild, GivesTheOnlyPlaceToTheBusyChildOfAnIdleShell) {
  ASSERT_TRUE(Build("cc"));
  const Outcome outcome =
      Tmprof({"record", "--max-targets", "1", "--no-process-filter", "--gate", "off", "--epoch",
              "200ms", "-o", trace_, "--", "sh", "-c", busy_ + "; exit 0"});
  ASSERT_TRUE(Recorded(outcome));
  EXPECT_THAT(outcome.err, HasSubstr("1 process left out by --max-targets"));
  const std::map<std::string, std::uint64_t> pages = PagesSeenOf(trace_);
  ASSERT_THAT(pages, Contains(Key("busy")));
  EXPECT_GT(pages.at("busy"), 100u);
  const auto shell = pages.find("sh");
  EXPECT_TRUE(shell == pages.end() || shell->second < 50) << shell->second;
}

TEST_F(Recording, PassesTheStatusOfTheCommandOn) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "exit 42"}).status, 42);
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "kill -TERM $$"}).status, 128 + 15);
}

// The recorder runs before others while it prepares.
TEST_F(Recording, RunsTheCommandAtItsOwnPriority) {
  const Outcome nice = Tmprof({"record", "-o", trace_, "--", "nice"});
  EXPECT_EQ(nice.out, RunProgram({"nice"}).out);
}

TEST_F(Recording, SaysThatACommandWasNotFound) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no-such-command-anywhere"), HasSubstr("ENOENT")));
}

TEST_F(Recording, IsNotEndedByAStandardErrorThatIsFull) {
  const std::string script =
      TmprofPath() + " record -o " + trace_ + " -- no-such-command-anywhere 2> /dev/full";
  EXPECT_EQ(RunProgram({"bash", "-c", script}).status, 127);
}

TEST_F(Recording, SaysThatACommandCannotBeExecuted) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "/etc/passwd"}).status, 126);
}

TEST_F(Recording, ThatCouldNotExecuteLeavesAPipeInPlace) {
  const std::string pipe = folder_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string script = "timeout 600 cat " + pipe + " > /dev/null & " + TmprofPath() +
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

TEST_F(Recording, ThatCouldNotExecuteLeavesTheTraceBeforeThePreviousInPlaceToo) {
  WriteFile(trace_, "precious");
  WriteFile(trace_ + ".old", "and old");
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"}).status, 127);
  EXPECT_EQ(ReadFile(trace_), "precious");
  EXPECT_EQ(ReadFile(trace_ + ".old"), "and old");
  EXPECT_EQ(FilesIn(folder_.path()), 2);
}

TEST_F(Recording, ThatFindsNoRoomForItsHeaderLeavesThePreviousTracesInPlace) {
  WriteFile(trace_, "precious");
  WriteFile(trace_ + ".old", "and old");
  // Its messages go to a pipe, which may grow.
  const std::string record =
      "trap '' XFSZ; ulimit -f 0; " + TmprofPath() + " record -o " + trace_ + " -- true";
  const Outcome outcome =
      RunProgram({"bash", "-c", "(" + record + ") 2>&1 | cat >&2; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(trace_), HasSubstr("EFBIG")));
  EXPECT_EQ(ReadFile(trace_), "precious");
  EXPECT_EQ(ReadFile(trace_ + ".old"), "and old");
  EXPECT_EQ(FilesIn(folder_.path()), 2);
}

TEST_F(Recording, ThatCouldNotExecuteLeavesNoTrace) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"}).status, 127);
  EXPECT_FALSE(std::filesystem::exists(trace_));
}

TEST_F(Recording, DoesNotRecordItselfWithItsParent) {
  const std::string script = TmprofPath() + " record -o " + trace_ +
                             " --no-process-filter --epoch 200ms --duration 1s -p $$; exit $?";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_TRUE(Recorded(outcome));
  EXPECT_THAT(TargetNames(trace_), ElementsAre("bash"));
}

TEST_F(Recording, EndsWhenTheProcessItWasPointedAtExitsInMidEpoch) {
  const std::string script =
      "sleep 2 & " + TmprofPath() + " record --epoch 1000s -o " + trace_ + " -p $!";
  const Outcome outcome = RunProgram({"timeout", "600", "bash", "-c", script});
  ASSERT_TRUE(Recorded(outcome));
  EXPECT_EQ(Summary(trace_)["epochs"].get<int>(), 1);
}

TEST_F(Recording, EndsWhenItsTargetExitsInMidEpoch) {
  const Outcome outcome =
      Tmprof({"record", "-o", trace_, "--epoch", "1000s", "--", "sleep", "0.3"});
  ASSERT_TRUE(Recorded(outcome));
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
  ASSERT_TRUE(Recorded(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"})));
  EXPECT_EQ(ReadFile(trace_ + ".old"), "precious");
}

TEST_F(Recording, KeepsTheLatestOfThePreviousTraces) {
  WriteFile(trace_, "precious");
  WriteFile(trace_ + ".old", "and old");
  ASSERT_TRUE(Recorded(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"})));
  EXPECT_EQ(ReadFile(trace_ + ".old"), "precious");
  EXPECT_EQ(FilesIn(folder_.path()), 2);
}

TEST_F(Recording, GoesWhereASymbolicLinkLeads) {
  std::filesystem::create_directory(folder_.path() / "there");
  const std::string target = folder_.File("there/u.data");
  WriteFile(target, "precious");
  std::filesystem::create_symlink("there/u.data", trace_);
  ASSERT_TRUE(Recorded(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"})));
  EXPECT_TRUE(std::filesystem::is_symlink(trace_));
  EXPECT_TRUE(Summary(target)["finished"].get<bool>());
  EXPECT_EQ(ReadFile(target + ".old"), "precious");
  EXPECT_EQ(FilesIn(folder_.path()), 2);
}

TEST_F(Recording, GoesWhereASymbolicLinkLeadsThoughNothingIsThereYet) {
  std::filesystem::create_symlink("u.data", trace_);
  ASSERT_TRUE(Recorded(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"})));
  EXPECT_TRUE(std::filesystem::is_symlink(trace_));
  EXPECT_TRUE(Summary(folder_.File("u.data"))["finished"].get<bool>());
}

TEST_F(Recording, DoesNotDisturbAnotherRecorderOfTheSameFile) {
  const std::string record = TmprofPath() + " record --epoch 100ms -o " + trace_ + " -p $$";
  const std::string script = std::string(kAwaitGrowth) + record +
                             " 2> /dev/null & first=$!; await_growth " + trace_ +
                             " 3 || exit 90; " + record +
                             " --duration 200ms; second=$?; kill -TERM $first; wait $first; "
                             "case $? in 0 | 3) ;; *) exit 91 ;; esac; exit $second";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(trace_), HasSubstr("another recorder")));
  EXPECT_FALSE(std::filesystem::exists(trace_ + ".old"));
  EXPECT_TRUE(Summary(trace_)["finished"].get<bool>());
}

TEST_F(Recording, ThatCannotGoOnSaysSoWhileTheCommandRuns) {
  // A file may have 8 KiB: room for the header, and for some epochs. The command waits to be told.
  const std::string err = folder_.File("err");
  const std::string command = "for ((i = 0; i < 30000; ++i)); do grep -q 'has stopped' " + err +
                              " && echo told && exit 0; sleep 0.02; done";
  const std::string script = "trap '' XFSZ; ulimit -f 8; " + TmprofPath() +
                             " record --epoch 20ms -o " + trace_ + " -- bash -c \"" + command +
                             "\" 2> " + err;
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "told\n");
  EXPECT_THAT(ReadFile(err), AllOf(HasSubstr(trace_), HasSubstr("EFBIG")));
}

TEST_F(Recording, RecordsALaunchedCommandWithoutASourceThatCannotFollowIt) {
  const Outcome outcome = RunProgram({TmprofPath(), "record", "--source", "abit-bpf,clock", "-o",
                                      trace_, "--", "sh", "-c", "echo ran; sleep 0.3"},
                                     [] { RefuseSamplingOfOthers(EMFILE); });
  EXPECT_TRUE(Recorded(outcome));
  EXPECT_EQ(outcome.out, "ran\n");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning"), HasSubstr("EMFILE")));
  std::map<std::string, std::string> states;
  const Json summary = Summary(trace_);
  for (const Json& source : summary["sources"])
    states[source["name"].get<std::string>()] = source["state"].get<std::string>();
  EXPECT_EQ(states["clock"], "unavailable");
}

TEST_F(Recording, DoesNotRunACommandThatNoSourceCanFollow) {
  WriteFile(trace_, "precious");
  const Outcome outcome =
      RunProgram({TmprofPath(), "record", "--source", "clock", "-o", trace_, "--", "echo", "ran"},
                 [] { RefuseSamplingOfOthers(EMFILE); });
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("EMFILE"));
  EXPECT_EQ(ReadFile(trace_), "precious");
}

TEST_F(Recording, FinishesItsTraceWhenItsLastSourceFails) {
  // A parent that is followed, and its child, which is not. When the parent is gone, nothing is.
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const pid_t child = fork();
    if (child > 0) (void)!write(told[1], &child, sizeof child);
    while (true) pause();
  }
  ASSERT_GT(parent, 0);
  pid_t child = 0;
  ASSERT_EQ(read(told[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  const std::string script =
      std::string(kAwaitGrowth) + TmprofPath() +
      " record --source clock --gate off --no-process-filter --epoch 100ms"
      " -o " +
      trace_ + " -p " + std::to_string(parent) + " & recorder=$!; await_growth " + trace_ +
      " 4 || exit 90; kill -KILL " + std::to_string(parent) + "; wait $recorder";
  const Outcome outcome =
      RunProgram({"timeout", "600", "bash", "-c", script}, [&] { RefuseSampling(child, EMFILE); });
  kill(child, SIGKILL);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  close(told[0]);
  close(told[1]);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("EMFILE"));
  EXPECT_TRUE(Summary(trace_)["finished"].get<bool>());
}

TEST_F(Recording, LeavesAReadableTraceWhenKilled) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; await_growth " + trace_ +
                             " 6 || exit 90; kill -KILL $recorder; wait $recorder; exit 0";
  ASSERT_EQ(RunProgram({"bash", "-c", script}).status, 0);
  const Outcome report = Tmprof({"report", trace_, "--view", "summary", "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  const Json summary = Json::parse(report.out);
  EXPECT_GE(summary["epochs"].get<int>(), 3);  // 6, less preamble and header
  EXPECT_EQ(summary["settings"]["ageing"], "off");
  EXPECT_THAT(report.err, HasSubstr("warning"));
}

TEST_F(Recording, EndsCleanlyOnSigterm) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; await_growth " + trace_ +
                             " 4 || exit 90; kill -TERM $recorder; wait $recorder";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(Recorded(outcome));
  const Outcome report = Tmprof({"report", trace_, "--view", "summary"});
  EXPECT_EQ(report.status, 0);
  EXPECT_THAT(report.err, IsEmpty());
}

TEST_F(Recording, PassesSigtermOnToTheCommand) {
  const std::string script = std::string(kAwaitGrowth) + TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -- sleep 600 & recorder=$!; await_growth " + trace_ +
                             " 3 || exit 90; kill -TERM $recorder; wait $recorder";
  EXPECT_EQ(RunProgram({"timeout", "600", "bash", "-c", script}).status, 128 + 15);
}

// The terminal sends the signal of Ctrl-C to the command, too: that must remain the only one.
TEST_F(Recording, DoesNotDoubleCtrlC) {
  const std::string interrupted = folder_.File("interrupted");
  const std::string command = "trap 'echo once >> " + interrupted +
                              "' INT; echo ready; for ((i = 0; i < 12000; ++i)); do [ -e " +
                              interrupted + " ] && sleep 0.5 && exit 7; sleep 0.05; done";
  const std::string program = TmprofPath();
  int terminal = -1;
  const pid_t recorder = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(recorder, 0);
  if (recorder == 0) {
    alarm(600);  // survives exec
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

// A terminal with `tmprof record ARGUMENTS` on it, which is killed after ten minutes.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> arguments, bool ignores_hangup = false) {
    arguments.insert(arguments.begin(), {TmprofPath(), "record"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int terminal = -1;
    recorder_ = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (recorder_ == 0) {
      alarm(600);  // survives exec
      if (ignores_hangup) std::signal(SIGHUP, SIG_IGN);
      execv(argv[0], argv.data());
      _exit(127);
    }
    terminal_ = UniqueFd(terminal);
  }
  // Returns once it has shown `text`.
  ::testing::AssertionResult Awaits(const std::string& text) {
    for (std::array<char, 256> part{}; shown_.find(text) == std::string::npos;) {
      const ssize_t got = read(terminal_.get(), part.data(), part.size());
      if (got <= 0) return ::testing::AssertionFailure() << shown_;
      shown_.append(part.data(), static_cast<std::size_t>(got));
    }
    return ::testing::AssertionSuccess();
  }
  void Close() { terminal_.Reset(); }
  // The exit status, or 128 + signal.
  int Wait() const {
    int status = 0;
    while (waitpid(recorder_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t recorder_ = -1;
  UniqueFd terminal_;
  std::string shown_;
};

// The program and its child, which the recorder finds, have the same 8 000 pages.
TEST_F(Recording, CountsMemoryThatTwoProcessesShareOnce) {
  const std::string script = Workload("tests/layouts") +
                             " shared 8000 & target=$!; while [ -z \"$(cat "
                             "/proc/$target/task/$target/children)\" ]; do sleep 0.05; done; " +
                             TmprofPath() + " record --duration 2s -o " + trace_ +
                             " -p $target; status=$?; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_TRUE(Recorded(outcome)) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_EQ(summary["targets"].size(), 2u);
  const Json& told = summary["outcome"];
  const auto resident = told["resident_bytes"].get<std::uint64_t>();
  EXPECT_GE(resident, 8'000u * 4096);
  EXPECT_LT(resident, 12'000u * 4096);
  EXPECT_EQ(told["text"].get<std::string>().find("at most"), std::string::npos);
  EXPECT_EQ(told["pages_seen"], summary["pages_seen"]["either"]);
  EXPECT_EQ(told["pages_looked_at"], summary["pages_looked_at"]);
  EXPECT_LE(told["pages_looked_at"].get<std::uint64_t>(), 10'000u);
}

TEST_F(Recording, SaysThatProcessesWhichAreNotRecordedMapItsMemory) {
  const std::string script = Workload("tests/layouts") +
                             " shared 8000 & target=$!; while :; do child=$(cat "
                             "/proc/$target/task/$target/children); [ -z \"$child\" ] || break; "
                             "sleep 0.05; done; sleep 0.2; " +
                             TmprofPath() + " record --duration 1s -o " + trace_ +
                             " -p $child; status=$?; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_TRUE(Recorded(outcome)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("processes that were not recorded map at least 15."));
}

// Limits of the system on what processes may reserve act alike (vm.overcommit_memory=2).
TEST_F(Recording, WorksInHalfAGigabyteOfAddressSpace) {
  for (const std::string objects : {"", "--objects "}) {
    if (!objects.empty() && !kHasObjects) continue;
    const std::string script = "ulimit -v 524288; exec " + TmprofPath() + " record " + objects +
                               "-o " + trace_ + " -- " + Workload("hotset") +
                               " --footprint 16MiB --duration 1s > /dev/null";
    const Outcome outcome = RunProgram({"bash", "-c", script});
    ASSERT_TRUE(Recorded(outcome)) << objects << outcome.err;
    EXPECT_THAT(outcome.err, Not(AnyOf(HasSubstr("ENOMEM"), HasSubstr("not tracked"),
                                       HasSubstr("address space"))));
    const Json summary = Summary(trace_);
    EXPECT_GT(summary["pages_seen"]["either"].get<int>(), 0) << objects;
  }
}

TEST_F(Recording, NamesALimitOfAddressSpaceThatIsTooTight) {
  const std::string script =
      "ulimit -v 100000; exec " + TmprofPath() + " record -o " + trace_ + " -- true";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_THAT(outcome.err, HasSubstr("address space is limited to 97.66 MiB (ulimit -v)"));
}

TEST_F(Recording, FinishesItsTraceWhenItsTerminalGoes) {
  OnTerminal recorder({"--epoch", "50ms", "-o", trace_, "-p", std::to_string(::getpid())});
  ASSERT_TRUE(recorder.Awaits("epoch    2"));
  recorder.Close();
  EXPECT_LT(recorder.Wait(), 128);
  const Json summary = Summary(trace_);
  EXPECT_TRUE(summary["finished"].get<bool>());
  EXPECT_GE(summary["epochs"].get<int>(), 3);
}

TEST_F(Recording, GoesOnWithoutItsTerminalIfItIgnoresHangups) {
  const std::string enough = folder_.File("enough");
  const std::string command = std::string(kAwaitGrowth) + "await_growth " + trace_ +
                              " 12 || exit 90; touch " + enough + "; exit 7";
  OnTerminal recorder({"--epoch", "50ms", "-o", trace_, "--", "bash", "-c", command},
                      /*ignores_hangup=*/true);
  ASSERT_TRUE(recorder.Awaits("epoch    2"));
  recorder.Close();
  EXPECT_EQ(recorder.Wait(), 7);
  EXPECT_TRUE(std::filesystem::exists(enough));
  const Json summary = Summary(trace_);
  EXPECT_TRUE(summary["finished"].get<bool>());
  EXPECT_GE(summary["epochs"].get<int>(), 10);  // 12, less preamble and header
}

TEST_F(Recording, IsNotEndedByAStandardErrorThatNobodyReads) {
  const std::string script = "exec 2> >(exec 0<&-); wait $!; " + TmprofPath() + " record -o " +
                             trace_ + " -- no-such-command-anywhere";
  EXPECT_EQ(RunProgram({"bash", "-c", script}).status, 127);
}

TEST_F(Recording, SaysHowToContinueAStoppedProcessWithAStatusOfItsOwn) {
  const std::string script =
      "sleep 600 & target=$!; kill -STOP $target; "
      "until grep -q '^State:.T' /proc/$target/status; do sleep 0.02; done; " +
      TmprofPath() + " record --epoch 100ms --duration 500ms -o " + trace_ +
      " -p $target; status=$?; kill -KILL $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("was stopped (SIGSTOP or a debugger) all the time"),
                                 HasSubstr("kill -CONT")));
  const Json told = Summary(trace_)["outcome"];
  EXPECT_EQ(told["saw_enough"], false);
  EXPECT_THAT(outcome.err, HasSubstr(told["text"].get<std::string>()));
}

TEST_F(Recording, AProgramThatEndsAtOnceHasAStatusOfItsOwn) {
  // It has no time for the hundred samples that would be enough.
  const Outcome outcome =
      Tmprof({"record", "--source", "clock", "--epoch", "1000s", "-o", trace_, "--", "true"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("1 epoch in"), HasSubstr("next: ")));
}

TEST_F(Recording, ThatSawNothingPassesTheStatusOfAFailedCommandOn) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "false"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("next: "));
}

TEST_F(Recording, RefusesAThreadOfTheKernel) {
  const Outcome outcome = RunProgram({"bash", "-c",
                                      "kernel=$(pgrep -o -x kthreadd) || exit 77; " + TmprofPath() +
                                          " record -o " + trace_ + " -p $kernel"});
  if (outcome.status == 77) GTEST_SKIP() << "no kernel thread is visible in this PID namespace";
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("kthreadd"), HasSubstr("thread of the kernel")));
  EXPECT_FALSE(std::filesystem::exists(trace_));
}

TEST_F(Recording, WithTheProcOfAnotherPidNamespaceIsRefused) {
  if (RunProgram({"unshare", "--pid", "--fork", "true"}).status != 0)
    GTEST_SKIP() << "PID namespaces cannot be made here";
  const Outcome outcome = RunProgram(
      {"unshare", "--pid", "--fork", TmprofPath(), "record", "-o", trace_, "--", "sleep", "0.1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("another PID namespace"), HasSubstr("--mount-proc")));
}

TEST_F(Recording, StartsTheFirstWordThatIsNoOptionWithAllWordsBehindIt) {
  const Outcome outcome =
      Tmprof({"record", "-q", "-d", "30", "-o", trace_, "sh", "-c", "exit 7", "-q"});
  EXPECT_EQ(outcome.status, 7) << outcome.err;
  EXPECT_EQ(Summary(trace_)["finished"], true);
}

TEST_F(Recording, TakesABareNumberForSeconds) {
  const Outcome outcome = Tmprof({"record", "-d", "1", "-o", trace_, "sleep", "60"});
  EXPECT_TRUE(Recorded(outcome)) << "it would end with the command otherwise";
  EXPECT_THAT(outcome.err, HasSubstr("1 epoch in 1"));
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

TEST(RecordArguments, WithAnUnknownGateAreRefusedThoughNoSourceWorksEither) {
  const Outcome outcome =
      RunProgram({TmprofPath(), "record", "--gate", "magic", "--source", "clock", "--", "true"},
                 [] { RefuseSystemCall(SYS_perf_event_open, EPERM); });
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("magic"), HasSubstr("llc and tlb")));
}

TEST(RecordArguments, WithLessOverheadThanCanBePlannedAreRefused) {
  const Outcome outcome = Tmprof({"record", "--max-overhead", "0.00000001%", "--", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--max-overhead"), HasSubstr("0.0001%")));
}

TEST(RecordArguments, WithBoundsOfRegionsThatDoNotGoTogetherAreRefused) {
  struct Case {
    std::vector<std::string> given;
    std::string option;
    std::string reason;
  };
  for (const Case& refused :
       {Case{{"--max-regions", "9"}, "--max-regions 9", "from --min-regions 10 to 2^20"},
        Case{{"--max-regions", "1001"}, "--region-monitoring 1ms", "--max-regions 1001"},
        Case{{"--min-regions", "2"}, "--min-regions 2", "from 3 to 1000"},
        Case{{"--region-monitoring", "999us"}, "--region-monitoring 999us", "--max-regions 1000"},
        Case{{"--region-aggregation", "9ms"}, "--region-aggregation 9ms", "10 monitoring"},
        Case{{"--region-update", "99ms"}, "--region-update 99ms", "--region-aggregation 100ms"}}) {
    std::vector<std::string> arguments{"record", "--abit", "regions"};
    arguments.insert(arguments.end(), refused.given.begin(), refused.given.end());
    arguments.insert(arguments.end(), {"--", "true"});
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << refused.option;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(refused.option), HasSubstr(refused.reason)));
  }
}

TEST(RecordArguments, ThatWouldHaveNoEffectAreRefusedWithWhatWouldHaveOne) {
  struct Case {
    std::vector<std::string> given;
    std::string option;
    std::string reason;
    std::string fix;
  };
  std::vector<Case> cases = {
      {{"--abit", "regions", "--scan-interval", "2s"},
       "--scan-interval",
       "--abit regions makes no scan",
       "--region-monitoring"},
      {{"--abit", "regions,plain", "--scan-interval", "2s"},
       "--scan-interval",
       "--abit regions,plain makes no scan",
       "--region-monitoring"},
      {{"--scan-interval", "2s"},
       "--scan-interval",
       "--abit full,ladder makes no scan",
       "--abit full,plain"},
      {{"--abit", "auto", "--scan-interval", "2s"},
       "--scan-interval",
       "--abit auto,ladder makes no scan",
       "--abit auto,plain"},
      {{"--source", "clock,ibs", "--ageing", "off"},
       "--ageing",
       "no source of --source clock,ibs reads",
       "add abit-bpf or driver"},
      {{"--abit", "regions", "--ageing", "own"},
       "--ageing",
       "no whole process is cleared by regions",
       "use --abit full or auto"},
      {{"--source", "driver", "--ageing", "own"},
       "--ageing",
       "no whole process is cleared",
       "with --source abit-bpf"},
      {{"--source", "clock,ibs", "--abit", "full"},
       "--abit",
       "no source of --source clock,ibs reads",
       "add abit-bpf or driver"},
      {{"--source", "exact", "--abit", "plain"}, "--abit", "--source exact reads", "leave it out"},
      {{"--source", "clock", "--scan-interval", "2s"},
       "--scan-interval",
       "--source clock reads",
       "leave it out"}};
  for (const auto& [option, value] :
       {std::pair("--region-monitoring", "2ms"), std::pair("--region-aggregation", "200ms"),
        std::pair("--region-update", "2s"), std::pair("--min-regions", "20"),
        std::pair("--max-regions", "500")}) {
    cases.push_back({{option, value}, option, "--abit full,ladder has no regions", "--abit auto"});
    cases.push_back({{"--abit", "full,plain", option, value},
                     option,
                     "--abit full,plain has no regions",
                     "--abit regions"});
    cases.push_back(
        {{"--source", "clock", option, value}, option, "--source clock reads", "leave it out"});
  }
  const TemporaryFolder folder;
  const std::string trace = folder.File("t.data");
  for (const Case& refused : cases) {
    std::vector<std::string> arguments{"record", "-o", trace};
    arguments.insert(arguments.end(), refused.given.begin(), refused.given.end());
    arguments.insert(arguments.end(), {"--", "true"});
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << refused.option;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("'" + refused.option + "'"), HasSubstr(refused.reason),
                                   HasSubstr(refused.fix)));
    EXPECT_FALSE(std::filesystem::exists(trace));
  }
}

// The same options where they do have one: what is then refused is the process that is not there.
TEST(RecordArguments, ThatHaveAnEffectAreTaken) {
  for (const std::vector<std::string>& given : std::vector<std::vector<std::string>>{
           {"--abit", "full,plain", "--scan-interval", "2s"},
           {"--abit", "auto,plain", "--scan-interval", "2s"},
           {"--abit", "auto", "--max-regions", "500"},
           {"--abit", "regions", "--min-regions", "20", "--region-monitoring", "2ms",
            "--region-aggregation", "200ms", "--region-update", "2s"},
           {"--source", "abit-bpf", "--abit", "regions", "--max-regions", "500"},
           {"--source", "driver,clock", "--abit", "plain"},
           {"--source", "clock,auto", "--abit", "plain"}}) {
    std::vector<std::string> arguments{"record", "-p", "4194304"};
    arguments.insert(arguments.end(), given.begin(), given.end());
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 1) << given.back();
    EXPECT_THAT(outcome.err, HasSubstr("ESRCH"));
  }
}

TEST(RecordArguments, WithAnUnknownSourceNameTheKnownOnes) {
  const Outcome outcome = Tmprof({"record", "--source", "magic", "--", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("clock"));
}

TEST(RecordArguments, WithTheVirtualPmuWhereThereIsNoneNameTheMachineThatHasIt) {
  if (std::filesystem::exists("/sys/bus/event_source/devices/vibs_op"))
    GTEST_SKIP() << "this machine has it";
  const TemporaryFolder folder;
  const Outcome outcome =
      Tmprof({"record", "--source", "vibs", "-o", folder.File("x"), "--", "true"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("vibs_op"), HasSubstr("testbed/vm --tiersim")));
}

TEST(RecordArguments, WithAProcessThatDoesNotExistAreRefused) {
  // The largest PID the kernel can be configured for is below 2^22.
  const Outcome outcome = Tmprof({"record", "-p", "4194304"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("4194304"), HasSubstr("ESRCH")));
}

TEST(RecordArguments, WithACommandAndAProcessAreRefused) {
  const Outcome outcome = Tmprof({"record", "-p", "1", "--", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("both -p and a program"));
}

TEST(RecordWithoutPrivilege, RefusesAnotherUsersProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become an ordinary user";
  const Outcome outcome = RunAsNobody({TmprofPath(), "record", "-o", "/dev/null", "--duration",
                                       "1s", "-p", std::to_string(getpid())});
  if (outcome.status == 127 || outcome.status == 126) {
    GTEST_SKIP() << "an ordinary user cannot reach the build folder " << TMPROF_BINARY_DIR;
  }
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(std::to_string(getpid())), HasSubstr("EACCES"),
                                 HasSubstr("as the owner of the process")));
}

TEST(Doctor, RefusesAccessedBitsThatCannotBeClearedWithTheKernelsErrnoAsRecordDoes) {
  if (!DoctorRow("abit-bpf", [] {})["usable"].get<bool>())
    GTEST_SKIP() << "accessed bits cannot be observed here";
  const auto refuse = [] { RefuseSystemCall(SYS_process_madvise, EPERM); };
  const Json row = DoctorRow("abit-bpf", refuse);
  EXPECT_EQ(row["usable"], false);
  EXPECT_THAT(row["error"].get<std::string>(), HasSubstr("EPERM"));
  EXPECT_THAT(row["fix"].get<std::string>(), HasSubstr("CAP_SYS_NICE"));
  const Outcome recording = RunProgram(
      {TmprofPath(), "record", "--source", "abit-bpf", "-o", "/dev/null", "--", "true"}, refuse);
  EXPECT_EQ(recording.status, 1);
  EXPECT_THAT(recording.err, HasSubstr(row["detail"].get<std::string>()));
  EXPECT_THAT(recording.err, HasSubstr(row["fix"].get<std::string>()));
}

TEST_F(Recording, NamesEverySourceAsDoctorDoesAndTheRefusedOnesToo) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "sleep", "0.2"});
  ASSERT_TRUE(Recorded(outcome));
  const Json summary = Summary(trace_);
  const Json doctor = Json::parse(Tmprof({"doctor", "--format", "json"}).out);
  for (const Json& source : summary["sources"]) {
    SCOPED_TRACE(source.dump());
    const auto row = std::ranges::find(doctor["sources"], source["name"],
                                       [](const Json& probe) { return probe["name"]; });
    ASSERT_NE(row, doctor["sources"].end());
    EXPECT_EQ((*row)["usable"].get<bool>(), source["state"] != "unavailable");
    EXPECT_THAT(source["label"].get<std::string>(), StartsWith((*row)["label"].get<std::string>()));
  }
}

TEST(RecordWithoutPrivilege, NamesTheMissingCapability) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become an ordinary user";
  const Outcome outcome = RunAsNobody(
      {TmprofPath(), "record", "--source", "abit-bpf", "-o", "/dev/null", "--", "true"});
  if (outcome.status == 127 || outcome.status == 126) {
    GTEST_SKIP() << "an ordinary user cannot reach the build folder " << TMPROF_BINARY_DIR;
  }
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("missing here: CAP_BPF, CAP_PERFMON, CAP_SYS_NICE"));
}

}  // namespace record_cli_test
}  // namespace tmprof::test
