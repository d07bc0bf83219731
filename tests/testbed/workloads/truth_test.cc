// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/truth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tmprof::workload {
namespace truth_test {

using std::chrono_literals::operator""ns;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/truth_test.XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};
using AtomicFileTest = Folder;
using WriteTruthTest = Folder;

TEST(MergePhases, KeepsTheTimeThatAllThreadsSpentInAPhase) {
  const std::vector<PhaseRun> merged = MergePhases({
      {{.index = 0, .start = 100ns, .end = 200ns, .accesses = 5},
       {.index = 1, .start = 201ns, .end = 300ns, .accesses = 6}},
      {{.index = 0, .start = 110ns, .end = 190ns, .accesses = 7},
       {.index = 1, .start = 191ns, .end = 310ns, .accesses = 8}},
  });
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].start, 110ns);
  EXPECT_EQ(merged[0].end, 190ns);
  EXPECT_EQ(merged[0].accesses, 12u);
  EXPECT_EQ(merged[1].start, 201ns);
  EXPECT_EQ(merged[1].end, 300ns);
  EXPECT_EQ(merged[1].accesses, 14u);
}

TEST(MergePhases, DropsAPhaseThatSomeThreadNeverEnteredOrLeftTooEarly) {
  const std::vector<PhaseRun> merged = MergePhases({
      {{.index = 0, .start = 100ns, .end = 200ns, .accesses = 1},
       {.index = 1, .start = 200ns, .end = 210ns, .accesses = 1}},
      {{.index = 0, .start = 200ns, .end = 250ns, .accesses = 1}},
  });
  EXPECT_TRUE(merged.empty());
}

TEST_F(AtomicFileTest, AppearsUnderItsNameOnlyWhenCommitted) {
  const std::string path = folder_ + "/truth.json";
  auto file = AtomicFile::Open(path);
  ASSERT_TRUE(file) << file.error();
  std::fputs("whole", file->stream());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(Contents(path), "whole");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(AtomicFileTest, LeavesNothingBehindWhenDropped) {
  {
    const auto file = AtomicFile::Open(folder_ + "/truth.json");
    ASSERT_TRUE(file) << file.error();
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(AtomicFileTest, NamesTheFileAndTheErrorOfAFolderThatIsNotThere) {
  const auto file = AtomicFile::Open(folder_ + "/missing/truth.json");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().find("missing/truth.json"), std::string::npos) << file.error();
  EXPECT_NE(file.error().find("ENOENT"), std::string::npos) << file.error();
}

TEST_F(WriteTruthTest, WritesPhasesWithByteRangesWeightsAndCounts) {
  Pattern pattern = HotsetPattern(4, 1, 0.625);
  pattern.shuffled = false;
  const Heat heat(pattern, 1);
  const std::string path = folder_ + "/truth.json";
  auto file = AtomicFile::Open(path);
  ASSERT_TRUE(file) << file.error();
  WriteTruth(
      file->stream(), 42, 0x10000, 4096, heat,
      {{.index = 0, .start = 5ns, .end = 7ns, .accesses = 16, .span_accesses = {10, 3, 2, 1}},
       {.index = 3, .start = 7ns, .end = 9ns, .accesses = 8, .span_accesses = {}}});
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(Contents(path), R"({"pid":42,"phases":[
{"t_start_ns":5,"t_end_ns":7,"accesses":16,"ranges":[{"start":65536,"end":69632,"weight":0.625,"accesses":10},
{"start":69632,"end":81920,"weight":0.375,"accesses":6}]},
{"t_start_ns":7,"t_end_ns":9,"accesses":8,"ranges":[{"start":65536,"end":77824,"weight":0.375},
{"start":77824,"end":81920,"weight":0.625}]}
]}
)");
}

TEST_F(WriteTruthTest, WritesTheSharesOfMissesOfTheFirstPhase) {
  Pattern pattern = HotsetPattern(4, 1, 0.625);
  pattern.shuffled = false;
  const std::string path = folder_ + "/misses.json";
  auto file = AtomicFile::Open(path);
  ASSERT_TRUE(file) << file.error();
  WriteMissTruth(file->stream(), 42, 0x10000, 4096, Heat(pattern, 1), {0.25, 0.25}, 5ns, 7ns);
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(Contents(path), R"({"pid":42,"of":"misses","phases":[
{"t_start_ns":5,"t_end_ns":7,"accesses":0,"ranges":[{"start":65536,"end":69632,"weight":0.25},
{"start":69632,"end":81920,"weight":0.75}]}
]}
)");
}

TEST(PageCounts, JoinPagesThatAreAccessedAlike) {
  const Memory memory = *Memory::Map(4 * kBasePageBytes, false);
  const std::span<std::uint64_t> words(memory.words(), 4 * kBasePageBytes / 8);
  PageCounts counts(memory.start_address(), memory.footprint_bytes());
  counts.AddEach(words.first(kBasePageBytes / 4), 3);
  counts.Add(words[kBasePageBytes / 4], 1024);
  EXPECT_EQ(counts.total(), 4096u);
  const std::vector<SpanRange> ranges = counts.Ranges();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].end, 2u);
  EXPECT_EQ(ranges[0].weight, 0.75);
  EXPECT_EQ(ranges[1].start, 2u);
  EXPECT_EQ(ranges[1].weight, 0.25);
  EXPECT_EQ(ranges[2].end, 4u);
  EXPECT_EQ(ranges[2].weight, 0);
}

}  // namespace truth_test
}  // namespace tmprof::workload
