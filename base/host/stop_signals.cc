// SPDX-License-Identifier: Apache-2.0

#include "base/host/stop_signals.h"

namespace tmprof {
namespace {

// True: the program was told, as by nohup(1), to outlive its terminal.
bool HangupIsIgnored() {
  struct sigaction action{};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<StopSignals> StopSignals::Catch() {
  // A blocked signal would be queued though it is ignored.
  auto queue = HangupIsIgnored() ? SignalQueue::Catch({SIGINT, SIGTERM, SIGCHLD, SIGPIPE})
                                 : SignalQueue::Catch({SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGHUP});
  if (!queue) return Fail(queue.error());
  return StopSignals(*std::move(queue));
}

const std::optional<StopRequest>& StopSignals::StopRequested() {
  while (const auto info = queue_.Next()) {
    const bool asks_to_stop = info->ssi_signo != SIGCHLD && info->ssi_signo != SIGPIPE;
    if (asks_to_stop && !stop_request_) {
      stop_request_ = {.signal = static_cast<int>(info->ssi_signo),
                       .from_terminal = info->ssi_code == SI_KERNEL};
    }
  }
  return stop_request_;
}

void StopSignals::Restore() {
  (void)StopRequested();
  queue_.Restore();
}

}  // namespace tmprof
