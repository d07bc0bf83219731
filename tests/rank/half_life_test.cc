// SPDX-License-Identifier: Apache-2.0
// Tests how long evidence should last, and how well that is learned. A hot set of 1/16 of the pages
// has 90 % of the accesses. It is profiled in epochs of 1 s by a ladder, which visits a part of the
// blocks in each in random rotation, and by a sampler. The measure is History's hit rate at 1/16:
// true accesses of epoch e that go to the pages ranked best at the end of epoch e - 1.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "rank/rank_model.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace half_life_test {

using simulation::Rates;
using std::chrono::seconds;

// A sixteenth of 512 MiB at the rates per page of rate_model_test.cc.
constexpr std::size_t kPages = 16384;
constexpr double kAccessRate = 27e6 / 8;
constexpr double kSampleRate = 1000.0 / 8;
constexpr int kEpochs = 64;

// Part of the accesses of `rates` that go to the 1/16 ranked best.
double HitRate(const Ranker& ranker, const Rates& rates) {
  const Scores scores = ranker.Score(RankSource::kCombined);
  std::vector<std::size_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::ranges::stable_sort(rows, std::greater(), [&](std::size_t row) { return scores[row]; });
  rows.resize(std::min(rows.size(), kPages / 16));
  double hit = 0;
  for (const std::size_t row : rows) hit += rates[ranker.table().key[row].vpn.value()];
  return hit / std::accumulate(rates.begin(), rates.end(), 0.0);
}

struct Program {
  const char* name;
  std::size_t blocks_per_epoch;  // blocks of the ladder
  int shift_epochs;              // the hot set moves so often; 0: never
};

// Mean hit rate after the first rotation could have ended.
double MeanHitRate(const Program& program, const Ranker::Options& options) {
  const Rates first = simulation::Hotset(kPages, kAccessRate);
  simulation::Rotation rotation(kPages);
  Ranker ranker(options);
  double sum = 0;
  int counted = 0;
  for (int e = 0; e < kEpochs; ++e) {
    Rates rates = first;
    const std::size_t shifts =
        program.shift_epochs == 0 ? 0 : static_cast<std::size_t>(e / program.shift_epochs);
    std::ranges::rotate(rates, rates.begin() + static_cast<std::ptrdiff_t>(shifts * 1777 % kPages));
    if (e >= 8) {
      sum += HitRate(ranker, rates);
      ++counted;
    }
    const simulation::Scenario scenario{.blocks = rotation.Next(program.blocks_per_epoch),
                                        .samples_per_second = kSampleRate,
                                        .seconds = 1};
    const auto seen = simulation::Observe(rates, scenario, 100 + static_cast<unsigned>(e));
    ranker.Absorb(simulation::ToEpoch(seen, e));
  }
  return sum / counted;
}

constexpr Program kPrograms[] = {{"all visited in 2 s, shift each 3 s", 16, 3},
                                 {"all visited in 5 s, shift each 4 s", 6, 4},
                                 {"all visited in 5 s, shift each 10 s", 6, 10},
                                 {"all visited in 5 s, steady", 6, 0},
                                 {"all visited in 16 s, shift each 10 s", 2, 10},
                                 {"all visited in 16 s, shift each 20 s", 2, 20},
                                 {"all visited in 16 s, steady", 2, 0},
                                 {"all visited in 32 s, steady", 1, 0}};

TEST(HalfLifeMonteCarlo, LearnsWhatIsNearTheBestForShiftingAndForSteadyPrograms) {
  double gained = 0;  // over pooling, with the half-life that serves it best
  for (const Program& program : kPrograms) {
    std::printf("| %s", program.name);
    const double forgetful = MeanHitRate(program, {.model = RankModel::kRate});
    std::printf(" | %.2f", forgetful);
    double best = forgetful;
    for (const int half_life : {6, 60}) {
      const double hit_rate = MeanHitRate(program, {.model = RankModel::kRate,
                                                    .memory = Ranker::Memory::kHalfLife,
                                                    .half_life = seconds(half_life)});
      std::printf(" | %.2f", hit_rate);
      best = std::max(best, hit_rate);
    }
    const double learned = MeanHitRate(program, Ranker::DefaultOptions(RankModel::kRate));
    const double pooled = MeanHitRate(program, {.model = RankModel::kRate,
                                                .memory = Ranker::Memory::kHalfLife,
                                                .half_life = seconds(3),
                                                .follow_changes = false});
    std::printf(" | %.2f | %.2f |\n", learned, pooled);
    gained += learned - pooled;
    EXPECT_GT(learned, best - 0.1) << program.name;
  }
  EXPECT_GT(gained, 0);
}

}  // namespace half_life_test
}  // namespace tmprof
