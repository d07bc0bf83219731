// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/span_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

namespace tmprof::objtrace {
namespace span_pool_test {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSpansInMiB = kMiB >> kSpanShift;

class SpanPoolTest : public ::testing::Test {
 protected:
  Span* TakeAndUse(std::uint64_t spans) {
    Span* run = pool_.Take(spans);
    if (run != nullptr) std::memset(MemoryOf(run), 1, spans << kSpanShift);
    return run;
  }
  void Give(Span* run) { pool_.Give(run, PagesOf(std::uint64_t{run->length} << kSpanShift)); }
  void* MemoryOf(const Span* run) const { return reinterpret_cast<void*>(pool_.StartOf(run)); }

  static long Faults() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  }
  static std::int64_t ResidentMiB() {
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return static_cast<std::int64_t>(resident >> 8);
  }

  SpanPool pool_;
};

TEST_F(SpanPoolTest, NeighboursThatAreFreeAreOneRun) {
  Span* const first = pool_.Take(3);
  Span* const second = pool_.Take(4);
  Span* const third = pool_.Take(5);
  ASSERT_EQ(second, first + 3);
  ASSERT_EQ(third, second + 4);
  Give(first);
  Give(third);
  Give(second);
  EXPECT_EQ(pool_.Take(12), first);
}

TEST_F(SpanPoolTest, FreedSpansKeepUpTo16MiBOfMemory) {
  Span* const run = TakeAndUse(16 * kSpansInMiB);
  ASSERT_NE(run, nullptr);
  Give(run);
  const long before = Faults();
  ASSERT_EQ(TakeAndUse(16 * kSpansInMiB), run);
  EXPECT_TRUE(run->dirty);
  EXPECT_LT(Faults() - before, 100) << "of 4096 pages";
}

TEST_F(SpanPoolTest, MemoryBeyondTheReserveGoesBackAndComesAgainAsZeros) {
  Span* const run = TakeAndUse(128 * kSpansInMiB);
  ASSERT_NE(run, nullptr);
  const std::int64_t full = ResidentMiB();
  Give(run);
  EXPECT_GT(full - ResidentMiB(), 120);
  ASSERT_EQ(pool_.Take(128 * kSpansInMiB), run);
  EXPECT_FALSE(run->dirty);
  EXPECT_EQ(*static_cast<const char*>(MemoryOf(run)), 0);
}

// However much there was once.
TEST_F(SpanPoolTest, NoMoreThan64MiBAreKept) {
  std::vector<Span*> runs;
  for (int i = 0; i < 40; ++i) {
    runs.push_back(TakeAndUse(16 * kSpansInMiB));
    ASSERT_NE(runs.back(), nullptr);
    TakeAndUse(1);  // keeps neighbours apart
  }
  const std::int64_t full = ResidentMiB();
  std::int64_t freed = 0;
  for (Span* run : runs) {
    Give(run);
    freed += 16;
    EXPECT_LE(freed - (full - ResidentMiB()), 64 + 8) << "but for what others allocate meanwhile";
  }
}

// The first part of a run is taken, and the last part may be dirty.
TEST_F(SpanPoolTest, RunsFreedWhileALargeOneIsTakenBitByBitGoBack) {
  constexpr std::uint64_t kBit = 12 * kSpansInMiB + 1;
  Span* const much = TakeAndUse(128 * kSpansInMiB);
  ASSERT_NE(much, nullptr);
  std::vector<Span*> beside;
  for (int i = 0; i < 10; ++i) beside.push_back(TakeAndUse(kBit));
  Give(much);
  const std::int64_t before = ResidentMiB();
  for (Span* run : beside) {
    Give(run);
    ASSERT_LT(TakeAndUse(kBit), run) << "of what went back";
  }
  EXPECT_LE(ResidentMiB() - before, 64 + 8)
      << "as much as was freed was taken, but for what is kept";
}

TEST_F(SpanPoolTest, ALoopBesideMuchThatWentBackKeepsItsMemory) {
  Span* const much = TakeAndUse(128 * kSpansInMiB);
  ASSERT_NE(much, nullptr);
  Give(much);
  Give(TakeAndUse(1));
  const long before = Faults();
  for (int i = 0; i < 100; ++i) {
    Span* const little = TakeAndUse(1);
    EXPECT_TRUE(little->dirty);
    Give(little);
  }
  EXPECT_LT(Faults() - before, 100) << "of 64 pages in each of 100 turns";
}

TEST_F(SpanPoolTest, OnlyWhatWasUsedSinceIsNoZeros) {
  constexpr std::uint64_t kMuch = 128 * kSpansInMiB;
  Span* const much = TakeAndUse(kMuch);
  ASSERT_NE(much, nullptr);
  Span* const beside = TakeAndUse(2);
  ASSERT_EQ(beside, much + kMuch);
  Give(much);
  Give(beside);
  EXPECT_FALSE(pool_.Take(kMuch - 1)->dirty);
  EXPECT_FALSE(pool_.Take(1)->dirty);
  EXPECT_TRUE(pool_.Take(1)->dirty);
  EXPECT_TRUE(pool_.Take(1)->dirty);
}

// The runs have far more spans than 16 MiB.
TEST_F(SpanPoolTest, RunsOfWhichLittleWasUsedKeepIt) {
  constexpr std::uint64_t kUsed = 4096;
  std::vector<Span*> runs;
  for (int i = 0; i < 400; ++i) {
    runs.push_back(pool_.Take(1));
    std::memset(MemoryOf(runs.back()), 1, kUsed);
  }
  for (Span* run : runs) pool_.Give(run, PagesOf(kUsed));
  for (int i = 0; i < 200; ++i) {
    Span* const first = pool_.Take(1);
    pool_.Give(first, first->used);
  }
  const long before = Faults();
  for (Span* run : runs) std::memset(MemoryOf(run), 1, kUsed);
  EXPECT_LT(Faults() - before, 50) << "of 400 pages";
}

TEST_F(SpanPoolTest, CleanSpansAreZerosHoweverRunsWereCutAndJoined) {
  constexpr int kTurns = 20'000;
  std::minstd_rand random(1);
  std::vector<Span*> taken;
  int clean = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (taken.empty() || random() % 2 == 0) {
      Span* const run = pool_.Take(random() % 100 == 0 ? 100 * kSpansInMiB : random() % 20 + 1);
      ASSERT_NE(run, nullptr);
      auto* const memory = static_cast<char*>(MemoryOf(run));
      const std::uint64_t bytes = std::uint64_t{run->length} << kSpanShift;
      if (!run->dirty) {
        ++clean;
        for (std::uint64_t at = 0; at < bytes; at += kSpanBytes) ASSERT_EQ(memory[at], 0) << turn;
      }
      for (std::uint64_t at = 0; at < bytes; at += kSpanBytes) {
        if (random() % 2 == 0) memory[at] = 1;
      }
      taken.push_back(run);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      Give(taken.back());
      taken.pop_back();
    }
  }
  EXPECT_GT(clean, kTurns / 100);
}

