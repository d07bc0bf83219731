// SPDX-License-Identifier: Apache-2.0

#include "mover/page_locator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/mover/without_capability.h"

namespace tmprof {
namespace page_locator_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kMappedOnce = std::uint64_t{1} << 56;
constexpr std::uint64_t kTransparentHuge = std::uint64_t{1} << 22;
constexpr std::uint64_t kHugetlb = std::uint64_t{1} << 17;
constexpr Pid kPid{4711};

VpnRange Pages(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }

PlacedRun RunOf(std::uint64_t start, std::uint64_t end, NodeId::rep node, std::uint64_t leaf = 1) {
  return {Pages(start, end), NodeId(node), PageCount(leaf)};
}

// Asked only where pages are.
class FakeKernel final : public MoveCall {
 public:
  int operator()(Pid pid, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                 std::span<int> status, MoveScope scope) override {
    EXPECT_EQ(pid, kPid);
    EXPECT_EQ(scope, MoveScope::kMappedOnce) << "asking takes no privilege";
    EXPECT_THAT(nodes, IsEmpty());
    asked += pages.size();
    if (refusal != 0) return -refusal;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto told = answer.find(pages[i]);
      status[i] = told == answer.end() ? 1 : told->second;
    }
    return 0;
  }

  std::size_t asked = 0;
  int refusal = 0;
  std::map<Vpn, int> answer;  // else on node 1
};

// A /proc of one process.
class PageLocatorTest : public testing::Test {
 protected:
  PageLocatorTest() {
    std::filesystem::create_directories(root_ / std::to_string(kPid.value()));
    Write(root_ / std::to_string(kPid.value()) / "pagemap", 0, {});
  }
  ~PageLocatorTest() override { std::filesystem::remove_all(root_); }

  static void Write(const std::filesystem::path& path, std::uint64_t first,
                    const std::vector<std::uint64_t>& entries) {
    if (!std::filesystem::exists(path)) std::ofstream(path).flush();
    std::ofstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(first * sizeof(std::uint64_t)));
    file.write(reinterpret_cast<const char*>(entries.data()),
               static_cast<std::streamsize>(entries.size() * sizeof(std::uint64_t)));
  }
  // Present pages from `first` on, their frames from `frame` on; frame 0: not reported.
  void Map(std::uint64_t first, std::uint64_t pages, std::uint64_t frame = 0) const {
    std::vector<std::uint64_t> entries(pages);
    for (std::uint64_t i = 0; i < pages; ++i)
      entries[i] = kPresent | kMappedOnce | (frame == 0 ? 0 : frame + i);
    Write(root_ / std::to_string(kPid.value()) / "pagemap", first, entries);
  }
  void Flag(std::uint64_t frame, std::uint64_t flags) const {
    Write(root_ / "kpageflags", frame, {flags});
  }
  std::vector<PlacedRun> Locate(VpnRange range, const std::vector<VpnRange>& joint = {}) {
    LinuxPageLocator locator(kernel_, root_);
    const auto runs = locator.Locate(kPid, range, joint);
    EXPECT_TRUE(runs) << runs.error().Message();
    return runs ? *runs : std::vector<PlacedRun>{};
  }

  std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) /
                                ("page_locator_test." + std::to_string(::getpid()));
  FakeKernel kernel_;
};

TEST_F(PageLocatorTest, AsksOnlyForWhatIsThere) {
  Map(10, 5);
  Map(20, 3);
  Map(100, 1);
  EXPECT_THAT(Locate(Pages(0, 50)), ElementsAre(RunOf(10, 15, 1), RunOf(20, 23, 1)));
  EXPECT_EQ(kernel_.asked, 8U);
}

TEST_F(PageLocatorTest, EndsRunsWhereTheNodeChanges) {
  Map(10, 5);
  kernel_.answer = {{Vpn(12), 0}, {Vpn(13), 0}};
  EXPECT_THAT(Locate(Pages(0, 50)),
              ElementsAre(RunOf(10, 12, 1), RunOf(12, 14, 0), RunOf(14, 15, 1)));
}

TEST_F(PageLocatorTest, LeavesOutWhatTheKernelDoesNotFind) {
  Map(10, 3);
  kernel_.answer = {{Vpn(11), -ENOENT}};  // a page of zeros, or it went meanwhile
  EXPECT_THAT(Locate(Pages(0, 50)), ElementsAre(RunOf(10, 11, 1), RunOf(12, 13, 1)));
}

TEST_F(PageLocatorTest, LeavesOutWhatOthersMapToo) {
  Map(10, 3);
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 11, {kPresent});
  EXPECT_THAT(Locate(Pages(0, 50)), ElementsAre(RunOf(10, 11, 1), RunOf(12, 13, 1)));
}

TEST_F(PageLocatorTest, FindsJointPagesWhereItIsTold) {
  Map(10, 6);
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 11, {kPresent, kPresent, kPresent});
  const auto joint = [](std::uint64_t start, std::uint64_t end) {
    PlacedRun run = RunOf(start, end, 1);
    run.joint = true;
    return run;
  };
  EXPECT_THAT(Locate(Pages(0, 50), {Pages(2, 4), Pages(11, 13), Pages(15, 20)}),
              ElementsAre(RunOf(10, 11, 1), joint(11, 13), RunOf(14, 16, 1)))
      << "page 13 is mapped more than once, and nobody knows by whom";
  EXPECT_EQ(kernel_.asked, 5U);
}

