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
  // A kernel thread of DAMON that an administrator has set up.
  void PutDamon(const std::string& pid, const std::string& operations, const std::string& sample_us,
                const std::string& regions) {
    Write("proc/" + pid + "/comm", "kdamond.0\n");
    const std::string folder = "sys/kernel/mm/damon/admin/kdamonds/0/";
    Write(folder + "pid", pid + "\n");
    Write(folder + "contexts/nr_contexts", "1\n");
    Write(folder + "contexts/0/operations", operations + "\n");
    Write(folder + "contexts/0/monitoring_attrs/intervals/sample_us", sample_us + "\n");
    Write(folder + "contexts/0/monitoring_attrs/nr_regions/max", regions + "\n");
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
  EXPECT_EQ(found->text,
            "DAMON is running (kdamond.0) and clears accessed bits: at most 1.56 % of all pages a "
            "second");
  EXPECT_EQ(found->how_to_stop, "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state");
}

TEST_F(OtherClearers, AreHarmlessWhereTheyClearLess) {
  PutDamon("77", "paddr", "1000000", "8192");
  const auto found = Find();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_harmless);
  EXPECT_THAT(found->text, EndsWith("at most 0.781 % of all pages a second"));
}

TEST_F(OtherClearers, AreHarmfulWhereTheirPaceIsUnknown) {
  PutDamon("77", "vaddr", "1000000", "8192");
  EXPECT_FALSE(Find()->is_harmless) << "the observed processes may be small";
  PutDamon("77", "paddr", "0", "8192");
  EXPECT_FALSE(Find()->is_harmless);
  PutDamon("77", "paddr", "1000000", "many");
  EXPECT_FALSE(Find()->is_harmless);
  PutDamon("77", "paddr", "1000000", "8192");
  EXPECT_TRUE(Find()->is_harmless);
  Write("proc/meminfo", "MemFree: 1 kB\n");
  EXPECT_FALSE(Find()->is_harmless);
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
