// SPDX-License-Identifier: Apache-2.0

#include "tests/rank/simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tmprof::simulation {
namespace {

constexpr std::size_t kBlockPages = 512;

// Our own random numbers, because the standard library's distributions may change between versions.
class Chance {
 public:
  explicit Chance(std::uint32_t seed) : bits_(seed) {}

  double Uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double Exponential(double rate) { return -std::log1p(-Uniform()) / rate; }
  double Poisson(double mean) {
    if (mean > 50) {  // near enough to normal
      const double z = std::sqrt(-2 * std::log1p(-Uniform())) * std::cos(2 * M_PI * Uniform());
      return std::max(0.0, std::round(mean + std::sqrt(mean) * z));
    }
    double count = 0;
    for (double p = Uniform(); p > std::exp(-mean); p *= Uniform()) ++count;
    return count;
  }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(Uniform() * static_cast<double>(i))]);
    }
  }

 private:
  std::mt19937_64 bits_;
};

Rates ShuffledToTotal(Rates rates, double total) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  for (double& rate : rates) rate *= total / sum;
  Chance(7).Shuffle(rates);
  return rates;
}

void TryFast(double rate, const std::vector<double>& delays, Chance& chance, RateEvidence& page) {
  constexpr int kTries = 2;
  int found = 0;
  double delay = 0;
  for (const double each : delays) {
    delay = each;
    found = 0;
    for (int i = 0; i < kTries; ++i) found += chance.Exponential(rate) <= delay;
    if (found < kTries || &each == &delays.back()) break;
    page.fast_earlier += kTries;
    page.fast_earlier_seconds += kTries * delay;
  }
  page.fast_looks += kTries;
  page.fast_found += found;
  page.fast_seconds += kTries * delay;
}

void VisitBlock(std::size_t first, const Rates& rates, const Scenario& scenario, Chance& chance,
                Observation& seen) {
  std::vector<double> first_access(kBlockPages);
  for (std::size_t i = 0; i < kBlockPages; ++i) {
    first_access[i] = chance.Exponential(rates[first + i]);
  }
  double before = 0;
  for (const double read : scenario.reads_s) {
    std::size_t set = 0;
    for (std::size_t i = 0; i < kBlockPages; ++i) {
      RateEvidence& page = seen.evidence[first + i];
      if (first_access[i] > read) {
        page.seconds_at_risk += read - before;
        continue;
      }
      ++set;
      seen.references[first + i] += 1;
      if (first_access[i] <= before) continue;
      if (before == 0) {
        page.first_read_finds += 1;
        page.first_read_seconds += read / 2;
        if (!scenario.fast_s.empty() &&
            (scenario.fast_part == 1 || chance.Uniform() < scenario.fast_part))
          TryFast(rates[first + i], scenario.fast_s, chance, page);
      } else {
        page.first_accesses += 1;
        page.seconds_at_risk += (read - before) / 2;
        page.seconds_to_read += (read - before) / 2;
        page.square_seconds_to_read += (read - before) * (read - before) / 4;
      }
    }
    if (scenario.stop_at_half && set >= kBlockPages / 2) return;
    before = read;
  }
}

// Both count each access in the middle between two reads.
double FindsOf(const RateEvidence& page) { return page.first_accesses + page.first_read_finds; }
double SecondsOf(const RateEvidence& page) {
  return page.seconds_at_risk + page.first_read_seconds;
}

std::vector<double> Estimate(const Observation& seen, bool bits, bool samples) {
  std::vector<RateEvidence> evidence = seen.evidence;
  for (RateEvidence& page : evidence) {
    if (!bits) {
      page = {.samples = page.samples, .seconds_watched = page.seconds_watched};
    }
    if (!samples) page.samples = page.seconds_watched = 0;
  }
  std::vector<double> score = EstimateRates(evidence).accesses_per_second;
  for (std::size_t i = 0; i < score.size(); ++i) {
    if (!evidence[i].looked_at() && evidence[i].samples == 0) score[i] = -1;
  }
  return score;
}

std::vector<std::uint32_t> Best(std::span<const double> score, std::uint32_t seed) {
  std::vector<std::uint32_t> order(score.size());
  std::iota(order.begin(), order.end(), 0u);
  Chance(seed).Shuffle(order);
  std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t i) { return score[i]; });
  return order;
}

}  // namespace

Rates Hotset(std::size_t pages, double accesses_per_second) {
  Rates rates(pages, 0.1 / static_cast<double>(pages - pages / 16));
  std::fill_n(rates.begin(), pages / 16, 0.9 / static_cast<double>(pages / 16));
  return ShuffledToTotal(std::move(rates), accesses_per_second);
}

Rates Zipf(std::size_t pages, double accesses_per_second) {
  Rates rates(pages);
  for (std::size_t i = 0; i < pages; ++i) rates[i] = std::pow(static_cast<double>(i + 1), -0.99);
  return ShuffledToTotal(std::move(rates), accesses_per_second);
}

Rates HalfIdle(std::size_t pages, double accesses_per_second) {
  Rates rates(pages, 1e-7);
  for (std::size_t i = 0; i < pages / 2; ++i) {
    rates[i] = std::pow(static_cast<double>(i + 1), -0.99);
  }
  return ShuffledToTotal(std::move(rates), accesses_per_second);
}

