// SPDX-License-Identifier: Apache-2.0
// Tells where running processes wait for memory, by page, from clock samples: those of an
// instruction beyond what executing it explains (profiler/sources/clock/straight_lines.h). For
// bench/stall_deciles.
//
// Usage: stall_samples SECONDS RATE PID...
// RATE: samples in a second of CPU time. Children that the processes start are sampled, too. Prints
// JSON: the numbers of samples, and of each page with a sample [PID, page, samples, stalls, sum of
// the squares of the parts of samples that are stalls, the same two of misses].

#include <fmt/format.h>
#include <poll.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "profiler/sources/clock/clock_events.h"
#include "profiler/sources/clock/culprit_cache.h"
#include "profiler/sources/clock/straight_lines.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {
namespace {

constexpr std::size_t kRingBytes = std::size_t{2} << 20;
constexpr int kPollMs = 20;

struct Sample {
  std::uint64_t ip;
  Vpn page;
};

// Samples of one process.
struct Sampled {
  std::map<std::uint64_t, std::uint64_t> by_ip;  // those without an address, too
  std::vector<Sample> with_address;
};

struct Totals {
  std::uint64_t user = 0;
  std::uint64_t kernel = 0;
  std::uint64_t lost = 0;
};

struct OfPage {
  std::uint64_t samples = 0;
  double stalls = 0;
  double squares = 0;
  double misses = 0;
  double squares_of_misses = 0;
};

class Collector {
 public:
  explicit Collector(PerfApi& api) : api_(&api), cache_(api) {}

  void Take(const PerfRecord& record) {
    if (const auto* lost = std::get_if<PerfLost>(&record)) totals_.lost += lost->count;
    if (const auto* change = std::get_if<PerfCodeChange>(&record)) cache_.Forget(change->process);
    const auto* sample = std::get_if<PerfSample>(&record);
    if (sample == nullptr) return;
    if (sample->kernel_mode) {
      ++totals_.kernel;
      return;
    }
    ++totals_.user;
    if (!sample->registers) return;
    const std::uint64_t ip = sample->registers->ip;
    Sampled& of_process = sampled_[sample->process];
    ++of_process.by_ip[ip];
    const Culprit& culprit = cache_.Find(sample->process, ip);
    if (culprit.outcome != OperandOutcome::kAddress) return;
    const std::uint64_t address = culprit.first.Address(sample->registers->general);
    of_process.with_address.push_back({.ip = ip, .page = VpnOfAddress(address)});
  }

  void Print() const {
    std::uint64_t with_address = 0;
    double stalls = 0;
    double misses = 0;
    std::string rows;
    for (const auto& [pid, sampled] : sampled_) {
      const StraightLines lines(sampled.by_ip,
                                [&](std::uint64_t address, std::span<std::uint8_t> into) {
                                  return api_->ReadMemory(pid, address, into);
                                });
      std::map<Vpn, OfPage> pages;
      for (const Sample& sample : sampled.with_address) {
        const double part = lines.StallPart(sample.ip);
        OfPage& page = pages[sample.page];
        ++page.samples;
        page.stalls += part;
        page.squares += part * part;
        stalls += part;
        const double miss = lines.MissPart(sample.ip);
        page.misses += miss;
        page.squares_of_misses += miss * miss;
        misses += miss;
      }
      with_address += sampled.with_address.size();
      for (const auto& [vpn, page] : pages) {
        rows += fmt::format("{}\n[{}, {}, {}, {:.4f}, {:.4f}, {:.4f}, {:.4f}]",
                            rows.empty() ? "" : ",", pid.value(), vpn.value(), page.samples,
                            page.stalls, page.squares, page.misses, page.squares_of_misses);
      }
    }
    fmt::print(
        "{{\"user_samples\": {}, \"kernel_samples\": {}, \"lost\": {}, \"with_address\": {}, "
        "\"stalls\": {:.2f}, \"misses\": {:.2f}, \"pages\": [{}]}}\n",
        totals_.user, totals_.kernel, totals_.lost, with_address, stalls, misses, rows);
  }

 private:
  PerfApi* api_;
  CulpritCache cache_;
  std::map<Pid, Sampled> sampled_;
  Totals totals_;
};

int Refuse(const Error& error) {
  fmt::print(stderr, "stall_samples: {}\n", error.Message());
  return error.ExitStatus();
}

int Main(std::span<char*> arguments) {
  if (arguments.size() < 4) {
    fmt::print(stderr, "Usage: stall_samples SECONDS RATE PID...\n");
    return 2;
  }
  const double seconds = std::atof(arguments[1]);
  const double rate = std::atof(arguments[2]);
  if (!(seconds > 0 && rate > 0 && std::isfinite(seconds) && std::isfinite(rate))) {
    fmt::print(stderr, "stall_samples: SECONDS and RATE are numbers above 0\n");
    return 2;
  }
  std::vector<Pid> pids;
  for (const char* each : arguments.subspan(3)) pids.push_back(Pid(std::atoi(each)));

  KernelPerfApi api;
  const Result<ClockSetup> setup = FindClockSetup(api);
  if (!setup) return Refuse(setup.error());
  const std::chrono::nanoseconds period(static_cast<std::int64_t>(1e9 / rate));
  Result<TaskEvents> events =
      TaskEvents::Create(api, {MakeClockEvent(*setup, PrimePeriod(period))}, kRingBytes);
  if (!events) return Refuse(events.error());
  Collector collector(api);
  const auto take = [&](const PerfRecord& record) { collector.Take(record); };
  if (const Status followed = events->Follow(pids, take); !followed)
    return Refuse(followed.error());
  const SystemClock clock;
  const MonotonicTime end =
      clock.Now() + std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  while (clock.Now() < end) {
    poll(nullptr, 0, kPollMs);
    events->Drain(take);
  }
  collector.Print();  // while the processes' code can be read
  return 0;
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  return tmprof::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
