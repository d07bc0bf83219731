// SPDX-License-Identifier: Apache-2.0
// Measures what regions find in programs whose accesses are known, in virtual time: one page in
// eight, over a phase, within 1 % of the program's CPU time. Prints the table of
// bench/results/regions.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "profiler/sources/abit/region_engine.h"
#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof::abit {
namespace region_recall_test {

using std::chrono::milliseconds;
using Mode = ScanOptions::Mode;

constexpr Vpn kStart{0x7f0000000};
constexpr TargetId kTarget{0};
constexpr double kAccessesPerSecond = 2e7;
constexpr double kSamplesPerSecond = 100;  // samples of the clock
constexpr int kPhases = 5;                 // the first, in which regions begin, does not count
constexpr int kSeeds = 4;
constexpr milliseconds kEpoch{100};
// Prices as measured on a busy guest (docs/design/budget.md).
constexpr CostModel kCost{.ns_per_set = 250, .ns_per_look = 6'400, .ns_per_point = 12'000};

// The weight of the page at `rank` from where a phase begins.
struct Program {
  const char* name;
  double (*weight)(std::size_t rank, std::size_t pages);
};
constexpr Program kPrograms[] = {
    {"hotset",
     [](std::size_t rank, std::size_t pages) { return rank < pages / 8 ? 0.9 * 7 : 0.1; }},
    {"zipf", [](std::size_t rank, std::size_t) { return std::pow(rank + 1, -0.99); }},
    {"steps", [](std::size_t rank, std::size_t pages) { return rank < pages / 8 ? 1 : 1e-9; }},
    {"stripes", [](std::size_t rank, std::size_t) { return rank / 256 % 8 == 0 ? 1 : 0.02; }}};

struct Setting {
  std::size_t pages;
  int phase_epochs;
  Mode mode;
  bool samples;
};

class Simulation {
 public:
  Simulation(const Program& program, const Setting& setting, unsigned seed)
      : program_(program),
        setting_(setting),
        random_(seed),
        process_({.id = kTarget, .pid = Pid(100), .start_time_ticks = 7, .mappings = {}}, kStart,
                 PageCount(1), std::vector<double>(setting.pages)),
        engine_(Kernel(seed), {.mode = setting.mode,
                               .looked = Looked::kRegions,
                               .overhead_share = 0.01,
                               .cost = kCost,
                               .seed = seed}) {
    engine_.SetTargets({process_.identity()});
  }

  // Mean over the phases: of the eighth with the most accesses, what is in the eighth with the
  // highest estimated rates.
  double Recall() {
    double sum = 0;
    for (int phase = 0; phase < kPhases; ++phase) sum += phase > 0 ? Phase() : 0 * Phase();
    return sum / (kPhases - 1);
  }

 private:
  AbitKernel& Kernel(unsigned seed) {
    kernel_.random.seed(seed);
    kernel_.processes[Pid(100)] = &process_;
    return kernel_;
  }

  double Phase() {
    const std::size_t pages = setting_.pages;
    const std::size_t first = random_() % pages;
    std::vector<double> weights(pages);
    for (std::size_t i = 0; i < pages; ++i)
      weights[i] = program_.weight((i + pages - first) % pages, pages);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < pages; ++i) {
      process_.pages[i].rate = kAccessesPerSecond * weights[i] / all;
      process_.pages[i].accessed = true;
    }
    std::discrete_distribution<std::size_t> sampled(weights.begin(), weights.end());
    std::vector<double> firsts(pages);
    std::vector<double> seconds(pages, 1e-9);
    for (int epoch = 0; epoch < setting_.phase_epochs; ++epoch) {
      const MonotonicTime end = kernel_.now + kEpoch;
      while (kernel_.now < end) kernel_.now = std::max(kernel_.now, std::min(engine_.Step(), end));
      for (const RegionEvidence& region : engine_.TakeEpoch().regions) {
        const std::size_t from = (region.start - kStart).value();
        const std::size_t span = region.span.value();
        for (std::size_t i = from; i < from + span; ++i) {
          firsts[i] += static_cast<double>(region.first_accesses) / static_cast<double>(span);
          seconds[i] += 1e-9 * static_cast<double>(region.time_at_risk.count());
        }
      }
      if (setting_.samples) engine_.SeeSamples(Samples(sampled));
    }
    for (std::size_t i = 0; i < pages; ++i) firsts[i] /= seconds[i];
    return Found(weights, firsts);
  }

