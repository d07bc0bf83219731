// SPDX-License-Identifier: Apache-2.0

#include "mover/memory_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

namespace tmprof {
namespace memory_binding_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Destinations = MemoryBinding::Destinations;
using Range = MemoryBinding::Range;

constexpr NodeId kNode0{0};
constexpr NodeId kNode1{1};
constexpr NodeId kNode2{2};

const Destinations kAnywhere = std::nullopt;
const Destinations kNowhereElse = std::vector<NodeId>{};

Destinations On(std::vector<NodeId> nodes) { return nodes; }

TEST(DestinationsUnder, FollowsTheModeOfThePolicy) {
  const struct {
    const char* policy;
    Destinations expected;
  } cases[] = {
      {"default", kAnywhere},
      {"local", kAnywhere},
      {"bind:0", On({kNode0})},
      {"bind:0-1", On({kNode0, kNode1})},
      {"bind:0,2", On({kNode0, kNode2})},
      {"bind=static:0-1", On({kNode0, kNode1})},
      {"bind=relative:1", On({kNode1})},
      {"bind=balancing:1-2", On({kNode1, kNode2})},
      {"bind=static|balancing:0", On({kNode0})},
      {"bind", kNowhereElse},
      {"bind:", kNowhereElse},
      {"bind:1-0", kNowhereElse},
      {"prefer:0", kNowhereElse},
      {"prefer=static:0", kNowhereElse},
      {"prefer", kNowhereElse},
      {"interleave:0-1", kNowhereElse},
      {"interleave=relative:0-1", kNowhereElse},
      {"weighted", kNowhereElse},  // the first word of "weighted interleave:0-1"
      {"unknown", kNowhereElse},
      {"of a kernel to come", kNowhereElse},
      {"", kNowhereElse},
  };
  for (const auto& [policy, expected] : cases) {
    EXPECT_EQ(DestinationsUnder(policy), expected) << policy;
  }
}

// The kernel prints into 64 bytes: "…,31" may have been "…,313".
TEST(DestinationsUnder, DoesNotTrustAListThatMayHaveBeenCutOff) {
  std::string policy = "bind:0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40";
  ASSERT_EQ(policy.size(), 62U);
  EXPECT_TRUE(DestinationsUnder(policy)->size() == 21);
  EXPECT_EQ(DestinationsUnder(policy + "0"), kNowhereElse);
}

TEST(MemoryBindingDeathTest, RefusesRangesThatOverlap) {
  EXPECT_DEATH(MemoryBinding(kAnywhere, kAnywhere,
                             {{{Vpn(1), Vpn(3)}, kNowhereElse}, {{Vpn(2), Vpn(4)}, kAnywhere}}),
               "");
}

class ReadMemoryBindingTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / "memory_binding" / test->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void Put(const std::string& numa_maps, const std::string& maps,
           const std::string& allowed = "0-2", const std::string& folder = "42") {
    Write(folder + "/numa_maps", numa_maps);
    Write(folder + "/maps", maps);
    Write(folder + "/status", "Name:\tworker\nMems_allowed:\t00000007\nMems_allowed_list:\t" +
                                  allowed + "\nvoluntary_ctxt_switches:\t1\n");
  }
  Result<MemoryBinding> Read() const { return ReadMemoryBinding(Pid(42), root_); }

  fs::path root_;
};

VpnRange Page(std::uint64_t page) { return {Vpn(page), Vpn(page + 1)}; }

std::string Mapping(const std::string& bounds, const std::string& path = "") {
  return bounds + " rw-p 00000000 00:00 0 " + path + "\n";
}

TEST_F(ReadMemoryBindingTest, BindsNothingByDefault) {
  Put("1000 default anon=2 dirty=2 N0=2 kernelpagesize_kB=4\n7000 default stack anon=1 N0=1\n",
      Mapping("1000-3000") + Mapping("7000-8000", "[stack]"));
  const MemoryBinding binding = Read().value();
  EXPECT_THAT(binding.exceptions(), IsEmpty());
  EXPECT_TRUE(binding.MayMove(Page(1), kNode0, kNode1));
  EXPECT_TRUE(binding.MayMove(Page(1), kNode1, kNode0));
  EXPECT_FALSE(binding.Binds(std::vector{kNode0, kNode1}));
}