// A run was used before, and then little of it is used repeatedly.
TEST_F(SpanPoolTest, KnowsOfAReturnedRunHowMuchWasUsedBeforeItWasTaken) {
  std::vector<Span*> runs;
  for (int i = 0; i < 800; ++i) runs.push_back(TakeAndUse(1));
  for (int i = 0; i < 40; ++i) pool_.Give(runs[static_cast<std::size_t>(i)], 64);
  const std::int64_t full = ResidentMiB();
  for (std::size_t i = 40; i < runs.size(); ++i) {
    Give(runs[i]);
    Span* const again = pool_.Take(1);
    pool_.Give(again, std::max<std::uint64_t>(again->used, 1));
  }
  EXPECT_GT(full - ResidentMiB(), 200 - 64 - 16) << "of 200 MiB no more than 64 are kept";
}

TEST_F(SpanPoolTest, LockedMemoryStaysAndIsNotZeros) {
  Span* const run = TakeAndUse(64 * kSpansInMiB);
  ASSERT_NE(run, nullptr);
  // The test makes the system call itself: AddressSanitizer's function locks nothing.
  if (::syscall(SYS_mlock, MemoryOf(run), 4096) != 0) GTEST_SKIP() << "mlock: " << errno;
  Give(run);
  ASSERT_EQ(pool_.Take(64 * kSpansInMiB), run);
  EXPECT_TRUE(run->dirty);
  EXPECT_EQ(*static_cast<const char*>(MemoryOf(run)), 1);
  ::syscall(SYS_munlock, MemoryOf(run), 4096);
}

}  // namespace span_pool_test
}  // namespace tmprof::objtrace
