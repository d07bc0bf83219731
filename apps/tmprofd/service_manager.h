// SPDX-License-Identifier: Apache-2.0
// What systemd is told of the daemon, where it runs it (sd_notify(3)). Nothing, where it does not.

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

  // As NOTIFY_SOCKET and WATCHDOG_USEC have it.
  static ServiceManager FromEnvironment();
  ServiceManager(Notify notify, std::optional<std::chrono::microseconds> watchdog)
      : notify_(std::move(notify)), watchdog_(watchdog) {}

  // Within each of these Alive() must be called, at best twice; nothing: no watchdog.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

  void Ready(std::string_view what_it_does);
  // `now` as of CLOCK_MONOTONIC. Ready() tells that it is over.
  void Reloading(MonotonicTime now);
  void Stopping();
  void Say(std::string_view what_it_does);  // as `systemctl status` shows it
  void Alive();

 private:
  Notify notify_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace tmprof