TEST(MemoryBinding, BindsWhereAPageMayNotGoToOneOfTheNodes) {
  const std::vector nodes{kNode0, kNode1};
  EXPECT_FALSE(MemoryBinding(nodes, nodes, {}).Binds(nodes));
  EXPECT_TRUE(MemoryBinding(std::vector{kNode1}, std::nullopt, {}).Binds(nodes));
  EXPECT_TRUE(MemoryBinding(std::nullopt, std::vector{kNode1}, {}).Binds(nodes));
  EXPECT_TRUE(
      MemoryBinding(std::nullopt, std::nullopt, {{Page(1), std::vector{kNode1}}}).Binds(nodes));
}

TEST_F(ReadMemoryBindingTest, LetsBoundPagesMoveAmongTheirNodesOnly) {
  Put("1000 bind:0,2 anon=2 N0=2 kernelpagesize_kB=4\n", Mapping("1000-3000"));
  const MemoryBinding binding = Read().value();
  EXPECT_TRUE(binding.MayMove(Page(1), kNode0, kNode2));
  EXPECT_TRUE(binding.MayMove(Page(2), kNode2, kNode0));
  EXPECT_TRUE(binding.MayMove(Page(2), kNode1, kNode0)) << "to where it belongs";
  EXPECT_FALSE(binding.MayMove(Page(1), kNode0, kNode1));
  EXPECT_TRUE(binding.MayMove(Page(3), kNode0, kNode1)) << "the first page behind the mapping";
  EXPECT_TRUE(binding.MayMove(Page(0), kNode0, kNode1)) << "the last page before it";
}

TEST_F(ReadMemoryBindingTest, LeavesPagesThatTheUserPlacedWhereTheyAre) {
  Put("1000 interleave:0-1 anon=1\n"
      "3000 weighted interleave:0-1 anon=1\n"
      "5000 prefer:1 anon=1\n"
      "7000 prefer (many):0-1 anon=1\n",
      Mapping("1000-2000") + Mapping("3000-4000") + Mapping("5000-6000") + Mapping("7000-8000"));
  const MemoryBinding binding = Read().value();
  for (const std::uint64_t page : {1, 3, 5, 7}) {
    EXPECT_FALSE(binding.MayMove(Page(page), kNode0, kNode1)) << page;
    EXPECT_FALSE(binding.MayMove(Page(page), kNode1, kNode0)) << page;
    EXPECT_TRUE(binding.MayMove(Page(page), kNode0, kNode0)) << page;
    EXPECT_TRUE(binding.MayMove(Page(page + 1), kNode0, kNode1)) << page;
  }
}

TEST_F(ReadMemoryBindingTest, EndsARangeWhereTheMappingOrTheNextPolicyBegins) {
  Put("1000 bind:0\n2000 bind:1\n9000 bind:0\n", Mapping("1000-5000") + Mapping("9000-a000"));
  EXPECT_THAT(Read()->exceptions(), testing::ElementsAre(Range{{Vpn(1), Vpn(2)}, On({kNode0})},
                                                         Range{{Vpn(2), Vpn(5)}, On({kNode1})},
                                                         Range{{Vpn(9), Vpn(10)}, On({kNode0})}));
}

TEST_F(ReadMemoryBindingTest, JoinsRangesThatTouchAndAreBoundAlike) {
  Put("1000 bind:0 file=/lib/a\n2000 bind=static:0 file=/lib/a\n4000 bind:0 heap\n8000 bind:0\n"
      "9000 interleave:0\na000 prefer:1\nb000 default\n",
      Mapping("1000-2000") + Mapping("2000-4000") + Mapping("4000-5000") + Mapping("8000-9000") +
          Mapping("9000-a000") + Mapping("a000-b000") + Mapping("b000-c000"));
  EXPECT_THAT(Read()->exceptions(), testing::ElementsAre(Range{{Vpn(1), Vpn(5)}, On({kNode0})},
                                                         Range{{Vpn(8), Vpn(9)}, On({kNode0})},
                                                         Range{{Vpn(9), Vpn(11)}, kNowhereElse}));
}

