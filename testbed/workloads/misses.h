// SPDX-License-Identifier: Apache-2.0
// Simulates which accesses of a pattern miss a cache.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "testbed/workloads/pattern.h"

namespace tmprof::workload {

// Cache lines of 64 bytes, in sets of which the line used longest ago leaves.
class LruCache {
 public:
  static constexpr std::uint64_t kLineBytes = 64;
  static constexpr std::uint64_t kWays = 16;

  // It has one set at least.
  explicit LruCache(std::uint64_t bytes);

  std::uint64_t lines() const { return tags_.size(); }
  // Returns true for a hit. A line that misses is brought in.
  bool Access(std::uint64_t line);

 private:
  std::vector<std::uint64_t> tags_;  // by set, the last used first; line + 1, or 0 for none
};

// These spans are equally hot.
struct Misses {
  std::uint64_t spans = 0;
  double share = 0;  // of all misses
};
struct SimulatedMisses {
  double per_access = 0;
  std::vector<Misses> bands;  // those with the most misses a span first
  // Share of all misses that one span of each band of the pattern has, in the pattern's order.
  std::vector<double> of_span;
};

// The accesses are those of a single worker within the pattern's first phase, after as many as it
// takes to fill the cache. Takes some seconds. Precondition: whole lines in a span.
SimulatedMisses SimulateMisses(const Heat& heat, std::uint64_t span_bytes, std::uint64_t llc_bytes,
                               std::uint64_t seed, std::uint64_t accesses = 32'000'000);

}  // namespace tmprof::workload
