// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/driver/driver_abit_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/host/procfs.h"
#include "profiler/source_kind.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "tests/profiler/driver/fake_device.h"

namespace tmprof::driver {
namespace driver_abit_kernel_test {

namespace fs = std::filesystem;
using abit::AbitKernel;
using abit::AbitProcess;
using abit::ClearOutcome;
using abit::PageStanding;
using abit::ReadOutcome;
using abit::ReadResult;
using abit::TableEntry;
using abit::TablePart;
using testing::ElementsAre;
using testing::HasSubstr;
using Depth = abit::PageTableReader::Depth;

constexpr std::uint64_t kBase = 0x7f0000000;  // aligned to 1 GiB

VpnRange Range(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }

std::uint64_t OwnStart() { return ProcFs().Stat(Pid(::getpid())).value().start_time_ticks; }

std::shared_ptr<Session> OpenSession(FakeDriver& driver) {
  return Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kAccessedBits).value();
}

class DriverAbitKernelTest : public testing::Test {
 protected:
  void Open() {
    kernel_ = MakeDriverAbitKernel(OpenSession(driver_));
    process_ = kernel_->Open(Pid(::getpid()), OwnStart()).value();
  }
  ReadResult Read(std::uint64_t start, std::uint64_t end, Depth depth = Depth::kEntries) {
    return process_->Read(Range(start, end), depth, parts_);
  }

