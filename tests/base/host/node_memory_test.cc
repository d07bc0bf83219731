// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace tmprof {
namespace node_memory_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReadNodeMemoryTest : public testing::Test {
 protected:
  Result<std::vector<NodeMemory>> ReadFrom(const std::string& text) const {
    std::ofstream(file_) << text;
    return ReadNodeMemory(file_);
  }
  void TearDown() override { fs::remove(file_); }

  fs::path file_ =
      fs::path(testing::TempDir()) /
      ("zoneinfo." + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

// Prints a zone in the form of mm/vmstat.c, with unused lines before and behind.
std::string Zone(int node, const std::string& name, int free, int high, int managed,
                 const std::string& protection) {
  std::string text =
      "Node " + std::to_string(node) + ", zone " + std::string(8 - name.size(), ' ') + name + "\n";
  text += "  per-node stats\n      nr_inactive_anon 1\n";
  text += "  pages free     " + std::to_string(free) + "\n        boost    0\n        min      7\n";
  text += "        high     " + std::to_string(high) +
          "\n        spanned  9999\n        present  9998\n";
  text += "        managed  " + std::to_string(managed) + "\n        cma      0\n";
  text += "        protection: (" + protection + ")\n      nr_free_pages 1\n";
  text += "  pagesets\n    cpu: 0\n              count:    5\n              high:     55\n";
  return text;
}

TEST_F(ReadNodeMemoryTest, CountsWhatProgramsMayStillHave) {
  const auto nodes = ReadFrom(Zone(0, "DMA", 3712, 175, 3840, "0, 991, 991, 991, 991") +
                              Zone(0, "DMA32", 20000, 5000, 250000, "0, 0, 0, 0, 0") +
                              Zone(0, "Movable", 0, 32, 0, "0, 0, 0, 0, 0") +
                              Zone(3, "Normal", 500, 100, 1000, "0, 0, 0, 0, 0") +
                              Zone(3, "Movable", 40, 10, 50, "0, 0, 0, 0, 0"));
  ASSERT_TRUE(nodes) << nodes.error().Message();
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ((*nodes)[0].id, NodeId(0));
  EXPECT_EQ((*nodes)[0].free, PageCount(3712 + 20000));
  EXPECT_EQ((*nodes)[0].allocatable, PageCount(3712 - 175 - 991 + 20000 - 5000));
  EXPECT_EQ((*nodes)[1].id, NodeId(3));
  EXPECT_EQ((*nodes)[1].free, PageCount(540));
  EXPECT_EQ((*nodes)[1].allocatable, PageCount(500 - 100 + 40 - 10));
}

TEST_F(ReadNodeMemoryTest, AZoneThatOthersAreSparedByGivesNothing) {
  const auto nodes = ReadFrom(Zone(0, "DMA32", 400'000, 2'000, 400'000, "0, 0, 500000, 500000") +
                              Zone(0, "Normal", 90, 100, 1'000'000, "0, 0, 0, 0") +
                              Zone(0, "Movable", 0, 0, 0, "0, 0, 0, 0"));
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->front().free, PageCount(400'090));
  EXPECT_EQ(nodes->front().allocatable, PageCount(0));
}

// The highest zone that programs' requests may be served from counts, whatever its number is.
TEST_F(ReadNodeMemoryTest, TheReserveIsThatOfRequestsForMovableMemory) {
  const auto nodes = ReadFrom(Zone(0, "DMA", 1000, 100, 2000, "0, 1, 20, 300, 500") +
                              Zone(0, "DMA32", 0, 0, 0, "0, 0, 20, 300, 500") +
                              Zone(0, "Normal", 0, 10, 100, "0, 0, 0, 300, 500") +
                              Zone(0, "Movable", 0, 10, 100, "0, 0, 0, 0, 0"));
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->front().allocatable, PageCount(1000 - 100 - 300));
}

TEST_F(ReadNodeMemoryTest, AMissingValueIsNotZero) {
  for (const std::string field : {"pages free", "  high ", "protection:"}) {
    std::string text =
        Zone(2, "Normal", 500, 100, 1000, "0, 0") + Zone(2, "Movable", 0, 0, 0, "0, 0");
    const std::size_t at = text.find(field);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, field.size(), "  another ");
    EXPECT_THAT(ReadFrom(text).error().Message(), HasSubstr("zone Normal of node 2")) << field;
  }
}

TEST_F(ReadNodeMemoryTest, NodesWithoutMemoryAndDevicesAreNoPlace) {
  const auto nodes =
      ReadFrom(Zone(0, "Normal", 50, 10, 100, "0, 0, 0") + Zone(1, "Normal", 0, 0, 0, "0, 0, 0") +
               Zone(2, "Device", 50, 0, 100, "0, 0, 0"));
  ASSERT_TRUE(nodes);
  ASSERT_EQ(nodes->size(), 1U);
  EXPECT_EQ(nodes->front().allocatable, PageCount(40));
}

TEST_F(ReadNodeMemoryTest, RefusesTextThatSaysNothing) {
  EXPECT_THAT(ReadFrom("").error().Message(), HasSubstr("no zone"));
  EXPECT_THAT(ReadNodeMemory(file_.parent_path() / "none").error().Message(), HasSubstr("none"));
}

TEST(ReadNodeMemoryHere, TheRunningKernelIsUnderstood) {
  const auto nodes = ReadNodeMemory();
  ASSERT_TRUE(nodes) << nodes.error().Message();
  for (const NodeMemory& node : *nodes) {
    const fs::path folder = "/sys/devices/system/node/node" + std::to_string(node.id.value());
    std::ifstream meminfo(folder / "meminfo");
    if (!meminfo) GTEST_SKIP() << "no " << folder;
    double free_kib = -1;
    for (std::string word; meminfo >> word;) {
      if (word == "MemFree:") meminfo >> free_kib;
    }
    // Other programs run meanwhile.
    EXPECT_NEAR(static_cast<double>(node.free.value()) * 4, free_kib, 0.2 * free_kib + 65'536);
    EXPECT_LE(node.allocatable, node.free);
  }
}

}  // namespace node_memory_test
}  // namespace tmprof
