// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/other_clearers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tmprof::abit {
namespace other_clearers_test {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class OtherClearers : public ::testing::Test {
 protected:
  OtherClearers() {
    fs::remove_all(root_);
    // 4 GiB: 1 048 576 pages.
    Write("proc/meminfo", "MemTotal:        4194304 kB\n");
    Write("proc/7/comm", "bash\n");
  }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  // A kernel thread of DAMON that an administrator has set up. It watches the memory of a process,
  // or with 0 that of the machine.
  void PutDamon(const std::string& pid, const std::string& operations, const std::string& sample_us,
                const std::string& regions, const std::string& number = "0",
                const std::string& target = "0") {
    Write("proc/" + pid + "/comm", "kdamond." + number + "\n");
    const std::string folder = "sys/kernel/mm/damon/admin/kdamonds/" + number + "/";
    Write(folder + "pid", pid + "\n");
    Write(folder + "contexts/nr_contexts", "1\n");
    Write(folder + "contexts/0/operations", operations + "\n");
    Write(folder + "contexts/0/monitoring_attrs/intervals/sample_us", sample_us + "\n");
    Write(folder + "contexts/0/monitoring_attrs/nr_regions/max", regions + "\n");
    Write(folder + "contexts/0/targets/nr_targets", "1\n");
    Write(folder + "contexts/0/targets/0/pid_target", target + "\n");
  }
  // A range that it was told to watch.
  void PutRegion(const std::string& number, std::uint64_t start, std::uint64_t end,
                 const std::string& region = "0") {
    const std::string folder =
        "sys/kernel/mm/damon/admin/kdamonds/" + number + "/contexts/0/targets/0/regions/" + region;
    Write(folder + "/start", std::to_string(start) + "\n");
    Write(folder + "/end", std::to_string(end) + "\n");
  }
  // A process with so many resident pages.
  void PutProcess(const std::string& pid, const std::string& resident) {
    Write("proc/" + pid + "/comm", "server\n");
    Write("proc/" + pid + "/stat",
          pid + " (server) S 1 6 6 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 8192000 " + resident +
              " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  }
  std::optional<OtherClearer> Find() const { return OtherAccessedBitClearer(root_); }

  const fs::path root_ = fs::path(testing::TempDir()) / "other_clearers";
};

TEST_F(OtherClearers, AreNoneWhereNothingElseClears) { EXPECT_FALSE(Find()); }

// 8192 pages each half second are 16 384 of 1 048 576 pages a second.
TEST_F(OtherClearers, AreHarmfulWhereTheyClearMoreThanAPageInAHundred) {
  PutDamon("77", "paddr", "500000", "8192");
  const auto found = Find();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_harmless);
  EXPECT_EQ(
      found->text,
      "DAMON is running (kdamond.0) and clears accessed bits: at most 1.56 % of the pages that "
      "it watches a second");
  EXPECT_EQ(found->how_to_stop, "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state");
}

TEST_F(OtherClearers, AreHarmlessWhereTheyClearLess) {
  PutDamon("77", "paddr", "1000000", "8192");
  const auto found = Find();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_harmless);
  EXPECT_THAT(found->text, EndsWith("at most 0.781 % of the pages that it watches a second"));
}

TEST_F(OtherClearers, AreHarmfulWhereTheirPaceIsUnknown) {
  PutDamon("77", "vaddr", "1000000", "8192", "0", "4711");
  EXPECT_FALSE(Find()->is_harmless) << "the process has ended";
  PutDamon("77", "paddr", "0", "8192");
  EXPECT_FALSE(Find()->is_harmless);
  PutDamon("77", "paddr", "1000000", "many");
  EXPECT_FALSE(Find()->is_harmless);
  PutDamon("77", "paddr", "1000000", "8192");
  EXPECT_TRUE(Find()->is_harmless);
  Write("proc/meminfo", "MemFree: 1 kB\n");
  EXPECT_FALSE(Find()->is_harmless);
}

// 8192 of 2^20 pages a second, each: 0.78 %.
TEST_F(OtherClearers, AddUpIfTheyWatchTheSameMemory) {
  PutDamon("77", "paddr", "1000000", "8192", "0");
  EXPECT_TRUE(Find()->is_harmless);
  PutDamon("78", "paddr", "1000000", "8192", "1");
  const auto found = Find();
  EXPECT_FALSE(found->is_harmless);
  EXPECT_EQ(found->text,
            "DAMON is running (kdamond.0, kdamond.1) and clears accessed bits: at most 1.56 % of "
            "the pages that they watch together a second");
  EXPECT_EQ(found->how_to_stop,
            "echo off | tee /sys/kernel/mm/damon/admin/kdamonds/0/state "
            "/sys/kernel/mm/damon/admin/kdamonds/1/state");
}

// Half of the memory each: 4096 of 2^19 pages a second.
TEST_F(OtherClearers, DoNotAddUpIfTheyWatchDifferentMemory) {
  constexpr std::uint64_t kHalf = std::uint64_t{2} << 30;
  for (const std::uint64_t half : {std::uint64_t{0}, std::uint64_t{1}}) {
    const std::string number = std::to_string(half);
    PutDamon(std::to_string(77 + half), "paddr", "1000000", "4096", number);
    PutRegion(number, half * kHalf, (half + 1) * kHalf);
  }
  EXPECT_TRUE(Find()->is_harmless);
  EXPECT_THAT(Find()->text, HasSubstr("at most 0.781 % of"));
  PutRegion("1", kHalf - 1, 2 * kHalf);
  EXPECT_FALSE(Find()->is_harmless) << "a byte is watched by both";
}

// The ranges are a quarter of the memory.
TEST_F(OtherClearers, AreJudgedByTheRangesThatTheyWatch) {
  PutDamon("77", "paddr", "1000000", "8192");
  PutRegion("0", 0, std::uint64_t{512} << 20);
  PutRegion("0", std::uint64_t{1} << 30, std::uint64_t{1536} << 20, "1");
  EXPECT_THAT(Find()->text, HasSubstr("at most 3.12 % of"));
  // 16 units of 2^25 bytes.
  Write("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/addr_unit", "33554432\n");
  PutRegion("0", 0, 16);
  PutRegion("0", 32, 48, "1");
  EXPECT_THAT(Find()->text, HasSubstr("at most 3.12 % of"));
  PutRegion("0", 16, 16);
  EXPECT_FALSE(Find()->is_harmless) << "an empty range";
  EXPECT_THAT(Find()->text, EndsWith("clears accessed bits"));
}

// Of 4 000 resident pages 20 are cleared in a second.
TEST_F(OtherClearers, AreJudgedByTheResidentMemoryOfTheProcessThatTheyWatch) {
  PutProcess("4711", "4000");
  PutDamon("77", "vaddr", "5000000", "100", "0", "4711");
  const auto found = Find();
  EXPECT_TRUE(found->is_harmless);
  EXPECT_THAT(found->text, HasSubstr("at most 0.5 % of"));
  // A range of 400 pages.
  PutRegion("0", 4096, 401 * 4096);
  EXPECT_THAT(Find()->text, HasSubstr("at most 5 % of"));
}

TEST_F(OtherClearers, AddWhatWatchesAProcessToWhatWatchesTheMachine) {
  PutProcess("4711", "4000");
  PutProcess("4712", "4000");
  PutDamon("77", "vaddr", "5000000", "100", "0", "4711");
  PutDamon("78", "vaddr", "5000000", "100", "1", "4712");
  EXPECT_THAT(Find()->text, HasSubstr("at most 0.5 % of")) << "two processes";
  PutDamon("79", "paddr", "1000000", "8192", "2");
  EXPECT_THAT(Find()->text, HasSubstr("at most 1.28 % of"));
}

TEST_F(OtherClearers, NameTheWorst) {
  PutDamon("77", "paddr", "1000000", "8192");
  Write("proc/78/comm", "kdamond.1\n");
  const auto found = Find();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_harmless) << "nothing is known of the one that the kernel started";
  EXPECT_THAT(found->text, HasSubstr("kdamond.1"));
  EXPECT_EQ(found->how_to_stop, "");
}

TEST_F(OtherClearers, AreTheLruWhereItIsEnabled) {
  Write("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
  EXPECT_THAT(Find()->text, HasSubstr("multi-generational LRU"));
  EXPECT_EQ(Find()->how_to_stop, "echo n > /sys/kernel/mm/lru_gen/enabled");
  Write("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
  EXPECT_FALSE(Find());
}

}  // namespace other_clearers_test
}  // namespace tmprof::abit
