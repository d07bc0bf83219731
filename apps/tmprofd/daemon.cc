// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/daemon.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/placement_session.h"
#include "base/host/signal_queue.h"
#include "base/version.h"
#include "daemon/control/control_server.h"
#include "daemon/control/daemon_status.h"
#include "daemon/control/hot_requests.h"
#include "daemon/control/log.h"
#include "daemon/control/metrics.h"
#include "daemon/control/service_manager.h"
#include "daemon/control/setting_requests.h"

namespace tmprof {
namespace {

// For a configuration that was set to be in force, before whoever set it gets no answer
// (ctl_command.cc). Sources are opened and measured meanwhile.
constexpr std::chrono::seconds kPatience{4};

// The service manager only shows it to those who ask.
constexpr std::chrono::seconds kTellAgain{10};

constexpr const char* kEnds = "the daemon ends";
constexpr const char* kElsewhere = "the daemon answers at another socket from now on";

int Fatal(const Error& error, const Log& log) {
  log(LogLevel::kError, error.Message());
  return error.ExitStatus();
}

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

  int Run() {
    const Status ended = ServeSessions();
    hot_.Refuse(kEnds);
    const std::scoped_lock lock(mutex_);
    requests_.Refuse(kEnds);
    return ended ? EXIT_SUCCESS : Fatal(ended.error(), Log(config_.log));
  }

 private:
  Status ServeSessions() {
    while (true) {
      Log log(config_.log);
      const Status ran = BeginAndServe(log);
      const std::scoped_lock lock(mutex_);
      if (stop_) return ran;
      if (ran) {
        status_.refusal.reset();  // the fate of the next attempt is not known yet
        config_ = *std::exchange(next_, std::nullopt);
        requests_.Try();
      } else if (before_) {
        TellRefusal(ran.error(), "goes on by the configuration before", log);
        requests_.Answer(ran);
        config_ = *std::exchange(before_, std::nullopt);
        if (next_ && !next_is_from_file_) {  // set on top of what was refused
          next_.reset();
          requests_.Try();
          requests_.Answer(ran);
        }
      } else {
        return ran;
      }
    }
  }

  // An error: what refused the session before it had observed anything, or ended it later.
  Status BeginAndServe(Log& log) {
    auto session = PlacementSession::Open(config_, log, status_, board_);
    if (!session) return Fail(session.error());
    if (auto status = OpenToQuestions(); !status) return status;
    if (auto status = (*session)->BeginLedger(); !status) return status;
    return Serve(**session, log);
  }

  // Whoever asks is answered from one session to the next, unless another place to ask was set.
  // What is refused leaves the places as they were.
  Status OpenToQuestions() {
    std::unique_ptr<MetricsServer> metrics;
    const bool metrics_move = config_.metrics != served_metrics_;
    if (metrics_move && config_.metrics) {
      auto started = MetricsServer::Start(config_.metrics->host, config_.metrics->port, board_);
      if (!started) return Fail(started.error());
      metrics = *std::move(started);
    }
    const std::string socket = config_.control_socket.string();
    if (!control_ || socket != served_socket_) {
      auto started = ControlServer::Start(socket, board_, Handlers());
      if (!started) return Fail(started.error());
      {
        const std::scoped_lock lock(mutex_);
        requests_.Answer({});  // in case it is still read; the server's end waits for all who wait
        requests_.Refuse(kElsewhere);
      }
      hot_.Refuse(kElsewhere);
      control_ = *std::move(started);
      served_socket_ = socket;
      hot_.TakeAgain();
      const std::scoped_lock lock(mutex_);
      requests_.TakeAgain();
    }
    if (metrics_move) {
      metrics_ = std::move(metrics);
      served_metrics_ = config_.metrics;
    }
    return {};
  }

  Status Serve(PlacementSession& session, Log& log) {
    SetSession(&session);
    log(LogLevel::kInfo, "ready");
    manager_.Ready("profiling and placing");
    const Status ran =
        session.Run([&] { return ShouldEnd(session, log); }, {signals_.fd(), wake_.get()});
    SetSession(nullptr);
    if (session.has_observed()) {
      before_.reset();
      if (ran) before_ = config_;
    }
    const std::scoped_lock lock(mutex_);
    if (stop_ || !ran) {
      manager_.Stopping();
    } else {
      manager_.Reloading(clock_.Now());
      log(LogLevel::kInfo, "goes on by another configuration");
    }
    return ran;
  }

  void TellRefusal(const Error& error, std::string_view consequence, const Log& log) {
    status_.refusal = fmt::format("{}; {}", error.Message(), consequence);
    log(LogLevel::kError, *status_.refusal);
    board_.Amend([this](DaemonStatus& status) { status.refusal = status_.refusal; });
  }

  void SetSession(PlacementSession* session) {
    const std::scoped_lock lock(mutex_);
    session_ = session;
    if (session_ == nullptr) return;
    if (paused_) session_->mover().Pause();
    session_->PublishState();
  }

  // Asked for the first time when the sources of targets that are there are attached.
  bool ShouldEnd(PlacementSession& session, Log& log) {
    {
      const std::scoped_lock lock(mutex_);
      requests_.Answer({});
    }
    KeepWatchdogQuiet();
    TellWhatItDoes();
    eventfd_t ignored = 0;
    (void)eventfd_read(wake_.get(), &ignored);
    hot_.Answer([&](std::size_t most) { return Hottest(session, most); });
    while (const auto info = signals_.Next()) {
      if (info->ssi_signo == SIGHUP) {
        ReadAgain(log);
      } else {
        Stop();
      }
    }
    {
      const std::scoped_lock lock(mutex_);
      if (stop_ || !next_) return stop_;
      if (!ObserveAlike(config_, *next_)) return true;
    }
    Adopt(session, log);
    return false;
  }

