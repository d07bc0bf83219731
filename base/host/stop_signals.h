// SPDX-License-Identifier: Apache-2.0
// Signals of a program that has launched another one.

#pragma once

#include <csignal>
#include <optional>
#include <utility>

#include "base/host/signal_queue.h"
#include "base/result.h"

namespace tmprof {

struct StopRequest {
  int signal = 0;
  bool from_terminal = false;  // which has sent it to the whole foreground job
};

// SIGINT, SIGTERM, SIGHUP unless that is ignored, SIGCHLD, and SIGPIPE, which must not end a
// program whose standard error nobody reads any more.
class StopSignals {
 public:
  static Result<StopSignals> Catch();

  // Readable while there is a signal.
  int fd() const { return queue_.fd(); }
  const sigset_t& mask_before() const { return queue_.mask_before(); }

  // The first signal that asked to stop, since the start.
  const std::optional<StopRequest>& StopRequested();
  // Signals act from here on as they would without this. Those that came before are forgotten: a
  // pending SIGPIPE would end this process now.
  void Restore();

 private:
  explicit StopSignals(SignalQueue queue) : queue_(std::move(queue)) {}

  SignalQueue queue_;
  std::optional<StopRequest> stop_request_;
};

}  // namespace tmprof
