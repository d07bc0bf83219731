// SPDX-License-Identifier: Apache-2.0
// The real kernel and real processes. Needs the privileges that doctor names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/host/procfs.h"
#include "base/shared_pages.h"
#include "profiler/epoch_builder.h"
#include "profiler/frame_comparison.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "profiler/sources/abit/calibration.h"
#include "profiler/sources/abit/linux_abit_kernel.h"
#include "profiler/sources/abit/other_clearers.h"
#include "profiler/sources/abit/other_scanners.h"
#include "profiler/sources/abit/scan_engine.h"
#include "profiler/sources/abit/switch_clock.h"

namespace tmprof::abit {
namespace abit_live_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kHugeBytes = std::size_t{2} << 20;

// Shared with the child: it does what it is told, one order at a time.
struct Desk {
  std::atomic<std::uint32_t> order{0};
  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint64_t> churned{0};
  std::atomic<bool> intact{true};
};

// Memory that a child works on, aligned to 2 MiB.
class Arena {
 public:
  Arena(std::size_t bytes, int advice, int flags = MAP_PRIVATE)
      : bytes_(bytes),
        raw_(::mmap(nullptr, bytes + kHugeBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1,
                    0)) {
    EXPECT_NE(raw_, MAP_FAILED);
    ::madvise(raw_, bytes + kHugeBytes, advice);
    const auto address = reinterpret_cast<std::uint64_t>(raw_);
    start_ = reinterpret_cast<volatile char*>((address + kHugeBytes - 1) / kHugeBytes * kHugeBytes);
  }
  ~Arena() { ::munmap(raw_, bytes_ + kHugeBytes); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  volatile char* start() const { return start_; }
  std::size_t bytes() const { return bytes_; }
  VpnRange range() const {
    const Vpn first = VpnOfAddress(reinterpret_cast<std::uint64_t>(start_));
    return {first, first + PageCount(bytes_ / kBasePageBytes)};
  }

 private:
  std::size_t bytes_;
  void* raw_;
  volatile char* start_;
};

// Memory of the hugetlb pool, which is made larger for as long as it lives. Not touched.
class HugetlbMemory {
 public:
  explicit HugetlbMemory(std::size_t pages)
      : bytes_(pages * kHugeBytes), pool_before_(ReadPool()), memory_(MAP_FAILED) {
    std::ofstream(kPool) << pool_before_ + pages;
    if (ReadPool() < pool_before_ + pages) {
      refusal_ = "the kernel gave no 2 MiB pages for vm.nr_hugepages (not root, or no memory)";
      return;
    }
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);  // reserved for a child, too
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~HugetlbMemory() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
    std::ofstream(kPool) << pool_before_;
  }
  HugetlbMemory(const HugetlbMemory&) = delete;
  HugetlbMemory& operator=(const HugetlbMemory&) = delete;

  const std::string& refusal() const { return refusal_; }  // empty: there it is
  volatile char* start() const { return static_cast<char*>(memory_); }
  VpnRange range() const {
    const Vpn first = VpnOfAddress(reinterpret_cast<std::uint64_t>(memory_));
    return {first, first + PageCount(bytes_ / kBasePageBytes)};
  }

 private:
  static constexpr const char* kPool = "/proc/sys/vm/nr_hugepages";
  static std::size_t ReadPool() {
    std::size_t pages = 0;
    std::ifstream(kPool) >> pages;
    return pages;
  }

