// SPDX-License-Identifier: Apache-2.0
// A skewed load on a Redis server: fills it with keys, then reads and writes them, a few far more
// often than the rest. Pipelined, so that the server and not the round trip is the limit.

#include <fmt/format.h>
#include <hiredis.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/workloads/parse.h"
#include "bench/workloads/pattern.h"
#include "bench/workloads/print.h"
#include "bench/workloads/workload.h"

namespace {

using std::chrono::nanoseconds;
using tmprof::workload::AddOption;
using tmprof::workload::AddOptional;
using tmprof::workload::Fraction;
using tmprof::workload::Heat;
using tmprof::workload::Print;
using tmprof::workload::Random;
using Clock = std::chrono::steady_clock;

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
};

// One connection with up to a pipeline's depth of commands under way.
class Client {
 public:
  static std::expected<Client, std::string> Connect(const Options& options) {
    Context context(::redisConnect(options.host.c_str(), static_cast<int>(options.port)));
    if (context == nullptr) return std::unexpected("cannot connect: out of memory");
    if (context->err != 0) {
      return std::unexpected(fmt::format("cannot connect to {} port {}: {}", options.host,
                                         options.port, context->errstr));
    }
    return Client(std::move(context), std::string(options.value_bytes, 'v'));
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

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::expected<void, std::string> Load(const Options& options, Client& client) {
  const Clock::time_point start = Clock::now();
  for (std::uint64_t key = 0; key < options.keys;) {
    const std::uint64_t end = std::min(key + options.pipeline, options.keys);
    while (key < end) client.QueueSet(key++);
    if (auto sent = client.Flush(); !sent) return sent;
  }
  Print(stdout, "redis_load: loaded {} keys of {} B in {:.1f} s\n", options.keys,
        options.value_bytes, SecondsSince(start));
  std::fflush(stdout);
  return {};
}

std::expected<std::uint64_t, std::string> Drive(const Options& options, Client& client) {
  const Heat heat(tmprof::workload::ZipfPattern(options.keys, options.skew), options.seed);
  Random random(Random::Mix(options.seed));
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + options.duration;
  std::uint64_t operations = 0;
  while (Clock::now() < end) {
    for (std::uint64_t i = 0; i < options.pipeline; ++i) {
      Fraction rest(0);
      const std::uint64_t key = heat.Draw(heat.AtPhase(0), random, rest);
      const bool set = static_cast<double>(random.Next()) < options.set_share * 0x1p64;
      set ? client.QueueSet(key) : client.QueueGet(key);
    }
    if (auto sent = client.Flush(); !sent) return std::unexpected(sent.error());
    operations += options.pipeline;
    if (options.operations_per_s) {
      const double due_s = static_cast<double>(operations) / *options.operations_per_s;
      const auto left =
          std::min(start + nanoseconds(static_cast<std::int64_t>(due_s * 1e9)), end) - Clock::now();
      if (left.count() > 0) {
        const timespec pause{.tv_sec = left / std::chrono::seconds(1),
                             .tv_nsec = (left % std::chrono::seconds(1)).count()};
        ::nanosleep(&pause, nullptr);
      }
    }
  }
  return operations;
}

std::expected<void, std::string> Run(const Options& options) {
  auto client = Client::Connect(options);
  if (!client) return std::unexpected(client.error());
  if (!options.skip_load) {
    if (auto loaded = Load(options, *client); !loaded) return loaded;
  }
  if (options.duration.count() == 0) return {};
  const Clock::time_point start = Clock::now();
  const auto operations = Drive(options, *client);
  if (!operations) return std::unexpected(operations.error());
  const double seconds = SecondsSince(start);
  const double per_second = seconds > 0 ? static_cast<double>(*operations) / seconds : 0;
  Print(stdout, "redis_load: {} operations in {:.1f} s: {:.0f} per second\n", *operations, seconds,
        per_second);
  Print(stdout,
        "{{\"workload\":\"redis_load\",\"keys\":{},\"value_bytes\":{},\"operations\":{},"
        "\"missing\":{},\"seconds\":{:.6f},\"operations_per_second\":{:.1f}}}\n",
        options.keys, options.value_bytes, *operations, client->missing(), seconds, per_second);
  if (std::fflush(stdout) != 0) return std::unexpected("cannot write to standard output");
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
  app.set_help_flag("--help", "Print this help and exit");
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
  app.add_flag("--skip-load", options.skip_load, "The keys are there already");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const auto done = Run(options); !done) {
    Print(stderr, "redis_load: {}\n", done.error());
    return 1;
  }
  return 0;
}
