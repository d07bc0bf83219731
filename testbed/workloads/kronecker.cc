// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/kronecker.h"

#include <algorithm>
#include <numeric>

#include "testbed/workloads/timing.h"

namespace tmprof::workload {

std::pair<std::uint32_t, std::uint32_t> KroneckerEdges::Draw(Random& random) const {
  // Graph500 2.1, section 3.1, in units of 2^-32.
  constexpr auto kA = static_cast<std::uint64_t>(.57 * 0x1p32);
  constexpr auto kAb = static_cast<std::uint64_t>((.57 + .19) * 0x1p32);
  constexpr auto kAbc = static_cast<std::uint64_t>((.57 + .19 + .19) * 0x1p32);
  std::uint64_t u = 0;
  std::uint64_t v = 0;
  std::uint64_t bits = 0;
  for (std::uint64_t level = 0; level < size_.scale; ++level) {
    bits = level % 2 == 0 ? random.Next() : bits >> 32;
    const std::uint64_t quadrant = bits & 0xffffffff;
    const std::uint64_t lower = quadrant >= kAb ? 1 : 0;
    const std::uint64_t right = (quadrant >= kA ? 1 : 0) ^ lower ^ (quadrant >= kAbc ? 1 : 0);
    u = u << 1 | lower;
    v = v << 1 | right;
  }
  return {static_cast<std::uint32_t>(relabel_(u)), static_cast<std::uint32_t>(relabel_(v))};
}

std::uint64_t CsrGraph::Bytes(const GraphSize& size) {
  return ArrayBytes<std::uint64_t>(size.vertices() + 1) +
         ArrayBytes<std::uint32_t>(2 * size.edges());
}

CsrGraph::CsrGraph(Arena& arena, const GraphSize& size, const KroneckerEdges& edges)
    : starts_(arena.Take<std::uint64_t>(size.vertices() + 1)),
      neighbours_(arena.Take<std::uint32_t>(2 * size.edges())) {
  std::ranges::fill(starts_, 0);
  edges.ForEach([this](std::uint32_t u, std::uint32_t v) {
    starts_[u] += u != v;
    starts_[v] += u != v;
  });
  // Sums make degrees ends, and each neighbour put in moves an end towards the start.
  std::inclusive_scan(starts_.begin(), starts_.end(), starts_.begin());
  edges.ForEach([this](std::uint32_t u, std::uint32_t v) {
    if (u == v) return;
    neighbours_[--starts_[u]] = v;
    neighbours_[--starts_[v]] = u;
  });
}

std::vector<std::uint32_t> SampleRoots(const CsrGraph& graph, std::uint64_t most,
                                       std::uint64_t seed) {
  std::vector<std::uint32_t> roots;
  const Shuffle order(graph.vertices(), seed);
  for (std::uint64_t i = 0; i < graph.vertices() && roots.size() < most; ++i) {
    const auto vertex = static_cast<std::uint32_t>(order(i));
    if (!graph.NeighboursOf(vertex).empty()) roots.push_back(vertex);
  }
  return roots;
}

std::uint64_t BreadthFirstSearch::Bytes(std::uint64_t vertices) {
  return 2 * ArrayBytes<std::uint32_t>(vertices);
}

BreadthFirstSearch::BreadthFirstSearch(Arena& arena, const CsrGraph& graph)
    : graph_(graph),
      parents_(arena.Take<std::uint32_t>(graph.vertices())),
      queue_(arena.Take<std::uint32_t>(graph.vertices())) {}

void BreadthFirstSearch::Start(std::uint32_t root) {
  root_ = root;
  forgotten_ = head_ = tail_ = scanned_ = 0;
  cpu_time_ = std::chrono::nanoseconds(0);
}

bool BreadthFirstSearch::Step(std::uint64_t& accesses) {
  constexpr std::uint64_t kForgottenPerStep = 1 << 16;
  constexpr std::uint64_t kEdgesPerStep = 1 << 12;
  if (forgotten_ < parents_.size()) {
    const auto left = parents_.subspan(forgotten_);
    const auto now = left.first(std::min<std::uint64_t>(left.size(), kForgottenPerStep));
    std::ranges::fill(now, kUnreached);
    forgotten_ += now.size();
    accesses += now.size();
    return true;
  }
  const std::chrono::nanoseconds start = Now(CLOCK_THREAD_CPUTIME_ID);
  if (tail_ == 0) {
    parents_[root_] = root_;
    queue_[tail_++] = root_;
  }
  const std::uint64_t head_before = head_;
  const std::uint64_t tail_before = tail_;
  const std::uint64_t scanned_before = scanned_;
  while (head_ < tail_ && scanned_ - scanned_before < kEdgesPerStep) {
    const std::uint32_t vertex = queue_[head_++];
    const auto neighbours = graph_.NeighboursOf(vertex);
    scanned_ += neighbours.size();
    for (const std::uint32_t neighbour : neighbours) {
      if (parents_[neighbour] != kUnreached) continue;
      parents_[neighbour] = vertex;
      queue_[tail_++] = neighbour;
    }
  }
  // Per vertex its place in the queue, its start and its end; per edge the neighbour and its
  // parent; per vertex reached its parent and its place in the queue.
  accesses +=
      3 * (head_ - head_before) + 2 * (scanned_ - scanned_before) + 2 * (tail_ - tail_before);
  cpu_time_ += Now(CLOCK_THREAD_CPUTIME_ID) - start;
  return head_ < tail_;
}

void CsrGraph::CountRow(std::uint32_t vertex, PageCounts& counts) const {
  counts.AddEach(starts_.subspan(vertex, 2), 1);
  counts.AddEach(NeighboursOf(vertex), 1);
}

void BreadthFirstSearch::Count(PageCounts& counts) const {
  counts.AddEach(parents_, 1);  // forgotten
  for (const std::uint32_t& place : queue_.first(tail_)) {
    counts.Add(place, 1);
    graph_.CountRow(place, counts);
    for (const std::uint32_t neighbour : graph_.NeighboursOf(place))
      counts.Add(parents_[neighbour], 1);
    if (place == root_) continue;
    counts.Add(place, 1);
    counts.Add(parents_[place], 1);
  }
}

}  // namespace tmprof::workload
