// SPDX-License-Identifier: Apache-2.0
// Hit rates of accesses to memory, of programs whose rates and misses are known.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rank/hit_rate_teller.h"
#include "rank/rank_model.h"
#include "tests/rank/profiles.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace memory_hit_rates_test {

using simulation::Rates;

constexpr std::size_t kPages = 8192;
constexpr int kEpochs = 6;

struct Program {
  std::string name;
  Rates rates;
  std::vector<double> misses;  // in proportion
};

// Misses of a page that stays in the cache unless it rests for `turn_over_s`. Pages of one rate
// differ by a factor of e^(+-spread).
Program BehindACache(std::string name, Rates rates, double turn_over_s, double spread) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> differ(0, spread);
  Program program{.name = std::move(name), .rates = std::move(rates), .misses = {}};
  for (const double rate : program.rates)
    program.misses.push_back(rate * std::exp(-rate * turn_over_s) * std::exp(differ(random)));
  return program;
}

std::vector<Program> Programs() {
  std::vector<Program> programs;
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, 1e6)),
                                    {"hotset", simulation::Hotset(kPages, 1e6)},
                                    {"half idle", simulation::HalfIdle(kPages, 1e6)}}) {
    programs.push_back(BehindACache(fmt::format("{}, all miss", name), rates, 0, 0));
    programs.push_back(BehindACache(fmt::format("{}, cached for 2 ms", name), rates, 2e-3, 0.5));
    programs.push_back(BehindACache(fmt::format("{}, cached for 20 ms", name), rates, 2e-2, 1));
  }
  return programs;
}

std::vector<EpochProfile> Record(const Program& program, int samples, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::discrete_distribution<std::size_t> page(program.misses.begin(), program.misses.end());
  simulation::Scenario scenario{.reads_s = {.25e-3, 1e-3, 4e-3, 16e-3, 64e-3},
                                .fast_s = {64e-6, 16e-6, 4e-6}};
  std::vector<EpochProfile> epochs;
  for (int e = 0; e < kEpochs; ++e) {
    EpochProfile epoch = simulation::ToEpoch(
        simulation::Observe(program.rates, scenario, seed * 100 + static_cast<unsigned>(e)), e);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(100)}};
    epoch.sources.push_back({.name = "ibs",
                             .role = SourceRole::kSamples,
                             .state = SourceState::kActive,
                             .samples_of = SampleSubject::kMemory});
    for (int i = 0; i < samples / kEpochs; ++i) ++epoch.pages.load_samples[page(random)];
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

double ShareOf(const std::vector<std::size_t>& order, const std::vector<double>& misses,
               std::size_t pages) {
  double hit = 0;
  for (std::size_t i = 0; i < pages; ++i) hit += misses[order[i]];
  return hit / std::accumulate(misses.begin(), misses.end(), 0.0);
}

std::vector<std::size_t> OrderBy(const std::vector<double>& score) {
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return score[i]; });
  return order;
}

struct Truth {
  double oracle;
  double attainable;
  double history;
};

// Both lists are by capacity.
struct Judged {
  std::vector<HitRates> told;
  std::vector<Truth> truth;
};

Judged Judge(const Program& program, const std::vector<PageCount>& capacities, int samples,
             std::uint32_t seed) {
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kMemory, capacities);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  std::vector<Truth> truth(capacities.size(), Truth{});
  std::vector<std::size_t> order;
  for (const EpochProfile& epoch : Record(program, samples, seed)) {
    for (std::size_t c = 0; !order.empty() && c < capacities.size(); ++c)
      truth[c].history += ShareOf(order, program.misses, capacities[c].value()) / (kEpochs - 1);
    teller.Absorb(epoch);
    ranker.Absorb(epoch);
    order = OrderBy(ranker.Score(RankSource::kMemory));
  }
  const std::vector<std::size_t> best = OrderBy(program.misses);
  for (std::size_t c = 0; c < capacities.size(); ++c) {
    truth[c].oracle = ShareOf(best, program.misses, capacities[c].value());
    truth[c].attainable = ShareOf(order, program.misses, capacities[c].value());
  }
  return {.told = teller.Tell(), .truth = std::move(truth)};
}

TEST(MemoryHitRatesMonteCarlo, AreNearTheTruthWithThreeHundredSamples) {
  const std::vector<PageCount> capacities{PageCount(kPages / 8), PageCount(kPages / 32)};
  constexpr std::uint32_t kSeeds = 8;
  constexpr std::array kRates = {&HitRates::oracle, &HitRates::attainable, &HitRates::history};
  constexpr std::array kTruths = {&Truth::oracle, &Truth::attainable, &Truth::history};
  constexpr std::array kNames = {"oracle", "attainable", "history"};
  for (const int samples : {300, 1'000}) {
    int all = 0;
    std::array<int, 3> held{};
    std::array<double, 3> width{};
    for (const Program& program : Programs()) {
      std::array<double, 3> off{};  // at an eighth
      for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
        const auto [told, truth] = Judge(program, capacities, samples, seed);
        for (std::size_t c = 0; c < capacities.size(); ++c) {
          ++all;
          for (std::size_t i = 0; i < kRates.size(); ++i) {
            const std::optional<HitRate>& rate = told[c].*kRates[i];
            const double really = truth[c].*kTruths[i];
            ASSERT_TRUE(rate);
            held[i] += rate->low <= really && really <= rate->high;
            width[i] += rate->high - rate->low;
            if (c == 0) off[i] += (rate->value - really) / kSeeds;
          }
        }
      }
      std::cout << fmt::format("| {} | {} | {:+.3f} | {:+.3f} | {:+.3f} |\n", samples, program.name,
                               off[0], off[1], off[2]);
      EXPECT_NEAR(off[1], 0, 0.05) << program.name;
      EXPECT_NEAR(off[2], 0, 0.05) << program.name;
    }
    for (std::size_t i = 0; i < kRates.size(); ++i) {
      std::cout << fmt::format(
          "{} samples, {}: {} of {} intervals hold the truth, mean width {:.3f}\n", samples,
          kNames[i], held[i], all, width[i] / all);
      EXPECT_GE(held[i], 0.85 * all) << kNames[i] << " of " << all;
    }
  }
}

}  // namespace memory_hit_rates_test
}  // namespace tmprof
