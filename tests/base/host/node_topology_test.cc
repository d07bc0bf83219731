// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tmprof {
namespace node_topology_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class NodeTopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / "node_topology" / test->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }

  // Prints a node in the form of drivers/base/node.c.
  void AddNode(int id, std::uint64_t total_kib, std::uint64_t free_kib, const std::string& cpus,
               const std::string& distance) {
    const std::string node = "system/node/node" + std::to_string(id);
    const std::string prefix = "Node " + std::to_string(id);
    Write(node + "/meminfo", prefix + " MemTotal:       " + std::to_string(total_kib) + " kB\n" +
                                 prefix + " MemFree:        " + std::to_string(free_kib) + " kB\n" +
                                 prefix + " MemUsed:        1 kB");
    Write(node + "/cpulist", cpus);
    Write(node + "/distance", distance);
  }
  void SetLatency(int id, int ns) {
    Write("system/node/node" + std::to_string(id) + "/access0/initiators/read_latency",
          std::to_string(ns));
  }
  DiscoveredTiers Discover() { return DiscoverTiers(ReadNodeTopology(root_).value()).value(); }

  fs::path root_;
};

std::vector<NodeId> NodesOf(const Tiers& tiers, std::uint8_t tier) {
  const std::span<const NodeId> nodes = tiers.NodesOf(Tier(tier));
  return {nodes.begin(), nodes.end()};
}

TEST_F(NodeTopologyTest, ReadsWhatEachNodeSays) {
  AddNode(0, 4096, 1024, "0-1", "10 20");
  AddNode(1, 8192, 8000, "", "20 10");
  SetLatency(1, 250);
  Write("system/node/has_cpu", "0");
  const NodeTopology topology = ReadNodeTopology(root_).value();
  ASSERT_EQ(topology.nodes.size(), 2U);
  const MemoryNode& first = topology.nodes[0];
  EXPECT_EQ(first.id, NodeId(0));
  EXPECT_TRUE(first.has_cpus);
  EXPECT_EQ(first.total, PageCount(1024));
  EXPECT_EQ(first.read_latency, std::nullopt) << "not told is not 0";
  EXPECT_THAT(first.distance, ElementsAre(Pair(NodeId(0), 10), Pair(NodeId(1), 20)));
  EXPECT_FALSE(topology.nodes[1].has_cpus);
  EXPECT_EQ(topology.nodes[1].read_latency, std::chrono::nanoseconds(250));
  EXPECT_THAT(topology.tiers, IsEmpty());
}

TEST_F(NodeTopologyTest, TiersHaveTheMeanLatencyOfTheirNodes) {
  AddNode(0, 4096, 1024, "0", "10 20 20 20");
  AddNode(1, 4096, 1024, "", "20 10 20 20");
  AddNode(2, 4096, 1024, "", "20 20 10 20");
  AddNode(3, 4096, 1024, "", "20 20 20 10");
  SetLatency(0, 80);
  SetLatency(1, 240);
  SetLatency(2, 260);
  const NodeTopology topology = ReadNodeTopology(root_).value();
  EXPECT_THAT(LatenciesOf(topology, {{NodeId(0)}, {NodeId(1), NodeId(2)}}), ElementsAre(80, 250));
  EXPECT_THAT(LatenciesOf(topology, {{NodeId(0)}, {NodeId(1), NodeId(3)}, {NodeId(9)}}),
              ElementsAre(80, std::nullopt, std::nullopt))
      << "node 3 does not tell, and there is no node 9";
  EXPECT_THAT(LatenciesOf(topology, {{}}), ElementsAre(std::nullopt)) << "a tier without nodes";
}

TEST_F(NodeTopologyTest, NodesWithoutMemoryAreNoPlace) {
  AddNode(0, 4096, 1024, "0", "10 20 30");
  AddNode(1, 0, 0, "1", "20 10 30");
  AddNode(2, 4096, 4096, "", "30 15 10");
  const NodeTopology topology = ReadNodeTopology(root_).value();
  ASSERT_EQ(topology.nodes.size(), 2U);
  EXPECT_EQ(topology.nodes[1].distance.at(NodeId(1)), 15U) << "it keeps its place in the row";
}

TEST_F(NodeTopologyTest, AKernelWithoutNodesIsRefused) {
  EXPECT_THAT(ReadNodeTopology(root_).error().Message(), HasSubstr("system/node"));
}

