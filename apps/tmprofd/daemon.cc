// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/daemon.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <mutex>
#include <utility>

#include "apps/tmprof/signal_queue.h"
#include "apps/tmprof/version.h"
#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/control_server.h"
#include "apps/tmprofd/daemon_status.h"
#include "apps/tmprofd/log.h"
#include "apps/tmprofd/metrics.h"
#include "apps/tmprofd/placement_session.h"
#include "apps/tmprofd/service_manager.h"

namespace tmprof {
namespace {

// One session after another, until told to stop. Signals come on its own thread, operators on the
// control server's.
class Daemon {
 public:
  Daemon(SignalQueue signals, UniqueFd wake, Config config, std::optional<std::string> file)
      : signals_(std::move(signals)),
        wake_(std::move(wake)),
        config_(std::move(config)),
        file_(std::move(file)) {
    status_.version = kVersion;
    status_.config_file = file_.value_or("");
  }

  Status Run() {
    std::optional<Config> before;  // the configuration of the session that ran last
    while (true) {
      const Log log(config_.log_level);
      auto session = Begin(log);
      if (session) {
        if (auto ran = Serve(**session, log); !ran) return ran;
        before = config_;
        const std::scoped_lock lock(mutex_);
        if (stop_) return {};
        config_ = *std::exchange(next_, std::nullopt);
      } else if (before) {
        log(LogLevel::kError, session.error().Message() + "; goes on by the configuration before");
        const std::scoped_lock lock(mutex_);
        config_ = *std::exchange(before, std::nullopt);
      } else {
        return Fail(session.error());
      }
    }
  }

 private:
  Result<std::unique_ptr<PlacementSession>> Begin(const Log& log) {
    auto session = PlacementSession::Open(config_, log, status_, board_);
    if (!session) return session;
    if (auto status = OpenToQuestions(); !status) return Fail(status.error());
    return session;
  }

  // Whoever asks is answered from one session to the next, unless another place to ask was set.
  Status OpenToQuestions() {
    const std::string socket = config_.control_socket.string();
    if (!control_ || socket != served_socket_) {
      control_.reset();
      auto started = ControlServer::Start(socket, board_, Handlers());
      if (!started) return Fail(started.error());
      control_ = *std::move(started);
      served_socket_ = socket;
    }
    if (config_.metrics != served_metrics_) {
      metrics_.reset();
      served_metrics_.reset();
      if (!config_.metrics) return {};
      auto started = MetricsServer::Start(config_.metrics->host, config_.metrics->port, board_);
      if (!started) return Fail(started.error());
      metrics_ = *std::move(started);
      served_metrics_ = config_.metrics;
    }
    return {};
  }

  Status Serve(PlacementSession& session, const Log& log) {
    SetSession(&session);
    log(LogLevel::kInfo, "ready");
    manager_.Ready("profiling and placing");
    const Status ran = session.Run([&] { return ShouldEnd(log); }, {signals_.fd(), wake_.get()});
    SetSession(nullptr);
    const std::scoped_lock lock(mutex_);
    if (stop_ || !ran) {
      manager_.Stopping();
    } else {
      manager_.Reloading(clock_.Now());
      log(LogLevel::kInfo, "goes on by another configuration");
    }
    return ran;
  }

  void SetSession(PlacementSession* session) {
    const std::scoped_lock lock(mutex_);
    session_ = session;
    if (session_ == nullptr) return;
    if (paused_) session_->mover().Pause();
    session_->PublishState();
  }

  bool ShouldEnd(const Log& log) {
    KeepWatchdogQuiet();
    eventfd_t ignored = 0;
    (void)eventfd_read(wake_.get(), &ignored);
    while (const auto info = signals_.Next()) {
      if (info->ssi_signo == SIGHUP) {
        ReadAgain(log);
      } else {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
      }
    }
    const std::scoped_lock lock(mutex_);
    return stop_ || next_;
  }

  void KeepWatchdogQuiet() {
    const auto period = manager_.watchdog();
    if (!period || clock_.Now() < alive_again_) return;
    manager_.Alive();
    alive_again_ = clock_.Now() + *period / 4;
  }

  void ReadAgain(const Log& log) {
    if (!file_) {
      log(LogLevel::kWarning, "SIGHUP: there is no configuration file to read again");
      return;
    }
    auto config = LoadConfig(*file_);
    if (!config) {
      log(LogLevel::kError, config.error().Message() + "; the configuration before stays in force");
      return;
    }
    const std::scoped_lock lock(mutex_);
    next_ = *std::move(config);
  }

  ControlHandlers Handlers() {
    return {.pause = [this] { return SetPaused(true); },
            .resume = [this] { return SetPaused(false); },
            .set = [this](const std::vector<Setting>& settings) { return Set(settings); },
            .stop = [this]() -> Status {
              const std::scoped_lock lock(mutex_);
              stop_ = true;
              (void)eventfd_write(wake_.get(), 1);
              return {};
            }};
  }

  Status SetPaused(bool paused) {
    const std::scoped_lock lock(mutex_);
    paused_ = paused;
    if (session_ == nullptr) return {};
    if (paused) {
      session_->mover().Pause();
    } else {
      session_->mover().Resume();
    }
    session_->PublishState();
    return {};
  }

  // From the next session on, which begins at once; until the file is read again.
  Status Set(const std::vector<Setting>& settings) {
    const std::scoped_lock lock(mutex_);
    auto config = WithSettings(next_ ? *next_ : config_, settings);
    if (!config) return Fail(config.error());
    next_ = *std::move(config);
    (void)eventfd_write(wake_.get(), 1);
    return {};
  }

  SignalQueue signals_;
  UniqueFd wake_;
  SystemClock clock_;
  ServiceManager manager_ = ServiceManager::FromEnvironment();
  MonotonicTime alive_again_;
  DaemonStatus status_;  // the session's, and what lasts from one to the next
  StatusBoard board_{clock_, DaemonStatus{.version = kVersion}};
  std::mutex mutex_;  // of all below
  Config config_;     // written by the daemon's own thread
  std::optional<std::string> file_;
  std::optional<Config> next_;
  bool stop_ = false;
  bool paused_ = false;
  PlacementSession* session_ = nullptr;  // the one that runs
  // The last, as operators use all of the above.
  std::string served_socket_;
  std::optional<ListenAddress> served_metrics_;
  std::unique_ptr<MetricsServer> metrics_;
  std::unique_ptr<ControlServer> control_;
};

}  // namespace

Status RunDaemon(Config config, const std::optional<std::string>& file) {
  auto signals = SignalQueue::Catch({SIGTERM, SIGINT, SIGHUP});
  if (!signals) return Fail(signals.error());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return Fail(Refused("make an event", "", errno));
  return Daemon(*std::move(signals), std::move(wake), std::move(config), file).Run();
}

}  // namespace tmprof
