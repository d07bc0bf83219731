// SPDX-License-Identifier: Apache-2.0
// The kernel driver against programs whose accesses are known, and against the ways without it;
// bench/driver runs it in a virtual machine and makes tables of it:
//   driver_scan price     ns per page of every way to read and clear accessed bits, in turns;
//                         --without-driver: of those that need no module
//   driver_scan memory    the driver's counters per touched page
//   driver_scan holds     how long the mmap lock is held, by the length of a chunk
//   driver_scan recall    which part of a known working set a pass finds, with flushes and without
//   driver_scan overhead  windows of a program with the driver's scan and without
// Prints one JSON object. Needs root and the module loaded.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "driver/core/hold_buckets.h"
#include "driver/uapi/tmprof.h"
#include "profiler/sources/abit/linux_abit_kernel.h"
#include "profiler/sources/abit/page_table_reader.h"

namespace tmprof {
namespace {

using abit::ClearOutcome;
using abit::PageTableReader;
using abit::ReadOutcome;
using abit::TablePart;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kHugeBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kHourNs = 3600 * kSecondNs;
constexpr std::uint64_t kUnlimitedBudgetNs = kSecondNs;
constexpr std::uint32_t kDefaultChunkEntries = 4096;
// A look wants the CPU, which may end a chunk early: seldom, against the length of a chunk.
constexpr milliseconds kLookPeriod{20};
constexpr PageCount kPagesPerRead{32 * 512};  // whose copies stay in a private cache

struct Settings {
  std::uint64_t footprint_mib = 512;
  int rounds = 9;
  int pairs = 5;
  double window_seconds = 3;
  int passes = 10;
  bool without_driver = false;
};

[[noreturn]] void Die(const std::string& message) {
  fmt::print(stderr, "driver_scan: {}\n", message);
  std::exit(1);
}

std::uint64_t NowNs() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * kSecondNs + static_cast<std::uint64_t>(t.tv_nsec);
}

// The last CPU is the target's where there are two; everything else stays off it.
void PinToCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    Die(fmt::format("cannot run on CPU {}: {}", cpu, ErrnoText(errno)));
}
int TargetCpu() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) - 1; }

