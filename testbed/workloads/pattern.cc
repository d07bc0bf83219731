// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/pattern.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tmprof::workload {
namespace {

double TotalWeight(const Pattern& pattern) {
  double total = 0;
  for (const Band& band : pattern.bands) total += band.weight;
  return total;
}

std::vector<double> BandWeights(const Pattern& pattern) {
  std::vector<double> weights;
  for (const Band& band : pattern.bands) weights.push_back(band.weight);
  return weights;
}

}  // namespace

AliasTable::AliasTable(const std::vector<double>& weights) : columns_(weights.size()) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> height(weights);  // in columns: 1 is a full one
  std::vector<std::uint32_t> low;
  std::vector<std::uint32_t> high;
  for (std::uint32_t i = 0; i < height.size(); ++i) {
    height[i] *= static_cast<double>(weights.size()) / total;
    (height[i] < 1 ? low : high).push_back(i);
    columns_[i] = {.threshold = 0, .alias = i};
  }
  while (!low.empty() && !high.empty()) {
    const std::uint32_t filled = low.back();
    const std::uint32_t donor = high.back();
    low.pop_back();
    columns_[filled] = {.threshold = static_cast<std::uint64_t>(std::ldexp(height[filled], 64)),
                        .alias = donor};
    height[donor] -= 1 - height[filled];
    if (height[donor] < 1) {
      high.pop_back();
      low.push_back(donor);
    }
  }
  // The remaining columns are full but for rounding, and already stand for themselves alone.
}

Shuffle::Shuffle(std::uint64_t count, std::uint64_t seed)
    : count_(count),
      mask_(std::bit_ceil(count) - 1),
      shift_(std::max(1, static_cast<int>(std::bit_width(mask_)) / 2)) {
  Random random(seed);
  for (int round = 0; round < 2; ++round) {
    addends_[round] = random.Next();
    multipliers_[round] = random.Next() | 1;
  }
}

std::uint64_t Pattern::spans() const {
  std::uint64_t total = 0;
  for (const Band& band : bands) total += band.spans;
  return total;
}

Pattern UniformPattern(std::uint64_t spans) {
  return {.bands = {{.spans = spans, .weight = 1}}, .rotation_spans = 0, .shuffled = false};
}

Pattern HotsetPattern(std::uint64_t spans, std::uint64_t hot_spans, double hot_share) {
  return {.bands = {{.spans = hot_spans, .weight = hot_share},
                    {.spans = spans - hot_spans, .weight = 1 - hot_share}},
          .rotation_spans = hot_spans,
          .shuffled = true};
}

Pattern ZipfPattern(std::uint64_t spans, double skew) {
  constexpr std::uint64_t kExactRanks = 256;
  constexpr std::uint64_t kRanksPerBandSpan = 50;  // bands 1/50 = 2 % wide
  Pattern pattern{.bands = {}, .rotation_spans = std::max<std::uint64_t>(1, spans / 8)};
  for (std::uint64_t rank = 0; rank < spans;) {
    const std::uint64_t wide = rank < kExactRanks ? 1 : rank / kRanksPerBandSpan;
    Band band{.spans = std::min(wide, spans - rank)};
    for (const std::uint64_t end = rank + band.spans; rank < end; ++rank) {
      band.weight += std::pow(static_cast<double>(rank + 1), -skew);
    }
    pattern.bands.push_back(band);
  }
  return pattern;
}

Pattern HalfIdlePattern(std::uint64_t spans, double skew) {
  constexpr double kIdleShare = 1e-9;
  Pattern pattern = ZipfPattern(spans - spans / 2, skew);
  pattern.bands.push_back({.spans = spans / 2, .weight = kIdleShare * TotalWeight(pattern)});
  pattern.rotation_spans = 0;
  return pattern;
}

Pattern StepsPattern(std::uint64_t spans, std::uint64_t objects) {
  Pattern pattern = HotsetPattern(spans, spans / objects, 1);
  pattern.shuffled = false;
  return pattern;
}

Heat::Heat(const Pattern& pattern, std::uint64_t seed)
    : spans_(pattern.spans()),
      rotation_spans_(pattern.rotation_spans),
      shuffled_(pattern.shuffled),
      shuffle_(spans_, seed),
      bands_(BandWeights(pattern)) {
  const double total = TotalWeight(pattern);
  std::uint64_t start = 0;
  for (const Band& band : pattern.bands) {
    band_ranks_.push_back(
        {static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(band.spans)});
    span_weights_.push_back(band.weight / total / static_cast<double>(band.spans));
    start += band.spans;
  }
}

std::vector<SpanRange> Heat::Ranges(Phase phase, const std::vector<double>& span_weights) const {
  std::vector<std::uint32_t> band_of_span(spans_);
  for (std::uint32_t band = 0; band < band_ranks_.size(); ++band) {
    const Ranks& ranks = band_ranks_[band];
    for (std::uint64_t i = 0; i < ranks.spans; ++i)
      band_of_span[SpanOf(phase, ranks.start + i)] = band;
  }
  std::vector<SpanRange> ranges;
  for (std::uint64_t start = 0; start < spans_;) {
    const std::uint32_t band = band_of_span[start];
    std::uint64_t end = start + 1;
    while (end < spans_ && band_of_span[end] == band) ++end;
    ranges.push_back({start, end, span_weights[band] * static_cast<double>(end - start)});
    start = end;
  }
  return ranges;
}

}  // namespace tmprof::workload
