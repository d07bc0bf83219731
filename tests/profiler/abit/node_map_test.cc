// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/node_map.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tmprof::abit {
namespace node_map_test {

// A folder tree like /sys, removed at the end.
class NodeMapTest : public ::testing::Test {
 protected:
  NodeMapTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "node_map_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(root_ / "devices/system/memory");
  }
  ~NodeMapTest() override { std::filesystem::remove_all(root_); }

  void BlockSize(const std::string& hexadecimal) {
    std::ofstream(root_ / "devices/system/memory/block_size_bytes") << hexadecimal << '\n';
  }
  void Add(const std::string& entry) {
    std::filesystem::create_directories(root_ / "devices/system/node" / entry);
  }

  std::filesystem::path root_;
};

TEST_F(NodeMapTest, TheOnlyNodeHoldsEveryFrame) {
  Add("node0");
  const NodeMap nodes(root_);
  EXPECT_EQ(nodes.NodeOf(0), NodeId(0));
  EXPECT_EQ(nodes.NodeOf(123'456'789), NodeId(0));
}

TEST_F(NodeMapTest, AFrameBelongsToTheNodeOfItsMemoryBlock) {
  BlockSize("8000000");  // 128 MiB: 32 768 frames
  Add("node0/memory0");
  Add("node0/memory1");
  Add("node1/memory2");
  Add("node1/cpu3");
  const NodeMap nodes(root_);
  EXPECT_EQ(nodes.NodeOf(0), NodeId(0));
  EXPECT_EQ(nodes.NodeOf(65'535), NodeId(0));
  EXPECT_EQ(nodes.NodeOf(65'536), NodeId(1));
  EXPECT_EQ(nodes.NodeOf(98'303), NodeId(1));
}

TEST_F(NodeMapTest, FramesThatAreNotKnownForSureAreUnknown) {
  BlockSize("8000000");
  Add("node0/memory0");
  Add("node1/memory0");  // spans both
  Add("node1/memory1");
  const NodeMap nodes(root_);
  EXPECT_EQ(nodes.NodeOf(0), std::nullopt);
  EXPECT_EQ(nodes.NodeOf(65'536), std::nullopt) << "no such block";
  EXPECT_EQ(NodeMap(root_ / "nothing").NodeOf(0), std::nullopt);
}

}  // namespace node_map_test
}  // namespace tmprof::abit
