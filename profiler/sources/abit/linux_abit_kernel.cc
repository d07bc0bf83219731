// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/linux_abit_kernel.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/host/capabilities.h"
#include "base/host/first_line.h"
#include "base/host/procfs.h"
#include "base/unique_fd.h"
#include "profiler/helper_processes.h"
#include "profiler/sources/abit/child_process.h"
#include "profiler/sources/abit/host_kernel.h"
#include "profiler/sources/abit/page_walk.h"
#include "profiler/sources/abit/translation_flusher.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// process_madvise() takes fewer than 2 GiB in one call (MAX_RW_COUNT in linux/fs.h).
constexpr PageCount kMostPagesPerCall{256 * 1024};
// Each is flushed by itself, some 10 us with the mmap_lock held: writers of it wait no longer than
// for a clear of 8 MiB.
constexpr std::size_t kMostRangesPerCall = 16;
constexpr std::uint64_t kPagemapExclusive = std::uint64_t{1} << 56;
constexpr std::uint64_t kPagemapFrame = (std::uint64_t{1} << 55) - 1;
// KPF_LRU, and KPF_COMPOUND_HEAD or KPF_COMPOUND_TAIL (linux/kernel-page-flags.h)
constexpr std::uint64_t kPageFlagLru = std::uint64_t{1} << 5;
constexpr std::uint64_t kPageFlagsOfPart = std::uint64_t{3} << 15;

// The bytes reached, or -1 with errno set.
long ClearBits(int pidfd, VpnRange range) {
  iovec part{.iov_base = reinterpret_cast<void*>(AddressOf(range.start)),
             .iov_len = range.size().value() << kBasePageShift};
  return ::syscall(SYS_process_madvise, pidfd, &part, 1UL, MADV_COLD, 0U);
}

// The first page of the kernel's code that is mapped in the process (vdso(7)): of those that can be
// cleared, the only one that every process has. A 32-bit process has another format and counts as
// if it had none.
std::optional<std::uint64_t> PageOfKernelCode(Pid pid) {
  const UniqueFd file(
      ::open(fmt::format("/proc/{}/auxv", pid.value()).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<Elf64_auxv_t, 64> entries{};
  const ssize_t bytes = file ? ::read(file.get(), entries.data(), sizeof entries) : -1;
  const auto count = static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)) / sizeof entries[0];
  for (const Elf64_auxv_t& entry : std::span(entries).first(count))
    if (entry.a_type == AT_SYSINFO_EHDR) return entry.a_un.a_val;
  return std::nullopt;
}

class LinuxProcess final : public AbitProcess {
 public:
  // `clock`: null where there is none.
  LinuxProcess(PageTableReader& reader, SwitchClock* clock, TranslationFlusher& flusher,
               int kernel_page_flags, Pid pid, ProcessWatch watch)
      : reader_(reader),
        clock_(clock),
        flusher_(flusher),
        kernel_page_flags_(kernel_page_flags),
        pid_(pid),
        watch_(std::move(watch)) {
    if (clock_ != nullptr) slot_ = clock_->Watch(pid_);
    if (slot_) clock_cost_ = clock_->Cost(*slot_);
  }
  LinuxProcess(const LinuxProcess&) = delete;
  LinuxProcess& operator=(const LinuxProcess&) = delete;
  ~LinuxProcess() override { DropClock(); }

  ReadResult Read(VpnRange range, PageTableReader::Depth depth,
                  std::vector<TablePart>& parts) override {
    const std::uint64_t before = slot_ ? clock_->Switches(*slot_) : 0;
    const ReadResult read = reader_.Read(pid_, range, depth, parts);
    if (read.outcome == ReadOutcome::kDone) CompareClock(read, before);
    return read;
  }

  ClearOutcome Clear(VpnRange range) override {
    for (Vpn at = range.start; at < range.end;) {
      const Vpn end = std::min(range.end, at + kMostPagesPerCall);
      const long done = ClearBits(watch_.handle(), {at, end});
      if (done < 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        if (errno != ENOMEM) return OutcomeOf(errno);
        if (range.size() == PageCount(1)) return ClearOutcome::kUnmapped;
        // There are holes; all mappings have been cleared (madvise_walk_vmas() in mm/madvise.c).
        at = end;
        continue;
      }
      if (done < static_cast<long>(kBasePageBytes)) return ClearOutcome::kUnmapped;
      at = at + PageCount(static_cast<std::uint64_t>(done) >> kBasePageShift);
    }
    return ClearOutcome::kDone;
  }

  bool ClearsWhole() const override { return true; }

  ClearOutcome TryWhole() override {
    UniqueFd file;
    return OpenClearRefs(file);
  }

  // "1" in proc_pid_clear_refs(5).
  ClearOutcome ClearWhole() override {
    UniqueFd file;
    if (const ClearOutcome opened = OpenClearRefs(file); opened != ClearOutcome::kDone)
      return opened;
    while (::write(file.get(), "1", 1) != 1) {
      if (errno == EINTR) continue;
      if (errno == ESRCH) return ClearOutcome::kProcessGone;
      refusal_ = errno;
      return ClearOutcome::kRefused;
    }
    return ClearOutcome::kDone;
  }

