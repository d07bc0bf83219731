// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/kronecker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "testbed/workloads/memory.h"

namespace tmprof::workload {
namespace kronecker_test {

constexpr GraphSize kSize = {.scale = 10, .edge_factor = 4};

using EdgeList = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

EdgeList ListOf(const KroneckerEdges& edges) {
  EdgeList list;
  edges.ForEach([&list](std::uint32_t u, std::uint32_t v) { list.emplace_back(u, v); });
  return list;
}

class Graph : public testing::Test {
 protected:
  KroneckerEdges edges_{kSize, 5};
  Memory memory_ =
      *Memory::Map(CsrGraph::Bytes(kSize) + BreadthFirstSearch::Bytes(kSize.vertices()), false);
  Arena arena_{memory_.words()};
  CsrGraph graph_{arena_, kSize, edges_};
};

TEST_F(Graph, HoldsEachEdgeAtBothEndsAndNoLoop) {
  std::map<std::uint32_t, std::multiset<std::uint32_t>> expected;
  for (const auto& [u, v] : ListOf(edges_)) {
    if (u == v) continue;
    expected[u].insert(v);
    expected[v].insert(u);
  }
  for (std::uint32_t vertex = 0; vertex < kSize.vertices(); ++vertex) {
    const auto neighbours = graph_.NeighboursOf(vertex);
    EXPECT_EQ(std::multiset<std::uint32_t>(neighbours.begin(), neighbours.end()), expected[vertex]);
  }
}

// Rounds over the whole edge list, each of which reaches one level more (Bellman and Ford).
std::vector<std::optional<int>> NaiveLevels(const EdgeList& edges, std::uint32_t root) {
  std::vector<std::optional<int>> levels(kSize.vertices());
  levels[root] = 0;
  for (int level = 0; std::ranges::count(levels, std::optional(level)) > 0; ++level) {
    for (const auto& [u, v] : edges) {
      for (const auto& [from, to] : {std::pair(u, v), std::pair(v, u)}) {
        if (levels[from] == level && !levels[to]) levels[to] = level + 1;
      }
    }
  }
  return levels;
}

TEST_F(Graph, SearchesGiveEachVertexAParentOneLevelUp) {
  const EdgeList edges = ListOf(edges_);
  BreadthFirstSearch search(arena_, graph_);
  for (const std::uint32_t root : SampleRoots(graph_, 3, 9)) {
    search.Start(root);
    for (std::uint64_t accesses = 0; search.Step(accesses);) {
    }
    const auto levels = NaiveLevels(edges, root);
    std::uint64_t traversed = 0;
    for (const auto& [u, v] : edges) traversed += u != v && levels[u].has_value();
    EXPECT_EQ(search.traversed_edges(), traversed);
    EXPECT_EQ(search.parents()[root], root);
    for (std::uint32_t vertex = 0; vertex < kSize.vertices(); ++vertex) {
      const std::uint32_t parent = search.parents()[vertex];
      ASSERT_EQ(parent == BreadthFirstSearch::kUnreached, !levels[vertex].has_value()) << vertex;
      if (parent == BreadthFirstSearch::kUnreached || vertex == root) continue;
      EXPECT_EQ(*levels[parent] + 1, *levels[vertex]) << vertex;
      EXPECT_GT(std::ranges::count(graph_.NeighboursOf(vertex), parent), 0) << vertex;
    }
  }
}

TEST_F(Graph, SearchesAccessEachPageAsOftenAsTheySayInAll) {
  BreadthFirstSearch search(arena_, graph_);
  for (const std::uint32_t root : SampleRoots(graph_, 3, 9)) {
    std::uint64_t accesses = 0;
    search.Start(root);
    while (search.Step(accesses)) {
    }
    PageCounts counts(memory_.start_address(), memory_.footprint_bytes());
    search.Count(counts);
    EXPECT_EQ(counts.total(), accesses);
  }
}

TEST_F(Graph, RootsDifferAndHaveEdges) {
  const auto roots = SampleRoots(graph_, 64, 1);
  EXPECT_EQ(std::set<std::uint32_t>(roots.begin(), roots.end()).size(), 64u);
  for (const std::uint32_t root : roots) EXPECT_FALSE(graph_.NeighboursOf(root).empty());
  EXPECT_NE(roots, SampleRoots(graph_, 64, 2));
}

TEST(KroneckerEdges, FallIntoTheQuadrantsAsGraph500Says) {
  // Relabelling hides the quadrants, but the chance of a loop is that of A or D at each level.
  const GraphSize size = {.scale = 6, .edge_factor = 1 << 14};
  double loops = 0;
  std::map<std::uint32_t, double> out_edges;
  KroneckerEdges(size, 1).ForEach([&](std::uint32_t u, std::uint32_t v) {
    loops += u == v;
    ++out_edges[u];
  });
  const auto edges = static_cast<double>(size.edges());
  const double expected = std::pow(.57 + .05, 6);
  EXPECT_NEAR(loops / edges, expected, 6 * std::sqrt(expected / edges));
  // The vertex in the upper half at every level: A or B.
  const double most = std::pow(.57 + .19, 6);
  double found = 0;
  for (const auto& [vertex, count] : out_edges) found = std::max(found, count);
  EXPECT_NEAR(found / edges, most, 6 * std::sqrt(most / edges));
}

TEST(KroneckerEdges, AreTheSameForTheSameSeedAlone) {
  EXPECT_EQ(ListOf({kSize, 3}), ListOf({kSize, 3}));
  EXPECT_NE(ListOf({kSize, 3}), ListOf({kSize, 4}));
}

}  // namespace kronecker_test
}  // namespace tmprof::workload
