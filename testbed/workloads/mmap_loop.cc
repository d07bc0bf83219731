// SPDX-License-Identifier: Apache-2.0
// Maps, touches and unmaps a small area again and again, each round timed: what a profiler that
// holds mmap_lock costs a program that needs it. Between the rounds it accesses a footprint, so
// that the profiler has something to look at.

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "testbed/workloads/memory.h"
#include "testbed/workloads/parse.h"
#include "testbed/workloads/pattern.h"
#include "testbed/workloads/print.h"
#include "testbed/workloads/program.h"
#include "testbed/workloads/timing.h"

namespace {

using std::chrono::nanoseconds;
using tmprof::workload::BadInput;
using tmprof::workload::Ended;
using tmprof::workload::Fraction;
using tmprof::workload::kBasePageBytes;
using tmprof::workload::Memory;
using tmprof::workload::Now;
using tmprof::workload::Print;
using tmprof::workload::Random;
using tmprof::workload::Refused;

struct Options {
  std::uint64_t footprint_bytes = 0;
  std::uint64_t mapping_bytes = 0;
  std::uint64_t accesses_between = 0;
  nanoseconds duration{0};
  nanoseconds window{0};
  std::uint64_t seed = 0;
};

// One round; false with errno set if the kernel refused the mapping.
bool MapTouchUnmap(std::uint64_t mapping_bytes) {
  void* area =
      ::mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return false;
  for (std::uint64_t at = 0; at < mapping_bytes; at += kBasePageBytes) {
    static_cast<volatile char*>(area)[at] = 1;
  }
  return ::munmap(area, mapping_bytes) == 0;
}

// The smallest latency that at least `share` of the rounds did not exceed. Reorders.
std::int64_t Quantile(std::vector<std::int64_t>& latencies_ns, double share) {
  const auto last = static_cast<double>(latencies_ns.size()) - 1;
  const auto at = latencies_ns.begin() + static_cast<std::ptrdiff_t>(share * last);
  std::ranges::nth_element(latencies_ns, at);
  return *at;
}

void PrintWindow(nanoseconds start, nanoseconds end, nanoseconds cpu_time,
                 std::vector<std::int64_t>& latencies_ns) {
  Print(stdout,
        "{{\"t_start_ns\":{},\"t_end_ns\":{},\"rounds\":{},\"cpu_ns\":{},\"p50_ns\":{},"
        "\"p99_ns\":{},\"p999_ns\":{},\"max_ns\":{}}}\n",
        start.count(), end.count(), latencies_ns.size(), cpu_time.count(),
        Quantile(latencies_ns, 0.5), Quantile(latencies_ns, 0.99), Quantile(latencies_ns, 0.999),
        Quantile(latencies_ns, 1));
  std::fflush(stdout);
}

Ended Run(const Options& options) {
  if (options.window.count() == 0 || options.footprint_bytes % kBasePageBytes != 0 ||
      options.mapping_bytes % kBasePageBytes != 0)
    return BadInput("--window must be above 0, the sizes multiples of 4 KiB");
  const auto memory = Memory::Map(options.footprint_bytes, false);
  if (!memory) return Refused(memory.error());
  Print(stdout, "mmap_loop: PID {}, {} rounds beside {}\n", ::getpid(),
        tmprof::workload::FormatBytes(options.mapping_bytes),
        tmprof::workload::FormatBytes(options.footprint_bytes));
  std::fflush(stdout);

  Random random(Random::Mix(options.seed));
  std::uint64_t checksum = 0;
  std::vector<std::int64_t> latencies_ns;
  const nanoseconds end = Now() + options.duration;
  while (Now() < end) {
    latencies_ns.clear();
    const nanoseconds window_start = Now();
    const nanoseconds cpu_start = Now(CLOCK_THREAD_CPUTIME_ID);
    const nanoseconds window_end = std::min(window_start + options.window, end);
    nanoseconds now = window_start;
    while (now < window_end) {
      for (std::uint64_t i = 0; i < options.accesses_between; ++i) {
        checksum += memory->words()[Fraction(random.Next())
                                        .Take(options.footprint_bytes / sizeof(std::uint64_t))];
      }
      const nanoseconds round_start = Now();
      if (!MapTouchUnmap(options.mapping_bytes)) {
        return Refused(fmt::format("cannot map {} bytes: {} ({})", options.mapping_bytes,
                                   strerrorname_np(errno), std::strerror(errno)));
      }
      now = Now();
      latencies_ns.push_back((now - round_start).count());
    }
    PrintWindow(window_start, now, Now(CLOCK_THREAD_CPUTIME_ID) - cpu_start, latencies_ns);
  }
  Print(stdout, "{{\"workload\":\"mmap_loop\",\"pid\":{},\"checksum\":{}}}\n", ::getpid(),
        checksum);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  using tmprof::workload::AddOption;
  using tmprof::workload::ParseBytes;
  using tmprof::workload::ParseDuration;
  using tmprof::workload::ParseInteger;
  Options options;
  const tmprof::workload::App owned = tmprof::workload::MakeApp(
      "Maps, touches and unmaps a small area again and again and prints the latencies of "
      "each window as a JSON line.",
      "mmap_loop");
  CLI::App& app = *owned;
  AddOption(app, "--footprint", options.footprint_bytes, ParseBytes, "512MiB",
            "Memory accessed between the rounds");
  AddOption(app, "--mapping", options.mapping_bytes, ParseBytes, "16KiB",
            "Area that each round maps and touches");
  AddOption(app, "--accesses-between", options.accesses_between, ParseInteger, "64",
            "Random reads of the footprint between two rounds");
  AddOption(app, "--duration", options.duration, ParseDuration, "10s", "How long");
  AddOption(app, "--window", options.window, ParseDuration, "500ms", "Print quantiles so often");
  AddOption(app, "--seed", options.seed, ParseInteger, "1", "Of the reads");
  return tmprof::workload::RunProgram(app, argc, argv, [&] { return Run(options); });
}