  std::size_t bytes_;
  std::size_t pool_before_;
  void* memory_;
  std::string refusal_;
};

class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    desk_ = new (::mmap(nullptr, sizeof(Desk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Desk;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(*desk_);
      ::_exit(0);
    }
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::munmap(desk_, sizeof(Desk));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Pid pid() const { return Pid(pid_); }
  Desk& desk() { return *desk_; }
  void Order() {
    const std::uint32_t order = ++desk_->order;
    while (desk_->done < order) ::sched_yield();
  }
  TrackedProcess Tracked() const {
    const ProcFs procfs;
    return {.id = TargetId(0),
            .pid = pid(),
            .start_time_ticks = procfs.Stat(pid()).value().start_time_ticks,
            .mappings = procfs.Mappings(pid()).value()};
  }

 private:
  Desk* desk_;
  pid_t pid_;
};

void AwaitOrder(Desk& desk, std::uint32_t number) {
  while (desk.order < number) ::sched_yield();
}

class AbitLive : public ::testing::TestWithParam<KernelWay> {
 protected:
  void SetUp() override {
    auto reader = PageTableReader::Open(GetParam());
    if (!reader) GTEST_SKIP() << reader.error().Message();
    auto clock = SwitchClock::Open();
    kernel_ = MakeLinuxAbitKernel(std::move(*reader), clock ? *std::move(clock) : nullptr);
  }

  std::unique_ptr<AbitProcess> Open(const Child& child) {
    auto process = kernel_->Open(child.pid(), child.Tracked().start_time_ticks);
    EXPECT_TRUE(process.has_value());
    return std::move(*process);
  }

  // The pages whose bits are set; a huge page by its first.
  std::set<Vpn> Accessed(AbitProcess& process, VpnRange range) {
    std::set<Vpn> accessed;
    std::vector<TablePart> parts;
    for (Vpn at = range.start; at < range.end;) {
      ReadResult read;
      do {
        read = process.Read({at, range.end}, PageTableReader::Depth::kEntries, parts);
      } while (read.outcome == ReadOutcome::kBusy);
      EXPECT_EQ(read.outcome, ReadOutcome::kDone);
      if (read.outcome != ReadOutcome::kDone) break;
      for (const TablePart& part : parts) {
        if (part.huge && part.leaf.accessed()) accessed.insert(part.start);
        for (std::size_t i = 0; i < part.entries.size(); ++i)
          if (TableEntry(part.entries[i]).accessed()) accessed.insert(part.start + PageCount(i));
      }
      at = read.next;
    }
    return accessed;
  }

  // No page too many. None too few either, unless something else clears bits as well: DAMON takes
  // one page at a time, at random.
  void ExpectSame(const std::set<Vpn>& seen, const std::set<Vpn>& expected) {
    std::vector<Vpn> extra;
    std::vector<Vpn> missing;
    std::ranges::set_difference(seen, expected, std::back_inserter(extra));
    std::ranges::set_difference(expected, seen, std::back_inserter(missing));
    EXPECT_THAT(extra, ::testing::IsEmpty());
    EXPECT_LE(missing.size(), OtherAccessedBitClearer() ? expected.size() / 100 + 1 : 0);
  }

  // Every third unit of the arena is touched, in several rounds with another third each.
  void ExpectExactlyTheTouched(std::size_t unit_bytes, int advice) {
    const Arena arena(48 * kHugeBytes, advice);
    const std::size_t units = arena.bytes() / unit_bytes;
    Child child([&](Desk& desk) {
      for (std::size_t i = 0; i < arena.bytes(); i += kBasePageBytes) arena.start()[i] = 1;
      desk.done = 1;
      for (std::uint32_t round = 2;; ++round) {
        AwaitOrder(desk, round);
        for (std::size_t i = round % 3; i < units; i += 3) arena.start()[i * unit_bytes + 64] = 2;
        desk.done = round;
      }
    });
    child.Order();
    const auto process = Open(child);
    for (std::uint32_t round = 2; round < 8; ++round) {
      ASSERT_EQ(process->Clear(arena.range()), ClearOutcome::kDone);
      ASSERT_EQ(process->Clear(arena.range()), ClearOutcome::kDone);
      // Pages on their way to the kernel's lists are skipped; they are known, and left out.
      std::set<Vpn> unsettled = Accessed(*process, arena.range());
      ASSERT_LT(unsettled.size(), 64u);
      child.Order();
      std::set<Vpn> expected;
      for (std::size_t i = round % 3; i < units; i += 3)
        expected.insert(arena.range().start + PageCount(i * unit_bytes / kBasePageBytes));
      expected.merge(unsettled);
      ExpectSame(Accessed(*process, arena.range()), expected);
    }
  }

  std::unique_ptr<AbitKernel> kernel_;
};

TEST_P(AbitLive, ExactlyTheTouchedBasePagesAreSeen) {
  ExpectExactlyTheTouched(kBasePageBytes, MADV_NOHUGEPAGE);
}

TEST_P(AbitLive, ExactlyTheTouchedHugePagesAreSeen) {
  ExpectExactlyTheTouched(kHugeBytes, MADV_HUGEPAGE);
}

// A process and its child, as while a database writes a snapshot.
TEST_P(AbitLive, PagesOfAChildAreThoseOfItsParentUntilOneOfBothWrites) {
  constexpr std::uint64_t kPages = 16'384;
  const Arena arena(kPages * kBasePageBytes, MADV_NOHUGEPAGE);
  for (std::uint64_t i = 0; i < kPages; ++i) arena.start()[i * kBasePageBytes] = 1;
  Child child([&](Desk& desk) {
    desk.done = 1;
    AwaitOrder(desk, 2);
    for (std::uint64_t i = 0; i < kPages / 2; ++i) arena.start()[i * kBasePageBytes] = 2;
    desk.done = 2;
    while (true) ::pause();
  });
  child.Order();
  SharedPages shared;
  std::set<PageKey> pages;
  const auto look = [&](std::uint64_t copied) {
    const std::array<Pid, 2> pids{Pid(::getpid()), child.pid()};
    EpochFrame frame;
    SourceEpoch source;
    for (std::uint32_t id = 0; id < pids.size(); ++id) {
      const auto stat = ProcFs().Stat(pids[id]);
      frame.targets.push_back(
          {.id = TargetId(id), .pid = pids[id], .mappings = ProcFs().Mappings(pids[id]).value()});
      const auto process = kernel_->Open(pids[id], stat.value().start_time_ticks);
      std::vector<std::optional<SeenFrame>> of_process;
      std::vector<TablePart> parts;
      for (Vpn at = arena.range().start; at < arena.range().end;) {
        const ReadResult read =
            (*process)->Read({at, arena.range().end}, PageTableReader::Depth::kEntries, parts);
        if (read.outcome == ReadOutcome::kBusy) continue;
        if (read.outcome != ReadOutcome::kDone) break;
        for (const TablePart& part : parts) {
          for (std::size_t i = 0; i < part.entries.size(); ++i) {
            const TableEntry entry(part.entries[i]);
            const Vpn page = part.start + PageCount(i);
            if (!arena.range().Contains(page)) continue;
            of_process.emplace_back(SeenFrame{.number = entry.frame(kernel_->frame_mask()),
                                              .is_shareable = !entry.writable()});
            source.references.push_back(
                {.key = {TargetId(id), page}, .looks = 1, .frame = of_process.back()});
          }
        }
        at = read.next;
      }
      auto pagemap = OpenPagemap({.pid = pids[id], .start_time_ticks = stat->start_time_ticks});
      ASSERT_TRUE(pagemap);
      const auto by_pagemap = pagemap(arena.range());
      ASSERT_EQ(by_pagemap.size(), of_process.size());
      for (std::size_t i = 0; i < of_process.size(); ++i) {
        ASSERT_EQ(by_pagemap[i]->number, of_process[i]->number);
        ASSERT_EQ(by_pagemap[i]->is_shareable, i >= copied) << i << " of " << id;
      }
    }
    std::vector<std::optional<SeenFrame>> frames;
    EpochProfile epoch = BuildEpoch(std::move(frame), {std::move(source)}, &frames);
    const auto parent_of = [&](TargetId target) {
      return ProcFs().Stat(pids[target.value()]).value().parent;
    };
    FrameComparison().Compare(epoch, frames, parent_of, {});
    EXPECT_EQ(epoch.pages.size(), 2 * kPages);
    shared.AddEpoch(epoch);
    pages.clear();
    for (std::size_t i = 0; i < epoch.pages.size(); ++i)
      pages.insert(shared.NameOf(epoch.pages.key(i), PageCount(1)));
  };
  look(/*copied=*/0);
  EXPECT_EQ(pages.size(), kPages);
  child.Order();
  look(/*copied=*/kPages / 2);
  EXPECT_EQ(pages.size(), kPages + kPages / 2);
}

TEST_P(AbitLive, SinglePagesAreReadAndClearedByThemselves) {
  const Arena arena(2 * kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < kHugeBytes; i += kBasePageBytes) arena.start()[i] = 1;
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  const auto process = Open(child);
  // Pages of the first half, which are on the kernel's lists for sure, and one page that was never
  // touched.
  std::vector<Vpn> pages;
  std::vector<VpnRange> cleared;
  for (std::uint64_t i = 0; i < 256; i += 16) {
    pages.push_back(arena.range().start + PageCount(i));
    if (i % 32 == 0) cleared.push_back({pages.back(), pages.back() + PageCount(1)});
  }
  pages.push_back(arena.range().start + PageCount(700));
  for (const ClearOutcome outcome : process->ClearEach(cleared))
    EXPECT_EQ(outcome, ClearOutcome::kDone);
  std::vector<PointEntry> entries;
  ReadResult read;
  do {
    read = process->ReadPoints(pages, entries);
    ASSERT_EQ(read.outcome, ReadOutcome::kDone);
  } while (!std::ranges::all_of(entries, &PointEntry::read));  // busy
  EXPECT_NE(read.address_space, 0u);
  ASSERT_EQ(entries.size(), pages.size());
  const bool other = OtherAccessedBitClearer().has_value();
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    EXPECT_TRUE(entries[i].entry.present()) << i;
    EXPECT_EQ(entries[i].unit, PageCount(1));
    const bool was_cleared = i % 2 == 0;
    if (was_cleared || !other) {
      EXPECT_EQ(entries[i].entry.accessed(), !was_cleared) << i;
    }
  }
  EXPECT_FALSE(entries.back().entry.present());
}

// 64 mappings of two pages in one table: alternately writable, read-only, and guards or holes.
TEST_P(AbitLive, MappingsOfOneTableAreReadAndClearedTogether) {
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  constexpr std::size_t kEach = 2 * kBasePageBytes;
  constexpr std::size_t kMappings = 64;
  const auto at = [&](std::size_t mapping) {
    return const_cast<char*>(arena.start()) + mapping * kEach;
  };
  const auto is_accessible = [](std::size_t mapping) { return mapping % 4 < 2; };
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < kMappings; ++i) *static_cast<volatile char*>(at(i)) = 1;
    ::munmap(at(kMappings), arena.bytes() - kMappings * kEach);
    for (std::size_t i = 0; i < kMappings; ++i) {
      if (i % 4 == 1) ::mprotect(at(i), kEach, PROT_READ);
      if (i % 4 == 2) ::mprotect(at(i), kEach, PROT_NONE);
      if (i % 4 == 3) ::munmap(at(i), kEach);
    }
    desk.done = 1;
    AwaitOrder(desk, 2);
    for (std::size_t i = 0; i < kMappings; i += 8) *static_cast<volatile char*>(at(i)) = 2;
    desk.done = 2;
    AwaitOrder(desk, 3);
    ::munmap(at(0), kEach);
    desk.done = 3;
    while (true) ::pause();
  });
  child.Order();
  const auto process = Open(child);
  std::set<Vpn> before = Accessed(*process, arena.range());
  for (const Vpn vpn : before) {
    const std::size_t mapping = (vpn - arena.range().start).value() / 2;
    EXPECT_LT(mapping, kMappings);
    EXPECT_TRUE(is_accessible(mapping)) << mapping;
  }
  EXPECT_GE(before.size(), kMappings / 2 - 2);  // DAMON may clear some
  ASSERT_EQ(process->Clear(arena.range()), ClearOutcome::kDone);
  ASSERT_EQ(process->Clear(arena.range()), ClearOutcome::kDone);
  std::set<Vpn> expected = Accessed(*process, arena.range());  // on their way to the page lists
  child.Order();
  for (std::size_t i = 0; i < kMappings; i += 8)
    expected.insert(arena.range().start + PageCount(2 * i));
  ExpectSame(Accessed(*process, arena.range()), expected);

  child.Order();
  std::vector<TablePart> parts;
  EXPECT_EQ(process->Read(arena.range(), PageTableReader::Depth::kEntries, parts).outcome,
            ReadOutcome::kUnmapped)
      << "though others of the range are mapped";
}

