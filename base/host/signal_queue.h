// SPDX-License-Identifier: Apache-2.0
// Signals as something to poll.

#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"

namespace tmprof {

class SignalQueue {
 public:
  // Before any thread exists, so that all inherit what is blocked.
  static Result<SignalQueue> Catch(std::initializer_list<int> caught);

  // Readable while there is one.
  int fd() const { return fd_.get(); }
  // The next one, oldest first; does not wait.
  std::optional<signalfd_siginfo> Next();
  const sigset_t& mask_before() const { return before_; }
  // Lets signals act from here on as they would without us.
  void Restore() const;

 private:
  SignalQueue() = default;

  sigset_t before_{};
  UniqueFd fd_;
};

}  // namespace tmprof
