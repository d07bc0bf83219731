// SPDX-License-Identifier: Apache-2.0

#include "profiler/launched_command.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tmprof {
namespace {

struct Channel {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Not a pipe: writing to one whose reader was killed would end this process, too.
Result<Channel> MakeChannel() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0)
    return Fail(Refused("create a pair of sockets", "", errno));
  return Channel{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Runs in the forked child: async-signal-safe calls only.
[[noreturn]] void AwaitAndExec(char* const* argv, const sigset_t& signal_mask, int go,
                               int failure) {
  char released = 0;
  if (read(go, &released, 1) != 1) _exit(1);  // the parent is gone or changed its mind
  sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
  execvp(argv[0], argv);
  const int reason = errno;
  // A failure here leaves no way to report it: the parent then reads end of file and status 127.
  (void)!write(failure, &reason, sizeof reason);
  _exit(127);
}

}  // namespace

Result<LaunchedCommand> LaunchedCommand::Hold(std::vector<std::string> argv,
                                              const sigset_t& signal_mask) {
  Result<Channel> go = MakeChannel();
  if (!go) return Fail(go.error());
  Result<Channel> failure = MakeChannel();
  if (!failure) return Fail(failure.error());

  std::vector<char*> arguments;
  for (std::string& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return Fail(Refused("start", argv[0], errno));
  if (pid == 0) {
    go->write_end.Reset();  // lets the read end when the parent dies
    AwaitAndExec(arguments.data(), signal_mask, go->read_end.get(), failure->write_end.get());
  }
  return LaunchedCommand(Pid(pid), std::move(go->write_end), std::move(failure->read_end),
                         std::move(argv[0]));
}

LaunchedCommand::~LaunchedCommand() {
  if (!go_) return;  // released, or moved from
  // Closing `go_` does not do it where another child has inherited it.
  Signal(SIGKILL);
  Wait();
}

Status LaunchedCommand::Release() {
  const char released = 1;
  const ssize_t written = send(go_.get(), &released, 1, MSG_NOSIGNAL);
  go_.Reset();
  int reason = 0;
  const ssize_t got = written == 1 ? read(failure_.get(), &reason, sizeof reason) : 0;
  failure_.Reset();
  if (got == sizeof reason) {
    Wait();
    return Fail(Refused("execute", name_, reason));
  }
  return {};
}

bool LaunchedCommand::Exited() const {
  while (!status_) {
    siginfo_t ended{};
    if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return true;  // ECHILD: reaped by someone else
    }
    if (ended.si_pid == 0) return false;
    if (Pid(ended.si_pid) == pid_) return true;
    waitpid(ended.si_pid, nullptr, WNOHANG);
  }
  return true;
}

void LaunchedCommand::Signal(int signal) {
  if (!status_) kill(pid_.value(), signal);
}

int LaunchedCommand::Wait() {
  while (!status_) {
    int wait_status = 0;
    const pid_t reaped = waitpid(-1, &wait_status, 0);
    if (reaped < 0 && errno == EINTR) continue;
    if (reaped < 0) {
      status_ = 1;  // reaped by someone else: its status is not known
    } else if (Pid(reaped) == pid_) {
      status_ = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    }
  }
  return *status_;
}

int StatusOfFailedExec(const Error& error) { return error.system_error == ENOENT ? 127 : 126; }

}  // namespace tmprof
