// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/service_manager.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>

namespace tmprof {
namespace {

// A message is a line for each variable.
std::string StatusLine(std::string_view text) {
  std::string line = "STATUS=" + std::string(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  std::uint64_t interval = 0;
  std::optional<std::chrono::microseconds> watchdog;
  if (::sd_watchdog_enabled(0, &interval) > 0) watchdog = std::chrono::microseconds(interval);
  // The daemon goes on even if systemd did not hear it.
  return {[](const std::string& message) { (void)::sd_notify(0, message.c_str()); }, watchdog};
}

void ServiceManager::Ready(std::string_view what_it_does) {
  notify_("READY=1\n" + StatusLine(what_it_does));
}

void ServiceManager::Reloading(MonotonicTime now) {
  const auto at = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  notify_(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", at.count()));
}

void ServiceManager::Stopping() { notify_("STOPPING=1"); }

void ServiceManager::Say(std::string_view what_it_does) { notify_(StatusLine(what_it_does)); }

void ServiceManager::Alive() {
  if (watchdog_) notify_("WATCHDOG=1");
}

}  // namespace tmprof
