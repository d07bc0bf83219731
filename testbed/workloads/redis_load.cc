// SPDX-License-Identifier: Apache-2.0
// A skewed load on a Redis server: fills it with keys, then reads and writes them, a few far more
// often than the rest. Pipelined, so that the server and not the round trip is the limit.

#include <fmt/format.h>
#include <hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "testbed/workloads/parse.h"
#include "testbed/workloads/pattern.h"
#include "testbed/workloads/print.h"
#include "testbed/workloads/program.h"
#include "testbed/workloads/run.h"
#include "testbed/workloads/timeline.h"
#include "testbed/workloads/timing.h"

namespace {

using std::chrono::nanoseconds;
using tmprof::workload::AddOption;
using tmprof::workload::AddOptional;
using tmprof::workload::Duty;
using tmprof::workload::Ended;
using tmprof::workload::EndSignals;
using tmprof::workload::Fraction;
using tmprof::workload::Heat;
using tmprof::workload::Instant;
using tmprof::workload::Now;
using tmprof::workload::Print;
using tmprof::workload::Random;
using tmprof::workload::Refused;
using tmprof::workload::Timeline;

struct Options {
  std::string host = "127.0.0.1";
  std::uint64_t port = 0;
  std::uint64_t keys = 0;
  std::uint64_t value_bytes = 0;
  double skew = 0;
  double set_share = 0;
  std::optional<double> operations_per_s;
  nanoseconds duration{0};
  std::uint64_t pipeline = 0;
  std::uint64_t seed = 0;
  bool skip_load = false;
  bool serve = false;
  Duty duty;
};

// One connection with up to a pipeline's depth of commands under way.
class Client {
 public:
  static std::expected<Client, std::string> Connect(const Options& options) {
    return Adopt(::redisConnect(options.host.c_str(), static_cast<int>(options.port)),
                 fmt::format("{} port {}", options.host, options.port), options.value_bytes);
  }
  static std::expected<Client, std::string> ConnectLocal(const std::string& socket_path,
                                                         std::uint64_t value_bytes) {
    return Adopt(::redisConnectUnix(socket_path.c_str()), socket_path, value_bytes);
  }

  void QueueSet(std::uint64_t key) {
    ::redisAppendCommand(context_.get(), "SET key:%b %b", KeyText(key), kKeyDigits, value_.data(),
                         value_.size());
    ++queued_;
  }

  void QueueGet(std::uint64_t key) {
    ::redisAppendCommand(context_.get(), "GET key:%b", KeyText(key), kKeyDigits);
    ++queued_;
  }

  // Sends what is queued and waits for every answer; an answer that is an error ends the load.
  std::expected<void, std::string> Flush() {
    for (; queued_ > 0; --queued_) {
      void* answer = nullptr;
      if (::redisGetReply(context_.get(), &answer) != REDIS_OK) {
        return std::unexpected(fmt::format("lost the server: {}", context_->errstr));
      }
      const Reply reply(static_cast<redisReply*>(answer));
      if (reply->type == REDIS_REPLY_ERROR) {
        return std::unexpected(fmt::format("the server refused: {}", reply->str));
      }
      missing_ += reply->type == REDIS_REPLY_NIL;
    }
    return {};
  }

  // GETs so far that found no such key.
  std::uint64_t missing() const { return missing_; }

 private:
  template <auto kFree>
  struct Deleter {
    void operator()(auto* object) const { kFree(object); }
  };
  using Context = std::unique_ptr<redisContext, Deleter<::redisFree>>;
  using Reply = std::unique_ptr<redisReply, Deleter<::freeReplyObject>>;

  static constexpr std::size_t kKeyDigits = 12;

  static std::expected<Client, std::string> Adopt(redisContext* connection,
                                                  const std::string& server,
                                                  std::uint64_t value_bytes) {
    Context context(connection);
    if (context == nullptr) return std::unexpected("cannot connect: out of memory");
    if (context->err != 0) {
      return std::unexpected(fmt::format("cannot connect to {}: {}", server, context->errstr));
    }
    return Client(std::move(context), std::string(value_bytes, 'v'));
  }

  Client(Context context, std::string value)
      : context_(std::move(context)), value_(std::move(value)) {}

  const char* KeyText(std::uint64_t key) {
    key_ = fmt::format("{:0{}}", key, kKeyDigits);
    return key_.data();
  }