// A child process that touches its memory when it is told to, and is asleep otherwise.
class Target {
 public:
  // Maps `bytes`, and touches nothing yet.
  Target(std::uint64_t bytes, bool huge) : bytes_(bytes) {
    shared_ = new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
    void* raw = ::mmap(nullptr, bytes + 2 * kHugeBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TMPROF_CHECK(raw != MAP_FAILED);
    start_ = (reinterpret_cast<std::uint64_t>(raw) / kHugeBytes + 1) * kHugeBytes;
    TMPROF_CHECK(::mprotect(memory(), bytes, PROT_READ | PROT_WRITE) == 0);
    TMPROF_CHECK(::madvise(memory(), bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
    TMPROF_CHECK(::pipe(to_child_) == 0 && ::pipe(from_child_) == 0);
    pid_ = ::fork();
    TMPROF_CHECK(pid_ >= 0);
    if (pid_ == 0) Serve();
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int fd : {to_child_[0], to_child_[1], from_child_[0], from_child_[1]}) ::close(fd);
    ::munmap(reinterpret_cast<void*>(start_ - kHugeBytes), bytes_ + 2 * kHugeBytes);
    ::munmap(shared_, sizeof(Shared));
  }

  pid_t pid() const { return pid_; }
  VpnRange range() const { return {VpnOfAddress(start_), VpnOfAddress(start_ + bytes_)}; }
  std::uint64_t pages() const { return bytes_ / kBasePageBytes; }

  // Writes to the pages first, first + stride, …, below `end`. Returns when it is done.
  void Touch(std::uint64_t first, std::uint64_t end, std::uint64_t stride) {
    Ask({.action = Action::kTouch, .first = first, .end = end, .stride = stride});
  }
  // Afterwards no TLB holds a translation of its memory: each access sets a bit that is not set.
  void Flush() { Ask({.action = Action::kFlush, .first = 0, .end = 0, .stride = 0}); }
  // Writes to these pages of its memory, over and over, until Rest().
  void Work(const std::vector<std::uint32_t>& pages) {
    TMPROF_CHECK(pages.size() <= kMostWorkPages);
    std::copy(pages.begin(), pages.end(), shared_->work_pages);
    shared_->work_page_count = pages.size();
    shared_->rest = false;
    shared_->rounds = 0;
    Send({.action = Action::kWork, .first = 0, .end = 0, .stride = 0});
    while (shared_->rounds < 2) std::this_thread::sleep_for(milliseconds(1));
  }
  std::uint64_t WorkRounds() const { return shared_->rounds; }
  void Rest() {
    shared_->rest = true;
    Await();
  }

 private:
  static constexpr std::size_t kMostWorkPages = 1 << 18;
  enum class Action : std::uint8_t { kTouch, kFlush, kWork };
  struct Request {
    Action action;
    std::uint64_t first;
    std::uint64_t end;
    std::uint64_t stride;
  };
  struct Shared {
    std::atomic<bool> rest{false};
    std::atomic<std::uint64_t> rounds{0};
    std::size_t work_page_count = 0;
    std::uint32_t work_pages[kMostWorkPages];
  };

  void* memory() const { return reinterpret_cast<void*>(start_); }

  void Ask(const Request& request) {
    Send(request);
    Await();
  }
  void Send(const Request& request) {
    TMPROF_CHECK(::write(to_child_[1], &request, sizeof request) == sizeof request);
  }
  void Await() {
    char done = 0;
    if (::read(from_child_[0], &done, 1) != 1) Die("the target has died");
  }

  [[noreturn]] void Serve() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(to_child_[1]);
    ::close(from_child_[0]);
    PinToCpu(TargetCpu());
    Request request{};
    while (::read(to_child_[0], &request, sizeof request) == sizeof request) {
      Serve(request);
      if (::write(from_child_[1], "", 1) != 1) break;
    }
    ::_exit(0);
  }
  void Serve(const Request& request) {
    auto* bytes = reinterpret_cast<volatile char*>(start_);
    switch (request.action) {
      case Action::kTouch:
        for (std::uint64_t page = request.first; page < request.end; page += request.stride)
          bytes[page * kBasePageBytes] = 1;
        return;
      case Action::kFlush:
        // A change of rights leaves accessed bits alone and flushes.
        for (const int rights : {PROT_READ, PROT_READ | PROT_WRITE})
          TMPROF_CHECK(::mprotect(memory(), bytes_, rights) == 0);
        return;
      case Action::kWork:
        while (!shared_->rest) {
          for (std::size_t i = 0; i < shared_->work_page_count && !shared_->rest; ++i)
            bytes[shared_->work_pages[i] * kBasePageBytes] = 1;
          shared_->rounds = shared_->rounds + 1;
        }
        return;
    }
  }

  std::uint64_t bytes_;
  std::uint64_t start_ = 0;
  Shared* shared_;
  int to_child_[2] = {-1, -1};
  int from_child_[2] = {-1, -1};
  pid_t pid_ = -1;
};

// One session of the driver that scans one process.
class DriverScan {
 public:
  struct Options {
    std::uint64_t interval_ns = kHourNs;  // the first pass begins at once
    std::uint64_t budget_ns = kUnlimitedBudgetNs;
    std::uint32_t chunk_entries = kDefaultChunkEntries;
    tmprof_flush_policy flush = TMPROF_FLUSH_NEVER;
  };