TEST_P(AbitLive, PagesSharedByForkAreToldApart) {
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < arena.bytes(); i += kBasePageBytes) arena.start()[i] = 1;
  Child child([&](Desk& desk) {
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  const auto process = Open(child);
  std::vector<Vpn> pages;
  for (Vpn vpn = arena.range().start; vpn < arena.range().end; vpn = vpn + PageCount(1))
    pages.push_back(vpn);
  const auto standing = process->Inspect(pages, std::vector<bool>(pages.size(), false));
  EXPECT_THAT(standing, ::testing::Each(PageStanding::kShared));
}

TEST_P(AbitLive, MlockedMemoryIsUnclearable) {
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    desk.intact = ::syscall(SYS_mlock, arena.start(), arena.bytes()) == 0;
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  if (!child.desk().intact) GTEST_SKIP() << "mlock of 2 MiB is refused here";
  EXPECT_EQ(Open(child)->Clear(arena.range()), ClearOutcome::kUnclearable);
}

// A CPU holds the translations of so few pages, so that their bits stay unset without a flush.
TEST_P(AbitLive, PagesReadOverAndOverShowItAfterAFlushOfLockedMemory) {
  cpu_set_t cpus;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
  if (CPU_COUNT(&cpus) < 2) GTEST_SKIP() << "a flush takes two CPUs";
  constexpr std::size_t kPages = 48;
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    desk.intact = ::mlockall(MCL_CURRENT) == 0;
    for (std::uint64_t round = 1;; ++round) {
      for (std::size_t i = 0; i < kPages; ++i) (void)arena.start()[i * kBasePageBytes];
      desk.churned = round;
      desk.done = 1;
    }
  });
  child.Order();
  if (!child.desk().intact) GTEST_SKIP() << "mlockall is refused here";
  const auto process = Open(child);
  const VpnRange pages{arena.range().start, arena.range().start + PageCount(kPages)};
  std::set<Vpn> all;
  for (std::uint64_t i = 0; i < kPages; ++i) all.insert(pages.start + PageCount(i));
  for (int flushes = 0, tries = 0; flushes < 20; ++tries) {
    if (tries == 2'000)
      GTEST_SKIP() << "both threads hardly ever run at once, as in an emulated machine: " << flushes
                   << " flushes in " << tries << " tries";
    ASSERT_EQ(process->ClearWhole(), ClearOutcome::kDone);
    if (!process->Flush()) continue;
    ++flushes;
    const std::uint64_t round = child.desk().churned;
    while (child.desk().churned < round + 2) ::sched_yield();
    std::set<Vpn> seen = Accessed(*process, pages);
    std::erase_if(seen, [&](Vpn vpn) { return !pages.Contains(vpn); });
    ExpectSame(seen, all);
  }
}

