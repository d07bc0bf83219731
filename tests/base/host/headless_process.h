// SPDX-License-Identifier: Apache-2.0
// A child process whose main thread has exited and whose other one waits to be killed.

#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/host/procfs.h"
#include "base/units.h"

namespace tmprof {

class HeadlessProcess {
 public:
  HeadlessProcess() : pid_(fork()) {
    TMPROF_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      pthread_t other{};
      const auto wait_for_ever = [](void*) -> void* {
        while (true) pause();
      };
      pthread_create(&other, nullptr, wait_for_ever, nullptr);
      syscall(SYS_exit, 0);  // pthread_exit() would unwind the test
    }
    while (ProcFs().Stat(pid())->state != 'Z') sched_yield();
  }
  HeadlessProcess(const HeadlessProcess&) = delete;
  HeadlessProcess& operator=(const HeadlessProcess&) = delete;
  ~HeadlessProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  Pid pid() const { return Pid(pid_); }

 private:
  pid_t pid_;
};

}  // namespace tmprof
