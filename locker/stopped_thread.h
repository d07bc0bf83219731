// SPDX-License-Identifier: Apache-2.0
// A thread of another process, held by ptrace(2) so that it makes system calls of ours as its own.
// What the kernel lets a process do to its own memory only is done so without its cooperation: no
// code of it is changed, no stack of it used, no handler of it run, and its other threads go on.

#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// x86-64, Linux 6.4. One at a time in this thread, which alone may call its members: ptrace() knows
// the tracer by its thread. Should the caller be killed between Call() and Release(), the process
// goes on with the wrong registers: hold back all signals meanwhile, and be quick.
class StoppedThread {
 public:
  // Takes one that waits for nothing rather than one in a call that ends with EINTR by this; other
  // calls that wait are restarted as after any signal without a handler. Lets signals before it be
  // delivered. Fails where the process is gone, may not be traced, is traced by another, is stopped
  // by a signal, sleeps uninterruptibly for 5 s (it is held then when it awakes, until the calling
  // thread ends), runs 32-bit code, or may have its system calls taken for a crime: by seccomp, by
  // its own dispatcher, or where the kernel is too old to tell.
  static Result<StoppedThread> Stop(Pid pid);

  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();  // as Release()

  // What the kernel answered: negative, an errno. Waits for that as long as it takes. Signals that
  // the process gets meanwhile come when it is released. Fails where the process has ended.
  Result<std::int64_t> Call(std::int64_t number, std::array<std::uint64_t, 3> arguments);

  // Lets it go on from where it was, with the registers and the signal mask that it had; stopped,
  // where SIGSTOP came meanwhile. Fails where the process has ended.
  Status Release();

 private:
  explicit StoppedThread(Pid pid) : pid_(pid) {}

  Status Interrupt();
  Status Prepare();
  Result<bool> InCriticalSection() const;
  Result<int> Wait();
  Status Resume(int request, int signal);
  Status RunTo(int request, int stop);
  Error Gone(int system_error) const;
  Error Unfit(std::string reason, std::string advice) const;

  Pid pid_;
  std::optional<pid_t> thread_;  // unset: none is held any more
  bool running_ = false;         // else it is in a stop that was waited for
  bool masked_ = false;
  bool called_ = false;
  user_regs_struct registers_{};       // its own
  std::uint64_t signal_mask_ = 0;      // its own
  std::uint64_t syscall_address_ = 0;  // of a SYSCALL instruction in its memory
};

}  // namespace tmprof
