// SPDX-License-Identifier: Apache-2.0
// The graph and the search of Graph500 (specification 2.1: graph500.org): a Kronecker graph of
// 2^scale vertices and edge_factor × 2^scale edges, and breadth-first searches from sampled roots.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "testbed/workloads/computation.h"
#include "testbed/workloads/pattern.h"
#include "testbed/workloads/truth.h"

namespace tmprof::workload {

struct GraphSize {
  std::uint64_t scale = 0;  // log2 of the vertices, from 4 to 31
  std::uint64_t edge_factor = 0;

  std::uint64_t vertices() const { return std::uint64_t{1} << scale; }
  std::uint64_t edges() const { return edge_factor << scale; }
};

// The edges in an order that depends on the seed alone, without a list of them: per level of the
// adjacency matrix a quadrant is drawn with A = .57, B = .19, C = .19, and D = .05; vertices are
// relabelled by a shuffle. Multiple edges and loops occur, as the specification allows.
class KroneckerEdges {
 public:
  KroneckerEdges(const GraphSize& size, std::uint64_t seed)
      : size_(size), seed_(seed), relabel_(size.vertices(), seed) {}

  // visit(u, v) for each.
  template <typename Visit>
  void ForEach(Visit visit) const {
    Random random(Random::Mix(seed_));
    for (std::uint64_t edge = 0; edge < size_.edges(); ++edge) {
      const auto [u, v] = Draw(random);
      visit(u, v);
    }
  }

 private:
  std::pair<std::uint32_t, std::uint32_t> Draw(Random& random) const;

  GraphSize size_;
  std::uint64_t seed_;
  Shuffle relabel_;
};

// Compressed sparse rows: each edge stands at both its ends, loops are left out.
class CsrGraph {
 public:
  static std::uint64_t Bytes(const GraphSize& size);

  CsrGraph(Arena& arena, const GraphSize& size, const KroneckerEdges& edges);

  std::uint64_t vertices() const { return starts_.size() - 1; }
  std::span<const std::uint32_t> NeighboursOf(std::uint32_t vertex) const {
    return neighbours_.subspan(starts_[vertex], starts_[vertex + 1] - starts_[vertex]);
  }
  // The accesses of NeighboursOf() and to all that it gives.
  void CountRow(std::uint32_t vertex, PageCounts& counts) const;

 private:
  std::span<std::uint64_t> starts_;
  std::span<std::uint32_t> neighbours_;
};

// Up to `most` different vertices with an edge, at random.
std::vector<std::uint32_t> SampleRoots(const CsrGraph& graph, std::uint64_t most,
                                       std::uint64_t seed);

// Top-down searches, one after another, in steps.
class BreadthFirstSearch {
 public:
  static constexpr std::uint32_t kUnreached = ~std::uint32_t{0};

  static std::uint64_t Bytes(std::uint64_t vertices);

  BreadthFirstSearch(Arena& arena, const CsrGraph& graph);

  void Start(std::uint32_t root);
  // Goes on for a few thousand edges. Adds the elements it accessed to `accesses`; false once the
  // search is complete.
  bool Step(std::uint64_t& accesses);

  // Adds the accesses of a complete search, as told by Step(), by page.
  void Count(PageCounts& counts) const;

  // Each vertex's parent in the tree of a complete search, a root being its own.
  std::span<const std::uint32_t> parents() const { return parents_; }
  // Edges between reached vertices, multiple ones counted each time, loops not.
  std::uint64_t traversed_edges() const { return scanned_ / 2; }
  // CPU time of the calling thread without that of forgetting the search before, which Graph500
  // does not time, either.
  std::chrono::nanoseconds cpu_time() const { return cpu_time_; }

 private:
  const CsrGraph& graph_;
  std::span<std::uint32_t> parents_;
  std::span<std::uint32_t> queue_;
  std::uint32_t root_ = 0;
  std::uint64_t forgotten_ = 0;  // parents reset so far
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t scanned_ = 0;
  std::chrono::nanoseconds cpu_time_{0};
};

}  // namespace tmprof::workload
