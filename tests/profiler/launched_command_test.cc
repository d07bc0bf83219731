// SPDX-License-Identifier: Apache-2.0

#include "profiler/launched_command.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <optional>

namespace tmprof {
namespace launched_command_test {

sigset_t NothingBlocked() {
  sigset_t mask;
  sigemptyset(&mask);
  return mask;
}

LaunchedCommand Hold(std::vector<std::string> argv) {
  auto held = LaunchedCommand::Hold(std::move(argv), NothingBlocked());
  EXPECT_TRUE(held.has_value());
  return *std::move(held);
}

int StatusOf(std::vector<std::string> argv) {
  LaunchedCommand command = Hold(std::move(argv));
  EXPECT_TRUE(command.Release().has_value());
  return command.Wait();
}

// A child that inherits all files and waits to be killed.
class Heir {
 public:
  Heir() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Heir() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST(LaunchedCommand, EndsAsAShellWouldShowIt) {
  EXPECT_EQ(StatusOf({"true"}), 0);
  EXPECT_EQ(StatusOf({"sh", "-c", "exit 42"}), 42);
  EXPECT_EQ(StatusOf({"sh", "-c", "kill -KILL $$"}), 128 + 9);
}

TEST(LaunchedCommand, ThatCannotBeExecutedSaysWhy) {
  LaunchedCommand missing = Hold({"no-such-command-anywhere"});
  const Status not_found = missing.Release();
  ASSERT_FALSE(not_found.has_value());
  EXPECT_EQ(not_found.error().system_error, ENOENT);
  EXPECT_EQ(not_found.error().object, "no-such-command-anywhere");
  EXPECT_EQ(StatusOfFailedExec(not_found.error()), 127);
  LaunchedCommand no_program = Hold({"/etc/passwd"});
  EXPECT_EQ(StatusOfFailedExec(no_program.Release().error()), 126);
}

TEST(LaunchedCommand, RunsWithTheSignalsBlockedThatItIsGiven) {
  sigset_t mask = NothingBlocked();
  sigaddset(&mask, SIGUSR1);  // number 10: bit 9
  auto command =
      LaunchedCommand::Hold({"grep", "-q", "SigBlk:.0000000000000200", "/proc/self/status"}, mask);
  ASSERT_TRUE(command->Release().has_value());
  EXPECT_EQ(command->Wait(), 0);
}

TEST(LaunchedCommand, ThatIsNotReleasedIsGoneThoughItsFilesAreOpenElsewhere) {
  std::optional<LaunchedCommand> command = Hold({"true"});
  const pid_t pid = command->pid().value();
  const Heir heir;
  command.reset();  // or the test does not end
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(LaunchedCommand, ThatIsHeldEndsWithTheProcessThatHoldsIt) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const LaunchedCommand command = Hold({"true"});
    const pid_t pid = command.pid().value();
    (void)!write(told[1], &pid, sizeof pid);
    while (true) pause();
  }
  ASSERT_GT(holder, 0);
  pid_t pid = 0;
  ASSERT_EQ(read(told[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  const UniqueFd command(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(command.valid());
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  pollfd ended{.fd = command.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, -1), 1);  // or the test does not end
  close(told[0]);
  close(told[1]);
}

TEST(LaunchedCommand, ThatWasKilledBeforeItsReleaseHasThatStatus) {
  LaunchedCommand command = Hold({"true"});
  command.Signal(SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(command.pid().value()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(command.Release().has_value());
  EXPECT_TRUE(command.Exited());
  EXPECT_EQ(command.Wait(), 128 + 9);
}

}  // namespace launched_command_test
}  // namespace tmprof
