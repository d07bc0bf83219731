// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/linux_abit_kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "profiler/procfs.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// process_madvise() takes fewer than 2 GiB in one call (MAX_RW_COUNT in linux/fs.h).
constexpr PageCount kMostPagesPerCall{256 * 1024};
constexpr std::uint64_t kPagemapExclusive = std::uint64_t{1} << 56;
constexpr std::uint64_t kPagemapFrame = (std::uint64_t{1} << 55) - 1;
constexpr std::uint64_t kPageFlagLru = std::uint64_t{1} << 5;  // KPF_LRU
// Some task stalled on memory for at least this share of the last ten seconds, in percent.
constexpr double kPressurePercent = 1.0;
constexpr double kLeastAvailable = 0.03;  // of all memory, where the kernel has no pressure figures

nanoseconds ReadClock(clockid_t clock) {
  timespec t{};
  if (::clock_gettime(clock, &t) != 0) return nanoseconds(0);
  return std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
}

std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

class LinuxProcess final : public AbitProcess {
 public:
  LinuxProcess(PageTableReader& reader, int kernel_page_flags, Pid pid, UniqueFd handle)
      : reader_(reader),
        kernel_page_flags_(kernel_page_flags),
        pid_(pid),
        handle_(std::move(handle)) {
    has_clock_ = ::clock_getcpuclockid(pid.value(), &clock_) == 0;
  }

  ReadResult Read(VpnRange range, PageTableReader::Depth depth,
                  std::vector<TablePart>& parts) override {
    return reader_.Read(pid_, range, depth, parts);
  }

  ClearOutcome Clear(VpnRange range) override {
    for (Vpn at = range.start; at < range.end;) {
      const Vpn end = std::min(range.end, at + kMostPagesPerCall);
      iovec part{.iov_base = reinterpret_cast<void*>(AddressOf(at)),
                 .iov_len = (end - at).value() << kBasePageShift};
      const long done = ::syscall(SYS_process_madvise, handle_.get(), &part, 1UL, MADV_COLD, 0U);
      if (done < 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        return OutcomeOf(errno);
      }
      if (done < static_cast<long>(kBasePageBytes)) return ClearOutcome::kUnmapped;
      at = at + PageCount(static_cast<std::uint64_t>(done) >> kBasePageShift);
    }
    return ClearOutcome::kDone;
  }

  std::vector<PageStanding> Inspect(std::span<const Vpn> pages,
                                    const std::vector<bool>& settled) override {
    std::vector<PageStanding> standing(pages.size(), PageStanding::kClearable);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::optional<std::uint64_t> entry = PagemapEntry(pages, i);
      if (!entry) {
        standing[i] = PageStanding::kUnsettled;  // unknown is no reason to believe the bit
      } else if (!(*entry & kPagemapExclusive)) {
        standing[i] = PageStanding::kShared;
      } else if (!settled[i] && !OnPageList(*entry & kPagemapFrame)) {
        standing[i] = PageStanding::kUnsettled;
      }
    }
    pagemap_start_ = pagemap_end_ = Vpn();
    return standing;
  }

  nanoseconds CpuTime() override {
    // A process that is gone has no clock; what it used last stands.
    timespec t{};
    if (has_clock_ && ::clock_gettime(clock_, &t) == 0)
      last_cpu_time_ = std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
    return last_cpu_time_;
  }

  bool Alive() override {
    pollfd exited{.fd = handle_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&exited, 1, 0) == 0;
  }

 private:
  static ClearOutcome OutcomeOf(int error) {
    switch (error) {
      case EINVAL:
        return ClearOutcome::kUnclearable;
      case ENOMEM:
        return ClearOutcome::kUnmapped;
      case ESRCH:
        return ClearOutcome::kProcessGone;
      default:
        return ClearOutcome::kRefused;
    }
  }

  // Reads what lies ahead within one table's worth of pages in one go.
  std::optional<std::uint64_t> PagemapEntry(std::span<const Vpn> pages, std::size_t i) {
    const Vpn page = pages[i];
    if (page < pagemap_start_ || page >= pagemap_end_) {
      std::size_t last = i;
      while (last + 1 < pages.size() && pages[last + 1] < page + kTablePages) ++last;
      const PageCount count = pages[last] + PageCount(1) - page;
      pagemap_.resize(count.value());
      pagemap_start_ = page;
      pagemap_end_ = page + count;
      // Opened each time: the file stays with the address space that the process had at the open.
      const UniqueFd file(
          ::open(fmt::format("/proc/{}/pagemap", pid_.value()).c_str(), O_RDONLY | O_CLOEXEC));
      const std::size_t bytes = pagemap_.size() * sizeof pagemap_[0];
      const auto offset = static_cast<off_t>(page.value() * sizeof pagemap_[0]);
      if (!file ||
          ::pread(file.get(), pagemap_.data(), bytes, offset) != static_cast<ssize_t>(bytes)) {
        pagemap_start_ = pagemap_end_ = Vpn();
        return std::nullopt;
      }
    }
    return pagemap_[(page - pagemap_start_).value()];
  }

  bool OnPageList(std::uint64_t frame) const {
    std::uint64_t flags = 0;
    if (frame == 0 || kernel_page_flags_ < 0) return true;  // not for us to see
    const auto offset = static_cast<off_t>(frame * sizeof flags);
    if (::pread(kernel_page_flags_, &flags, sizeof flags, offset) != sizeof flags) return true;
    return flags & kPageFlagLru;
  }

  PageTableReader& reader_;
  int kernel_page_flags_;
  Pid pid_;
  UniqueFd handle_;
  bool has_clock_ = false;
  clockid_t clock_{};
  nanoseconds last_cpu_time_{0};
  std::vector<std::uint64_t> pagemap_;
  Vpn pagemap_start_;
  Vpn pagemap_end_;
};

