// SPDX-License-Identifier: Apache-2.0

#include "rank/block_factors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "rank/resampling.h"
#include "rank/worth_curve.h"

namespace tmprof {
namespace {

// The factors of the blocks of a target follow a Gamma distribution of mean 1 and one of these
// shapes.
constexpr std::array kShapes = {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0};
// The logarithm of the likelihood has to rise by so much over that of equal blocks. A shape is one
// more free parameter, and chance alone makes it gain up to 1.9 in 95 of 100 cases.
constexpr double kLeastGain = 2;
// Factors, and rates, are taken as equal if they differ by less than this part of an octave. Rows
// that are alike are then found as such.
constexpr int kStepsPerOctave = 8;

struct Samples {
  double seen = 0;
  double expected = 0;  // by the rates alone
};

// Returns how much likelier the counts are than if the blocks were equal.
double GainOf(const std::map<std::uint64_t, Samples>& blocks, double shape) {
  double gain = 0;
  for (const auto& [block, samples] : blocks) {
    gain += samples.expected - (shape + samples.seen) * std::log1p(samples.expected / shape);
    if (samples.seen > 0)
      gain +=
          std::lgamma(shape + samples.seen) - std::lgamma(shape) - samples.seen * std::log(shape);
  }
  return gain;
}

double Rounded(double value) {
  return std::exp2(std::round(kStepsPerOctave * std::log2(value)) / kStepsPerOctave);
}

// A target may have a million rows. What a rate is worth takes their sums alone.
std::vector<SampledPages> JoinedByRate(const std::vector<MemoryRow*>& rows) {
  std::map<double, SampledPages> by_rate;
  for (const MemoryRow* row : rows) {
    if (!CouldBeSampled(*row)) continue;
    const SampledPages& seen = row->seen;
    const double rate = seen.rate > 0 ? Rounded(seen.rate) : 0;
    SampledPages& sum = by_rate[rate];
    sum.rate = rate;
    sum.pages += seen.times * seen.pages;
    sum.seconds += seen.times * seen.pages * seen.seconds;
    sum.samples += seen.times * seen.samples;
  }
  std::vector<SampledPages> joined;
  for (auto& [rate, sum] : by_rate) {
    sum.seconds /= sum.pages;
    joined.push_back(sum);
  }
  return joined;
}

void LearnOfTarget(std::vector<MemoryRow*>& rows) {
  double samples = 0;
  for (const MemoryRow* row : rows)
    if (CouldBeSampled(*row)) samples += row->seen.times * row->seen.samples;
  if (samples < MemoryWorth::kFewestSamples) return;
  const WorthCurve by_rate(JoinedByRate(rows));
  const auto expected = [&](const MemoryRow& row) {
    return row.seen.times * row.seen.pages * row.seen.seconds * by_rate.OfRate(row.seen.rate);
  };
  std::map<std::uint64_t, Samples> blocks;
  for (const MemoryRow* row : rows) {
    // The other rows exist because they were sampled.
    if (!CouldBeSampled(*row) || !row->block) continue;
    Samples& block = blocks[*row->block];
    block.seen += row->seen.times * row->seen.samples;
    block.expected += expected(*row);
  }
  double best = kLeastGain;
  double shape = 0;
  for (const double each : kShapes) {
    if (const double gain = GainOf(blocks, each); gain > best)
      std::tie(best, shape) = std::pair(gain, each);
  }
  if (shape == 0) return;
  for (MemoryRow* row : rows) {
    if (!row->block) continue;
    const auto found = blocks.find(*row->block);
    if (found == blocks.end()) continue;
    Samples others = found->second;
    // A page's own samples count for the page itself, and not as those of its neighbours.
    if (CouldBeSampled(*row) && row->seen.samples > 0) {
      others.seen -= row->seen.times * row->seen.samples;
      others.expected -= expected(*row);
    }
    row->seen.factor =
        Rounded((shape + std::max(0.0, others.seen)) / (shape + std::max(0.0, others.expected)));
  }
}

}  // namespace

std::optional<std::uint64_t> BlockOf(PageKey key, std::uint32_t span_pages) {
  const std::uint64_t block = key.vpn.value() / kBlockPages;
  const std::uint64_t last = (key.vpn.value() + span_pages - 1) / kBlockPages;
  return block == last ? std::optional(block) : std::nullopt;
}

void LearnBlockFactors(std::vector<MemoryRow>& rows) {
  std::map<TargetId, std::vector<MemoryRow*>> by_target;
  for (MemoryRow& row : rows) by_target[row.target].push_back(&row);
  for (auto& [target, of_target] : by_target) LearnOfTarget(of_target);
}

}  // namespace tmprof
