// SPDX-License-Identifier: Apache-2.0
// All that the perf-based sources ask of the kernel, behind one interface so that tests can refuse.

#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strong_int.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace tmprof {

// Number of a logical CPU, as in /sys/devices/system/cpu/cpuN.

// A mapped ring of perf_event_open(2): the control page, then the data, a power of two long.
struct RingMemory {
  perf_event_mmap_page* control = nullptr;
  std::span<const std::byte> data;
};

// Result of read(2) for PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING.
struct CounterReading {
  std::uint64_t count = 0;
  std::uint64_t enabled_ns = 0;
  std::uint64_t running_ns = 0;  // less than enabled_ns: the counter was multiplexed
};

struct ProcessOrigin {
  Pid parent;
  std::uint64_t start_time_ticks = 0;  // /proc/PID/stat field 22, on the line of NowTicks()
};

// Failures are errno values. Called from one thread at a time.
class PerfApi {
 public:
  virtual ~PerfApi() = default;

  // `thread` nullopt is every thread (needs a cpu), `cpu` nullopt is every CPU.
  virtual std::expected<UniqueFd, int> Open(const perf_event_attr& attr, std::optional<Tid> thread,
                                            std::optional<CpuId> cpu) = 0;
  virtual std::expected<void, int> Enable(int fd) = 0;
  virtual std::expected<void, int> Disable(int fd) = 0;
  // Records of `fd` go to the ring of `ring_fd`; both are bound to the same CPU.
  virtual std::expected<void, int> RedirectOutput(int fd, int ring_fd) = 0;
  virtual std::expected<RingMemory, int> Map(int fd, std::size_t data_bytes) = 0;
  virtual void Unmap(const RingMemory& ring) = 0;
  virtual std::expected<CounterReading, int> Read(int fd) = 0;
  // Result of read(2) for PERF_FORMAT_LOST alone: samples so far, of the event and of those
  // inherited from it, that found no room.
  virtual std::expected<std::uint64_t, int> ReadLost(int fd) = 0;

  virtual std::vector<CpuId> OnlineCpus() = 0;
  // Empty for a process that is gone.
  virtual std::vector<Tid> Threads(Pid process) = 0;
  virtual std::optional<ProcessOrigin> Origin(Pid process) = 0;
  // Time since boot in units of sysconf(_SC_CLK_TCK).
  virtual std::uint64_t NowTicks() = 0;
  // Bytes copied from the start of `into`; fewer than asked where a page is unmapped.
  virtual std::size_t ReadMemory(Pid process, std::uint64_t address,
                                 std::span<std::uint8_t> into) = 0;
  // /proc/sys/kernel/perf_event_paranoid.
  virtual std::optional<int> ParanoidLevel() = 0;
  // Soft RLIMIT_NOFILE.
  virtual std::uint64_t OpenFileLimit() = 0;
};

// Open() raises the soft RLIMIT_NOFILE to the hard one when half of it is in use, and answers
// EMFILE while some are left for others.
class KernelPerfApi final : public PerfApi {
 public:
  std::expected<UniqueFd, int> Open(const perf_event_attr& attr, std::optional<Tid> thread,
                                    std::optional<CpuId> cpu) override;
  std::expected<void, int> Enable(int fd) override;
  std::expected<void, int> Disable(int fd) override;
  std::expected<void, int> RedirectOutput(int fd, int ring_fd) override;
  std::expected<RingMemory, int> Map(int fd, std::size_t data_bytes) override;
  void Unmap(const RingMemory& ring) override;
  std::expected<CounterReading, int> Read(int fd) override;
  std::expected<std::uint64_t, int> ReadLost(int fd) override;
  std::vector<CpuId> OnlineCpus() override;
  std::vector<Tid> Threads(Pid process) override;
  std::optional<ProcessOrigin> Origin(Pid process) override;
  std::uint64_t NowTicks() override;
  std::size_t ReadMemory(Pid process, std::uint64_t address, std::span<std::uint8_t> into) override;
  std::optional<int> ParanoidLevel() override;
  std::uint64_t OpenFileLimit() override;
};

// An event to open, with the name people know it by.
struct NamedEvent {
  std::string name;
  perf_event_attr attr{};
};

// PerfApi::Open with an Error that says which event, where, and what would help.
Result<UniqueFd> OpenEvent(PerfApi& api, const NamedEvent& event, std::optional<Tid> thread,
                           std::optional<CpuId> cpu);

// Opens the event on the calling thread, not running, and closes it again.
Status TryOnSelf(PerfApi& api, NamedEvent event);

// Advice on `system_error` from perf_event_open(2) for this event.
std::string OpenAdvice(PerfApi& api, int system_error);

}  // namespace tmprof
