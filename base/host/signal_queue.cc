// SPDX-License-Identifier: Apache-2.0

#include "base/host/signal_queue.h"

#include <unistd.h>

#include <cerrno>

namespace tmprof {

Result<SignalQueue> SignalQueue::Catch(std::initializer_list<int> caught) {
  SignalQueue queue;
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : caught) sigaddset(&set, signal);
  queue.fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue.fd_) return Fail(Refused("wait for signals", "", errno));
  pthread_sigmask(SIG_BLOCK, &set, &queue.before_);
  return queue;
}

std::optional<signalfd_siginfo> SignalQueue::Next() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return info;
}

void SignalQueue::Restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace tmprof
