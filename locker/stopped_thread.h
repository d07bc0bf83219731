// SPDX-License-Identifier: Apache-2.0
// A thread of another process, held by ptrace(2) so that it makes system calls of ours as its own.
// What the kernel lets a process do to its own memory only is done so without its cooperation: no
// code of it is changed, no stack of it used, no handler of it run, and its other threads go on.

#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// x86-64. One at a time in this thread, which alone may call its members: ptrace() knows the tracer
// by its thread. Should the caller be killed between Call() and Release(), the process goes on with
// the wrong registers.
class StoppedThread {
 public:
  // Interrupts a system call that waits, which is restarted as after any signal without a handler;
  // lets signals before it be delivered. Fails where the process is gone, may not be traced, is
  // traced by another, is stopped by a signal, sleeps uninterruptibly, runs 32-bit code, or may
  // have its system calls taken for a crime: by a seccomp filter, or by its own dispatcher.
  static Result<StoppedThread> Stop(Pid pid);

  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();  // as Release()

  // What the kernel answered: negative, an errno. Fails where the process has ended.
  Result<std::int64_t> Call(std::int64_t number, std::array<std::uint64_t, 3> arguments);

  // Lets it go on from where it was, with the registers and the signal mask that it had. Fails
  // where the process has ended in the meantime.
  Status Release();

 private:
  explicit StoppedThread(Pid pid, pid_t thread) : pid_(pid), thread_(thread) {}

  Status Interrupt();
  Status Prepare();
  Result<bool> InCriticalSection() const;
  Result<int> Wait() const;
  Result<int> Resume(int request) const;
  Status ResumeTo(int request, int stop) const;
  Error Gone(int system_error) const;
  Error Unfit(std::string reason, std::string advice) const;

  Pid pid_;
  pid_t thread_ = 0;  // 0: none is held any more
  bool masked_ = false;
  bool called_ = false;
  user_regs_struct registers_{};       // its own
  std::uint64_t signal_mask_ = 0;      // its own
  std::uint64_t syscall_address_ = 0;  // of a SYSCALL instruction in its memory
};

}  // namespace tmprof