  FakeDriver driver_;
  std::unique_ptr<AbitKernel> kernel_;
  std::unique_ptr<AbitProcess> process_;
  std::vector<TablePart> parts_;
};

TEST_F(DriverAbitKernelTest, ATableShowsEachPageWithItsBitAndFrame) {
  driver_.mappings = {{kBase, kBase + 2048}};
  driver_.leaves = {{kBase + 3, {.frame = 0x111, .accessed = true}},
                    {kBase + 511, {.frame = 0x222}},
                    {kBase + 1024, {.frame = 0x333, .accessed = true}}};
  driver_.running = 2;
  driver_.address_space = 9;
  Open();
  const ReadResult read = Read(kBase, kBase + 2048);
  EXPECT_EQ(read.outcome, ReadOutcome::kDone);
  EXPECT_EQ(read.address_space, 9U);
  EXPECT_EQ(read.running_threads, 2U);
  EXPECT_EQ(read.time, MonotonicTime(std::chrono::nanoseconds(2'000)));
  EXPECT_EQ(read.next, Vpn(kBase + 2048));
  ASSERT_EQ(parts_.size(), 2U) << "a part of 2 MiB in which nothing is present";
  EXPECT_EQ(parts_[0].start, Vpn(kBase));
  EXPECT_FALSE(parts_[0].huge);
  ASSERT_EQ(parts_[0].entries.size(), 512U);
  const auto mask = kernel_->frame_mask();
  for (std::uint64_t i = 0; i < 512; ++i) {
    const TableEntry entry(parts_[0].entries[i]);
    EXPECT_EQ(entry.present(), i == 3 || i == 511) << i;
    EXPECT_EQ(entry.accessed(), i == 3) << i;
    EXPECT_FALSE(entry.special());
  }
  EXPECT_EQ(TableEntry(parts_[0].entries[3]).frame(mask), 0x111U);
  EXPECT_EQ(TableEntry(parts_[0].entries[511]).frame(mask), 0x222U);
  EXPECT_EQ(parts_[1].start, Vpn(kBase + 1024));
  EXPECT_EQ(TableEntry(parts_[1].entries[0]).frame(mask), 0x333U);
}

TEST_F(DriverAbitKernelTest, ARangeThatStartsInsideATableGivesTheTableAtItsOwnStart) {
  driver_.mappings = {{kBase + 500, kBase + 520}};
  for (std::uint64_t page = kBase + 500; page < kBase + 520; ++page)
    driver_.leaves[page] = {.frame = page - kBase, .accessed = page % 2 == 0};
  Open();
  Read(kBase + 500, kBase + 520);
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[0].start, Vpn(kBase));
  EXPECT_FALSE(TableEntry(parts_[0].entries[499]).present());
  EXPECT_EQ(TableEntry(parts_[0].entries[500]).frame(kernel_->frame_mask()), 500U);
  EXPECT_EQ(parts_[1].start, Vpn(kBase + 512));
  EXPECT_TRUE(TableEntry(parts_[1].entries[6]).accessed());
  EXPECT_FALSE(TableEntry(parts_[1].entries[7]).accessed());
  EXPECT_FALSE(TableEntry(parts_[1].entries[8]).present());
}

TEST_F(DriverAbitKernelTest, HugeLeavesAreOnePartEachWithTheFrameOfTheirFirstPage) {
  driver_.mappings = {{kBase, kBase + 2 * 262144}};
  driver_.leaves = {{kBase, {.frame = 0x4000}},
                    {kBase + 512, {.span = 512, .frame = 0x8000, .accessed = true}},
                    {kBase + 262144, {.span = 262144, .frame = 0x40000}}};
  Open();
  Read(kBase, kBase + 4096);
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_FALSE(parts_[0].huge);
  EXPECT_TRUE(parts_[1].huge);
  EXPECT_EQ(parts_[1].start, Vpn(kBase + 512));
  EXPECT_EQ(parts_[1].span, PageCount(512));
  EXPECT_TRUE(parts_[1].leaf.accessed());
  EXPECT_EQ(parts_[1].leaf.frame(kernel_->frame_mask()), 0x8000U);

  // The read starts in the middle of the giant page.
  Read(kBase + 262144 + 700, kBase + 262144 + 5000);
  ASSERT_EQ(parts_.size(), 1U);
  EXPECT_EQ(parts_[0].start, Vpn(kBase + 262144));
  EXPECT_EQ(parts_[0].span, PageCount(262144));
  EXPECT_FALSE(parts_[0].leaf.accessed());
  EXPECT_EQ(parts_[0].leaf.frame(kernel_->frame_mask()), 0x40000U);
}

TEST_F(DriverAbitKernelTest, AReadEndsWithTheLastTableOfItsMappingOrWithWhatOneCallTakes) {
  driver_.mappings = {{kBase, kBase + 600}, {kBase + 600, kBase + 40'000}};
  driver_.leaves = {
      {kBase + 1, {}}, {kBase + 700, {}}, {kBase + 1024, {}}, {kBase + 1536, {.span = 512}}};
  Open();
  EXPECT_EQ(Read(kBase, kBase + 40'000).next, Vpn(kBase + 1024));
  ASSERT_EQ(parts_.size(), 2U) << "and the pages of the second mapping in the table";
  EXPECT_TRUE(TableEntry(parts_[1].entries[700 - 512]).present());
  driver_.leaves.erase(kBase + 700);
  driver_.leaves[kBase + 600 + 16384] = {};
  EXPECT_EQ(Read(kBase + 600, kBase + 40'000).next, Vpn(kBase + 600 + 16384));
  EXPECT_EQ(parts_.size(), 2U);
}

TEST_F(DriverAbitKernelTest, AReadPassesOverAHoleOfAnySize) {
  constexpr std::uint64_t kTebibyte = 1ULL << 28;
  driver_.mappings = {{kBase, kBase + kTebibyte}, {kBase + kTebibyte, kBase + 2 * kTebibyte}};
  driver_.leaves = {{kBase + 5, {}}, {kBase + kTebibyte / 2 + 700, {}}};
  Open();
  EXPECT_EQ(Read(kBase, kBase + kTebibyte).next, Vpn(kBase + kTebibyte / 2 + 512));
  EXPECT_EQ(Read(kBase, kBase + 20'000).next, Vpn(kBase + 20'000)) << "more than was asked for";
  const std::uint64_t second = kBase + kTebibyte / 2 + 512;
  EXPECT_EQ(Read(second, kBase + kTebibyte).next, Vpn(kBase + kTebibyte)) << "of the mapping";
  EXPECT_EQ(parts_.size(), 1U);
  // A page in the very table that the read ends in.
  driver_.leaves[kBase + 16'384 + 200] = {};
  EXPECT_EQ(Read(kBase + 100, kBase + kTebibyte).next, Vpn(kBase + 16'484));
}

TEST_F(DriverAbitKernelTest, TheShapeAloneIsAskedForWithoutFrames) {
  driver_.mappings = {{kBase, kBase + 2048}};
  driver_.leaves = {{kBase + 700, {}}, {kBase + 1024, {.span = 512}}};
  Open();
  Read(kBase, kBase + 2048, Depth::kShape);
  ASSERT_EQ(parts_.size(), 2U);
  EXPECT_EQ(parts_[0].start, Vpn(kBase + 512));
  EXPECT_FALSE(parts_[0].huge);
  EXPECT_TRUE(parts_[1].huge);
  EXPECT_EQ(driver_.scans.back().frames, 0U);
}

TEST_F(DriverAbitKernelTest, ReadsNeverClear) {
  driver_.mappings = {{kBase, kBase + 512}};
  driver_.leaves = {{kBase, {.accessed = true}}};
  Open();
  for (int i = 0; i < 3; ++i) {
    Read(kBase, kBase + 512);
    EXPECT_TRUE(TableEntry(parts_.at(0).entries[0]).accessed());
  }
}

TEST_F(DriverAbitKernelTest, RefusalsOfTheDriverBecomeOutcomes) {
  driver_.mappings = {{kBase, kBase + 512}};
  driver_.leaves = {{kBase, {}}};
  Open();
  driver_.scan_errors = {EAGAIN, EAGAIN};
  ReadResult read = Read(kBase, kBase + 512);
  EXPECT_EQ(read.outcome, ReadOutcome::kDone);
  EXPECT_EQ(read.busy_retries, 2U);

  driver_.scan_errors.assign(100, EAGAIN);
  read = Read(kBase, kBase + 512);
  EXPECT_EQ(read.outcome, ReadOutcome::kBusy);
  EXPECT_LT(read.busy_retries, 100U) << "waits for ever";

  driver_.scan_errors = {ENOMEM};
  EXPECT_EQ(Read(kBase, kBase + 512).outcome, ReadOutcome::kBusy);
  driver_.scan_errors = {ESRCH};
  EXPECT_EQ(Read(kBase, kBase + 512).outcome, ReadOutcome::kProcessGone);
  EXPECT_TRUE(parts_.empty());
  driver_.scan_errors = {};
  EXPECT_EQ(Read(kBase + 512, kBase + 1024).outcome, ReadOutcome::kUnmapped);

  driver_.leaves[kBase].races = true;
  EXPECT_EQ(Read(kBase, kBase + 512).torn_tables, 1U);

  driver_.scan_errors = {ESRCH};
  EXPECT_EQ(process_->Clear(Range(kBase, kBase + 512)), ClearOutcome::kProcessGone);
  driver_.scan_errors = {ENOMEM};
  EXPECT_EQ(process_->Clear(Range(kBase, kBase + 512)), ClearOutcome::kRefused);
  driver_.scan_errors = {};
  EXPECT_EQ(process_->Clear(Range(kBase + 512, kBase + 1024)), ClearOutcome::kUnmapped);
}

TEST_F(DriverAbitKernelTest, AClearPassesOverAHoleThatItBeginsWith) {
  driver_.mappings = {{kBase + 10, kBase + 20}, {kBase + 30, kBase + 40}};
  driver_.leaves = {{kBase + 15, {.accessed = true}}, {kBase + 35, {.accessed = true}}};
  Open();
  EXPECT_EQ(process_->Clear(Range(kBase, kBase + 512)), ClearOutcome::kDone);
  for (const auto& [vpn, leaf] : driver_.leaves) EXPECT_FALSE(leaf.accessed);
}

TEST_F(DriverAbitKernelTest, ADriverThatGoesAwayFailsAsAWhole) {
  driver_.mappings = {{kBase, kBase + 512}};
  driver_.leaves = {{kBase, {}}};
  Open();
  for (const int of_one_call : {EAGAIN, ENOMEM, ESRCH, EINVAL}) {
    driver_.scan_errors = {of_one_call};
    Read(kBase, kBase + 512);
    EXPECT_EQ(kernel_->Failure(), std::nullopt) << of_one_call;
  }
  driver_.scan_errors = {ENODEV};
  Read(kBase, kBase + 512);
  EXPECT_TRUE(parts_.empty());
  ASSERT_TRUE(kernel_->Failure().has_value());
  EXPECT_EQ(kernel_->Failure()->system_error, ENODEV);
  EXPECT_EQ(kernel_->Failure()->object, TMPROF_DEVICE_PATH);
}

TEST(DriverScannerTest, ADriverThatGoesAwayFailsTheSourceAndNotTheEpoch) {
  FakeDriver driver;
  const std::uint64_t start_time = OwnStart();
  driver.mappings = {{kBase, kBase + 512}};
  driver.leaves = {{kBase, {.accessed = true}}};
  driver.scan_error = ENODEV;
  abit::AbitScanner scanner(MakeDriverAbitKernel(OpenSession(driver)), {}, kDriverSource);
  const std::vector<TrackedProcess> self{
      {.id = TargetId(1),
       .pid = Pid(::getpid()),
       .start_time_ticks = start_time,
       .mappings = {
           {.range = Range(kBase, kBase + 512), .kind = MappingKind::kAnonymous, .path = ""}}}};
  Status status = scanner.SetTargets(self);
  while (status) status = scanner.SetTargets(self);
  EXPECT_EQ(status.error().system_error, ENODEV);
  EXPECT_TRUE(scanner.TakeEpoch().references.empty());
}

TEST_F(DriverAbitKernelTest, AClearFlushesAndReachesTheWholeRangeInPiecesOfOneCall) {
  driver_.mappings = {{kBase, kBase + 40'000}};
  for (const std::uint64_t page : {0, 16383, 16384, 39'999})
    driver_.leaves[kBase + page] = {.accessed = true};
  driver_.leaves[kBase + 40'000] = {.accessed = true};
  Open();
  ASSERT_EQ(process_->Clear(Range(kBase, kBase + 40'000)), ClearOutcome::kDone);
  for (const auto& [vpn, leaf] : driver_.leaves) EXPECT_EQ(leaf.accessed, vpn == kBase + 40'000);
  ASSERT_EQ(driver_.scans.size(), 3U);
  for (const tmprof_scan_range& scan : driver_.scans)
    EXPECT_EQ(scan.head.flags, static_cast<std::uint32_t>(TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH));
}

TEST_F(DriverAbitKernelTest, PagesThatAClearSkippedAreUnsettledUntilAnotherReachesThem) {
  driver_.mappings = {{kBase, kBase + 4096}};
  driver_.leaves = {{kBase, {.accessed = true}},
                    {kBase + 1, {.accessed = true, .races = true}},
                    {kBase + 512, {.span = 512, .accessed = true, .clearable = false}},
                    {kBase + 1024, {.span = 512, .accessed = true}},
                    {kBase + 1536, {.span = 512}}};
  Open();
  ASSERT_EQ(process_->Clear(Range(kBase, kBase + 4096)), ClearOutcome::kDone);
  const std::vector<Vpn> pages{Vpn(kBase), Vpn(kBase + 1), Vpn(kBase + 512), Vpn(kBase + 1024),
                               Vpn(kBase + 1536)};
  const std::vector<bool> settled(pages.size(), false);
  EXPECT_THAT(
      process_->Inspect(pages, settled),
      ElementsAre(PageStanding::kClearable, PageStanding::kUnsettled, PageStanding::kUnsettled,
                  PageStanding::kClearable, PageStanding::kClearable));
  // A clear elsewhere changes nothing; one that reaches the page does.
  ASSERT_EQ(process_->Clear(Range(kBase + 1024, kBase + 1536)), ClearOutcome::kDone);
  EXPECT_EQ(process_->Inspect(pages, settled)[1], PageStanding::kUnsettled);
  ASSERT_EQ(process_->Clear(Range(kBase, kBase + 512)), ClearOutcome::kDone);
  EXPECT_EQ(process_->Inspect(pages, settled)[1], PageStanding::kClearable);
  EXPECT_EQ(process_->Inspect(pages, settled)[2], PageStanding::kUnsettled);
}

TEST_F(DriverAbitKernelTest, ReadsAgreeWithTheTablesForAnyLayout) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    driver_ = FakeDriver();
    driver_.info.max_scan_pages = static_cast<std::uint32_t>(1 + random() % 3000);
    const std::uint64_t start = kBase + random() % 1024;
    const std::uint64_t end = start + 1 + random() % 12'000;
    driver_.mappings = {{start, end}};
    for (std::uint64_t at = start; at < end;) {
      FakeLeaf leaf{.frame = random() % (1U << 30), .accessed = random() % 2 == 0};
      if (at % 512 == 0 && at + 512 <= end && random() % 3 == 0) leaf.span = 512;
      if (leaf.span > 1 || random() % 4 != 0) driver_.leaves[at] = leaf;
      at += leaf.span > 1 ? 512 : 1 + (random() % 50 == 0) * (random() % 2000);
    }
    process_.reset();
    Open();
    std::map<std::uint64_t, std::pair<bool, std::uint64_t>> seen;
    for (std::uint64_t at = start; at < end;) {
      const ReadResult read = Read(at, end);
      ASSERT_EQ(read.outcome, ReadOutcome::kDone);
      ASSERT_GT(read.next, Vpn(at));
      for (const TablePart& part : parts_) {
        if (part.huge) {
          seen[part.start.value()] = {part.leaf.accessed(), part.leaf.frame(kernel_->frame_mask())};
        }
        for (std::size_t i = 0; i < part.entries.size(); ++i) {
          const TableEntry entry(part.entries[i]);
          if (!entry.present()) continue;
          seen[part.start.value() + i] = {entry.accessed(), entry.frame(kernel_->frame_mask())};
        }
      }
      at = read.next.value();
    }
    std::map<std::uint64_t, std::pair<bool, std::uint64_t>> expected;
    for (const auto& [vpn, leaf] : driver_.leaves) expected[vpn] = {leaf.accessed, leaf.frame};
    ASSERT_TRUE(seen == expected);
  }
}

TEST_F(DriverAbitKernelTest, PressureMattersOnlyIfReclaimMissesWhatWasCleared) {
  const fs::path root = fs::path(testing::TempDir()) / "driver_pressure";
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  fs::remove_all(root);
  write("proc/pressure/memory", "some avg10=7.00 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_EQ(MakeDriverAbitKernel(OpenSession(driver_), root)->MemoryPressure(), std::nullopt);
  // Ageing by generations does not look at the flag that keeps an access.
  write("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
  EXPECT_THAT(MakeDriverAbitKernel(OpenSession(driver_), root)->MemoryPressure().value_or(""),
              HasSubstr("7.0 %"));
  write("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
  EXPECT_EQ(MakeDriverAbitKernel(OpenSession(driver_), root)->MemoryPressure(), std::nullopt);
  driver_.info.features &= ~std::uint64_t{TMPROF_FEATURE_KEEPS_YOUNG};
  EXPECT_THAT(MakeDriverAbitKernel(OpenSession(driver_), root)->MemoryPressure().value_or(""),
              HasSubstr("7.0 %"));
  fs::remove_all(root);
}

TEST_F(DriverAbitKernelTest, AProcessThatStartedAtAnotherTimeIsGone) {
  Open();
  const auto other = kernel_->Open(Pid(::getpid()), OwnStart() + 1);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().system_error, ESRCH);
  EXPECT_EQ(driver_.adds, 1U);
}

TEST(DriverSessionTest, AProcessHeldTwiceIsOneTargetUntilTheLastLetsGo) {
  FakeDriver driver;
  const auto session = OpenSession(driver);
  {
    const auto first = Session::Hold(session, Pid(5), 77);
    {
      const auto second = Session::Hold(session, Pid(5), 77);
      ASSERT_TRUE(first && second);
      EXPECT_EQ(first->id(), second->id());
      EXPECT_EQ(driver.adds, 1U);
    }
    EXPECT_EQ(driver.targets.size(), 1U);
    // The number in use again is another process.
    const auto successor = Session::Hold(session, Pid(5), 99);
    ASSERT_TRUE(successor);
    EXPECT_NE(successor->id(), first->id());
    EXPECT_EQ(driver.targets.size(), 2U);
  }
  EXPECT_TRUE(driver.targets.empty());
  EXPECT_TRUE(Session::Hold(session, Pid(5), 77).has_value());
  EXPECT_EQ(driver.adds, 3U);
}

TEST(DriverSessionTest, ATargetKeepsTheDeviceOpen) {
  FakeDriver driver;
  auto session = OpenSession(driver);
  auto target = std::make_unique<Session::Target>(*Session::Hold(session, Pid(5), 77));
  session.reset();
  EXPECT_TRUE(driver.open);
  target.reset();
  EXPECT_FALSE(driver.open);
}

TEST(DriverSessionTest, ARefusedTargetNamesTheProcessAndMayBeTriedAgain) {
  FakeDriver driver;
  const auto session = OpenSession(driver);
  driver.add_error = ENOSPC;
  const auto refused = Session::Hold(session, Pid(5), 77);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().system_error, ENOSPC);
  EXPECT_EQ(refused.error().object, "PID 5");
  EXPECT_THAT(refused.error().advice, HasSubstr("at most 4"));
  driver.add_error = 0;
  EXPECT_TRUE(Session::Hold(session, Pid(5), 77).has_value());
}

TEST(DriverSessionTest, AModuleOfAnotherVersionOrWithoutFlushesIsRefused) {
  for (const int error : {EPROTO, EINVAL, ENOTTY}) {
    FakeDriver driver;
    driver.info_error = error;
    const auto session =
        Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kAccessedBits);
    ASSERT_FALSE(session.has_value());
    EXPECT_THAT(session.error().Message(), HasSubstr("does not speak version 1"));
  }
  for (const std::uint64_t missing : {TMPROF_FEATURE_ABIT, TMPROF_FEATURE_FLUSH}) {
    FakeDriver driver;
    driver.info.features &= ~missing;
    const auto session =
        Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kAccessedBits);
    ASSERT_FALSE(session.has_value());
    EXPECT_THAT(session.error().advice, HasSubstr("--source abit-bpf"));
  }
}

TEST(DriverSessionTest, PageFramesTakeACapabilityThatTheErrorNames) {
  FakeDriver driver;
  driver.info.features &= ~std::uint64_t{TMPROF_FEATURE_FRAMES};
  const auto session = Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kAccessedBits);
  ASSERT_FALSE(session.has_value());
  EXPECT_THAT(session.error().Message(), HasSubstr("CAP_SYS_ADMIN"));
  EXPECT_TRUE(Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kRegions).has_value());
}

TEST(DriverSessionTest, AVirtualMachinesBitsAreRefusedAndItsSamplesAreNot) {
  const fs::path root = fs::path(testing::TempDir()) / "driver_guest";
  fs::remove_all(root);
  fs::create_directories(root / "proc/5/fd");
  fs::create_directories(root / "proc/6/fd");
  fs::create_symlink("anon_inode:kvm-vm", root / "proc/5/fd/11");
  fs::create_symlink("anon_inode:[eventfd]", root / "proc/6/fd/11");
  FakeDriver driver;
  driver.target_flags = TMPROF_TARGET_OTHER_TABLES;
  for (const Purpose purpose : {Purpose::kAccessedBits, Purpose::kRegions}) {
    const auto session = Session::Open(std::make_unique<FakeDevice>(driver), purpose, root).value();
    const auto machine = Session::Hold(session, Pid(5), 77);
    ASSERT_FALSE(machine.has_value());
    EXPECT_THAT(machine.error().Message(), HasSubstr("guest memory: not observable"));
    EXPECT_TRUE(driver.targets.empty());
    // A device may use the other's memory, and its own accesses set bits.
    EXPECT_TRUE(Session::Hold(session, Pid(6), 77).has_value());
  }
  const auto sampling =
      Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kSamples, root).value();
  EXPECT_TRUE(Session::Hold(sampling, Pid(5), 77).has_value());
  // Without a virtual machine's tables nobody looks at descriptors.
  driver.target_flags = 0;
  const auto session =
      Session::Open(std::make_unique<FakeDevice>(driver), Purpose::kAccessedBits, root).value();
  EXPECT_TRUE(Session::Hold(session, Pid(5), 77).has_value());
  fs::remove_all(root);
}

TEST(DriverSessionTest, AProcessOfAnotherUserTakesACapabilityThatTheErrorNames) {
  FakeDriver driver;
  driver.add_error = EACCES;
  const auto refused = Session::Hold(OpenSession(driver), Pid(5), 77);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().advice, HasSubstr("CAP_SYS_PTRACE"));
}

}  // namespace driver_abit_kernel_test
}  // namespace tmprof::driver
