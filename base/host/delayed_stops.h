// SPDX-License-Identifier: Apache-2.0
// Holds back signals that ask to stop.

#pragma once

#include <csignal>

namespace tmprof {

// SIGINT, SIGTERM and SIGHUP wait while this object is there, and act afterwards. A SignalQueue
// that is made meanwhile takes those that came before, too.
class DelayedStops {
 public:
  DelayedStops() {
    sigset_t stops;
    sigemptyset(&stops);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  DelayedStops(const DelayedStops&) = delete;
  DelayedStops& operator=(const DelayedStops&) = delete;
  ~DelayedStops() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace tmprof
