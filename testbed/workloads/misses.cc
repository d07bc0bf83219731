// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/misses.h"

#include <algorithm>
#include <functional>

namespace tmprof::workload {
namespace {

// Misses count after so many accesses for each line of the cache. Even if only every eighth access
// misses, twice as many lines as it holds have come in by then.
constexpr std::uint64_t kFills = 16;

}  // namespace

LruCache::LruCache(std::uint64_t bytes)
    : tags_(std::max<std::uint64_t>(bytes / kLineBytes / kWays, 1) * kWays) {}

bool LruCache::Access(std::uint64_t line) {
  const std::uint64_t set = Random::Mix(line) % (tags_.size() / kWays);
  const auto first = tags_.begin() + static_cast<std::ptrdiff_t>(set * kWays);
  const auto end = first + kWays;
  const auto at = std::find(first, end, line + 1);
  const bool hit = at != end;
  std::move_backward(first, hit ? at : end - 1, hit ? at + 1 : end);
  *first = line + 1;
  return hit;
}

SimulatedMisses SimulateMisses(const Heat& heat, std::uint64_t span_bytes, std::uint64_t llc_bytes,
                               std::uint64_t seed, std::uint64_t accesses) {
  LruCache cache(llc_bytes);
  Random random(Random::Mix(seed));
  const Heat::Phase phase = heat.AtPhase(0);
  const std::uint64_t span_lines = span_bytes / LruCache::kLineBytes;
  std::vector<std::uint64_t> missed(heat.bands());
  std::uint64_t all = 0;
  const std::uint64_t fill = kFills * cache.lines();
  for (std::uint64_t i = 0; i < fill + accesses; ++i) {
    Fraction rest(0);
    std::uint32_t band = 0;
    const std::uint64_t span = heat.Draw(phase, random, rest, &band);
    if (cache.Access(span * span_lines + rest.Take(span_lines)) || i < fill) continue;
    ++missed[band];
    ++all;
  }
  SimulatedMisses misses{.per_access = static_cast<double>(all) / static_cast<double>(accesses),
                         .bands = {},
                         .of_span = std::vector<double>(missed.size())};
  for (std::uint32_t band = 0; band < missed.size(); ++band) {
    if (heat.SpansOf(band) == 0) continue;
    const double share = all > 0 ? static_cast<double>(missed[band]) / static_cast<double>(all) : 0;
    misses.bands.push_back({.spans = heat.SpansOf(band), .share = share});
    misses.of_span[band] = share / static_cast<double>(heat.SpansOf(band));
  }
  std::ranges::stable_sort(misses.bands, std::greater(), [](const Misses& each) {
    return each.share / static_cast<double>(each.spans);
  });
  return misses;
}

}  // namespace tmprof::workload