  Context context_;
  std::string value_;
  std::string key_;
  std::uint64_t queued_ = 0;
  std::uint64_t missing_ = 0;
};

// A redis-server from PATH that keeps nothing on disk, in a folder of its own, reached by a socket
// there. It ends with this object, and with this process however that ends.
class Server {
 public:
  static std::expected<std::unique_ptr<Server>, std::string> Start() {
    std::string folder = std::filesystem::temp_directory_path() / "redis_load.XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) {
      return std::unexpected(
          fmt::format("cannot create folder '{}': {}", folder, strerrorname_np(errno)));
    }
    std::unique_ptr<Server> server(new Server(folder));
    server->pid_ = ::fork();
    if (server->pid_ == 0) Exec(server->socket_path(), folder);
    if (server->pid_ < 0)
      return std::unexpected(fmt::format("cannot fork: {}", strerrorname_np(errno)));
    return server;
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);  // it holds nothing to save
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  pid_t pid() const { return pid_; }

  // Once it answers; as long as it lives it is waited for.
  std::expected<Client, std::string> Connect(std::uint64_t value_bytes, const EndSignals& signals) {
    for (;;) {
      auto client = Client::ConnectLocal(socket_path(), value_bytes);
      if (client) return client;
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        const bool not_run = WIFEXITED(status) && WEXITSTATUS(status) == kNotRun;
        return std::unexpected(not_run ? std::string("cannot run redis-server; is it in PATH?")
                                       : fmt::format("redis-server ended with status {}", status));
      }
      if (signals.WaitUntil(Now() + std::chrono::milliseconds(10))) {
        return std::unexpected("ended before redis-server answered");
      }
    }
  }

 private:
  static constexpr int kNotRun = 127;

  explicit Server(std::string folder) : folder_(std::move(folder)) {}

  std::string socket_path() const { return folder_ + "/socket"; }

  [[noreturn]] static void Exec(const std::string& socket_path, const std::string& folder) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_path.c_str(),
             "--dir", folder.c_str(), "--logfile", (folder + "/log").c_str(), "--save", "",
             "--appendonly", "no", nullptr);
    ::_exit(kNotRun);
  }

  std::string folder_;
  pid_t pid_ = 0;
};

double SecondsSince(Instant start) { return std::chrono::duration<double>(Now() - start).count(); }

// Until all keys are there or a signal arrived: false then.
std::expected<bool, std::string> Load(const Options& options, Client& client,
                                      const EndSignals& signals) {
  const Instant start = Now();
  for (std::uint64_t key = 0; key < options.keys;) {
    const std::uint64_t end = std::min(key + options.pipeline, options.keys);
    while (key < end) client.QueueSet(key++);
    if (auto sent = client.Flush(); !sent) return std::unexpected(sent.error());
    if (signals.WaitUntil(Instant(0))) return false;
  }
  Print(stdout, "redis_load: loaded {} keys of {} B in {:.1f} s\n", options.keys,
        options.value_bytes, SecondsSince(start));
  std::fflush(stdout);
  return true;
}

// Operations within one time of work, or until a signal arrived.
class Driver {
 public:
  Driver(const Options& options, Client& client, const EndSignals& signals)
      : options_(options),
        client_(client),
        signals_(signals),
        heat_(tmprof::workload::ZipfPattern(options.keys, options.skew), options.seed),
        random_(Random::Mix(options.seed)) {}

  std::expected<std::uint64_t, std::string> Run() {
    const Timeline timeline{.start = Now(),
                            .shift = options_.duration,
                            .duration = options_.duration,
                            .duty = options_.duty};
    std::uint64_t operations = 0;
    for (auto stretch = timeline.Next(nanoseconds(0));
         stretch && !signals_.WaitUntil(timeline.start + stretch->start);
         stretch = timeline.Next(stretch->end)) {
      const Instant start = Now();
      const Instant end = timeline.start + stretch->end;
      for (std::uint64_t done = 0; Now() < end; operations += options_.pipeline) {
        if (auto sent = Batch(); !sent) return std::unexpected(sent.error());
        done += options_.pipeline;
        if (signals_.WaitUntil(Instant(0))) return operations + options_.pipeline;
        if (options_.operations_per_s)
          tmprof::workload::Pace(start, done, *options_.operations_per_s, end);
      }
    }
    return operations;
  }

