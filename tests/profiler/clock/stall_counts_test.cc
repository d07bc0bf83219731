// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/stall_counts.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace stall_counts_test {

constexpr Pid kProgram(7);
constexpr std::uint64_t kStart = 0x401000;
constexpr std::uint64_t kBehindLoad = kStart + 9;

class StallCountsTest : public testing::Test {
 protected:
  StallCountsTest() {
    // add rcx,rdx · add rcx,rdx · mov rax,[rbx] · add rcx,rdx · ret
    api_.code_start = kStart;
    api_.code = {0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1, 0x48, 0x8b, 0x03, 0x48, 0x01, 0xd1, 0xc3};
  }

  void Add(std::uint64_t ip, int times, Pid process = kProgram) {
    for (int i = 0; i < times; ++i) counts_.Add(process, ip);
  }
  // Each add takes a tenth of these samples, and the load the rest.
  void Run(int samples) {
    for (const std::uint64_t ip : {kStart + 3, kStart + 6, kStart + 12}) Add(ip, samples / 10);
    Add(kBehindLoad, samples - 3 * (samples / 10));
  }

  FakePerfApi api_;
  StallCounts counts_{api_};
};

TEST_F(StallCountsTest, AreWhatALoadHasBeyondItsNeighbours) {
  Run(400);
  const auto counts = counts_.Take();
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->judged, 400);
  EXPECT_NEAR(counts->stalls, 280 - 40, 1e-6);
}

TEST_F(StallCountsTest, FewSamplesAreJudgedLater) {
  Run(190);
  EXPECT_FALSE(counts_.Take());
  Run(190);
  ASSERT_TRUE(counts_.Take());
  Run(190);
  EXPECT_FALSE(counts_.Take()) << "there are fewer than before";
  Run(190);
  EXPECT_EQ(counts_.Take()->judged, 380);
}

TEST_F(StallCountsTest, CodeThatIsGoneIsForgotten) {
  Run(400);
  counts_.Forget(kProgram);
  EXPECT_FALSE(counts_.Take());
  counts_.Forget(Pid(8));
  Run(400);
  counts_.Clear();
  EXPECT_FALSE(counts_.Take());
}

TEST_F(StallCountsTest, CodeThatCannotBeReadHasNone) {
  Add(0x10, 400);
  const auto counts = counts_.Take();
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->judged, 400);
  EXPECT_EQ(counts->stalls, 0);
}

TEST_F(StallCountsTest, ProcessesAreJudgedApart) {
  // Its samples are of the adds alone, as often as of the load of the other one.
  for (const std::uint64_t ip : {kStart + 3, kStart + 6, kStart + 12}) Add(ip, 300, Pid(8));
  Run(400);
  EXPECT_NEAR(counts_.Take()->stalls, 280 - 40, 1e-6);
}

TEST_F(StallCountsTest, LongRunsStartAnew) {
  Run(static_cast<int>(StallCounts::kMostSamples));
  ASSERT_TRUE(counts_.Take());
  Run(400);
  EXPECT_EQ(counts_.Take()->judged, 400);
}

TEST_F(StallCountsTest, TooManyAddressesAreForgotten) {
  for (std::uint64_t ip = 0; ip <= StallCounts::kMostAddresses; ++ip) counts_.Add(kProgram, ip);
  EXPECT_FALSE(counts_.Take());
  Run(400);
  EXPECT_EQ(counts_.Take()->judged, 400);
}

}  // namespace stall_counts_test
}  // namespace tmprof