TEST_P(AbitLive, AProcessThatEndsIsNotFlushed) {
  Child child([&](Desk& desk) {
    desk.done = 1;
    AwaitOrder(desk, 2);
  });
  child.Order();
  const auto process = Open(child);
  ++child.desk().order;
  while (process->Alive()) ::sched_yield();
  EXPECT_FALSE(process->Flush());
}

TEST_P(AbitLive, HugetlbMemoryIsReadThoughUnclearable) {
  const HugetlbMemory memory(2);
  if (!memory.refusal().empty()) GTEST_SKIP() << memory.refusal();
  Child child([&](Desk& desk) {
    memory.start()[kHugeBytes] = 1;
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  const auto process = Open(child);
  EXPECT_EQ(process->Clear(memory.range()), ClearOutcome::kUnclearable);
  EXPECT_EQ(Accessed(*process, memory.range()), std::set<Vpn>{memory.range().start + kTablePages});
}

TEST_P(AbitLive, AProcessIsSeenAfterItsMainThreadHasExitedThoughNotCleared) {
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    std::thread([&] {
      arena.start()[5 * kBasePageBytes] = 1;
      desk.done = 1;
      AwaitOrder(desk, 2);
      arena.start()[7 * kBasePageBytes] = 1;
      desk.done = 2;
      while (true) ::pause();
    }).detach();
    AwaitOrder(desk, 1);
    ::syscall(SYS_exit, 0);
  });
  const auto process = Open(child);
  child.Order();
  while (ProcFs().Stat(child.pid())->state != 'Z') ::sched_yield();
  EXPECT_TRUE(process->Alive());
  const Vpn start = arena.range().start;
  EXPECT_EQ(Accessed(*process, arena.range()), std::set<Vpn>{start + PageCount(5)});
  const std::chrono::nanoseconds used = process->CpuTime();
  child.Order();
  EXPECT_EQ(Accessed(*process, arena.range()),
            (std::set<Vpn>{start + PageCount(5), start + PageCount(7)}));
  EXPECT_GT(process->CpuTime(), used);
  EXPECT_EQ(process->Clear(arena.range()), ClearOutcome::kUnclearable);
  EXPECT_EQ(process->Inspect({{start + PageCount(5)}}, {true}).at(0), PageStanding::kClearable);
}

TEST_P(AbitLive, AProcessThatIsGoneIsAnOutcomeNotAnError) {
  std::unique_ptr<AbitProcess> process;
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  {
    Child child([&](Desk& desk) {
      desk.done = 1;
      while (true) ::pause();
    });
    child.Order();
    process = Open(child);
    EXPECT_TRUE(process->Alive());
  }
  std::vector<TablePart> parts;
  EXPECT_FALSE(process->Alive());
  EXPECT_EQ(process->Read(arena.range(), PageTableReader::Depth::kEntries, parts).outcome,
            ReadOutcome::kProcessGone);
  EXPECT_EQ(process->Clear(arena.range()), ClearOutcome::kProcessGone);
}

