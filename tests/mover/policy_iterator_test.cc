// SPDX-License-Identifier: Apache-2.0
// On this machine's kernel, of this process.

#include "mover/policy_iterator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace tmprof {
namespace policy_iterator_test {

using Destinations = MemoryBinding::Destinations;

constexpr std::size_t kPages = 4;
constexpr unsigned long kNode0 = 1;
constexpr unsigned long kBitsOfNodes = 64;

class PolicyIteratorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto reader = OpenPolicyIterator();
    if (!reader) GTEST_SKIP() << reader.error().Message();
    reader_ = *std::move(reader);
  }

  // Maps pages that no neighbouring mapping joins.
  void* Map(int flags) {
    return mmap(nullptr, kPages * kBasePageBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1,
                0);
  }
  // Returns the binding of a page if it differs from the process's.
  std::optional<MemoryBinding::Range> Told(const void* address) {
    const auto binding = reader_->Read(Pid(getpid()));
    EXPECT_TRUE(binding) << binding.error().Message();
    const Vpn vpn = VpnOfAddress(reinterpret_cast<std::uintptr_t>(address));
    const auto& ranges = binding->exceptions();
    const auto range = std::ranges::find_if(
        ranges, [vpn](const auto& known) { return known.pages.Contains(vpn); });
    return range == ranges.end() ? std::nullopt : std::optional(*range);
  }

  std::unique_ptr<PolicyReader> reader_;
};

TEST_F(PolicyIteratorTest, TellsAPolicyAsSoonAsItIsSet) {
  auto* memory = static_cast<char*>(Map(MAP_PRIVATE));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(Told(memory), std::nullopt);
  ASSERT_EQ(mbind(memory + kBasePageBytes, 2 * kBasePageBytes, MPOL_BIND, &kNode0, kBitsOfNodes, 0),
            0);
  EXPECT_EQ(Told(memory), std::nullopt) << "the page before";
  const auto bound = Told(memory + kBasePageBytes);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->pages.size(), PageCount(2));
  EXPECT_EQ(bound->destinations, Destinations(std::vector{NodeId(0)}));
  ASSERT_EQ(mbind(memory, kPages * kBasePageBytes, MPOL_INTERLEAVE, &kNode0, kBitsOfNodes, 0), 0);
  EXPECT_EQ(Told(memory)->destinations, Destinations(std::vector<NodeId>{})) << "stays";
  ASSERT_EQ(mbind(memory, kPages * kBasePageBytes, MPOL_DEFAULT, nullptr, 0, 0), 0);
  EXPECT_EQ(Told(memory), std::nullopt);
  munmap(memory, kPages * kBasePageBytes);
}

TEST_F(PolicyIteratorTest, TellsThePolicyOfTheProcessAndOfMappingsWithoutOne) {
  if (gettid() != getpid()) GTEST_SKIP() << "the main thread's policy is told";
  auto* memory = static_cast<char*>(Map(MAP_PRIVATE));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(set_mempolicy(MPOL_BIND, &kNode0, kBitsOfNodes), 0);
  ASSERT_EQ(mbind(memory, kBasePageBytes, MPOL_LOCAL, nullptr, 0, 0), 0);
  const auto binding = reader_->Read(Pid(getpid()));
  const auto local = Told(memory);
  ASSERT_EQ(set_mempolicy(MPOL_DEFAULT, nullptr, 0), 0);
  ASSERT_TRUE(binding) << binding.error().Message();
  const Vpn vpn = VpnOfAddress(reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_FALSE(binding->MayMove({vpn + PageCount(1), vpn + PageCount(2)}, NodeId(0), NodeId(1)));
  ASSERT_TRUE(local);
  EXPECT_EQ(local->destinations, Destinations(std::nullopt));
  munmap(memory, kPages * kBasePageBytes);
}

TEST_F(PolicyIteratorTest, TellsOfMoreMappingsThanOneReadHolds) {
  constexpr std::size_t kMappings = 1000;  // some 150 KB, of 32 KiB that the kernel gives at a time
  constexpr std::size_t kBytes = 2 * kMappings * kBasePageBytes;
  auto* memory =
      static_cast<char*>(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  for (std::size_t i = 0; i < kMappings; ++i) {
    char* page = memory + 2 * i * kBasePageBytes;
    ASSERT_EQ(mprotect(page, kBasePageBytes, PROT_READ), 0);
    ASSERT_EQ(mbind(page, kBasePageBytes, MPOL_BIND, &kNode0, kBitsOfNodes, 0), 0);
  }
  const auto binding = reader_->Read(Pid(getpid()));
  munmap(memory, kBytes);
  ASSERT_TRUE(binding) << binding.error().Message();
  EXPECT_EQ(binding->exceptions().size(), kMappings);
}

TEST_F(PolicyIteratorTest, SharedMemoryWithAPolicyOfItsOwnStays) {
  auto* memory = static_cast<char*>(Map(MAP_SHARED));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(Told(memory), std::nullopt);
  ASSERT_EQ(mbind(memory, kBasePageBytes, MPOL_BIND, &kNode0, kBitsOfNodes, 0), 0);
  ASSERT_TRUE(Told(memory));
  EXPECT_EQ(Told(memory)->destinations, Destinations(std::vector<NodeId>{}));
  munmap(memory, kPages * kBasePageBytes);
}

TEST_F(PolicyIteratorTest, SaysEsrchOfAProcessThatIsGone) {
  EXPECT_EQ(reader_->Read(Pid(0x7ffffffe)).error().system_error, ESRCH);
}

}  // namespace policy_iterator_test
}  // namespace tmprof
