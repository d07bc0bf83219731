// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

namespace tmprof::workload {
namespace memory_test {

TEST(Memory, IsAlignedPresentAndZero) {
  constexpr std::uint64_t kFootprintBytes = 3 * kHugePageBytes + kBasePageBytes;
  const auto memory = Memory::Map(kFootprintBytes, false);
  ASSERT_TRUE(memory) << memory.error();
  EXPECT_EQ(memory->start_address() % kHugePageBytes, 0u);
  EXPECT_EQ(memory->footprint_bytes(), kFootprintBytes);
  std::vector<unsigned char> present(kFootprintBytes / kBasePageBytes);
  ASSERT_EQ(::mincore(memory->words(), kFootprintBytes, present.data()), 0);
  EXPECT_TRUE(std::ranges::all_of(present, [](unsigned char page) { return page & 1; }));
  const std::span words(memory->words(), kFootprintBytes / sizeof(std::uint64_t));
  EXPECT_TRUE(std::ranges::all_of(words, [](std::uint64_t word) { return word == 0; }));
}

TEST(Memory, HasNoHugePagesUnlessAskedFor) {
  const auto memory = Memory::Map(4 * kHugePageBytes, false);
  ASSERT_TRUE(memory) << memory.error();
  EXPECT_EQ(memory->HugeBytes(), 0u);
}

TEST(Memory, IsOneForForkedProcessesIfShared) {
  for (const Sharing sharing : {Sharing::kPrivate, Sharing::kShared}) {
    const auto memory = Memory::Map(2 * kBasePageBytes, false, sharing);
    ASSERT_TRUE(memory) << memory.error();
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (memory->Populate()) memory->words()[600] = 7;
      ::_exit(0);
    }
    ::waitpid(pid, nullptr, 0);
    EXPECT_EQ(memory->words()[600], sharing == Sharing::kShared ? 7u : 0u);
  }
}

TEST(Memory, SaysWhatTheKernelRefused) {
  const auto memory = Memory::Map(std::uint64_t{1} << 50, false);
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().find("ENOMEM"), std::string::npos) << memory.error();
}

}  // namespace memory_test
}  // namespace tmprof::workload
