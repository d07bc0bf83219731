// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/perf_api.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>

#include "base/check.h"
#include "base/host/capabilities.h"
#include "base/host/first_line.h"
#include "base/host/procfs.h"
#include "base/parse_integer.h"

namespace tmprof {
namespace {

std::expected<void, int> Ioctl(int fd, unsigned long request, unsigned long argument) {
  if (::ioctl(fd, request, argument) != 0) return std::unexpected(errno);
  return {};
}

// The soft limit to the hard one, which any process may do (getrlimit(2)).
void RaiseOpenFileLimit() {
  rlimit limit{};
  TMPROF_CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  // Refused by a sandbox at most; then the error of the open that fails names the limit.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// For reading /proc, one file at a time, and for the accessed bits' hold on each target.
constexpr std::uint64_t kKeptDescriptors = 64;

// "0-3,8" as in /sys/devices/system/cpu/online (Documentation/admin-guide/cputopology.rst).
std::vector<CpuId> ParseCpuList(std::string_view text) {
  std::vector<CpuId> cpus;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    const auto first = ParseInteger<std::int32_t>(item.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : ParseInteger<std::int32_t>(item.substr(dash + 1));
    if (!first || !last) continue;
    for (std::int32_t cpu = *first; cpu <= *last; ++cpu) cpus.emplace_back(cpu);
  }
  return cpus;
}

}  // namespace

std::expected<UniqueFd, int> KernelPerfApi::Open(const perf_event_attr& attr,
                                                 std::optional<Tid> thread,
                                                 std::optional<CpuId> cpu) {
  constexpr int kAny = -1;
  perf_event_attr copy = attr;
  const long fd = ::syscall(SYS_perf_event_open, &copy, thread ? thread->value() : kAny,
                            cpu ? cpu->value() : kAny, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) return std::unexpected(errno);
  // The lowest free number is given first, so that it shows how many are in use. Raised before they
  // run out, for the sake of this process's other files, and not before they are needed, since a
  // command it launches inherits the limit.
  UniqueFd opened(static_cast<int>(fd));
  const auto in_use = static_cast<std::uint64_t>(fd);
  if (in_use >= OpenFileLimit() / 2) RaiseOpenFileLimit();
  // With the last ones given to events nothing could be learned of the targets any more, not even
  // that some of their threads are not watched.
  const std::uint64_t limit = OpenFileLimit();
  if (in_use >= limit - std::min(kKeptDescriptors, limit / 4)) return std::unexpected(EMFILE);
  return opened;
}

std::expected<void, int> KernelPerfApi::Enable(int fd) {
  return Ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

std::expected<void, int> KernelPerfApi::Disable(int fd) {
  return Ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

std::expected<void, int> KernelPerfApi::RedirectOutput(int fd, int ring_fd) {
  return Ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, static_cast<unsigned long>(ring_fd));
}

std::expected<RingMemory, int> KernelPerfApi::Map(int fd, std::size_t data_bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory =
      ::mmap(nullptr, page_bytes + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return std::unexpected(errno);
  const auto* bytes = static_cast<const std::byte*>(memory);
  return RingMemory{static_cast<perf_event_mmap_page*>(memory), {bytes + page_bytes, data_bytes}};
}

void KernelPerfApi::Unmap(const RingMemory& ring) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  TMPROF_CHECK(::munmap(ring.control, page_bytes + ring.data.size()) == 0);
}

std::expected<CounterReading, int> KernelPerfApi::Read(int fd) {
  std::array<std::uint64_t, 3> values{};
  const ssize_t got = ::read(fd, values.data(), sizeof values);
  if (got < 0) return std::unexpected(errno);
  // End of file: the event is in an error state, for example pinned and never scheduled.
  if (got != sizeof values) return std::unexpected(ENODATA);
  return CounterReading{values[0], values[1], values[2]};
}

std::expected<std::uint64_t, int> KernelPerfApi::ReadLost(int fd) {
  std::array<std::uint64_t, 2> values{};
  const ssize_t got = ::read(fd, values.data(), sizeof values);
  if (got < 0) return std::unexpected(errno);
  if (got != sizeof values) return std::unexpected(ENODATA);
  return values[1];
}

std::vector<CpuId> KernelPerfApi::OnlineCpus() {
  return ParseCpuList(FirstLine("/sys/devices/system/cpu/online").value_or("0"));
}

std::vector<Tid> KernelPerfApi::Threads(Pid process) { return ProcFs().Threads(process); }

std::optional<ProcessOrigin> KernelPerfApi::Origin(Pid process) {
  const auto stat = ProcFs().Stat(process);
  if (!stat) return std::nullopt;
  return ProcessOrigin{stat->parent, stat->start_time_ticks};
}

std::uint64_t KernelPerfApi::NowTicks() {
  timespec now{};
  TMPROF_CHECK(::clock_gettime(CLOCK_BOOTTIME, &now) == 0);
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * per_second +
         static_cast<std::uint64_t>(now.tv_nsec) * per_second / 1'000'000'000;
}

std::size_t KernelPerfApi::ReadMemory(Pid process, std::uint64_t address,
                                      std::span<std::uint8_t> into) {
  // process_vm_readv stops at an element it cannot read whole (process_vm_readv(2), "partial
  // transfers"), so ask page by page.
  constexpr std::size_t kMaxPages = 4;
  std::array<iovec, kMaxPages> remote{};
  std::size_t pieces = 0;
  std::uint64_t at = address;
  std::size_t left = into.size();
  while (left > 0 && pieces < kMaxPages) {
    const std::size_t in_page = std::min<std::size_t>(left, kBasePageBytes - at % kBasePageBytes);
    remote[pieces++] = {reinterpret_cast<void*>(at), in_page};
    at += in_page;
    left -= in_page;
  }
  iovec local{into.data(), into.size() - left};
  const auto read_through = [&](std::int32_t thread) {
    return ::process_vm_readv(thread, &local, 1, remote.data(), pieces, 0);
  };
  ssize_t got = read_through(process.value());
  if (got < 0 && errno == ESRCH) {
    // The main thread has exited, maybe before others.
    for (const Tid thread : Threads(process)) {
      got = read_through(thread.value());
      if (got >= 0) break;
    }
  }
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

std::optional<int> KernelPerfApi::ParanoidLevel() {
  const auto line = FirstLine("/proc/sys/kernel/perf_event_paranoid");
  return line ? ParseInteger<int>(*line) : std::nullopt;
}

std::uint64_t KernelPerfApi::OpenFileLimit() {
  rlimit limit{};
  TMPROF_CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_cur;
}

std::string OpenAdvice(PerfApi& api, int system_error) {
  switch (system_error) {
    case EMFILE:
      return fmt::format(
          "every thread needs one descriptor per CPU and the limit is {} (RLIMIT_NOFILE); raise "
          "the "
          "hard limit with 'ulimit -Hn' or LimitNOFILE=",
          api.OpenFileLimit());
    case ENFILE:
      return "the system-wide limit fs.file-max is used up";
    case EACCES:
    case EPERM: {
      const auto level = api.ParanoidLevel();
      return fmt::format("kernel.perf_event_paranoid is {}; {}",
                         level ? fmt::format("{}", *level) : "unreadable",
                         CapabilityAdvice(kAddressSampleCapabilities));
    }
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return "this machine has no such event: no performance counters, or a virtual machine "
             "without a virtual PMU";
    case ENOSYS:
      return "the kernel was built without CONFIG_PERF_EVENTS, or a seccomp filter hides "
             "perf_event_open";
    case EINVAL:
      return "this kernel or CPU does not accept the event's settings";
    case EBUSY:
      return "another user holds the counter exclusively";
    default:
      return {};
  }
}

Result<UniqueFd> OpenEvent(PerfApi& api, const NamedEvent& event, std::optional<Tid> thread,
                           std::optional<CpuId> cpu) {
  auto fd = api.Open(event.attr, thread, cpu);
  if (fd) return std::move(*fd);
  const std::string object =
      fmt::format("{} of {} on {}", event.name,
                  thread ? fmt::format("TID {}", thread->value()) : std::string("every thread"),
                  cpu ? fmt::format("CPU {}", cpu->value()) : std::string("every CPU"));
  return Fail(Refused("open perf event", object, fd.error(), OpenAdvice(api, fd.error())));
}

Status TryOnSelf(PerfApi& api, NamedEvent event) {
  event.attr.size = sizeof event.attr;
  event.attr.disabled = 1;
  const auto fd = OpenEvent(api, event, Tid(::gettid()), std::nullopt);
  return fd ? Status() : std::unexpected(fd.error());
}

}  // namespace tmprof
