// SPDX-License-Identifier: Apache-2.0
// The program that `tmprof record -- CMD` runs: made, held, released, and its status passed on.

#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace tmprof {

class LaunchedCommand {
 public:
  // Forks a child that waits before its exec, so that sources can be attached from its first
  // instruction. `signal_mask` is what the child gets.
  static Result<LaunchedCommand> Hold(std::vector<std::string> argv, const sigset_t& signal_mask);

  LaunchedCommand(LaunchedCommand&&) noexcept = default;
  LaunchedCommand& operator=(LaunchedCommand&&) noexcept = default;
  // A child that was never released is ended and reaped; a released one is left alone.
  ~LaunchedCommand();

  Pid pid() const { return pid_; }

  // Lets it exec. The error carries the errno of the failed exec; the child is then gone.
  Status Release();

  // True: the program has ended. It is not reaped, so that the CPU time it used can still be read.
  // Its ended orphans, which this process has adopted, are reaped.
  bool Exited() const;
  void Signal(int signal);  // no effect if it has been reaped
  // Reaps it. The status is what a shell would show: the exit status, or 128 + the number of the
  // signal that ended it.
  int Wait();

 private:
  LaunchedCommand(Pid pid, UniqueFd go, UniqueFd failure, std::string name)
      : pid_(pid), go_(std::move(go)), failure_(std::move(failure)), name_(std::move(name)) {}

  Pid pid_;
  UniqueFd go_;       // closing it, or writing to it, lets the child go; see Release()
  UniqueFd failure_;  // the child's errno after a failed exec; end of file after a good one
  std::string name_;
  std::optional<int> status_;
};

// Exit status that a shell returns for a command that could not be executed: 127 not found, 126
// otherwise.
int StatusOfFailedExec(const Error& error);

}  // namespace tmprof
