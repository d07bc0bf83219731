// SPDX-License-Identifier: Apache-2.0
// CPU time to learn what access rates are worth in accesses to memory, and to weigh all rows by it:
// a million rows, by 3 000 samples of misses, or by a model of the cache without samples.
//
//   build/release/memory_weights

#include "rank/memory_weights.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace tmprof {
namespace {

constexpr std::size_t kRows = 1'000'000;
constexpr double kSamples = 3'000;
constexpr double kLlcBytes = 32 << 20;

// Rates of 2^-4 to 2^12 accesses in a second.
std::vector<MemoryRow> MakeRows(double samples) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> log_rate(-4, 12);
  std::poisson_distribution<int> of_row(samples / kRows);
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < kRows; ++i) {
    rows.push_back({.target = TargetId(0),
                    .seen = {.rate = std::exp2(log_rate(random)),
                             .pages = 1,
                             .seconds = samples > 0 ? 10.0 : 0.0,
                             .samples = samples > 0 ? static_cast<double>(of_row(random)) : 0.0}});
  }
  return rows;
}

void Learn(benchmark::State& state, double samples) {
  const std::vector<MemoryRow> rows = MakeRows(samples);
  for (auto _ : state)
    benchmark::DoNotOptimize(MemoryWeights(rows, {.llc_bytes = kLlcBytes}).basis());
}

void Weigh(benchmark::State& state, double samples) {
  const std::vector<MemoryRow> rows = MakeRows(samples);
  const MemoryWeights weights(rows, {.llc_bytes = kLlcBytes});
  for (auto _ : state) {
    double sum = 0;
    for (const MemoryRow& row : rows) sum += weights.Of(row).mean;
    benchmark::DoNotOptimize(sum);
  }
}

BENCHMARK_CAPTURE(Learn, by_samples, kSamples)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Learn, by_model, 0.0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Weigh, by_samples, kSamples)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Weigh, by_model, 0.0)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tmprof