  bool Flush() override {
    const std::optional<std::uint64_t> page = PageOfKernelCode(pid_);
    return page && flusher_.Flush(watch_.handle(), *page);
  }

  ReadResult ReadPoints(std::span<const Vpn> pages, std::vector<PointEntry>& entries) override {
    return reader_.ReadPoints(pid_, pages, entries);
  }

  // Many in one call. The kernel stops at the first that it refuses.
  std::vector<ClearOutcome> ClearEach(std::span<const VpnRange> ranges) override {
    std::vector<ClearOutcome> outcomes;
    std::array<iovec, kMostRangesPerCall> batch{};
    while (outcomes.size() < ranges.size()) {
      const std::span<const VpnRange> left = ranges.subspan(outcomes.size());
      const std::size_t count = std::min(left.size(), batch.size());
      for (std::size_t i = 0; i < count; ++i) {
        batch[i] = {.iov_base = reinterpret_cast<void*>(AddressOf(left[i].start)),
                    .iov_len = left[i].size().value() << kBasePageShift};
      }
      const long done =
          ::syscall(SYS_process_madvise, watch_.handle(), batch.data(), count, MADV_COLD, 0U);
      auto bytes = static_cast<std::size_t>(std::max(done, 0L));
      std::size_t cleared = 0;
      for (; cleared < count && bytes >= batch[cleared].iov_len; ++cleared)
        bytes -= batch[cleared].iov_len;
      outcomes.insert(outcomes.end(), cleared, ClearOutcome::kDone);
      if (cleared < count) outcomes.push_back(Clear(left[cleared]));
    }
    return outcomes;
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

  // A page whose flags are not for us to see may be part of a folio.
  std::vector<bool> ClearableAlone(std::span<const Vpn> pages) override {
    std::vector<bool> clearable(pages.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::optional<std::uint64_t> entry = PagemapEntry(pages, i);
      if (!entry || !(*entry & kPagemapExclusive)) continue;
      const auto flags = PageFlags(*entry & kPagemapFrame);
      clearable[i] = flags && (*flags & kPageFlagLru) && !(*flags & kPageFlagsOfPart);
    }
    pagemap_start_ = pagemap_end_ = Vpn();
    return clearable;
  }

  std::optional<int> refusal() const override { return refusal_; }
  nanoseconds CpuTime() override { return watch_.CpuTime(); }

  std::optional<RunningTime> Running(MonotonicTime time) override {
    if (!slot_ || !knows_all_) return std::nullopt;
    const RunningTime running = clock_->At(*slot_, time, last_running_);
    last_running_ = running.cpu;
    return running;
  }
  void WakeAt(nanoseconds cpu) override {
    if (slot_) clock_->WakeAt(*slot_, cpu);
  }
  void DoNotWake() override {
    if (slot_) clock_->DoNotWake(*slot_);
  }
  bool WillWake() const override { return slot_ && clock_->WillWake(*slot_); }

  bool HasClock() const override { return slot_.has_value(); }
  nanoseconds TakeClockCost() override {
    if (!slot_) return nanoseconds(0);
    const nanoseconds before = std::exchange(clock_cost_, clock_->Cost(*slot_));
    return clock_cost_ - before;
  }
  void DropClock() override {
    if (slot_) clock_->Unwatch(pid_, *std::exchange(slot_, std::nullopt));
  }

  bool Alive() override { return watch_.Alive(); }

 private:
  // A thread that was on a CPU already when its process was first watched is not counted before its
  // next switch. If no thread was switched during the read, and as many are counted as the read saw
  // on a CPU, none is missing.
  void CompareClock(const ReadResult& read, std::uint64_t switches_before) {
    if (knows_all_ || !slot_ || clock_->Switches(*slot_) != switches_before) return;
    if (clock_->At(*slot_, read.time, nanoseconds(0)).threads != read.running_threads) return;
    const auto process = ProcFs().Stat(pid_);
    knows_all_ = process && process->threads <= TMPROF_WALK_MAX_THREADS;
  }

  // A thread's file is its process's.
  ClearOutcome OpenClearRefs(UniqueFd& file) {
    const auto thread = ProcFs().ThreadWithMemory(pid_);
    if (!thread) return Alive() ? ClearOutcome::kUnclearable : ClearOutcome::kProcessGone;
    file = UniqueFd(
        ::open(fmt::format("/proc/{}/task/{}/clear_refs", pid_.value(), thread->value()).c_str(),
               O_WRONLY | O_CLOEXEC));
    const int open_error = errno;
    // The file stays with the process that had the number at the open: it is the one watched.
    if (!Alive()) return ClearOutcome::kProcessGone;
    if (file) return ClearOutcome::kDone;
    refusal_ = open_error;
    return open_error == ENOENT ? ClearOutcome::kUnclearable : ClearOutcome::kRefused;
  }

  ClearOutcome OutcomeOf(int error) {
    switch (error) {
      case EINVAL:
        return ClearOutcome::kUnclearable;
      case ESRCH:
        // process_madvise() takes the memory of the main thread (pidfd_get_task() in kernel/pid.c,
        // Linux 6.18), even for a pidfd of another one.
        return Alive() ? ClearOutcome::kUnclearable : ClearOutcome::kProcessGone;
      default:
        refusal_ = error;
        return ClearOutcome::kRefused;
    }
  }

  // Opened each time: the file stays with the address space that the process had at the open.
  UniqueFd OpenPagemap() const {
    const auto open_of = [&](Tid thread) {
      return UniqueFd(
          ::open(fmt::format("/proc/{}/task/{}/pagemap", pid_.value(), thread.value()).c_str(),
                 O_RDONLY | O_CLOEXEC));
    };
    UniqueFd file = open_of(Tid(pid_.value()));
    if (file) return file;
    const auto thread = ProcFs().ThreadWithMemory(pid_);
    return thread ? open_of(*thread) : std::move(file);
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
      const UniqueFd file = OpenPagemap();
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
    const auto flags = PageFlags(frame);
    return !flags || (*flags & kPageFlagLru);
  }

  // nullopt: not for us to see.
  std::optional<std::uint64_t> PageFlags(std::uint64_t frame) const {
    std::uint64_t flags = 0;
    if (frame == 0 || kernel_page_flags_ < 0) return std::nullopt;
    const auto offset = static_cast<off_t>(frame * sizeof flags);
    if (::pread(kernel_page_flags_, &flags, sizeof flags, offset) != sizeof flags)
      return std::nullopt;
    return flags;
  }

  PageTableReader& reader_;
  SwitchClock* clock_;
  TranslationFlusher& flusher_;
  std::optional<SwitchClock::Slot> slot_;
  bool knows_all_ = false;       // the clock does, of its threads
  nanoseconds last_running_{0};  // on that clock
  nanoseconds clock_cost_{0};    // at the last TakeClockCost()
  int kernel_page_flags_;
  Pid pid_;
  ProcessWatch watch_;
  std::optional<int> refusal_;
  std::vector<std::uint64_t> pagemap_;
  Vpn pagemap_start_;
  Vpn pagemap_end_;
};

class LinuxKernel final : public HostKernel {
 public:
  LinuxKernel(std::unique_ptr<PageTableReader> reader, std::unique_ptr<SwitchClock> clock)
      : reader_(std::move(reader)),
        clock_(std::move(clock)),
        kernel_page_flags_(::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC)) {}