  DriverScan(pid_t pid, const Options& options)
      : device_(::open(TMPROF_DEVICE_PATH, O_RDWR | O_CLOEXEC)) {
    if (!device_) Die(fmt::format("cannot open {}: {}", TMPROF_DEVICE_PATH, ErrnoText(errno)));
    tmprof_target_request target{};
    target.pid = pid;
    Call(TMPROF_IOC_ADD_TARGET, target, "add a target");
    target_id_ = target.target_id;
    tmprof_params params{};
    Call(TMPROF_IOC_GET_PARAMS, params, "tell its parameters");
    params.scan_interval_ns = options.interval_ns;
    params.scan_budget_ns = options.budget_ns;
    params.scan_chunk_entries = options.chunk_entries;
    params.flush_policy = options.flush;
    Call(TMPROF_IOC_SET_PARAMS, params, "take parameters");
  }

  void Start() { Control(TMPROF_START); }
  void Stop() { Control(TMPROF_STOP); }

  void Pass() {
    const std::uint64_t before = Passes();
    Start();
    AwaitPasses(before + 1);
    Stop();
  }
  void AwaitPasses(std::uint64_t passes) {
    while (Passes() < passes) std::this_thread::sleep_for(kLookPeriod);
  }

  tmprof_stats Stats() {
    tmprof_stats stats{};
    Call(TMPROF_IOC_STATS, stats, "tell its totals");
    return stats;
  }

  tmprof_lock_holds LockHolds() {
    tmprof_lock_holds holds{};
    Call(TMPROF_IOC_LOCK_HOLDS, holds, "tell its lock holds");
    return holds;
  }

  tmprof_epoch EndEpoch() {
    tmprof_epoch epoch{};
    Call(TMPROF_IOC_EPOCH_END, epoch, "end an epoch");
    return epoch;
  }

  // Unread records of the epoch that ended last.
  std::vector<tmprof_page_record> Records(const tmprof_epoch& epoch) {
    std::vector<tmprof_page_record> records(epoch.records);
    for (std::size_t have = 0; have < records.size();) {
      const std::size_t room = (records.size() - have) * sizeof records[0];
      const ssize_t bytes = ::read(device_.get(), &records[have], room);
      if (bytes <= 0) Die(fmt::format("cannot read records: {}", ErrnoText(errno)));
      have += static_cast<std::size_t>(bytes) / sizeof records[0];
    }
    return records;
  }

  // SCAN_RANGE, piece by piece, with both bitmaps.
  void ScanRange(VpnRange range, std::uint32_t flags) {
    for (Vpn at = range.start; at < range.end;) {
      const Vpn end = std::min(range.end, at + kPagesPerRead);
      tmprof_scan_range request{};
      request.target_id = target_id_;
      request.start_vpn = at.value();
      request.pages = static_cast<std::uint32_t>((end - at).value());
      request.present = reinterpret_cast<std::uint64_t>(present_.data());
      request.accessed = reinterpret_cast<std::uint64_t>(accessed_.data());
      Call(TMPROF_IOC_SCAN_RANGE, request, "scan a range", flags);
      at = end;
    }
  }

  std::uint64_t Passes() {
    tmprof_target_request target{};
    target.target_id = target_id_;
    Call(TMPROF_IOC_GET_TARGET, target, "describe the target");
    return target.passes;
  }

 private:
  template <typename Argument>
  void Call(unsigned long command, Argument& argument, const char* what, std::uint32_t flags = 0) {
    argument.head = {.size = sizeof argument, .version = TMPROF_ABI_VERSION, .flags = flags};
    if (::ioctl(device_.get(), command, &argument) != 0)
      Die(fmt::format("the driver did not {}: {}", what, ErrnoText(errno)));
  }
  void Control(std::uint32_t command) {
    tmprof_control control{};
    control.sources = TMPROF_MASK_ABIT;
    control.command = command;
    Call(TMPROF_IOC_CONTROL, control, "start or stop");
  }