 private:
  std::expected<void, std::string> Batch() {
    for (std::uint64_t i = 0; i < options_.pipeline; ++i) {
      Fraction rest(0);
      const std::uint64_t key = heat_.Draw(heat_.AtPhase(0), random_, rest);
      const bool set = static_cast<double>(random_.Next()) < options_.set_share * 0x1p64;
      set ? client_.QueueSet(key) : client_.QueueGet(key);
    }
    return client_.Flush();
  }

  const Options& options_;
  Client& client_;
  const EndSignals& signals_;
  const Heat heat_;
  Random random_;
};

Ended Run(const Options& options) {
  const EndSignals signals;
  std::unique_ptr<Server> server;
  if (options.serve) {
    auto started = Server::Start();
    if (!started) return Refused(started.error());
    server = *std::move(started);
  }
  auto client = server ? server->Connect(options.value_bytes, signals) : Client::Connect(options);
  if (!client) return Refused(client.error());
  if (server) {
    Print(stdout, "redis_load: PID {}, the server\n", server->pid());
    std::fflush(stdout);
  }
  if (!options.skip_load) {
    const auto loaded = Load(options, *client, signals);
    if (!loaded) return Refused(loaded.error());
    if (!*loaded) return {};
  }
  if (options.duration.count() == 0) return {};
  const Instant start = Now();
  const auto operations = Driver(options, *client, signals).Run();
  if (!operations) return Refused(operations.error());
  const double seconds = SecondsSince(start);
  const double per_second = seconds > 0 ? static_cast<double>(*operations) / seconds : 0;
  Print(stdout, "redis_load: {} operations in {:.1f} s: {:.0f} per second\n", *operations, seconds,
        per_second);
  Print(stdout,
        "{{\"workload\":\"redis_load\",{}\"keys\":{},\"value_bytes\":{},\"operations\":{},"
        "\"missing\":{},\"seconds\":{:.6f},\"operations_per_second\":{:.1f}}}\n",
        server ? fmt::format("\"pid\":{},", server->pid()) : "", options.keys, options.value_bytes,
        *operations, client->missing(), seconds, per_second);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  using tmprof::workload::ParseBytes;
  using tmprof::workload::ParseDuration;
  using tmprof::workload::ParseInteger;
  using tmprof::workload::ParseNumber;
  using tmprof::workload::ParseRate;
  using tmprof::workload::ParseShare;
  Options options;
  CLI::App app(
      "Loads keys into a Redis server, then accesses the k-th hottest of them in proportion "
      "to k^-skew.",
      "redis_load");
  app.add_option("--host", options.host, "Server")->capture_default_str();
  AddOption(app, "--port", options.port, ParseInteger, "6379", "Its TCP port")
      ->check(CLI::Range(1, 65535));
  AddOption(app, "--keys", options.keys, ParseInteger, "1000000", "Number of keys")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{UINT32_MAX}));
  AddOption(app, "--value", options.value_bytes, ParseBytes, "256B", "Size of each value");
  AddOption(app, "--skew", options.skew, ParseNumber, "0.99", "Exponent; 0 makes all keys alike");
  AddOption(app, "--set-share", options.set_share, ParseShare, "0.1",
            "Share of the operations that are SETs, the rest are GETs");
  AddOptional(app, "--rate", options.operations_per_s, ParseRate,
              "Operations per second (default: no limit)");
  AddOption(app, "--duration", options.duration, ParseDuration, "20s",
            "How long, after the keys are loaded; 0s: only load");
  AddOption(app, "--pipeline", options.pipeline, ParseInteger, "64", "Commands under way at once")
      ->check(CLI::Range(1, 65536));
  AddOption(app, "--seed", options.seed, ParseInteger, "1", "Of the choice of keys");
  tmprof::workload::AddDutyOptions(app, options.duty);
  CLI::Option* skip_load =
      app.add_flag("--skip-load", options.skip_load, "The keys are there already");
  app.add_flag("--serve", options.serve,
               "Start a redis-server for the load alone, and end it afterwards")
      ->excludes(skip_load)
      ->excludes("--host")
      ->excludes("--port");
  return tmprof::workload::RunProgram(app, argc, argv, [&] { return Run(options); });
}