// The file is that of `numactl --membind=1`: mappings without a policy show the process's.
TEST_F(ReadMemoryBindingTest, TakesWhatItIsNotToldOfForBoundAsTheStackIs) {
  Put("1000 bind:1 heap anon=1\n3000 default anon=1\n7000 bind:1 stack anon=1\n",
      Mapping("1000-2000", "[heap]") + Mapping("3000-4000") + Mapping("7000-8000", "[stack]"));
  const MemoryBinding binding = Read().value();
  EXPECT_THAT(binding.exceptions(), testing::ElementsAre(Range{{Vpn(3), Vpn(4)}, kAnywhere}));
  EXPECT_FALSE(binding.MayMove(Page(1), kNode1, kNode0));
  EXPECT_FALSE(binding.MayMove(Page(2), kNode1, kNode0)) << "where the heap grows to";
  EXPECT_TRUE(binding.MayMove(Page(3), kNode1, kNode0));
  EXPECT_TRUE(binding.MayMove(Page(2), kNode0, kNode1));
}

TEST_F(ReadMemoryBindingTest, DoesNotTakeAFileForTheStack) {
  Put("1000 bind:1 file=/tmp/the\\040stack anon=1\n", Mapping("1000-2000", "/tmp/the stack"));
  EXPECT_TRUE(Read()->MayMove(Page(5), kNode1, kNode0));
}

TEST_F(ReadMemoryBindingTest, MovesNothingOutOfTheCpuset) {
  Put("1000 default anon=1\n3000 bind:0-2 anon=1\n", Mapping("1000-2000") + Mapping("3000-4000"),
      /*allowed=*/"0-1");
  const MemoryBinding binding = Read().value();
  for (const std::uint64_t page : {1, 3}) {
    EXPECT_TRUE(binding.MayMove(Page(page), kNode2, kNode1)) << page;
    EXPECT_FALSE(binding.MayMove(Page(page), kNode0, kNode2)) << page;
  }
}

TEST_F(ReadMemoryBindingTest, KnowsNoCpusetWhereTheKernelHasNone) {
  Put("1000 default anon=1\n", Mapping("1000-2000"));
  Write("42/status", "Name:\tworker\n");
  EXPECT_TRUE(Read()->MayMove(Page(1), kNode0, NodeId(9)));
}

TEST_F(ReadMemoryBindingTest, RefusesACpusetThatIsNoListOfNodes) {
  Put("1000 default anon=1\n", Mapping("1000-2000"), /*allowed=*/"all");
  EXPECT_THAT(Read().error().Message(), HasSubstr("not a list of nodes"));
}