  UniqueFd device_;
  std::uint32_t target_id_ = 0;
  std::vector<std::uint64_t> present_ = std::vector<std::uint64_t>(kPagesPerRead.value() / 64);
  std::vector<std::uint64_t> accessed_ = present_;
};

// One way to read accessed bits, or to read and clear them.
struct Way {
  std::string name;
  bool clears;
  // Times in nanoseconds by name; "" is that of the whole.
  std::function<std::vector<std::pair<std::string, double>>()> run;
};

template <typename Work>
std::vector<std::pair<std::string, double>> Timed(Work work) {
  const std::uint64_t start_ns = NowNs();
  work();
  return {{"", static_cast<double>(NowNs() - start_ns)}};
}

// The ways without the driver.
class Driverless {
 public:
  explicit Driverless(const Target& target)
      : range_(target.range()), pid_(target.pid()), buffer_(kPagesPerRead.value()) {
    auto reader = PageTableReader::Open();
    if (!reader) Die(reader.error().Message());
    way_ = std::string(Name((*reader)->way()));
    kernel_ = abit::MakeLinuxAbitKernel(*std::move(reader));
    const auto stat = ProcFs().Stat(Pid(pid_));
    if (!stat) Die(stat.error().Message());
    auto process = kernel_->Open(Pid(pid_), stat->start_time_ticks);
    if (!process) Die(process.error().Message());
    process_ = *std::move(process);
    pagemap_ = UniqueFd(::open(fmt::format("/proc/{}/pagemap", pid_).c_str(), O_RDONLY));
    clear_refs_ = UniqueFd(::open(fmt::format("/proc/{}/clear_refs", pid_).c_str(), O_WRONLY));
    if (!pagemap_ || !clear_refs_) Die("cannot open the target's files in /proc");
  }

  const std::string& way() const { return way_; }

  std::uint64_t Read() {
    std::uint64_t accessed = 0;
    for (Vpn at = range_.start; at < range_.end;) {
      const auto read = process_->Read({at, std::min(range_.end, at + kPagesPerRead)},
                                       PageTableReader::Depth::kEntries, parts_);
      if (read.outcome == ReadOutcome::kBusy || read.torn_tables > 0) continue;
      TMPROF_CHECK(read.outcome == ReadOutcome::kDone);
      for (const TablePart& part : parts_) {
        if (part.huge) accessed += part.leaf.accessed() ? part.span.value() : 0;
        for (const std::uint64_t entry : part.entries) accessed += entry & entry >> 5 & 1;
      }
      at = read.next;
    }
    return accessed;
  }
  void Clear() { TMPROF_CHECK(process_->Clear(range_) == ClearOutcome::kDone); }
  void ReadPagemap() {
    for (Vpn at = range_.start; at < range_.end; at = at + kPagesPerRead) {
      const std::size_t bytes = buffer_.size() * sizeof buffer_[0];
      const auto offset = static_cast<off_t>(at.value() * sizeof buffer_[0]);
      TMPROF_CHECK(::pread(pagemap_.get(), buffer_.data(), bytes, offset) ==
                   static_cast<ssize_t>(bytes));
    }
  }
  void ClearRefs() { TMPROF_CHECK(::write(clear_refs_.get(), "1", 1) == 1); }