TEST_F(PageLocatorTest, FindsJointPagesBeyondWhatItReadsAtATime) {
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 16383, {kPresent, kPresent, kPresent});
  EXPECT_THAT(Locate(Pages(0, 20'000), {Pages(100, 200), Pages(16'384, 16'385)}), SizeIs(1));
}

TEST_F(PageLocatorTest, TellsHugePagesAndAsksOnceForEach) {
  Map(512, 1024, 2048);
  Flag(2048, kTransparentHuge);
  Flag(2560, kHugetlb);
  kernel_.answer = {{Vpn(1024), 0}};
  EXPECT_THAT(Locate(Pages(0, 2000)),
              ElementsAre(RunOf(512, 1024, 1, 512), RunOf(1024, 1536, 0, 512)));
  EXPECT_EQ(kernel_.asked, 2U);
}

TEST_F(PageLocatorTest, LeavesOutAJointHugePageWithPagesThatAnotherMappingOwns) {
  std::vector<std::uint64_t> entries(1024);
  for (std::uint64_t i = 0; i < entries.size(); ++i) entries[i] = kPresent | (2048 + i);
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 512, entries);
  Flag(2048, kTransparentHuge);
  Flag(2560, kTransparentHuge);
  PlacedRun whole = RunOf(1024, 1536, 1, 512);
  whole.joint = true;
  EXPECT_THAT(Locate(Pages(0, 2000), {Pages(513, 1536)}), ElementsAre(whole));
  EXPECT_THAT(Locate(Pages(0, 2000), {Pages(512, 1023), Pages(1024, 1536)}), ElementsAre(whole));
  EXPECT_EQ(kernel_.asked, 2U);
}

// It is no longer the process's own as soon as another one has any of its pages.
TEST_F(PageLocatorTest, AHugePageOfWhichAnotherMappingHasAnyPageIsJoint) {
  std::vector<std::uint64_t> entries(512);
  for (std::uint64_t i = 0; i < entries.size(); ++i)
    entries[i] = kPresent | kMappedOnce | (2048 + i);
  entries[5] &= ~kMappedOnce;
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 512, entries);
  Flag(2048, kTransparentHuge);
  PlacedRun whole = RunOf(512, 1024, 1, 512);
  whole.joint = true;
  EXPECT_THAT(Locate(Pages(0, 2000), {Pages(512, 1024)}), ElementsAre(whole));
  EXPECT_THAT(Locate(Pages(0, 2000), {}), testing::IsEmpty());
  entries[5] = 0;
  Write(root_ / std::to_string(kPid.value()) / "pagemap", 512, entries);
  EXPECT_THAT(Locate(Pages(0, 2000), {}), ElementsAre(RunOf(512, 1024, 1, 512)))
      << "nobody has the page that was unmapped";
}

TEST_F(PageLocatorTest, TakesFramesThatOnlyFollowOneAnotherForBasePages) {
  Map(512, 512, 2048);
  Flag(2048, 0);
  EXPECT_THAT(Locate(Pages(512, 1024)), ElementsAre(RunOf(512, 1024, 1)));
}

TEST_F(PageLocatorTest, TakesAllForBasePagesWhereFramesAreNotTold) {
  Map(512, 512);
  Flag(0, kTransparentHuge);
  EXPECT_THAT(Locate(Pages(512, 1024)), ElementsAre(RunOf(512, 1024, 1)));
}

TEST_F(PageLocatorTest, TakesTheRestOfASplitHugePageForBasePages) {
  Map(512, 512, 2048);
  Flag(2048, kTransparentHuge);
  Map(700, 1, 99);
  Map(1023, 1, 98);
  EXPECT_EQ(Locate(Pages(512, 1024)), std::vector{RunOf(512, 1024, 1)});
}

TEST_F(PageLocatorTest, GoesThroughMoreThanOneRead) {
  Map(0, 40000);
  EXPECT_THAT(Locate(Pages(5, 39999)), ElementsAre(RunOf(5, 39999, 1)));
}

TEST_F(PageLocatorTest, SaysThatAProcessIsGone) {
  LinuxPageLocator locator(kernel_, root_);
  const auto runs = locator.Locate(Pid(1), Pages(0, 10), {});
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().system_error, ESRCH);
}

TEST_F(PageLocatorTest, SaysThatItsMemoryIsGone) {
  LinuxPageLocator locator(kernel_, root_);
  const auto runs = locator.Locate(kPid, Pages(0, 10), {});  // pagemap is at its end
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().system_error, ESRCH);
}

TEST_F(PageLocatorTest, PassesOnARefusal) {
  Map(0, 10);
  kernel_.refusal = EPERM;
  LinuxPageLocator locator(kernel_, root_);
  const auto runs = locator.Locate(kPid, Pages(0, 10), {});
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().Message(),
            "cannot find the pages of 'PID 4711': EPERM (Operation not permitted)");
}