TEST_F(ReadMemoryBindingTest, ReadsLinesOfAnyLengthAndPathsOfAnyKind) {
  const std::string long_name(70'000, 'x');
  Put("1000 bind:0 file=/" + long_name + " mapped=1\n" +
          "3000 bind:0 file=/tmp/a\\040bind:1\\012b\\040(deleted) mapped=1\n"
          "5000 bind:0 file=/anon_hugepage\\040(deleted) huge anon=1\n",
      Mapping("1000-2000", "/" + long_name) +
          Mapping("3000-4000", "/tmp/a bind:1\\012b (deleted)") +
          Mapping("5000-6000", "/anon_hugepage (deleted)"));
  const MemoryBinding binding = Read().value();
  ASSERT_EQ(binding.exceptions().size(), 3U);
  for (const Range& range : binding.exceptions()) EXPECT_EQ(range.destinations, On({kNode0}));
}

TEST_F(ReadMemoryBindingTest, SkipsWhatItCannotReadAndWhatIsMappedNoMore) {
  Put("garbage\n\n1000\n1000bind:0\n3000 bind:0\n5000 bind:1\nffff",
      "garbage\n\n1000\n1000-\n1000 2000\n3000-1000 rw-p\n" + Mapping("3000-4000"));
  EXPECT_THAT(Read()->exceptions(), testing::ElementsAre(Range{{Vpn(3), Vpn(4)}, On({kNode0})}));
}

// Read in pieces while the process maps: a mapping shows twice, or a later one first.
TEST_F(ReadMemoryBindingTest, GivesDisjointRangesWhereMappingsChangedBetweenTwoReads) {
  Put("3000 bind:0\n1000 bind:1\n3000 bind:1\n", Mapping("3000-6000") + Mapping("1000-4000"));
  EXPECT_THAT(Read()->exceptions(), testing::ElementsAre(Range{{Vpn(1), Vpn(6)}, On({kNode1})}));
}

TEST_F(ReadMemoryBindingTest, SaysEsrchOfAProcessThatIsGone) {
  EXPECT_EQ(Read().error().system_error, ESRCH);
  EXPECT_THAT(Read().error().Message(), HasSubstr("memory policies"));
}

TEST_F(ReadMemoryBindingTest, SaysEsrchOfAProcessWithoutMemory) {
  Put("", "");
  EXPECT_EQ(Read().error().system_error, ESRCH);
}

TEST_F(ReadMemoryBindingTest, SaysEsrchOfAProcessThatDiesMeanwhile) {
  Put("1000 default\n", Mapping("1000-2000"));
  fs::remove(root_ / "42/status");
  EXPECT_EQ(Read().error().system_error, ESRCH);
  fs::remove(root_ / "42/maps");
  EXPECT_EQ(Read().error().system_error, ESRCH);
}

TEST_F(ReadMemoryBindingTest, TellsAFailedLookFromADeath) {
  fs::create_directories(root_ / "42/numa_maps");
  EXPECT_EQ(Read().error().system_error, EISDIR);
}

TEST_F(ReadMemoryBindingTest, LooksThroughALivingThreadWhereTheMainOneHasExited) {
  Put("", "");
  Put("", "", "0-2", "42/task/42");
  Put("1000 bind:0\n", Mapping("1000-2000"), "0-2", "42/task/57");
  EXPECT_FALSE(Read()->MayMove(Page(1), kNode0, kNode1));
}

TEST(MemoryBinding, MovesAHugePageOnlyWhereNoneOfItsPartsIsBoundElsewhere) {
  const MemoryBinding binding(kAnywhere, kAnywhere,
                              {{{Vpn(4), Vpn(6)}, On({kNode0})}, {{Vpn(6), Vpn(7)}, On({kNode1})}});
  EXPECT_TRUE(binding.MayMove({Vpn(0), Vpn(4)}, kNode0, kNode1));
  EXPECT_FALSE(binding.MayMove({Vpn(0), Vpn(5)}, kNode0, kNode1));
  EXPECT_TRUE(binding.MayMove({Vpn(0), Vpn(6)}, kNode1, kNode0));
  EXPECT_FALSE(binding.MayMove({Vpn(0), Vpn(8)}, kNode1, kNode0)) << "page 6";
  EXPECT_TRUE(binding.MayMove({Vpn(7), Vpn(9)}, kNode0, kNode1));
}

TEST(MemoryBinding, FollowsTheProcessBetweenAndBehindItsExceptions) {
  const MemoryBinding binding(kAnywhere, On({kNode1}),
                              {{{Vpn(4), Vpn(6)}, kAnywhere}, {{Vpn(8), Vpn(9)}, kAnywhere}});
  EXPECT_TRUE(binding.MayMove({Vpn(4), Vpn(6)}, kNode1, kNode0));
  EXPECT_FALSE(binding.MayMove({Vpn(4), Vpn(9)}, kNode1, kNode0)) << "6 and 7";
  EXPECT_FALSE(binding.MayMove({Vpn(8), Vpn(10)}, kNode1, kNode0)) << "9";
  EXPECT_FALSE(binding.MayMove({Vpn(3), Vpn(5)}, kNode1, kNode0)) << "3";
}

TEST(MemoryBinding, UnreadPagesMoveNowhere) {
  const MemoryBinding known(kAnywhere, kAnywhere, {{{Vpn(4), Vpn(8)}, On({kNode0})}});
  const std::vector<VpnRange> unread{{Vpn(1), Vpn(2)}, {Vpn(5), Vpn(6)}, {Vpn(7), Vpn(10)}};
  const MemoryBinding binding = known.WithUnread(unread);
  EXPECT_THAT(binding.exceptions(),
              testing::ElementsAre(Range{{Vpn(1), Vpn(2)}, kNowhereElse, true},
                                   Range{{Vpn(4), Vpn(5)}, On({kNode0})},
                                   Range{{Vpn(5), Vpn(6)}, kNowhereElse, true},
                                   Range{{Vpn(6), Vpn(7)}, On({kNode0})},
                                   Range{{Vpn(7), Vpn(10)}, kNowhereElse, true}));
  EXPECT_FALSE(binding.MayMove(Page(1), kNode1, kNode0));
  EXPECT_TRUE(binding.MayMove(Page(2), kNode1, kNode0));
  const auto has_unread = [&binding](std::uint64_t start, std::uint64_t end) {
    return binding.HasUnread({Vpn(start), Vpn(end)});
  };
  EXPECT_TRUE(has_unread(9, 10));
  EXPECT_FALSE(has_unread(10, 11));
  EXPECT_FALSE(has_unread(4, 5));
  EXPECT_TRUE(has_unread(4, 6));
  EXPECT_TRUE(has_unread(0, 100));
}

TEST(NewerThan, IsWhatNoMappingOfBeforeHolds) {
  const std::vector<VpnRange> before{{Vpn(10), Vpn(20)}, {Vpn(30), Vpn(40)}, {Vpn(50), Vpn(60)}};
  const struct {
    const char* what;
    std::vector<VpnRange> now;
    std::vector<VpnRange> expected;
  } cases[] = {
      {"nothing has changed", before, {}},
      {"one is gone", {{Vpn(10), Vpn(20)}, {Vpn(50), Vpn(60)}}, {}},
      {"one is new", {{Vpn(10), Vpn(20)}, {Vpn(22), Vpn(25)}}, {{Vpn(22), Vpn(25)}}},
      {"one has grown", {{Vpn(10), Vpn(23)}}, {{Vpn(20), Vpn(23)}}},
      {"two were joined by what is between", {{Vpn(10), Vpn(40)}}, {{Vpn(20), Vpn(30)}}},
      {"one was split",
       {{Vpn(30), Vpn(35)}, {Vpn(35), Vpn(40)}},
       {{Vpn(30), Vpn(35)}, {Vpn(35), Vpn(40)}}},
      {"one has shrunk", {{Vpn(50), Vpn(55)}}, {{Vpn(50), Vpn(55)}}},
  };
  for (const auto& [what, now, expected] : cases)
    EXPECT_EQ(NewerThan(before, now), expected) << what;
}

TEST_F(ReadMemoryBindingTest, ReadsMappingsEachByItself) {
  Put("1000 default\n", Mapping("1000-2000") + Mapping("2000-4000"));
  EXPECT_THAT(ReadMappings(Pid(42), root_).value(),
              testing::ElementsAre(VpnRange{Vpn(1), Vpn(2)}, VpnRange{Vpn(2), Vpn(4)}));
  EXPECT_EQ(ReadMappings(Pid(43), root_).error().system_error, ESRCH);
}

TEST(LiveMemoryBinding, FindsAMappingOfThisProcessThatWasBound) {
  if (access("/proc/self/numa_maps", R_OK) != 0) GTEST_SKIP() << "the kernel has no NUMA";
  constexpr std::size_t kBytes = 4 * kBasePageBytes;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Vpn first = VpnOfAddress(reinterpret_cast<std::uintptr_t>(memory));
  const unsigned long node0 = 1;
  const bool bound = mbind(memory, kBytes, MPOL_BIND, &node0, 64, 0) == 0;
  const auto binding = ReadMemoryBinding(Pid(getpid()));
  munmap(memory, kBytes);
  if (!bound) GTEST_SKIP() << "node 0 has no memory";
  ASSERT_TRUE(binding.has_value()) << binding.error().Message();
  const auto found = std::ranges::find_if(binding->exceptions(), [&](const Range& range) {
    return range.pages.Contains(first) && range.pages.Contains(first + PageCount(3));
  });
  ASSERT_NE(found, binding->exceptions().end());
  EXPECT_EQ(found->destinations, On({kNode0}));
}

}  // namespace memory_binding_test
}  // namespace tmprof