 private:
  VpnRange range_;
  pid_t pid_;
  std::string way_;
  std::unique_ptr<abit::AbitKernel> kernel_;
  std::unique_ptr<abit::AbitProcess> process_;
  std::vector<TablePart> parts_;
  UniqueFd pagemap_;
  UniqueFd clear_refs_;
  std::vector<std::uint64_t> buffer_;
};

std::vector<Way> WaysOfDriver(DriverScan& driver, DriverScan& flushing, VpnRange range) {
  const auto pass = [](DriverScan& scan) {
    const tmprof_stats before = scan.Stats();
    scan.Pass();
    const tmprof_stats after = scan.Stats();
    scan.EndEpoch();  // so that each pass inserts its pages anew
    const auto ns = [](std::uint64_t end, std::uint64_t start) {
      return static_cast<double>(end - start);
    };
    return std::vector<std::pair<std::string, double>>{
        {"", ns(after.scan_ns, before.scan_ns)},
        {", of it under the mmap lock", ns(after.mmap_lock_ns, before.mmap_lock_ns)}};
  };
  return {
      {"driver: pass", true, [&driver, pass] { return pass(driver); }},
      {"driver: pass with flush", true, [&flushing, pass] { return pass(flushing); }},
      {"driver: SCAN_RANGE, read", false,
       [&driver, range] { return Timed([&] { driver.ScanRange(range, 0); }); }},
      {"driver: SCAN_RANGE, clear and flush", true,
       [&driver, range] {
         return Timed([&] { driver.ScanRange(range, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH); });
       }},
  };
}

std::vector<Way> WaysWithoutDriver(Driverless& driverless) {
  return {
      {"BPF read", false, [&driverless] { return Timed([&] { driverless.Read(); }); }},
      {"BPF read and MADV_COLD", true,
       [&driverless] {
         return Timed([&] {
           driverless.Read();
           driverless.Clear();
         });
       }},
      {"/proc/PID/pagemap (no accessed bits)", false,
       [&driverless] { return Timed([&] { driverless.ReadPagemap(); }); }},
      {"/proc/PID/clear_refs (no flush)", true,
       [&driverless] { return Timed([&] { driverless.ClearRefs(); }); }},
  };
}

// The page tables as each way is to meet them, checked: all pages accessed, or none. What else
// clears bits in this kernel, DAMON or reclaim, may take a few.
void Prepare(Target& target, Driverless& driverless, bool all_young) {
  driverless.ClearRefs();
  target.Flush();
  if (all_young) target.Touch(0, target.pages(), 1);
  const std::uint64_t accessed = driverless.Read();
  const std::uint64_t wrong = all_young ? target.pages() - accessed : accessed;
  if (wrong > target.pages() / 100)
    Die(fmt::format("{} of {} pages are accessed before a measurement that wants {}", accessed,
                    target.pages(), all_young ? "all" : "none"));
}

struct Times {
  std::string name;
  std::vector<double> ns;
  std::uint64_t most_left = 0;  // pages whose bits a way that clears has left set
};

// All ways in turn, round by round.
std::vector<Times> TimeWays(const std::vector<Way>& ways, Target& target, Driverless& driverless,
                            bool all_young, int rounds) {
  std::vector<Times> times;
  for (int round = 0; round < rounds; ++round) {
    std::size_t i = 0;
    for (const Way& way : ways) {
      Prepare(target, driverless, all_young);
      const auto parts = way.run();
      const std::uint64_t left = way.clears ? driverless.Read() : 0;
      for (const auto& [part, ns] : parts) {
        if (i == times.size()) times.push_back({.name = way.name + part, .ns = {}});
        times[i].ns.push_back(ns);
        times[i].most_left = std::max(times[i].most_left, left);
        ++i;
      }
    }
  }
  return times;
}

json Price(const Settings& settings) {
  json rows = json::array();
  std::string bpf_way;
  for (const bool huge : {false, true}) {
    Target target(settings.footprint_mib << 20, huge);
    target.Touch(0, target.pages(), 1);
    Driverless driverless(target);
    bpf_way = driverless.way();
    std::vector<Way> ways;
    std::optional<DriverScan> driver;
    std::optional<DriverScan> flushing;
    if (!settings.without_driver) {
      driver.emplace(target.pid(), DriverScan::Options());
      flushing.emplace(target.pid(), DriverScan::Options{.flush = TMPROF_FLUSH_PASS_END});
      ways = WaysOfDriver(*driver, *flushing, target.range());
    }
    for (Way& way : WaysWithoutDriver(driverless)) ways.push_back(std::move(way));
    for (const bool all_young : {true, false}) {
      for (const Times& times : TimeWays(ways, target, driverless, all_young, settings.rounds)) {
        rows.push_back({{"way", times.name},
                        {"huge", huge},
                        {"all_young", all_young},
                        {"ns", times.ns},
                        {"most_left_pages", times.most_left}});
      }
    }
  }
  return {{"footprint_bytes", settings.footprint_mib << 20}, {"bpf_way", bpf_way}, {"rows", rows}};
}

json Memory(const Settings& settings) {
  struct Layout {
    const char* name;
    bool huge;
    std::uint64_t stride_pages;
    std::uint64_t touched_pages;
  };
  const std::uint64_t dense = settings.footprint_mib * 256;
  json rows = json::array();
  for (const Layout& layout :
       {Layout{"every page", false, 1, dense}, Layout{"one page of 64 KiB", false, 16, dense / 16},
        Layout{"one page of 2 MiB", false, 512, dense / 16},
        Layout{"huge pages", true, 1, dense}}) {
    const std::uint64_t pages = layout.touched_pages * layout.stride_pages;
    Target target(pages * kBasePageBytes, layout.huge);
    DriverScan driver(target.pid(), {});
    target.Touch(0, pages, layout.stride_pages);
    driver.Pass();
    const std::uint64_t one_epoch = driver.Stats().memory_peak_bytes;
    const std::uint64_t records = driver.Stats().pages;
    driver.EndEpoch();
    target.Flush();
    target.Touch(0, pages, layout.stride_pages);
    driver.Pass();
    rows.push_back({{"layout", layout.name},
                    {"touched_bytes", layout.touched_pages * kBasePageBytes},
                    {"records", records},
                    {"one_epoch_bytes", one_epoch},
                    {"two_epochs_bytes", driver.Stats().memory_peak_bytes}});
  }
  return {{"rows", rows}};
}

// Holds shorter than the result: all but one in a hundred.
json HoldQuantile(DriverScan& driver) {
  const std::uint64_t ns = tmprof_hold_quantile_ns(driver.LockHolds().holds, 990);
  return ns == TMPROF_UNKNOWN ? json() : json(ns);
}

json Holds(const Settings& settings) {
  json rows = json::array();
  Target target(settings.footprint_mib << 20, false);
  target.Touch(0, target.pages(), 1);
  Driverless driverless(target);
  for (const bool all_young : {true, false}) {
    for (const std::uint32_t chunk : {512U, kDefaultChunkEntries, 32768U, 262144U}) {
      DriverScan driver(target.pid(), {.chunk_entries = chunk});
      for (int round = 0; round < settings.rounds; ++round) {
        Prepare(target, driverless, all_young);
        driver.Pass();
        driver.EndEpoch();
      }
      const tmprof_stats stats = driver.Stats();
      rows.push_back({{"all_young", all_young},
                      {"chunk_entries", chunk},
                      {"holds", stats.mmap_lock_holds},
                      {"sum_ns", stats.mmap_lock_ns},
                      {"p99_below_ns", HoldQuantile(driver)},
                      {"max_ns", stats.mmap_lock_max_ns}});
    }
  }
  return {{"footprint_bytes", settings.footprint_mib << 20}, {"rows", rows}};
}

// Another process on the target's CPU, which wakes up so often.
class Waker {
 public:
  explicit Waker(milliseconds period) {
    pid_ = ::fork();
    TMPROF_CHECK(pid_ >= 0);
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    PinToCpu(TargetCpu());
    for (;;) std::this_thread::sleep_for(period);
  }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  ~Waker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

json Recall(const Settings& settings) {
  constexpr std::uint64_t kIntervalNs = kSecondNs / 10;
  constexpr milliseconds kWakePeriod{10};
  Target target(settings.footprint_mib << 20, false);
  target.Touch(0, target.pages(), 1);
  std::vector<std::uint32_t> order(target.pages());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  json rows = json::array();
  for (const std::size_t hot_count :
       {std::size_t{16}, std::size_t{256}, std::size_t{4096}, order.size() / 2}) {
    const std::vector<std::uint32_t> hot(order.begin(),
                                         order.begin() + static_cast<std::ptrdiff_t>(hot_count));
    std::vector<bool> is_hot(target.pages(), false);
    for (const std::uint32_t page : hot) is_hot[page] = true;
    for (const bool beside_waker : {false, true}) {
      std::optional<Waker> waker;
      if (beside_waker) waker.emplace(kWakePeriod);
      for (const auto flush : {TMPROF_FLUSH_NEVER, TMPROF_FLUSH_PASS_END}) {
        DriverScan driver(target.pid(), {.interval_ns = kIntervalNs, .flush = flush});
        target.Work(hot);
        driver.Start();
        driver.AwaitPasses(1);
        driver.EndEpoch();  // what was accessed before does not count
        const std::uint64_t rounds_before = target.WorkRounds();
        driver.AwaitPasses(1 + static_cast<std::uint64_t>(settings.passes));
        driver.Stop();
        const std::uint64_t rounds = target.WorkRounds() - rounds_before;
        target.Rest();
        const tmprof_epoch epoch = driver.EndEpoch();
        std::uint64_t found = 0;
        std::uint64_t wrong = 0;
        for (const tmprof_page_record& record : driver.Records(epoch)) {
          const Vpn vpn(record.vpn);
          if (!target.range().Contains(vpn)) continue;
          (is_hot[(vpn - target.range().start).value()] ? found : wrong) += record.references;
        }
        rows.push_back({{"hot_pages", hot_count},
                        {"beside_waker", beside_waker},
                        {"flush", flush == TMPROF_FLUSH_NEVER ? "never" : "pass end"},
                        {"passes", epoch.passes},
                        {"rounds_of_work", rounds},
                        {"found", found},
                        {"wrong", wrong}});
      }
    }
  }
  return {{"footprint_bytes", settings.footprint_mib << 20},
          {"interval_ns", kIntervalNs},
          {"wake_period_ms", kWakePeriod.count()},
          {"rows", rows}};
}

// Until it is destroyed; prints its reports to standard output.
class Gups {
 public:
  explicit Gups(std::uint64_t footprint_mib) {
    int ready[2];
    TMPROF_CHECK(::pipe(ready) == 0);
    pid_ = ::fork();
    TMPROF_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      PinToCpu(TargetCpu());
      ::dup2(ready[1], STDOUT_FILENO);
      const std::string footprint = fmt::format("{}MiB", footprint_mib);
      ::execlp("gups", "gups", "--footprint", footprint.c_str(), "--duration", "1h",
               "--report-interval", "100ms", nullptr);
      ::_exit(127);
    }
    ::close(ready[1]);
    output_ = ::fdopen(ready[0], "r");
    TMPROF_CHECK(output_ != nullptr);
    if (Line().empty()) Die("cannot run gups: it is to be in the PATH");
    reader_ = std::thread([this] {
      for (std::string line = Line(); !line.empty(); line = Line())
        if (line.starts_with('{')) reports_.push_back(json::parse(line));
    });
  }
  Gups(const Gups&) = delete;
  Gups& operator=(const Gups&) = delete;
  ~Gups() {
    if (reader_.joinable()) End();
    std::fclose(output_);
  }