TEST_P(AbitLive, AProcessIsNotTakenForGoneWhereDescriptorsHaveRunOut) {
  Child child([&](Desk& desk) {
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  const std::uint64_t start_time_ticks = child.Tracked().start_time_ticks;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = kernel_->Open(child.pid(), start_time_ticks);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().system_error, EMFILE);
  EXPECT_TRUE(kernel_->Open(child.pid(), start_time_ticks).has_value());
}

// In 4 TiB, 512 tables of 2 MiB entries of which each holds one: 15 groups of 32 that hold none and
// 32 entries to look at, each a step, and 3 584 unused entries for 1 GiB. These are 27 648 steps,
// of which a read takes 65 536 or 256. Entry by entry they would be 265 728.
TEST_P(AbitLive, ASparseMappingIsWalkedByWhatIsPresent) {
  constexpr std::size_t kBytes = std::size_t{4} << 40;
  constexpr std::size_t kTouched = 512;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "4 TiB of address space are refused here";
  ::madvise(memory, kBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < kTouched; ++i)
      static_cast<volatile char*>(memory)[i * (kBytes / kTouched)] = 1;
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  const auto process = Open(child);
  const Vpn start = VpnOfAddress(reinterpret_cast<std::uint64_t>(memory));
  const VpnRange range{start, start + PageCount(kBytes / kBasePageBytes)};
  std::vector<TablePart> parts;
  std::set<Vpn> tables;
  std::size_t reads = 0;
  for (Vpn at = range.start; at < range.end;) {
    const ReadResult read = process->Read({at, range.end}, PageTableReader::Depth::kShape, parts);
    if (read.outcome == ReadOutcome::kBusy) continue;
    ASSERT_EQ(read.outcome, ReadOutcome::kDone);
    for (const TablePart& part : parts) tables.insert(part.start);
    at = read.next;
    ++reads;
  }
  ::munmap(memory, kBytes);
  EXPECT_EQ(tables.size(), kTouched);
  EXPECT_LE(reads, GetParam() == KernelWay::kSyscallProgram ? 2U : 110U);
}

TEST_P(AbitLive, DistinguishesUnmappedFromUnaccessedMemory) {
  const Arena arena(kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    ::munmap(const_cast<char*>(arena.start()), arena.bytes());
    desk.done = 1;
    while (true) ::pause();
  });
  child.Order();
  std::vector<TablePart> parts;
  EXPECT_EQ(Open(child)->Read(arena.range(), PageTableReader::Depth::kEntries, parts).outcome,
            ReadOutcome::kUnmapped);
}

