// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/clock_events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <thread>
#include <utility>

#include "base/check.h"
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

constexpr const char* kTickId = "events/irq_vectors/local_timer_entry/id";

std::optional<std::uint64_t> ReadNumber(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::read(fd, text.data(), text.size());
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + std::max<ssize_t>(size, 0), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

// A tracefs that only this descriptor sees: nothing is mounted anywhere.
Result<UniqueFd> OpenDetachedTracefs() {
  const UniqueFd context(::fsopen("tracefs", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return Fail(Refused("open", "tracefs", errno, "needs CAP_SYS_ADMIN and a kernel with tracing"));
  }
  UniqueFd root(::fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!root) return Fail(Refused("open", "tracefs", errno, "needs CAP_SYS_ADMIN"));
  return root;
}

// The number of the scheduler tick's tracepoint on this machine.
Result<std::uint64_t> ReadTickId(const std::optional<std::filesystem::path>& tracefs) {
  const std::filesystem::path mounted = tracefs.value_or("/sys/kernel/tracing");
  UniqueFd id(::open((mounted / kTickId).c_str(), O_RDONLY | O_CLOEXEC));
  if (!id && errno == ENOENT && !tracefs) {
    const Result<UniqueFd> root = OpenDetachedTracefs();
    if (!root) return Fail(root.error());
    id = UniqueFd(::openat(root->get(), kTickId, O_RDONLY | O_CLOEXEC));
  }
  const std::optional<std::uint64_t> number = id ? ReadNumber(id.get()) : std::nullopt;
  if (number) return *number;
  const int reason = id ? EIO : errno;
  return Fail(Refused("read tracepoint number", (mounted / kTickId).string(), reason,
                      reason == ENOENT ? "needs a kernel with event tracing" : "run as root"));
}

Status TryOnSelf(PerfApi& api, const std::vector<TaskEvents::Event>& events) {
  for (const TaskEvents::Event& event : events) {
    NamedEvent probe = event.event;
    probe.attr.disabled = 1;
    if (auto fd = OpenEvent(api, probe, Tid(::gettid()), std::nullopt); !fd) {
      return std::unexpected(fd.error());
    }
  }
  return {};
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

  // Updates per second of CPU time.
  double Run(nanoseconds cpu_time) {
    constexpr int kBatch = 2'000;
    const nanoseconds start = ThreadCpuTime();
    nanoseconds now = start;
    std::uint64_t updates = 0;
    for (; now - start < cpu_time; now = ThreadCpuTime()) {
      for (int i = 0; i < kBatch; ++i) {
        state_ ^= state_ << 13;  // Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003)
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        words_[state_ % (kBytes / sizeof(std::uint64_t))] += state_;
      }
      updates += kBatch;
    }
    return static_cast<double>(updates) / std::chrono::duration<double>(now - start).count();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  explicit RandomUpdates(std::uint64_t* words) : words_(words) {
    for (std::size_t i = 0; i < kBytes / sizeof(std::uint64_t); i += 512) words_[i] = 1;
  }

  std::uint64_t* words_;
  std::uint64_t state_ = 88'172'645'463'325'252U;
};

double Median(std::vector<double> values) {
  TMPROF_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Result<double> MeasureOnThisThread(PerfApi& api, const ClockSetup& setup) {
  constexpr int kPairs = 15;
  constexpr nanoseconds kWindow = std::chrono::milliseconds(8);
  // Near the rates in use: at 10 kHz an interrupt finds the caches as the last one left them, and
  // seems to cost half (22 against 60 us in bench/clock_loops on a KVM guest).
  constexpr nanoseconds kPeriod = std::chrono::milliseconds(1);
  // Below this no timer interrupt is possible: a smaller result is noise.
  constexpr double kFloorNs = 500;
  constexpr std::size_t kRingBytes = 64 * 1024;

  std::vector<UniqueFd> fds;
  RingMemory ring;
  for (const TaskEvents::Event& event : MakeClockEvents(setup, PrimePeriod(kPeriod))) {
    NamedEvent own = event.event;
    own.attr.disabled = 1;
    auto fd = OpenEvent(api, own, Tid(::gettid()), std::nullopt);
    if (!fd) return std::unexpected(fd.error());
    if (event.writes_ring) {
      const auto mapped = api.Map(fd->get(), kRingBytes);
      if (!mapped) return Fail(Refused("map perf ring", own.name, mapped.error()));
      ring = *mapped;
    }
    fds.push_back(std::move(*fd));
  }

  auto buffer = RandomUpdates::Create();
  if (!buffer) return std::unexpected(buffer.error());
  RandomUpdates& work = *buffer;
  std::vector<std::byte> scratch;
  std::uint64_t samples = 0;
  nanoseconds sampled_time{0};
  const auto run_sampled = [&] {
    const nanoseconds start = ThreadCpuTime();
    for (const UniqueFd& fd : fds) (void)api.Enable(fd.get());
    const double rate = work.Run(kWindow);
    for (const UniqueFd& fd : fds) (void)api.Disable(fd.get());
    sampled_time += ThreadCpuTime() - start;
    DrainRing(ring, scratch, [&](std::span<const std::byte>) { ++samples; });
    return rate;
  };
  work.Run(kWindow);
  std::vector<double> losses;
  for (int pair = 0; pair < kPairs; ++pair) {
    // Alternate the order, so that drift cancels.
    const bool sampled_first = pair % 2 == 0;
    const double first = sampled_first ? run_sampled() : work.Run(kWindow);
    const double second = sampled_first ? work.Run(kWindow) : run_sampled();
    losses.push_back(sampled_first ? 1 - first / second : 1 - second / first);
  }
  api.Unmap(ring);
  if (samples == 0) {
    return Fail({.attempt = "measure the cost of a clock sample",
                 .object = "own thread",
                 .reason = "no sample arrived in 120 ms of CPU time at 1 kHz"});
  }
  const double samples_per_ns =
      static_cast<double>(samples) / static_cast<double>(sampled_time.count());
  return std::max(kFloorNs, Median(std::move(losses)) / samples_per_ns);
}

}  // namespace

Result<ClockSetup> FindClockSetup(PerfApi& api,
                                  const std::optional<std::filesystem::path>& tracefs) {
  constexpr nanoseconds kAnyPeriod = std::chrono::milliseconds(1);
  ClockSetup setup;
  const auto tick_id = ReadTickId(tracefs);
  if (tick_id) {
    setup.tick_id = *tick_id;
    const Status ticks = TryOnSelf(api, MakeClockEvents(setup, kAnyPeriod));
    if (ticks) return setup;
    setup.tick_id.reset();
    setup.no_ticks = ticks.error();
  } else {
    setup.no_ticks = tick_id.error();
  }
  Status clock = TryOnSelf(api, MakeClockEvents(setup, kAnyPeriod));
  if (!clock && (clock.error().system_error == EACCES || clock.error().system_error == EPERM)) {
    setup.kernel_seen = false;
    clock = TryOnSelf(api, MakeClockEvents(setup, kAnyPeriod));
  }
  if (!clock) return std::unexpected(clock.error());
  return setup;
}

std::vector<TaskEvents::Event> MakeClockEvents(const ClockSetup& setup, nanoseconds period) {
  TaskEvents::Event clock{.event = {.name = "cpu-clock"}, .writes_ring = true};
  clock.event.attr.size = sizeof(perf_event_attr);
  clock.event.attr.type = PERF_TYPE_SOFTWARE;
  clock.event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  clock.event.attr.sample_period = static_cast<std::uint64_t>(period.count());
  clock.event.attr.exclude_kernel = !setup.kernel_seen;
  clock.event.attr.exclude_hv = 1;
  clock.event.attr.use_clockid = 1;
  clock.event.attr.clockid = CLOCK_MONOTONIC;
  TaskEvents::Event tick = clock;
  std::vector<TaskEvents::Event> events;
  if (setup.tick_id) {
    tick.event.name = "irq_vectors:local_timer_entry";
    tick.event.attr.type = PERF_TYPE_TRACEPOINT;
    tick.event.attr.config = *setup.tick_id;
    tick.event.attr.sample_period = 1;
    tick.event.attr.sample_type = kSampleType;
    tick.event.attr.sample_regs_user = kUserRegisterMask;
    clock.writes_ring = false;
    events.push_back(tick);
  } else {
    clock.event.attr.sample_type = kSampleType;
    clock.event.attr.sample_regs_user = kUserRegisterMask;
  }
  events.push_back(clock);
  return events;
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
  Result<double> cost = 0.0;
  std::thread([&] { cost = MeasureOnThisThread(api, setup); }).join();
  return cost;
}

}  // namespace tmprof