TEST_F(NodeTopologyTest, TheKernelsTiersComeFirst) {
  AddNode(0, 4096, 0, "0", "10 10 10");
  AddNode(1, 4096, 0, "1", "10 10 10");
  AddNode(2, 4096, 0, "", "10 10 10");
  SetLatency(0, 300);
  SetLatency(1, 80);
  SetLatency(2, 80);
  Write("virtual/memory_tiering/memory_tier22/nodelist", "2");
  Write("virtual/memory_tiering/memory_tier4/nodelist", "0-1");
  Write("virtual/memory_tiering/uevent", "");
  const DiscoveredTiers found = Discover();
  EXPECT_EQ(found.evidence, "the kernel's memory tiers");
  EXPECT_THAT(NodesOf(found.tiers, 1), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_THAT(NodesOf(found.tiers, 2), ElementsAre(NodeId(2)));
}

TEST_F(NodeTopologyTest, ASingleTierOfTheKernelsSaysNothing) {
  AddNode(0, 4096, 0, "0", "10 20");
  AddNode(1, 4096, 0, "", "20 10");
  SetLatency(0, 250);
  SetLatency(1, 80);
  Write("virtual/memory_tiering/memory_tier4/nodelist", "0-1");
  const DiscoveredTiers found = Discover();
  EXPECT_EQ(found.evidence, "the firmware's latencies");
  EXPECT_THAT(NodesOf(found.tiers, 1), ElementsAre(NodeId(1))) << "faster, though without CPUs";
}

TEST_F(NodeTopologyTest, MemoryOfOneClassIsOneTierAndNoMemoryIsNone) {
  EXPECT_THAT(NodesByTier({}), IsEmpty());
  AddNode(0, 4096, 0, "0", "10 21");
  AddNode(2, 4096, 0, "1", "21 10");
  EXPECT_THAT(NodesByTier(ReadNodeTopology(root_).value()),
              ElementsAre(ElementsAre(NodeId(0), NodeId(2))));
  Write("virtual/memory_tiering/memory_tier4/nodelist", "2");
  Write("virtual/memory_tiering/memory_tier22/nodelist", "0");
  EXPECT_THAT(NodesByTier(ReadNodeTopology(root_).value()),
              ElementsAre(ElementsAre(NodeId(2)), ElementsAre(NodeId(0))));
}

TEST_F(NodeTopologyTest, LatenciesThatDifferLittleAreOneClass) {
  AddNode(0, 4096, 0, "0", "10 20 20 20");
  AddNode(1, 4096, 0, "1", "20 10 20 20");
  AddNode(2, 4096, 0, "", "20 20 10 20");
  AddNode(3, 4096, 0, "", "20 20 20 10");
  SetLatency(0, 80);
  SetLatency(1, 100);
  SetLatency(2, 101);
  SetLatency(3, 200);
  const Tiers tiers = Discover().tiers;
  ASSERT_EQ(tiers.size(), 3U);
  EXPECT_THAT(NodesOf(tiers, 1), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_THAT(NodesOf(tiers, 2), ElementsAre(NodeId(2)));
}

TEST_F(NodeTopologyTest, WithoutLatenciesNodesWithCpusAreTheFastest) {
  AddNode(0, 4096, 0, "0", "10 21 17 28");
  AddNode(1, 4096, 0, "1", "21 10 28 17");
  AddNode(2, 4096, 0, "", "17 28 10 28");
  AddNode(3, 4096, 0, "", "28 24 28 10");
  SetLatency(0, 80);
  const DiscoveredTiers found = Discover();
  EXPECT_EQ(found.evidence, "CPUs and distances");
  ASSERT_EQ(found.tiers.size(), 3U);
  EXPECT_THAT(NodesOf(found.tiers, 1), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_THAT(NodesOf(found.tiers, 2), ElementsAre(NodeId(2)));
  EXPECT_THAT(NodesOf(found.tiers, 3), ElementsAre(NodeId(3)));
}

TEST_F(NodeTopologyTest, MemoryOfOneClassIsRefused) {
  AddNode(0, 4096, 0, "0", "10 21");
  AddNode(1, 4096, 0, "1", "21 10");
  const auto found = DiscoverTiers(ReadNodeTopology(root_).value());
  EXPECT_THAT(found.error().Message(), HasSubstr("all memory is of one class"));
}

}  // namespace node_topology_test
}  // namespace tmprof