  // Gives the running session the next configuration. A configuration that is refused changes no
  // part of it.
  void Adopt(PlacementSession& session, Log& log) {
    const Config before = config_;
    {
      const std::scoped_lock lock(mutex_);
      config_ = *std::exchange(next_, std::nullopt);
      requests_.Try();
    }
    manager_.Reloading(clock_.Now());
    Status adopted = OpenToQuestions();
    if (adopted) adopted = session.Adopt(config_);
    if (adopted) {
      log = Log(config_.log);
      log(LogLevel::kInfo, "goes on by another configuration");
      status_.refusal.reset();
      board_.Amend([](DaemonStatus& status) { status.refusal.reset(); });
    } else {
      TellRefusal(adopted.error(), "goes on by the configuration before", log);
    }
    manager_.Ready("profiling and placing");
    {
      const std::scoped_lock lock(mutex_);
      if (!adopted) {
        config_ = before;
        if (!next_is_from_file_) next_.reset();  // set on top of what was refused
      }
      if (!next_) requests_.Try();
      requests_.Answer(adopted);
    }
    if (adopted) return;
    if (const Status reopened = OpenToQuestions(); !reopened) {
      log(LogLevel::kError, reopened.error().Message());
    }
  }

  void KeepWatchdogQuiet() {
    const auto period = manager_.watchdog();
    if (!period || clock_.Now() < alive_again_) return;
    manager_.Alive();
    alive_again_ = clock_.Now() + *period / 4;
  }

  Result<HotList> Hottest(PlacementSession& session, std::size_t most) {
    auto list = session.Hottest(most);
    if (!list) return list;
    for (const TargetStatus& target : board_.Read().status->targets) {
      list->processes.push_back({target.id, target.pid, target.name});
    }
    return list;
  }

  void TellWhatItDoes() {
    if (clock_.Now() < tell_again_) return;
    tell_again_ = clock_.Now() + kTellAgain;
    manager_.Say(Summary(*board_.Read().status));
  }

  void ReadAgain(const Log& log) {
    if (!file_) {
      log(LogLevel::kWarning, "SIGHUP: there is no configuration file to read again");
      return;
    }
    auto config = LoadConfig(*file_);
    if (!config) {
      TellRefusal(config.error(), "the configuration before stays in force", log);
      return;
    }
    const std::scoped_lock lock(mutex_);
    next_ = *std::move(config);
    next_is_from_file_ = true;
    requests_.Try();
    requests_.Answer(Fail(NotInForce("its file was read again meanwhile", "set it again")));
  }

  ControlHandlers Handlers() {
    return {.pause = [this] { return SetPaused(true); },
            .resume = [this] { return SetPaused(false); },
            .set = [this](const std::vector<Setting>& settings) { return Set(settings); },
            .hot =
                [this](std::size_t most) {
                  return hot_.Ask(most, kPatience, [this] { (void)eventfd_write(wake_.get(), 1); });
                },
            .stop = [this]() -> Status {
              Stop();
              (void)eventfd_write(wake_.get(), 1);
              return {};
            }};
  }

  void Stop() {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    hot_.Refuse(kEnds);
    requests_.Refuse(kEnds);
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

  // The settings hold for the next session, which begins at once, and until the file is read again.
  Status Set(const std::vector<Setting>& settings) {
    std::unique_lock lock(mutex_);
    if (auto takes = requests_.Takes(); !takes) return takes;
    auto config = WithSettings(next_ ? *next_ : config_, settings);
    if (!config) return Fail(config.error());
    if (!next_) next_is_from_file_ = false;
    next_ = *std::move(config);
    const std::uint64_t mine = requests_.Ask();
    (void)eventfd_write(wake_.get(), 1);
    return requests_.Wait(lock, mine, kPatience);
  }

  SignalQueue signals_;
  UniqueFd wake_;
  SystemClock clock_;
  ServiceManager manager_ = ServiceManager::FromEnvironment();
  MonotonicTime alive_again_;
  MonotonicTime tell_again_;
  DaemonStatus status_;  // the session's, and what lasts from one to the next
  StatusBoard board_{clock_, DaemonStatus{.version = kVersion}};
  std::mutex mutex_;              // guards all below
  Config config_;                 // written by the daemon's own thread
  std::optional<Config> before_;  // configuration of the last session that observed; used by the
                                  // daemon's thread alone
  std::optional<std::string> file_;
  std::optional<Config> next_;
  bool next_is_from_file_ = false;  // with what was set since
  SettingRequests requests_;
  HotRequests hot_;  // has a mutex of its own
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

int RunDaemon(Config config, const std::optional<std::string>& file) {
  const Log log(config.log);
  auto signals = SignalQueue::Catch({SIGTERM, SIGINT, SIGHUP});
  if (!signals) return Fatal(signals.error(), log);
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return Fatal(Refused("make an event", "", errno), log);
  return Daemon(*std::move(signals), std::move(wake), std::move(config), file).Run();
}

}  // namespace tmprof