  pid_t pid() const { return pid_; }
  // Ends it and returns its reports.
  std::vector<json> End() {
    ::kill(pid_, SIGTERM);
    reader_.join();
    ::waitpid(pid_, nullptr, 0);
    return std::move(reports_);
  }

 private:
  std::string Line() {
    std::string line;
    for (int c = std::fgetc(output_); c != EOF; c = std::fgetc(output_)) {
      line += static_cast<char>(c);
      if (c == '\n') break;
    }
    return line;
  }

  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
  std::vector<json> reports_;
  std::thread reader_;
};

json Overhead(const Settings& settings) {
  struct Side {
    const char* name;
    DriverScan::Options options;
  };
  const std::uint64_t default_budget_ns = kSecondNs / 100;
  const std::vector<Side> sides = {
      {"budget 1 %, no flush", {.interval_ns = kSecondNs, .budget_ns = default_budget_ns}},
      {"no limit, no flush", {.interval_ns = kSecondNs}},
      {"no limit, flush at pass end", {.interval_ns = kSecondNs, .flush = TMPROF_FLUSH_PASS_END}}};
  const nanoseconds window(static_cast<std::int64_t>(settings.window_seconds * 1e9));
  // Past the first pass, with what a session has saved up of its budget; and from there on no
  // window begins or ends within a pass, whose part of it would be left to chance.
  constexpr milliseconds kSettle{500};
  Gups gups(settings.footprint_mib);
  std::this_thread::sleep_for(milliseconds(500));
  const auto without = [&] {
    const std::uint64_t start_ns = NowNs();
    std::this_thread::sleep_for(window);
    return json{{"start_ns", start_ns}, {"end_ns", NowNs()}};
  };
  json windows = json::array({without()});
  for (int pair = 0; pair < settings.pairs; ++pair) {
    for (const Side& side : sides) {
      DriverScan driver(gups.pid(), side.options);
      driver.Start();
      std::this_thread::sleep_for(kSettle);
      const tmprof_stats before = driver.Stats();
      const std::uint64_t start_ns = NowNs();
      std::this_thread::sleep_for(window);
      const std::uint64_t end_ns = NowNs();
      const tmprof_stats stats = driver.Stats();
      driver.Stop();
      windows.push_back({{"side", side.name},
                         {"start_ns", start_ns},
                         {"end_ns", end_ns},
                         {"passes", stats.passes - before.passes},
                         {"references", stats.references - before.references},
                         {"scan_ns", stats.scan_ns - before.scan_ns},
                         {"flush_ns", stats.flush_ns - before.flush_ns},
                         {"mmap_lock_p99_below_ns", HoldQuantile(driver)},
                         {"mmap_lock_max_ns", stats.mmap_lock_max_ns}});
      windows.push_back(without());
    }
  }
  return {{"footprint_bytes", settings.footprint_mib << 20},
          {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"windows", windows},
          {"reports", gups.End()}};
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  using namespace tmprof;
  Settings settings;
  CLI::App app("The kernel driver, measured inside the machine that it runs in");
  app.add_option("--footprint-mib", settings.footprint_mib, "Memory of the target")
      ->check(CLI::Range(64, 1 << 20));
  app.add_option("--rounds", settings.rounds, "price, holds: of each")->check(CLI::PositiveNumber);
  app.add_option("--pairs", settings.pairs, "overhead: windows of each side")
      ->check(CLI::PositiveNumber);
  app.add_option("--window", settings.window_seconds, "overhead: seconds")
      ->check(CLI::Range(0.5, 3600.0));
  app.add_option("--passes", settings.passes, "recall: of each")->check(CLI::PositiveNumber);
  app.add_flag("--without-driver", settings.without_driver, "price: the other ways alone");
  app.fallthrough();
  app.require_subcommand(1);
  const std::pair<const char*, json (*)(const Settings&)> measurements[] = {{"price", Price},
                                                                            {"memory", Memory},
                                                                            {"holds", Holds},
                                                                            {"recall", Recall},
                                                                            {"overhead", Overhead}};
  for (const auto& [name, measure] : measurements) app.add_subcommand(name, "");
  CLI11_PARSE(app, argc, argv);
  PinToCpu(0);
  for (const auto& [name, measure] : measurements) {
    if (!app.got_subcommand(name)) continue;
    json result = measure(settings);
    result["measurement"] = name;
    fmt::print("{}\n", result.dump());
  }
  return 0;
}
