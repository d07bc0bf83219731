// SPDX-License-Identifier: Apache-2.0
// A program of known access rates, seen through an exposure ladder and a sampler. Accesses are
// Poisson, the sampler takes each with a chance of its own per page.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "rank/rate_model.h"

namespace tmprof::simulation {

using Rates = std::vector<double>;  // accesses per CPU second, per page; pages shuffled

Rates Hotset(std::size_t pages, double accesses_per_second);  // 1/16 of the pages has 90 %
Rates Zipf(std::size_t pages, double accesses_per_second);    // skew 0.99
// Half of the pages next to never accessed, the others as in Zipf.
Rates HalfIdle(std::size_t pages, double accesses_per_second);

// Returns how likely an access of page i is sampled, relative to the others.
using Bias = std::function<double(std::size_t page)>;

struct Scenario {
  double visited = 1;  // part of the 2 MiB blocks that the ladder visits …
  int visits = 1;      // … so many times each
  std::vector<double> reads_s = {.25e-3, 1e-3, 4e-3, 16e-3, 64e-3, 256e-3, 1.024};
  // A page that is set at the first read is tried twice after each of these delays in turn, while
  // both tries find it set. Empty: no page is.
  std::vector<double> fast_s;
  double fast_part = 1;      // share of these pages, at random; the others are not tried
  bool stop_at_half = true;  // a block is read no more once half its pages are set
  std::optional<std::vector<std::size_t>> blocks;  // these, instead of a random choice
  double samples_per_second = 0;
  double seconds = 8;
  Bias bias = [](std::size_t) { return 1.0; };
};

// One row per page. Pages neither visited nor sampled have all-zero evidence.
struct Observation {
  std::vector<RateEvidence> evidence;
  std::vector<double> references;  // reads that found the bit set

  bool Seen(std::size_t page) const {
    return evidence[page].looked_at() || evidence[page].samples > 0;
  }
};

Observation Observe(const Rates& rates, const Scenario& scenario, std::uint32_t seed);

// The record that a recorder would have stored of the second [index, index + 1): the pages of
// target 0, times in whole codes.
EpochProfile ToEpoch(const Observation& seen, int index);

// A scanner's turn through all 2 MiB blocks of so many pages, in an order of chance, over and over.
class Rotation {
 public:
  explicit Rotation(std::size_t pages) : blocks_(pages / 512) {}
  std::vector<std::size_t> Next(std::size_t blocks);

 private:
  std::size_t blocks_;
  std::mt19937_64 random_{5};
  std::vector<std::size_t> left_;
};

struct Accuracy {
  double recall_sixteenth;  // share of the hottest 1/16
  double coverage_eighth;   // accesses of the 1/8 ranked best / those of the hottest 1/8
};

// Ties are broken at random, and only pages seen are ranked.
Accuracy Judge(const Rates& rates, const Observation& seen, std::span<const double> score);

// The score with the prior and the merge of rate_model.h.
std::vector<double> Combined(const Observation& seen);
std::vector<double> ReferencesOnly(const Observation& seen);
std::vector<double> SamplesOnly(const Observation& seen);
// The baselines: the paper's sum, and a Gamma-Poisson posterior mean (0.3 + E + n) / (0.3 / lambda0
// + T + s D). lambda0 is the bits' pooled rate, and s D is such that samples and bits agree on the
// pages visited.
std::vector<double> Sum(const Observation& seen);
std::vector<double> GammaPoisson(const Observation& seen);

}  // namespace tmprof::simulation
