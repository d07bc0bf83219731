// SPDX-License-Identifier: Apache-2.0
// Tells systemd of the daemon's state (sd_notify(3)). Has no effect if systemd does not run the
// daemon.

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tmprof {

class ServiceManager {
 public:
  // Takes what sd_notify(3) does.
  using Notify = std::function<void(const std::string&)>;

  // Reads NOTIFY_SOCKET and WATCHDOG_USEC.
  static ServiceManager FromEnvironment();
  ServiceManager(Notify notify, std::optional<std::chrono::microseconds> watchdog)
      : notify_(std::move(notify)), watchdog_(watchdog) {}

  // Within each of these Alive() must be called, at best twice; nothing: no watchdog.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

  void Ready(std::string_view what_it_does);
  // `now` as of CLOCK_MONOTONIC. Ready() reports that it is over.
  void Reloading(MonotonicTime now);
  void Stopping();
  void Say(std::string_view what_it_does);  // `systemctl status` shows the text
  void Alive();

 private:
  Notify notify_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace tmprof
