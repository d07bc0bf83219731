// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/analysis/hot.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace nodes_test {

constexpr NodesOptions kSum{.model = RankModel::kSum};

// Three of four references from node 0, then two of two from node 1; one page is nowhere.
Trace TwoNodes() {
  EpochProfile first = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(first, 0,
      {{.vpn = 1, .looks = 9, .references = 3},
       {.vpn = 2, .looks = 9, .references = 1},
       {.vpn = 3, .looks = 9}});
  first.pages.node = {NodeId(0), NodeId(1), NodeId(7)};
  EpochProfile second = MakeEpoch(1, {MakeTarget(0, 10, "t")});
  See(second, 0, {{.vpn = 1, .looks = 9, .references = 2}, {.vpn = 8, .loads = 2, .span = 512}});
  second.pages.node = {NodeId(1), std::nullopt};
  return TraceOf({first, second});
}

TEST(NodesTest, SharesOutTheScoreByEpochAndInAll) {
  const Result<NodesOverTime> nodes = MakeNodes(TwoNodes(), kSum);
  ASSERT_TRUE(nodes.has_value());
  // Node 7 has a page, but no score.
  EXPECT_THAT(nodes->nodes, testing::ElementsAre(NodeId(0), NodeId(1), std::nullopt));
  ASSERT_EQ(nodes->rows.size(), 2u);
  EXPECT_EQ(nodes->rows[0].Share(0), 0.75);
  EXPECT_EQ(nodes->rows[0].Share(1), 0.25);
  EXPECT_EQ(nodes->rows[0].Share(2), 0.0);
  EXPECT_EQ(nodes->rows[1].Share(0), 0.0);
  EXPECT_EQ(nodes->rows[1].Share(1), 0.5);
  EXPECT_EQ(nodes->rows[1].Share(2), 0.5);
  EXPECT_EQ(nodes->rows[1].nodes[2].page_epochs, 512);
  EXPECT_EQ(nodes->all.score, 8);
  EXPECT_EQ(nodes->all.Share(1), 3.0 / 8);
  EXPECT_EQ(nodes->all.nodes[1].page_epochs, 2);
}

TEST(NodesTest, IsATableInText) {
  EXPECT_EQ(
      NodesText(*MakeNodes(TwoNodes(), kSum)),
      "share of the references + samples by the NUMA node that held the page, by accesses "
      "(combined)\n"
      "epoch  seconds  references + samples  node 0  node 1  node unknown\n"
      "    0      1.0                     4  75.0 %  25.0 %         0.0 %\n"
      "    1      1.0                     4   0.0 %  50.0 %        50.0 %\n"
      "  all      2.0                     8  37.5 %  37.5 %        25.0 %\n"
      "note: all accesses count because those to memory are unknown: rank model sum estimates "
      "no rates\n");
}

// Page 1 is looked at in every other epoch, and moves; page 2 is resolved in the last one only.
Trace PageMovesAndPageIsResolvedLate() {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 4; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    if (e == 0 || e == 2) See(epochs[e], 0, {{.vpn = 1, .looks = 9, .references = 3}});
    if (e == 3) See(epochs[e], 0, {{.vpn = 2, .looks = 9, .references = 3}});
  }
  epochs[0].pages.node = {NodeId(0)};
  epochs[2].pages.node = {NodeId(1)};
  epochs[3].pages.node = {NodeId(2)};
  return TraceOf(epochs);
}

TEST(NodesTest, TakesAPageThatIsNotResolvedToBeWhereItLastWasOrFirstIs) {
  const Result<NodesOverTime> nodes = MakeNodes(PageMovesAndPageIsResolvedLate(), {});
  ASSERT_TRUE(nodes.has_value());
  ASSERT_THAT(nodes->nodes, testing::ElementsAre(NodeId(0), NodeId(1), NodeId(2)));
  for (const std::size_t e : {0, 1, 2, 3}) {
    EXPECT_EQ(nodes->rows[e].Share(e < 2 ? 1 : 0), 0.0) << e;
    EXPECT_GT(*nodes->rows[e].Share(e < 2 ? 0 : 1), 0.1) << e;
    EXPECT_GT(*nodes->rows[e].Share(2), 0.1) << e;
  }
}