class LinuxKernel final : public AbitKernel {
 public:
  explicit LinuxKernel(std::unique_ptr<PageTableReader> reader)
      : reader_(std::move(reader)),
        kernel_page_flags_(::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC)) {
    timespec tick{};
    // The coarse clock advances once per tick.
    ::clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    tick_ = nanoseconds(tick.tv_nsec);
  }

  Result<std::unique_ptr<AbitProcess>> Open(Pid pid, std::uint64_t start_time_ticks) override {
    const std::string object = fmt::format("PID {}", pid.value());
    UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid.value(), 0)));
    if (handle.get() < 0) return Fail(Refused("watch", object, errno));
    // Read after the handle was taken: should it agree, the handle is of that very process.
    const auto stat = ProcFs().Stat(pid);
    if (!stat || stat->start_time_ticks != start_time_ticks)
      return Fail(Refused("watch", object, ESRCH));
    return std::make_unique<LinuxProcess>(*reader_, kernel_page_flags_.get(), pid,
                                          std::move(handle));
  }

  MonotonicTime Now() override { return MonotonicTime(ReadClock(CLOCK_MONOTONIC)); }
  nanoseconds OwnCpuTime() override { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }
  nanoseconds Tick() const override { return tick_; }
  std::uint64_t frame_mask() const override { return reader_->frame_mask(); }

  std::optional<std::string> MemoryPressure() override {
    if (const auto line = FirstLine("/proc/pressure/memory")) {
      double percent = 0;
      if (std::sscanf(line->c_str(), "some avg10=%lf", &percent) == 1 &&
          percent >= kPressurePercent)
        return fmt::format("tasks stall on memory {:.1f} % of the time", percent);
      return std::nullopt;
    }
    double total = 0;
    double available = 0;
    std::ifstream file("/proc/meminfo");
    for (std::string key, unit; file >> key;) {
      double kib = 0;
      file >> kib;
      std::getline(file, unit);
      if (key == "MemTotal:") total = kib;
      if (key == "MemAvailable:") available = kib;
    }
    if (total > 0 && available < total * kLeastAvailable)
      return fmt::format("{:.1f} % of memory is available", 100 * available / total);
    return std::nullopt;
  }

 private:
  std::unique_ptr<PageTableReader> reader_;
  UniqueFd kernel_page_flags_;
  nanoseconds tick_{0};
};

}  // namespace

std::optional<std::string> OtherAccessedBitClearer() {
  if (const auto enabled = FirstLine("/sys/kernel/mm/lru_gen/enabled")) {
    if (*enabled != "0x0000" && !enabled->empty())
      return "multi-generational LRU is enabled and clears accessed bits during reclaim";
  }
  std::optional<std::string> found;
  if (DIR* processes = ::opendir("/proc")) {
    while (const dirent* entry = ::readdir(processes)) {
      if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
      const auto name = FirstLine(fmt::format("/proc/{}/comm", entry->d_name));
      if (!name || !name->starts_with("kdamond")) continue;
      found = fmt::format("DAMON is running ({}) and clears accessed bits", *name);
      break;
    }
    ::closedir(processes);
  }
  return found;
}

std::unique_ptr<AbitKernel> MakeLinuxAbitKernel(std::unique_ptr<PageTableReader> reader) {
  return std::make_unique<LinuxKernel>(std::move(reader));
}

}  // namespace tmprof::abit