  Result<std::unique_ptr<AbitProcess>> Open(Pid pid, std::uint64_t start_time_ticks) override {
    auto watch = ProcessWatch::Open(pid, start_time_ticks);
    if (!watch) return Fail(std::move(watch.error()));
    return std::make_unique<LinuxProcess>(*reader_, clock_.get(), flusher_,
                                          kernel_page_flags_.get(), pid, *std::move(watch));
  }

  nanoseconds OwnCpuTime() override { return HostKernel::OwnCpuTime() + flusher_.HelperCpuTime(); }
  std::uint64_t frame_mask() const override { return reader_->frame_mask(); }
  bool tells_running_time() const override { return clock_ != nullptr; }
  int wake_fd() const override { return clock_ ? clock_->wake_fd() : -1; }
  void TakeWakes() override {
    if (clock_) clock_->TakeWakes();
  }

 private:
  std::unique_ptr<PageTableReader> reader_;
  std::unique_ptr<SwitchClock> clock_;
  TranslationFlusher flusher_;
  UniqueFd kernel_page_flags_;
};

}  // namespace

Status TryClearing() {
  const auto refused = [](std::string attempt, int error) {
    return Fail(Refused(std::move(attempt), "a child process", error,
                        error == ENOSYS
                            ? "clearing takes Linux 5.10 and no seccomp filter that hides "
                              "process_madvise"
                            : CapabilityAdvice(kAccessedBitCapabilities)));
  };
  void* page =
      ::mmap(nullptr, kBasePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return refused("map memory for", errno);
  const pid_t parent = ::getpid();
  const pid_t pid = ForkHelper();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::getppid() == parent) ::pause();
    ::_exit(0);
  }
  const int fork_error = errno;
  ::munmap(page, kBasePageBytes);
  if (pid < 0) return refused("start", fork_error);
  const ChildProcess child(pid);
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) return refused("watch", errno);
  const Vpn start = VpnOfAddress(reinterpret_cast<std::uint64_t>(page));
  if (ClearBits(handle.get(), {start, start + PageCount(1)}) < 0)
    return refused("clear accessed bits of", errno);
  return {};
}

std::unique_ptr<AbitKernel> MakeLinuxAbitKernel(std::unique_ptr<PageTableReader> reader,
                                                std::unique_ptr<SwitchClock> clock) {
  return std::make_unique<LinuxKernel>(std::move(reader), std::move(clock));
}

}  // namespace tmprof::abit
