// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/clock_events.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "profiler/sources/perf/perf_record.h"
#include "profiler/sources/perf/perf_ring.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t kSampleType =
    PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER;

std::chrono::nanoseconds ThreadCpuTime() {
  timespec time{};
  TMPROF_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// Random updates of base pages beyond the reach of a core's caches and TLBs: refilling what an
// interrupt evicts is most of its cost to such a program, and the programs worth tiering are such.
class RandomUpdates {
 public:
  static Result<RandomUpdates> Create() {
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Fail(Refused("map memory", "64 MiB for calibration", errno));
    // Refused where the kernel has no huge pages at all.
    (void)::madvise(memory, kBytes, MADV_NOHUGEPAGE);
    return RandomUpdates(static_cast<std::uint64_t*>(memory));
  }
  RandomUpdates(RandomUpdates&& other) noexcept : words_(std::exchange(other.words_, nullptr)) {}
  RandomUpdates& operator=(RandomUpdates&&) = delete;
  ~RandomUpdates() {
    if (words_ != nullptr) TMPROF_CHECK(::munmap(words_, kBytes) == 0);
  }

  // CPU time that so many updates take.
  nanoseconds Run(int updates) {
    const nanoseconds start = ThreadCpuTime();
    for (int i = 0; i < updates; ++i) {
      state_ ^= state_ << 13;  // Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003)
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      words_[state_ % (kBytes / sizeof(std::uint64_t))] += state_;
    }
    return ThreadCpuTime() - start;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  explicit RandomUpdates(std::uint64_t* words) : words_(words) {
    for (std::size_t i = 0; i < kBytes / sizeof(std::uint64_t); i += 512) words_[i] = 1;
  }

  std::uint64_t* words_;
  std::uint64_t state_ = 88'172'645'463'325'252U;
};

// A stretch of updates, some 40 us without an interrupt.
struct Slice {
  nanoseconds cpu_time;
  std::uint64_t samples;
};

// Extra time of each slice with one sample over slices without one. The slice after it is counted
// in, as it still refills caches. Slices of one run are milliseconds apart at most, so the drift of
// a shared machine cancels. Empty if no sample stands alone.
std::vector<nanoseconds> CostsOf(const std::vector<Slice>& slices) {
  std::vector<nanoseconds> undisturbed;
  for (std::size_t i = 1; i < slices.size(); ++i)
    if (slices[i].samples + slices[i - 1].samples == 0) undisturbed.push_back(slices[i].cpu_time);
  std::vector<nanoseconds> costs;
  if (undisturbed.empty()) return costs;
  const nanoseconds usual = Median(std::move(undisturbed));
  for (std::size_t i = 0; i + 1 < slices.size(); ++i)
    if (slices[i].samples == 1 && slices[i + 1].samples == 0)
      costs.push_back(slices[i].cpu_time + slices[i + 1].cpu_time - 2 * usual);
  return costs;
}

Result<double> MeasureOnThisThread(PerfApi& api, const ClockSetup& setup) {
  constexpr int kUpdatesPerSlice = 2'000;
  constexpr nanoseconds kCpuTime = std::chrono::milliseconds(200);
  // Near the rates in use: at 10 kHz an interrupt finds the caches as the last one left them, and
  // seems to cost half (22 against 60 us in bench/clock_loops on a KVM guest).
  constexpr nanoseconds kPeriod = std::chrono::milliseconds(1);
  // Below this no timer interrupt is possible: a smaller result is noise.
  constexpr double kFloorNs = 500;
  constexpr std::size_t kRingBytes = 64 * 1024;

  NamedEvent event = MakeClockEvent(setup, PrimePeriod(kPeriod)).event;
  event.attr.disabled = 1;
  const auto fd = OpenEvent(api, event, Tid(::gettid()), std::nullopt);
  if (!fd) return std::unexpected(fd.error());
  const auto mapped = api.Map(fd->get(), kRingBytes);
  if (!mapped) return Fail(Refused("map perf ring", event.name, mapped.error()));
  RingMemory ring = *mapped;

  auto updates = RandomUpdates::Create();
  if (!updates) return std::unexpected(updates.error());
  std::vector<std::byte> scratch;
  std::vector<Slice> slices;
  updates->Run(kUpdatesPerSlice);
  (void)api.Enable(fd->get());
  for (nanoseconds spent{0}; spent < kCpuTime; spent += slices.back().cpu_time) {
    Slice slice{.cpu_time = updates->Run(kUpdatesPerSlice), .samples = 0};
    DrainRing(ring, scratch, [&](std::span<const std::byte>) { ++slice.samples; });
    slices.push_back(slice);
  }
  (void)api.Disable(fd->get());
  api.Unmap(ring);
  std::vector<nanoseconds> costs = CostsOf(slices);
  if (costs.empty()) {
    return Fail({.attempt = "measure the cost of a clock sample",
                 .object = "own thread",
                 .reason = "no sample arrived in 200 ms of CPU time at 1 kHz"});
  }
  return std::max(kFloorNs, static_cast<double>(Median(std::move(costs)).count()));
}

}  // namespace

Result<ClockSetup> FindClockSetup(PerfApi& api) {
  ClockSetup setup;
  const auto try_it = [&] {
    return TryOnSelf(api, MakeClockEvent(setup, std::chrono::milliseconds(1)).event);
  };
  Status clock = try_it();
  if (!clock && (clock.error().system_error == EACCES || clock.error().system_error == EPERM)) {
    setup.kernel_seen = false;
    clock = try_it();
  }
  if (!clock) return std::unexpected(clock.error());
  return setup;
}

TaskEvents::Event MakeClockEvent(const ClockSetup& setup, nanoseconds period) {
  TaskEvents::Event clock{.event = {.name = "cpu-clock"}};
  clock.event.attr.size = sizeof(perf_event_attr);
  clock.event.attr.type = PERF_TYPE_SOFTWARE;
  clock.event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  clock.event.attr.sample_period = static_cast<std::uint64_t>(period.count());
  clock.event.attr.sample_type = kSampleType;
  clock.event.attr.sample_regs_user = kUserRegisterMask;
  clock.event.attr.exclude_kernel = !setup.kernel_seen;
  clock.event.attr.exclude_hv = 1;
  clock.event.attr.use_clockid = 1;
  clock.event.attr.clockid = CLOCK_MONOTONIC;
  return clock;
}

nanoseconds PrimePeriod(nanoseconds wanted) {
  const auto is_prime = [](std::int64_t number) {
    if (number < 2) return false;
    for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
      if (number % divisor == 0) return false;
    }
    return true;
  };
  std::int64_t period = wanted.count();
  while (!is_prime(period)) ++period;
  return nanoseconds(period);
}

Result<double> MeasureSampleCost(PerfApi& api, const ClockSetup& setup) {
  return LeastSampleCost([&] {
    Result<double> cost = 0.0;
    std::thread([&] { cost = MeasureOnThisThread(api, setup); }).join();
    return cost;
  });
}

Result<double> LeastSampleCost(const std::function<Result<double>()>& measure) {
  constexpr int kReadings = 3;
  std::optional<double> least;
  std::optional<Error> failure;
  for (int i = 0; i < kReadings && least.value_or(kMostNsPerSample) > kBelievedNsPerSample; ++i) {
    Result<double> cost = measure();
    if (cost) {
      least = std::min(*cost, least.value_or(*cost));
      continue;
    }
    if (cost.error().system_error) return cost;
    failure = std::move(cost.error());
  }
  if (!least) return Fail(*std::move(failure));
  return std::min(*least, kMostNsPerSample);
}

}  // namespace tmprof