// A target that maps, unmaps, discards, forks and rewrites while it is scanned as fast as can be.
TEST_P(AbitLive, ChurnDuringScansHarmsNeitherTargetNorScanner) {
  constexpr std::size_t kBytes = 8 * kHugeBytes;
  const Arena arena(kBytes, MADV_HUGEPAGE);
  Child child([&](Desk& desk) {
    volatile char* memory = arena.start();
    for (std::uint32_t round = 0;; ++round) {
      for (std::size_t i = 0; i < kBytes; i += kBasePageBytes)
        memory[i] = static_cast<char>(i / kBasePageBytes + round);
      for (int i = 0; i < 50; ++i) {
        void* page = ::mmap(nullptr, 4 * kHugeBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        static_cast<volatile char*>(page)[i * kBasePageBytes] = 1;
        ::madvise(page, kHugeBytes, MADV_DONTNEED);
        ::munmap(page, 4 * kHugeBytes);
      }
      const pid_t twin = ::fork();
      if (twin == 0) ::_exit(0);
      ::waitpid(twin, nullptr, 0);
      for (std::size_t i = 0; i < kBytes; i += kBasePageBytes)
        if (memory[i] != static_cast<char>(i / kBasePageBytes + round)) desk.intact = false;
      ::madvise(const_cast<char*>(memory) + kHugeBytes, kHugeBytes / 2, MADV_DONTNEED);
      ++desk.churned;
    }
  });
  while (child.desk().churned == 0) ::sched_yield();
  ScanOptions options;
  options.overhead_share = 0.5;
  options.own_share = 2;  // this thread spins: its CPU time is no measure of the scanner's
  options.clear_gap = options.least_clear_gap = milliseconds(1);
  options.cost = {.ns_per_set = 100, .ns_per_look = 1'000};
  ScanEngine engine(*kernel_, options);
  const MonotonicTime end = kernel_->Now() + seconds(5);
  MonotonicTime refresh{};
  std::uint64_t clears = 0;
  while (kernel_->Now() < end) {
    if (kernel_->Now() >= refresh) {
      engine.SetTargets({child.Tracked()});
      clears += engine.TakeEpoch().counts.clears;
      refresh = kernel_->Now() + milliseconds(100);
    }
    if (engine.Step() > kernel_->Now()) ::sched_yield();
  }
  clears += engine.TakeEpoch().counts.clears;
  EXPECT_GT(clears, 0u);
  EXPECT_GT(child.desk().churned, 1u);
  EXPECT_TRUE(child.desk().intact);
}

INSTANTIATE_TEST_SUITE_P(BothWays, AbitLive,
                         ::testing::Values(KernelWay::kSyscallProgram, KernelWay::kMappingIterator),
                         [](const auto& way) {
                           return way.param == KernelWay::kSyscallProgram ? "Syscall" : "Iterator";
                         });

TEST(CalibrationLive, IsRepeatedByAChildThatLeavesCpusToOthers) {
  auto reader = PageTableReader::Open();
  if (!reader) GTEST_SKIP() << reader.error().Message();
  const auto kernel = MakeLinuxAbitKernel(*std::move(reader), nullptr);
  const MeasuredCost before{.ns_per_set = kMostNsPerSet,
                            .unsettled = {.set = true, .look = true, .point = true}};
  std::stop_source stop;
  const auto again = CalibrateAgain(*kernel, before, stop.get_token());
  if (!again) GTEST_SKIP() << again.error().Message();
  std::cout << fmt::format("{:.0f} ns a bit, {:.0f} a look, {:.0f} a page\n", again->ns_per_set,
                           again->ns_per_look.value_or(0), again->ns_per_point.value_or(0));
  EXPECT_LT(again->ns_per_set, kMostNsPerSet / 2);
  EXPECT_TRUE(again->ns_per_look.has_value() || !again->unsettled.look);
  stop.request_stop();
  EXPECT_FALSE(CalibrateAgain(*kernel, before, stop.get_token()).has_value());
}

// Page c of class j is accessed in one of 2^j turns; the rate of a turn is the child's own count.
// No other page of the blocks is there, so that their ladders end soon and visits are many.
TEST(FastTriesLive, FindAsManyPagesAsTheirRatesSay) {
  constexpr std::size_t kClasses = 8;
  constexpr std::size_t kPagesOfClass = 64;
  constexpr std::size_t kStride = 8;  // pages
  auto reader = PageTableReader::Open();
  if (!reader) GTEST_SKIP() << reader.error().Message();
  auto clock = SwitchClock::Open();
  if (!clock) GTEST_SKIP() << clock.error().Message();
  const auto kernel = MakeLinuxAbitKernel(*std::move(reader), *std::move(clock));
  const auto cost = Calibrate(*kernel, MeasurePoints::kYes);
  ASSERT_TRUE(cost.has_value()) << cost.error().Message();
  const Arena arena(kClasses * kPagesOfClass * kStride * kBasePageBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < arena.bytes(); i += kStride * kBasePageBytes) arena.start()[i] = 1;
    desk.done = 1;
    for (std::uint64_t turn = 1;; ++turn) {
      const auto slowest = std::min<std::size_t>(std::countr_zero(turn), kClasses - 1);
      for (std::size_t c = 0; c < kPagesOfClass; ++c) {
        for (std::size_t j = 0; j <= slowest; ++j)
          arena.start()[(c * kClasses + j) * kStride * kBasePageBytes] = 2;
      }
      for (int i = 0; i < 250; ++i) __builtin_ia32_pause();
      desk.churned = turn;
    }
  });
  child.Order();
  ScanOptions options;
  options.overhead_share = 0.1;
  options.own_share = 2;  // this thread spins: its CPU time is no measure of the scanner's
  options.cost = {.ns_per_set = cost->ns_per_set,
                  .ns_per_look = cost->ns_per_look.value_or(kAssumedNsPerLook),
                  .ns_per_point = cost->ns_per_point.value_or(kAssumedNsPerPoint)};
  options.clear_loss = cost->clear_loss;
  std::cout << fmt::format(
      "a clear of one page costs {:.0f} ns; lost by rung: {}, {}, {} ns ({})\n",
      options.cost.ns_per_point, options.clear_loss.own[0].count(),
      options.clear_loss.own[1].count(), options.clear_loss.own[2].count(),
      options.clear_loss.is_measured ? "measured" : "not measured");
  ScanEngine engine(*kernel, options);
  // The child shares its other pages with this process.
  TrackedProcess tracked = child.Tracked();
  std::erase_if(tracked.mappings, [&](const Mapping& mapping) {
    return !mapping.range.Contains(arena.range().start);
  });
  engine.SetTargets({tracked});
  struct Sum {
    std::uint64_t looks = 0;
    std::uint64_t found = 0;
    double seconds = 0;
  };
  std::array<std::array<Sum, kFastRungs.size()>, kClasses> sums{};
  const auto handle = kernel->Open(child.pid(), child.Tracked().start_time_ticks);
  ASSERT_TRUE(handle.has_value());
  const auto cpu_before = (*handle)->CpuTime();
  const std::uint64_t turns_before = child.desk().churned;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const MonotonicTime end = kernel->Now() + seconds(1);
    while (kernel->Now() < end)
      if (engine.Step() > kernel->Now()) ::sched_yield();
    const Harvest harvest = engine.TakeEpoch();
    for (const BlockEvidence& block : harvest.evidence) {
      for (std::size_t i = 0; i < block.units.size(); ++i) {
        const Vpn page = block.start + PageCount(i);
        const UnitRecord& unit = block.units[i];
        if (unit.fast_looks == 0 || !arena.range().Contains(page)) continue;
        const std::size_t index = (page - arena.range().start).value();
        if (index % kStride != 0) continue;
        const double mean = 1e-3 * unit.fast_ns / unit.fast_looks;
        Sum& sum = sums[index / kStride % kClasses][mean > 40 ? 0 : mean > 12 ? 1 : 2];
        sum.looks += unit.fast_looks;
        sum.found += unit.fast_found;
        sum.seconds += 1e-9 * unit.fast_ns;
      }
    }
  }
  const double turns = static_cast<double>(child.desk().churned - turns_before) /
                       std::chrono::duration<double>((*handle)->CpuTime() - cpu_before).count();
  std::size_t told = 0;
  for (std::size_t j = 0; j < kClasses; ++j) {
    const double rate = turns / static_cast<double>(1U << j);
    for (std::size_t rung = 0; rung < kFastRungs.size(); ++rung) {
      const Sum& sum = sums[j][rung];
      if (sum.looks < 50) continue;
      // The turns are regular: no Poisson. Two finds go on to the next rung, and are not here.
      const double mean = sum.seconds / static_cast<double>(sum.looks);
      const double chance = std::min(1.0, rate * mean);
      const bool goes_on = rung + 1 < options.clear_loss.rungs();
      const double expected = goes_on ? chance / (1 + chance) : chance;
      const double found = static_cast<double>(sum.found) / static_cast<double>(sum.looks);
      std::cout << fmt::format(
          "{:8.0f}/s at {:5.1f} us: {:5} tries, found {:.2f}, expected {:.2f}\n", rate, mean * 1e6,
          sum.looks, found, expected);
      // Higher rates are not claimed, and a page that each try finds is no evidence.
      if (rate > 50'000 || expected < 0.1 || chance > 0.9) continue;
      ++told;
      EXPECT_GT(found, expected / 1.5);
      EXPECT_LT(found, expected * 1.5);
    }
  }
  EXPECT_GT(told, 0u);
}

