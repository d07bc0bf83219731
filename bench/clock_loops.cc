// SPDX-License-Identifier: Apache-2.0
// Measures the view that clock sampling has of each kind of access, and its cost to the target and
// the reader.
//
// Usage: clock_loops [MIB [PAIRS [OVERHEAD]]] For each loop: PAIRS pairs of windows of the target's
// CPU time, without and with the sampler, in alternating order. Prints the share of user samples
// with an address, the share of those inside the buffer, the median loss of throughput, the cost of
// one sample that follows from it, and the reader's CPU time per sample.

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/clock.h"
#include "base/median.h"
#include "profiler/sources/clock/clock_sampler.h"
#include "testbed/workloads/access_loops.h"

namespace tmprof {
namespace {

using workloads::AccessLoop;

double CpuSeconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Shared {
  std::atomic<std::uint64_t> iterations;
};

struct Child {
  pid_t pid = 0;
  clockid_t cpu_clock{};
  Shared* shared = nullptr;
};

Child StartLoop(AccessLoop loop, std::span<std::uint64_t> words) {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t pid = fork();
  if (pid == 0) {
    constexpr std::uint64_t kBatch = 20'000;
    if (loop == AccessLoop::kPointerChase) workloads::LinkForChase(words);
    for (;;) {
      volatile std::uint64_t sink = workloads::RunLoop(loop, words, kBatch);
      (void)sink;
      shared->iterations += kBatch;
    }
  }
  Child child{pid, {}, shared};
  clock_getcpuclockid(pid, &child.cpu_clock);
  while (shared->iterations == 0) usleep(1'000);
  return child;
}

struct Window {
  double rate = 0;  // iterations per CPU second
  double cpu_seconds = 0;
};

// Adds the CPU time of reading samples to `reader_cpu`.
Window Run(const Child& child, double cpu_seconds, ClockSampler* sampler, double& reader_cpu) {
  const double start = CpuSeconds(child.cpu_clock);
  const std::uint64_t before = child.shared->iterations;
  double now = start;
  while (now - start < cpu_seconds) {
    usleep(20'000);
    if (sampler) {
      const double service = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
      sampler->Service();
      reader_cpu += CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - service;
    }
    now = CpuSeconds(child.cpu_clock);
  }
  const auto done = static_cast<double>(child.shared->iterations - before);
  return {done / (now - start), now - start};
}

int Main(int argc, char** argv) {
  const std::size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 9;
  const double overhead = argc > 3 ? std::atof(argv[3]) : 0.05;
  KernelPerfApi api;
  SystemClock clock;
  const std::size_t bytes = mib << 20;
  for (const AccessLoop loop : workloads::kAccessLoops) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    const std::span words(static_cast<std::uint64_t*>(memory), bytes / sizeof(std::uint64_t));
    const Child child = StartLoop(loop, words);
    auto sampler =
        ClockSampler::Create(api, clock, {.max_overhead = overhead, .ns_per_sample = {}});
    if (!sampler) {
      fmt::print(stderr, "{}\n", sampler.error().Message());
      return 1;
    }
    TrackedProcess target;
    target.pid = Pid(child.pid);
    if (const Status status = (*sampler)->SetTargets({target}); !status) {
      fmt::print(stderr, "{}\n", status.error().Message());
      return 1;
    }
    (*sampler)->SetActive(false);
    (*sampler)->TakeEpoch();
    const double window = 0.3;
    std::vector<double> losses;
    double sampled_cpu = 0;
    double reader_cpu = 0;
    for (int pair = 0; pair < pairs; ++pair) {
      Window plain;
      Window sampled;
      const auto run_sampled = [&] {
        (*sampler)->SetActive(true);
        sampled = Run(child, window, sampler->get(), reader_cpu);
        (*sampler)->SetActive(false);
      };
      if (pair % 2 == 0) run_sampled();
      plain = Run(child, window, nullptr, reader_cpu);
      if (pair % 2 == 1) run_sampled();
      losses.push_back(1 - sampled.rate / plain.rate);
      sampled_cpu += sampled.cpu_seconds;
    }
    const SourceEpoch epoch = (*sampler)->TakeEpoch();
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    std::uint64_t without_address = 0;
    std::uint64_t kernel = 0;
    std::string reasons;
    for (const NamedCount& detail : epoch.status.details) {
      if (detail.name == "no_address") without_address = detail.count;
      if (detail.name == "kernel_mode") kernel = detail.count;
      if (detail.count > 0) reasons += fmt::format(" {}={}", detail.name, detail.count);
    }
    std::uint64_t inside = 0;
    std::uint64_t all = 0;
    const Vpn first = VpnOfAddress(reinterpret_cast<std::uint64_t>(memory));
    const VpnRange buffer{first, first + PageCount(bytes / kBasePageBytes)};
    for (const SampleRecord& record : epoch.samples) {
      all += record.loads + record.stores;
      if (buffer.Contains(record.key.vpn)) inside += record.loads + record.stores;
    }
    const auto addressed = static_cast<double>(*epoch.status.observations);
    const double user = addressed + static_cast<double>(without_address);
    const double samples = user + static_cast<double>(kernel);
    const double per_second = samples / sampled_cpu;
    const double loss = Median(losses);
    fmt::print(
        "{:14} {:6.0f} samples {:5.0f}/s (calibrated {:.1f} us): address {:5.1f} %, in buffer "
        "{:5.1f} %, loss {:5.2f} %, {:5.1f} us/sample, reader {:.2f} us/sample;{}\n",
        Name(loop), samples, per_second, (*sampler)->ns_per_sample() / 1e3, 100 * addressed / user,
        100.0 * static_cast<double>(inside) / static_cast<double>(std::max<std::uint64_t>(all, 1)),
        100 * loss, 1e6 * loss / per_second, 1e6 * reader_cpu / samples, reasons);
    munmap(memory, bytes);
  }
  return 0;
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) { return tmprof::Main(argc, argv); }