TEST(NodesTest, CountsPagesSeenInAnEpochApartFromThoseEstimatedInIt) {
  const Result<NodesOverTime> nodes = MakeNodes(PageMovesAndPageIsResolvedLate(), {});
  ASSERT_TRUE(nodes.has_value());
  const std::vector<std::vector<double>> seen = {{1, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const std::vector<std::vector<double>> estimated = {{1, 0, 1}, {1, 0, 1}, {0, 1, 1}, {0, 1, 1}};
  const auto json = nlohmann::json::parse(NodesJson(*nodes));
  for (std::size_t e = 0; e < 4; ++e) {
    for (std::size_t node = 0; node < 3; ++node) {
      const auto& served = json["epochs"][e]["nodes"][node];
      EXPECT_EQ(served["page_epochs"], seen[e][node]) << e << " " << node;
      EXPECT_EQ(served["estimated_page_epochs"], estimated[e][node]) << e << " " << node;
    }
  }
}

TEST(NodesTest, CountsNoPageOfATargetThatDidNotRun) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 2; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    See(epochs[e], 0, {{.vpn = 1, .looks = 9, .references = 3}});
  }
  epochs[1].targets[0].cpu_time = std::chrono::seconds(0);
  const Result<NodesOverTime> nodes = MakeNodes(TraceOf(epochs), {});
  ASSERT_TRUE(nodes.has_value());
  EXPECT_EQ(nodes->rows[0].nodes[0].page_epochs, 1);
  EXPECT_EQ(nodes->rows[1].nodes[0].page_epochs, 0);
  EXPECT_EQ(nodes->rows[1].nodes[0].estimated_page_epochs, 0);
}

// Each of 40 pages is looked at in every fourth epoch; half of them cool down at half time, and
// every fifth moves then. Two targets.
TEST(NodesTest, AddsUpToTheHotListWherePagesMoveAndRatesChange) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 64; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t"), MakeTarget(1, 11, "u")}));
    for (const std::uint32_t target : {0u, 1u}) {
      for (std::uint64_t vpn = e % 4; vpn < 40; vpn += 4) {
        const bool hot = vpn >= 20 && e < 32;
        See(epochs[e], target, {{.vpn = vpn, .looks = 9, .references = hot ? 9u : 0u}});
        epochs[e].pages.node.back() = NodeId(vpn % 5 == 0 && e >= 32 ? 1 : 0);
      }
    }
  }
  const Trace trace = TraceOf(epochs);
  for (const std::optional<Pid> pid : {std::optional<Pid>(), std::optional(Pid(11))}) {
    const Result<NodesOverTime> nodes = MakeNodes(trace, {.pid = pid});
    const Result<HotList> hot = MakeHotList(trace, {.pid = pid});
    ASSERT_TRUE(nodes && hot);
    EXPECT_NEAR(nodes->all.score, hot->total_score, 1e-5 * hot->total_score);
    EXPECT_EQ(nodes->rows[31].Share(1), 0.0);
    EXPECT_GT(*nodes->rows[63].Share(1), 0.0);
  }
}

TEST(NodesTest, DoesNotKnowAShareOfNothing) {
  const Result<NodesOverTime> nodes =
      MakeNodes(TwoNodes(), {.model = RankModel::kSum, .by = RankSource::kSamples});
  ASSERT_TRUE(nodes.has_value());
  EXPECT_THAT(nodes->nodes, testing::ElementsAre(std::nullopt));
  EXPECT_EQ(nodes->rows[0].Share(0), std::nullopt);
  const auto json = nlohmann::json::parse(NodesJson(*nodes));
  EXPECT_TRUE(json["epochs"][0]["nodes"][0]["share"].is_null());
  EXPECT_EQ(json["epochs"][1]["nodes"][0]["share"], 1.0);
  EXPECT_TRUE(json["all"][0]["node"].is_null());
}

TEST(NodesTest, IsOneLinePerEpochAndNodeInCsv) {
  EXPECT_THAT(
      NodesCsv(*MakeNodes(TwoNodes(), kSum)),
      testing::StartsWith("epoch,start_s,end_s,node,score,share,page_epochs,estimated_page_epochs\n"
                          "0,0,1,0,3,0.75,1,1\n"
                          "0,0,1,1,1,0.25,1,1\n"
                          "0,0,1,,0,0,0,0\n"));
}

TEST(NodesTest, IsOfOneTargetWhereAsked) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t"), MakeTarget(1, 11, "u")});
  See(epoch, 0, {{.vpn = 1, .looks = 9, .references = 3}});
  See(epoch, 1, {{.vpn = 1, .looks = 9, .references = 1}});
  epoch.pages.node = {NodeId(0), NodeId(1)};
  NodesOptions options = kSum;
  options.pid = Pid(11);
  const Result<NodesOverTime> nodes = MakeNodes(TraceOf({epoch}), options);
  ASSERT_TRUE(nodes.has_value());
  EXPECT_THAT(nodes->nodes, testing::ElementsAre(NodeId(1)));
  EXPECT_EQ(nodes->all.score, 1);
  EXPECT_EQ(nlohmann::json::parse(NodesJson(*nodes))["pid"], 11);
  EXPECT_THAT(NodesText(*nodes), testing::HasSubstr("by accesses (references), of PID 11\n"));
}

TEST(NodesTest, RefusesMissesThatNobodyCounted) {
  const auto nodes = MakeNodes(TwoNodes(), {.by = RankSource::kMisses});
  ASSERT_FALSE(nodes.has_value());
  EXPECT_THAT(nodes.error().Message(),
              testing::HasSubstr("share accesses out among nodes by misses"));
}

}  // namespace nodes_test
}  // namespace tmprof
