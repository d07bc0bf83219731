// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/daemon.h"

#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <utility>

#include "apps/tmprof/signal_queue.h"
#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/log.h"
#include "apps/tmprofd/placement_session.h"

namespace tmprof {
namespace {

// What signals have asked for.
class Orders {
 public:
  Orders(SignalQueue signals, std::optional<std::string> file)
      : signals_(std::move(signals)), file_(std::move(file)) {}

  int fd() const { return signals_.fd(); }
  bool stop() const { return stop_; }
  // Of a file that was read again and is good.
  std::optional<Config> TakeConfig() { return std::exchange(next_, std::nullopt); }

  // Whether the session is to end.
  bool Look(const Log& log) {
    while (const auto info = signals_.Next()) {
      if (info->ssi_signo == SIGHUP) {
        ReadAgain(log);
      } else {
        stop_ = true;
      }
    }
    return stop_ || next_;
  }

 private:
  void ReadAgain(const Log& log) {
    if (!file_) {
      log(LogLevel::kWarning, "SIGHUP: there is no configuration file to read again");
      return;
    }
    auto config = LoadConfig(*file_);
    if (config) {
      next_ = *std::move(config);
    } else {
      log(LogLevel::kError, config.error().Message() + "; the configuration before stays in force");
    }
  }

  SignalQueue signals_;
  std::optional<std::string> file_;
  bool stop_ = false;
  std::optional<Config> next_;
};

}  // namespace

Status RunDaemon(Config config, const std::optional<std::string>& file) {
  auto signals = SignalQueue::Catch({SIGTERM, SIGINT, SIGHUP});
  if (!signals) return Fail(signals.error());
  Orders orders(*std::move(signals), file);
  while (true) {
    const Log log(config.log_level);
    auto session = PlacementSession::Open(config, log);
    if (!session) return Fail(session.error());
    log(LogLevel::kInfo, "ready");
    const Status ran = (*session)->Run([&] { return orders.Look(log); }, orders.fd());
    if (!ran) return ran;
    if (orders.stop()) return {};
    config = *orders.TakeConfig();
    log(LogLevel::kInfo, fmt::format("goes on by {} as it is now", *file));
  }
}

}  // namespace tmprof