// The process is the test itself, wherever its memory is.
TEST(LinuxPageLocator, FindsMemoryThatWasTouchedAndNoOther) {
  constexpr std::size_t kPages = 64;
  void* memory = ::mmap(nullptr, kPages * kBasePageBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto first = VpnOfAddress(reinterpret_cast<std::uintptr_t>(memory));
  ::madvise(memory, kPages * kBasePageBytes, MADV_NOHUGEPAGE);
  for (const std::size_t page : {3, 4, 9}) {
    static_cast<volatile char*>(memory)[page * kBasePageBytes] = 1;
  }
  MovePagesCall call;
  LinuxPageLocator locator(call);
  const auto runs = locator.Locate(Pid(::getpid()), {first, first + PageCount(kPages)}, {});
  ASSERT_TRUE(runs) << runs.error().Message();
  std::vector<std::uint64_t> found;
  for (const PlacedRun& run : *runs) {
    for (Vpn vpn = run.pages.start; vpn < run.pages.end; vpn = vpn + PageCount(1)) {
      found.push_back((vpn - first).value());
    }
  }
  EXPECT_THAT(found, ElementsAre(3, 4, 9));
  ::munmap(memory, kPages * kBasePageBytes);
}

// A page that a forked child has touched, too, and one that it has not. They are apart, as a read
// maps neighbours that are in memory (fault_around_bytes, 64 KiB).
TEST(LinuxPageLocator, TellsPagesOfSharedMemoryThatSeveralProcessesUse) {
  constexpr std::size_t kPages = 257;
  void* memory = ::mmap(nullptr, kPages * kBasePageBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Vpn first = VpnOfAddress(reinterpret_cast<std::uintptr_t>(memory));
  const Vpn last = first + PageCount(kPages - 1);
  const VpnRange all{first, last + PageCount(1)};
  auto* const bytes = static_cast<volatile char*>(memory);
  bytes[0] = 1;
  bytes[(kPages - 1) * kBasePageBytes] = 1;
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(done[1]);
    char byte = bytes[0];
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(done[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  MovePagesCall call;
  LinuxPageLocator locator(call);
  const auto alone = locator.Locate(Pid(::getpid()), all, {});
  const auto joint = locator.Locate(Pid(::getpid()), all, {{all}});
  for (const int end : {ready[0], ready[1], done[0], done[1]}) ::close(end);
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, kPages * kBasePageBytes);
  ASSERT_TRUE(alone) << alone.error().Message();
  ASSERT_THAT(*alone, SizeIs(1));
  EXPECT_EQ(alone->front().pages.start, last);
  EXPECT_FALSE(alone->front().joint);
  ASSERT_THAT(*joint, SizeIs(2));
  EXPECT_EQ(joint->front().pages.start, first);
  EXPECT_TRUE(joint->front().joint);
  EXPECT_FALSE(joint->back().joint);
}

// Three huge pages, of which the second one is split.
TEST(LinuxPageLocator, TellsHugePagesToThoseWhoMayNotSeeFrames) {
  constexpr std::size_t kHugeBytes = 512 * kBasePageBytes;
  void* memory =
      ::mmap(nullptr, 4 * kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const start = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(memory) + kHugeBytes - 1) / kHugeBytes * kHugeBytes);
  ::madvise(start, 3 * kHugeBytes, MADV_HUGEPAGE);
  for (std::size_t page = 0; page < 3; ++page) {
    static_cast<volatile char*>(start)[page * kHugeBytes] = 1;
  }
  ASSERT_EQ(::munmap(start + 2 * kHugeBytes - kBasePageBytes, kBasePageBytes), 0);
  const Vpn first = VpnOfAddress(reinterpret_cast<std::uintptr_t>(start));
  const test::WithoutCapability without(CAP_SYS_ADMIN);
  MovePagesCall call;
  LinuxPageLocator locator(call);
  const auto runs = locator.Locate(Pid(::getpid()), {first, first + PageCount(3 * 512)}, {});
  ::munmap(memory, 4 * kHugeBytes);
  ASSERT_TRUE(runs) << runs.error().Message();
  ASSERT_FALSE(runs->empty());
  if (runs->front().pages.size() < PageCount(512) || runs->back().pages.size() < PageCount(512)) {
    GTEST_SKIP() << "the kernel has no huge pages to give";
  }
  if (runs->front().leaf == PageCount(1))
    GTEST_SKIP() << "Linux 6.7 tells huge pages, this one not";
  ASSERT_EQ(runs->size(), 3U);
  EXPECT_EQ((*runs)[0].leaf, PageCount(512));
  EXPECT_EQ((*runs)[0].pages, (VpnRange{first, first + PageCount(512)}));
  EXPECT_EQ((*runs)[1].leaf, PageCount(1));
  EXPECT_EQ((*runs)[1].pages, (VpnRange{first + PageCount(512), first + PageCount(1023)}));
  EXPECT_EQ((*runs)[2].leaf, PageCount(512));
}

}  // namespace page_locator_test
}  // namespace tmprof