bool IsReadable(int fd, int timeout_ms) {
  pollfd event{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&event, 1, timeout_ms) == 1;
}

TEST(SwitchClockLive, KnowsTheCpuTimeOfAProcessThatRestsAndWakesOnceItRuns) {
  auto opened = SwitchClock::Open();
  if (!opened) GTEST_SKIP() << opened.error().Message();
  SwitchClock& clock = **opened;
  std::array<int, 2> orders{};
  ASSERT_EQ(::pipe(orders.data()), 0);
  const auto own_cpu = [] {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  Child child([&](Desk& desk) {
    char order = 0;
    desk.done = 1;
    while (::read(orders[0], &order, 1) == 1) {
      const auto start = own_cpu();
      while (own_cpu() < start + milliseconds(30)) continue;
      ++desk.done;
    }
  });
  child.Order();
  const ProcFs procfs;
  const auto rests = [&] { return procfs.Stat(child.pid()).value().state == 'S'; };
  while (!rests()) ::sched_yield();
  const auto slot = clock.Watch(child.pid());
  ASSERT_TRUE(slot.has_value());
  EXPECT_EQ(clock.Watch(child.pid()), slot);
  clock.Unwatch(child.pid(), *slot);  // one of two
  const SystemClock now;
  const RunningTime before = clock.At(*slot, now.Now(), {});
  EXPECT_EQ(before.threads, 0);
  clock.WakeAt(*slot, before.cpu);
  EXPECT_TRUE(clock.WillWake(*slot));
  EXPECT_FALSE(IsReadable(clock.wake_fd(), 0));
  ASSERT_EQ(::write(orders[1], "x", 1), 1);
  EXPECT_TRUE(IsReadable(clock.wake_fd(), 10'000));
  EXPECT_FALSE(clock.WillWake(*slot));
  clock.TakeWakes();
  EXPECT_FALSE(IsReadable(clock.wake_fd(), 0));
  while (child.desk().done < 2 || !rests()) ::sched_yield();
  const RunningTime after = clock.At(*slot, now.Now(), before.cpu);
  EXPECT_EQ(after.threads, 0);
  EXPECT_GE(after.cpu - before.cpu, milliseconds(29));
  EXPECT_LE(after.cpu - before.cpu, milliseconds(45));
  EXPECT_GT(after.longest_stay, microseconds(10));
  EXPECT_EQ(clock.At(*slot, now.Now() + seconds(5), after.cpu).cpu, after.cpu);
  clock.Unwatch(child.pid(), *slot);
  ::close(orders[0]);
  ::close(orders[1]);
}

TEST(AbitScannerLive, HotPagesOfARunningProgramGetReferencesAndColdOnesNone) {
  const Arena arena(16 * kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < arena.bytes(); i += kBasePageBytes) arena.start()[i] = 1;
    desk.done = 1;
    while (true)
      for (std::size_t i = 0; i < arena.bytes() / 16; i += kBasePageBytes) arena.start()[i] = 2;
  });
  child.Order();
  AbitScanner::Options options;
  options.scan.overhead_share = 0.05;
  auto scanner = AbitScanner::Open(options);
  if (!scanner) GTEST_SKIP() << scanner.error().Message();
  EXPECT_GT((*scanner)->calibration().ns_per_set.value_or(0), 0);
  ASSERT_TRUE((*scanner)->SetTargets({child.Tracked()}).has_value());
  const Vpn first_cold = arena.range().start + PageCount(arena.range().size().value() / 16);
  std::uint64_t hot = 0;
  std::uint64_t hot_first = 0;
  std::uint64_t cold_references = 0;
  SystemClock clock;
  const MonotonicTime deadline = clock.Now() + seconds(60);
  while (hot_first < 512 && clock.Now() < deadline) {
    const SourceEpoch epoch = (*scanner)->TakeEpoch();
    EXPECT_EQ(epoch.status.state, SourceState::kActive);
    for (const ReferenceRecord& record : epoch.references) {
      if (!arena.range().Contains(record.key.vpn)) continue;
      EXPECT_LE(record.references, record.looks);
      EXPECT_LE(record.first_accesses, record.references);
      if (record.key.vpn < first_cold) {
        hot += record.references;
        hot_first += record.first_accesses;
      } else {
        cold_references += record.references;
      }
    }
    ::poll(nullptr, 0,
           50);  // a recorder waits, too; a loop without rest would keep the scanner out
  }
  EXPECT_GE(hot_first, 512u);
  EXPECT_EQ(cold_references, 0u);
}

// Returns the kernel's slice of a thread: linux/sched/types.h, SCHED_ATTR_SIZE_VER0.
std::optional<std::uint64_t> SliceOf(const std::string& thread) {
  constexpr std::size_t kRuntime = 3;
  std::array<std::uint64_t, 6> attributes{};
  const long got =
      ::syscall(SYS_sched_getattr, std::stoi(thread), attributes.data(), sizeof attributes, 0U);
  return got == 0 ? std::optional(attributes[kRuntime]) : std::nullopt;
}

TEST(AbitScannerLive, TheThreadThatScansHasShortSlicesWhereTheKernelOffersThem) {
  const auto other = SliceOf(std::to_string(::gettid()));
  auto scanner = AbitScanner::Open({});
  if (!scanner) GTEST_SKIP() << scanner.error().Message();
  if (other.value_or(0) == 0) GTEST_SKIP() << "the kernel tells of no slices: before Linux 6.12";
  std::optional<std::uint64_t> slice;
  for (int tries = 0; tries < 1000 && slice.value_or(*other) == *other; ++tries) {
    ::poll(nullptr, 0, 10);  // it asks for them when it starts
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      if (std::getline(std::ifstream(thread.path() / "comm"), name) && name == kScannerThread)
        slice = SliceOf(thread.path().filename());
    }
  }
  EXPECT_EQ(slice, 100'000U);
}

class RegionScannerLive : public ::testing::TestWithParam<ScanOptions::Mode> {};

TEST_P(RegionScannerLive, TheHotPartOfARunningProgramStandsOut) {
  const Arena arena(32 * kHugeBytes, MADV_NOHUGEPAGE);
  Child child([&](Desk& desk) {
    for (std::size_t i = 0; i < arena.bytes(); i += kBasePageBytes) arena.start()[i] = 1;
    desk.done = 1;
    while (true)
      for (std::size_t i = 0; i < arena.bytes() / 8; i += kBasePageBytes) arena.start()[i] = 2;
  });
  child.Order();
  AbitScanner::Options options;
  options.scan.mode = GetParam();
  options.scan.looked = Looked::kRegions;
  options.scan.overhead_share = 0.2;
  options.scan.own_share = 0.2;
  auto scanner = AbitScanner::Open(options);
  if (!scanner) GTEST_SKIP() << scanner.error().Message();
  const std::optional<double> ns_per_point = (*scanner)->calibration().ns_per_point;
  ASSERT_TRUE(ns_per_point.has_value()) << "the price of a clear was assumed, not measured";
  EXPECT_EQ((*scanner)->options().cost.ns_per_point, *ns_per_point);
  // A system call with a flush, and not a time slice.
  EXPECT_GE(*ns_per_point, 500);
  EXPECT_LT(*ns_per_point, 1e6);
  ASSERT_TRUE((*scanner)->SetTargets({child.Tracked()}).has_value());
  const Vpn first_cold = arena.range().start + PageCount(arena.range().size().value() / 8);
  double hot = 0;
  double cold = 0;
  double without_risk = 0;
  SystemClock clock;
  const MonotonicTime deadline = clock.Now() + seconds(60);
  while (hot < 300 && clock.Now() < deadline) {
    for (const ReferenceRecord& record : (*scanner)->TakeEpoch().references) {
      if (!arena.range().Contains(record.key.vpn)) continue;
      EXPECT_LE(record.references, record.looks);
      // On a busy machine the child may not run at all between two looks.
      if (record.time_at_risk.count() == 0) without_risk += record.first_accesses;
      if (record.key.vpn + record.span <= first_cold) hot += record.first_accesses;
      if (record.key.vpn >= first_cold) cold += record.first_accesses;
    }
    ::poll(nullptr, 0, 50);
  }
  EXPECT_GE(hot, 300);
  EXPECT_LT(without_risk, hot / 50);
  // Regions that straddled the two before they were split are in both.
  EXPECT_LT(cold, hot / 2);
}

INSTANTIATE_TEST_SUITE_P(Modes, RegionScannerLive,
                         ::testing::Values(ScanOptions::Mode::kLadder, ScanOptions::Mode::kPlain),
                         [](const auto& mode) {
                           return mode.param == ScanOptions::Mode::kLadder ? "ladder" : "plain";
                         });

TEST(AbitScannerLive, HugetlbPagesOfARunningProgramAreSeenAndNotLookedAt) {
  const HugetlbMemory memory(4);
  if (!memory.refusal().empty()) GTEST_SKIP() << memory.refusal();
  Child child([&](Desk& desk) {
    memory.start()[kHugeBytes] = 1;
    memory.start()[3 * kHugeBytes] = 1;
    desk.done = 1;
    while (true) memory.start()[kHugeBytes] = 2;
  });
  child.Order();
  auto scanner = AbitScanner::Open({});
  if (!scanner) GTEST_SKIP() << scanner.error().Message();
  ASSERT_TRUE((*scanner)->SetTargets({child.Tracked()}).has_value());
  std::set<Vpn> seen;
  SystemClock clock;
  const MonotonicTime deadline = clock.Now() + seconds(60);
  while (seen.size() < 2 && clock.Now() < deadline) {
    for (const ReferenceRecord& record : (*scanner)->TakeEpoch().references) {
      if (!memory.range().Contains(record.key.vpn)) continue;
      EXPECT_TRUE(record.seen);
      EXPECT_EQ(record.span, kTablePages);
      EXPECT_EQ(record.looks, 0u);
      seen.insert(record.key.vpn);
    }
    ::poll(nullptr, 0, 50);
  }
  const Vpn start = memory.range().start;
  EXPECT_EQ(seen, (std::set<Vpn>{start + kTablePages, start + PageCount(3 * kTablePages.value())}));
}

TEST(AbitProbe, SaysWhetherAndHowAccessedBitsCanBeRead) {
  const Probe probe = ProbeAbit();
  EXPECT_EQ(probe.name, "abit-bpf");
  EXPECT_FALSE(probe.detail.empty());
  EXPECT_TRUE(probe.usable || !probe.fix.empty());
}

}  // namespace abit_live_test
}  // namespace tmprof::abit
