// SPDX-License-Identifier: Apache-2.0
// A process of our own to try things on.

#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/units.h"
#include "profiler/helper_processes.h"

namespace tmprof::abit {

// The parent may run before others when it begins a child, which inherits that and runs for long.
// Called in the child.
inline void RunLikeOthers() { ::setpriority(PRIO_PROCESS, 0, 0); }

// Ends and reaps the child, which ForkHelper() began.
class ChildProcess {
 public:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    ForgetHelper(Pid(pid_));
  }

 private:
  pid_t pid_;
};

}  // namespace tmprof::abit
