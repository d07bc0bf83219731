// SPDX-License-Identifier: Apache-2.0
// A thread of another process, held by ptrace(2) so that it makes system calls for us. The kernel
// lets only a process itself make some changes to its memory. They are made here without its
// cooperation: none of its code is changed, none of its stack is used, no handler of it runs, and
// its other threads go on.

#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// Needs x86-64 and Linux 6.4. The calling thread may have one at a time, and only it may call the
// members, because ptrace() knows the tracer by its thread. If the caller is killed between Call()
// and Release(), the process goes on with the wrong registers. Block all signals meanwhile, and be
// quick.
class StoppedThread {
 public:
  // Prefers a thread that waits for nothing to one in a call that would end with EINTR. Other
  // waiting calls are restarted as after any signal without a handler. Signals that arrived before
  // are delivered first.
  //
  // Fails if the process is gone, may not be traced, is traced by another, is stopped by a signal,
  // or runs 32-bit code. Fails if it sleeps uninterruptibly for 5 s; it is then held when it
  // awakes, until the calling thread ends. Fails if its system calls may be refused or punished: by
  // seccomp, by its own dispatcher, or if the kernel is too old to report it.
  static Result<StoppedThread> Stop(Pid pid);

  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();  // does what Release() does

  // Returns the kernel's answer; a negative one is an errno. Waits for it as long as it takes.
  // Signals to the process wait until it is released. Fails if the process has ended.
  Result<std::int64_t> Call(std::int64_t number, std::array<std::uint64_t, 3> arguments);

  // Lets the thread go on from where it was, with its own registers and signal mask. It is stopped
  // if SIGSTOP came meanwhile. Fails if the process has ended.
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
  std::optional<pid_t> thread_;  // unset: no thread is held any more
  bool running_ = false;         // false: it is in a stop that was waited for
  bool masked_ = false;
  bool called_ = false;
  user_regs_struct registers_{};       // the thread's own
  std::uint64_t signal_mask_ = 0;      // the thread's own
  std::uint64_t syscall_address_ = 0;  // address of a SYSCALL instruction in its memory
};

}  // namespace tmprof
