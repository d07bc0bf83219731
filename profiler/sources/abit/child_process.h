// SPDX-License-Identifier: Apache-2.0
// A process of our own to try things on.

#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/units.h"
#include "profiler/helper_processes.h"

namespace tmprof::abit {

// Takes back the priority over others that a child or a thread inherited and would keep for long.
// Called in the child, or by the thread.
inline void RunLikeOthers() {
  if (::getpriority(PRIO_PROCESS, 0) < 0) ::setpriority(PRIO_PROCESS, 0, 0);
}

// Leaves every CPU to others that want it. Called in the child.
inline void RunWhenIdle() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
}

// Ends and reaps the child, which ForkHelper() began.
class ChildProcess {
 public:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    // A child that yields ends only once it gets a CPU.
    const sched_param none{};
    ::sched_setscheduler(pid_, SCHED_OTHER, &none);
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    ForgetHelper(Pid(pid_));
  }

 private:
  pid_t pid_;
};

}  // namespace tmprof::abit