  std::vector<SampleRecord> Samples(std::discrete_distribution<std::size_t>& sampled) {
    const double per_epoch = kSamplesPerSecond * std::chrono::duration<double>(kEpoch).count();
    std::vector<SampleRecord> samples(std::poisson_distribution<std::size_t>(per_epoch)(random_));
    for (SampleRecord& sample : samples)
      sample = {.key = {kTarget, kStart + PageCount(sampled(random_))}, .loads = 1};
    return samples;
  }

  // Pages of one rate are as likely as one another: shuffled.
  double Found(const std::vector<double>& weights, const std::vector<double>& rates) {
    const std::size_t eighth = weights.size() / 8;
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random_);
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return rates[i]; });
    std::vector<double> heaviest = weights;
    std::ranges::sort(heaviest, std::greater{});
    const auto found =
        std::count_if(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(eighth),
                      [&](std::size_t i) { return weights[i] >= heaviest[eighth - 1]; });
    return static_cast<double>(found) / static_cast<double>(eighth);
  }

  const Program& program_;
  Setting setting_;
  std::mt19937_64 random_;
  SimulatedKernel kernel_;
  SimulatedProcess process_;
  RegionEngine engine_;
};

double MeanRecall(const Program& program, const Setting& setting) {
  double sum = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed)
    sum += Simulation(program, setting, seed).Recall();
  return sum / kSeeds;
}

struct Found {
  double ladder, one_bit, ladder_samples, one_bit_samples;
};

// Returns the result for each program. Prints a row for each.
std::map<std::string_view, Found> FindAll(std::size_t pages, int phase_epochs) {
  std::printf(
      "%zu MiB, phases of %.0f s: ladder, one bit, ladder and samples, one bit and samples\n",
      pages / 256, 0.1 * phase_epochs);
  std::map<std::string_view, Found> all;
  for (const Program& program : kPrograms) {
    const auto recall = [&](Mode mode, bool samples) {
      return MeanRecall(
          program,
          {.pages = pages, .phase_epochs = phase_epochs, .mode = mode, .samples = samples});
    };
    const Found found{recall(Mode::kLadder, false), recall(Mode::kPlain, false),
                      recall(Mode::kLadder, true), recall(Mode::kPlain, true)};
    std::printf("%-8s %.2f %.2f %.2f %.2f\n", program.name, found.ladder, found.one_bit,
                found.ladder_samples, found.one_bit_samples);
    EXPECT_GT(found.ladder_samples, found.ladder - 0.03) << program.name << ": samples do no harm";
    EXPECT_GT(found.one_bit_samples, found.one_bit - 0.03) << program.name;
    all[program.name] = found;
  }
  return all;
}

TEST(RegionRecallMonteCarlo, FindsTheBoundsOfHotMemoryWithinTwoSecondsIfThereIsLittle) {
  const auto found = FindAll(8192, 20);
  EXPECT_GT(found.at("hotset").ladder, 0.87);
  EXPECT_GT(found.at("steps").ladder, 0.93);
  EXPECT_GT(found.at("steps").ladder_samples, 0.975);
  EXPECT_GT(found.at("zipf").ladder, 0.75);
  EXPECT_GT(found.at("zipf").ladder, found.at("zipf").one_bit)
      << "one bit a millisecond hardly tells 2 000 accesses a second from 4 000";
  EXPECT_GT(found.at("zipf").ladder_samples, found.at("zipf").ladder);
  EXPECT_GT(found.at("stripes").ladder, 0.6);
}

TEST(RegionRecallMonteCarlo, FindsTheBoundsInMoreMemoryAsWellInMoreTime) {
  const auto found = FindAll(65536, 50);
  EXPECT_GT(found.at("hotset").ladder, 0.9);
  EXPECT_GT(found.at("steps").ladder, 0.96);
  EXPECT_GT(found.at("zipf").ladder, 0.87);
  EXPECT_GT(found.at("stripes").ladder, 1.5 / 8) << "256 stretches: chance would find an eighth";
}

}  // namespace region_recall_test
}  // namespace tmprof::abit