Observation Observe(const Rates& rates, const Scenario& scenario, std::uint32_t seed) {
  Chance chance(seed);
  Observation seen{.evidence = std::vector<RateEvidence>(rates.size()),
                   .references = std::vector<double>(rates.size(), 0.0)};
  std::vector<std::size_t> blocks(rates.size() / kBlockPages);
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  chance.Shuffle(blocks);
  blocks.resize(
      static_cast<std::size_t>(std::lround(scenario.visited * static_cast<double>(blocks.size()))));
  if (scenario.blocks) blocks = *scenario.blocks;
  for (int visit = 0; visit < scenario.visits; ++visit) {
    for (const std::size_t block : blocks) {
      VisitBlock(block * kBlockPages, rates, scenario, chance, seen);
    }
  }
  if (scenario.samples_per_second == 0) return seen;
  double total = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) total += rates[i] * scenario.bias(i);
  const double samples = scenario.samples_per_second * scenario.seconds;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    seen.evidence[i].samples = chance.Poisson(samples * rates[i] * scenario.bias(i) / total);
    seen.evidence[i].seconds_watched = scenario.seconds;
  }
  return seen;
}

EpochProfile ToEpoch(const Observation& seen, int index) {
  EpochProfile epoch;
  epoch.index = static_cast<std::uint64_t>(index);
  epoch.start = MonotonicTime(std::chrono::seconds(index));
  epoch.end = MonotonicTime(std::chrono::seconds(index + 1));
  for (std::size_t page = 0; page < seen.evidence.size(); ++page) {
    if (!seen.Seen(page)) continue;
    const RateEvidence& evidence = seen.evidence[page];
    const auto time = [](double seconds) {
      return LogDuration::FromNanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(seconds)));
    };
    Append(epoch.pages,
           {.key = {TargetId(0), Vpn(page)},
            .looks = evidence.looked_at() ? 100u : 0u,
            .references = static_cast<std::uint32_t>(seen.references[page]),
            .first_accesses =
                static_cast<std::uint32_t>(evidence.first_accesses + evidence.first_read_finds),
            .time_at_risk = time(evidence.seconds_at_risk + evidence.first_read_seconds),
            .first_read_finds = static_cast<std::uint32_t>(evidence.first_read_finds),
            .first_read_time = time(2 * evidence.first_read_seconds),
            .later_read_time = time(2 * evidence.seconds_to_read),
            .load_samples = static_cast<std::uint32_t>(evidence.samples),
            .fast_looks = static_cast<std::uint32_t>(evidence.fast_looks),
            .fast_found = static_cast<std::uint32_t>(evidence.fast_found),
            .fast_time = time(evidence.fast_seconds),
            .fast_earlier = static_cast<std::uint32_t>(evidence.fast_earlier),
            .fast_earlier_time = time(evidence.fast_earlier_seconds)});
  }
  return epoch;
}

std::vector<std::size_t> Rotation::Next(std::size_t blocks) {
  std::vector<std::size_t> next;
  while (next.size() < blocks) {
    if (left_.empty()) {
      left_.resize(blocks_);
      std::iota(left_.begin(), left_.end(), std::size_t{0});
      for (std::size_t i = blocks_; i > 1; --i) std::swap(left_[i - 1], left_[random_() % i]);
    }
    next.push_back(left_.back());
    left_.pop_back();
  }
  return next;
}

Accuracy Judge(const Rates& rates, const Observation& seen, std::span<const double> score) {
  const std::vector<std::uint32_t> truth = Best(rates, 1);
  std::vector<double> ranked(score.begin(), score.end());
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (!seen.Seen(i)) ranked[i] = -1;
  }
  const std::vector<std::uint32_t> best = Best(ranked, 2);
  const std::size_t sixteenth = rates.size() / 16;
  const double threshold = rates[truth[sixteenth - 1]];
  double relevant = 0;
  double covered = 0;
  double ideal = 0;
  for (std::size_t i = 0; i < rates.size() / 8; ++i) {
    ideal += rates[truth[i]];
    if (ranked[best[i]] < 0) continue;
    covered += rates[best[i]];
    if (i < sixteenth && rates[best[i]] >= threshold) relevant += 1;
  }
  return {relevant / static_cast<double>(sixteenth), covered / ideal};
}

std::vector<double> Combined(const Observation& seen) { return Estimate(seen, true, true); }
std::vector<double> ReferencesOnly(const Observation& seen) { return Estimate(seen, true, false); }
std::vector<double> SamplesOnly(const Observation& seen) { return Estimate(seen, false, true); }

std::vector<double> Sum(const Observation& seen) {
  std::vector<double> score = seen.references;
  for (std::size_t i = 0; i < score.size(); ++i) score[i] += seen.evidence[i].samples;
  return score;
}

std::vector<double> GammaPoisson(const Observation& seen) {
  constexpr double kShape = 0.3;
  double events = 0;
  double at_risk = 0;
  for (const RateEvidence& page : seen.evidence) {
    events += FindsOf(page);
    at_risk += SecondsOf(page);
  }
  const double prior_seconds = events > 0 ? kShape * at_risk / events : 1;
  double samples = 0;
  double accesses = 0;
  for (const RateEvidence& page : seen.evidence) {
    if (SecondsOf(page) == 0) continue;
    samples += page.samples;
    accesses += (kShape + FindsOf(page)) / (prior_seconds + SecondsOf(page));
  }
  const double equivalent_seconds = accesses > 0 ? samples / accesses : 1;
  std::vector<double> score;
  for (const RateEvidence& page : seen.evidence) {
    score.push_back((kShape + FindsOf(page) + page.samples) /
                    (prior_seconds + SecondsOf(page) + equivalent_seconds));
  }
  return score;
}

}  // namespace tmprof::simulation
