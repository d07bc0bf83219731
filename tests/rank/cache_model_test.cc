// SPDX-License-Identifier: Apache-2.0

#include "rank/cache_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <numeric>
#include <random>
#include <unordered_map>
#include <vector>

namespace tmprof {
namespace cache_model_test {

constexpr std::size_t kPages = 512;
constexpr std::size_t kLines = 64;  // lines of a page
constexpr std::uint64_t kLineBytes = 64;
constexpr double kEven = 128;

// An LRU cache of so many lines.
class SimulatedCache {
 public:
  explicit SimulatedCache(std::size_t lines) : room_(lines) {}

  // Returns whether it missed.
  bool Access(std::uint64_t line) {
    const auto found = places_.find(line);
    if (found != places_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second);
      return false;
    }
    by_use_.push_front(line);
    places_[line] = by_use_.begin();
    if (by_use_.size() > room_) {
      places_.erase(by_use_.back());
      by_use_.pop_back();
    }
    return true;
  }

 private:
  std::size_t room_;
  std::list<std::uint64_t> by_use_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

std::vector<double> Zipf() {
  std::vector<double> rates(kPages);
  for (std::size_t i = 0; i < kPages; ++i) rates[i] = 1e5 / static_cast<double>(i + 1);
  return rates;
}

std::vector<CachedPages> PagesOf(const std::vector<double>& rates) {
  std::vector<CachedPages> pages;
  for (const double rate : rates) pages.push_back({.rate = rate, .pages = 1});
  return pages;
}

// Misses of each page, of pages whose lines have rates of a Gamma distribution of this shape.
std::vector<double> Simulate(const std::vector<double>& rates, std::size_t cache_lines,
                             double evenness) {
  std::mt19937_64 random(7);
  std::gamma_distribution<double> of_line(evenness);
  std::vector<double> weight;
  for (const double rate : rates) {
    for (std::size_t line = 0; line < kLines; ++line) weight.push_back(rate * of_line(random));
  }
  std::discrete_distribution<std::uint64_t> next(weight.begin(), weight.end());
  SimulatedCache cache(cache_lines);
  std::vector<double> misses(rates.size());
  constexpr int kWarm = 200'000;
  for (int i = 0; i < 3 * kWarm; ++i) {
    const std::uint64_t line = next(random);
    if (cache.Access(line) && i >= kWarm) ++misses[line / kLines];
  }
  return misses;
}

// The share of the first pages, the fastest ones.
double ShareOfFirst(const std::vector<double>& of_pages, std::size_t count) {
  const auto end = of_pages.begin() + static_cast<std::ptrdiff_t>(count);
  return std::accumulate(of_pages.begin(), end, 0.0) /
         std::accumulate(of_pages.begin(), of_pages.end(), 0.0);
}

TEST(CacheModel, TellsWhoseAccessesMissASimulatedCache) {
  const std::vector<double> rates = Zipf();
  for (const double evenness : {kEven, 0.5}) {
    for (const std::size_t cache_lines : {1024UL, 8192UL}) {
      const auto model =
          CacheModel::Make(PagesOf(rates), static_cast<double>(cache_lines * kLineBytes), evenness);
      ASSERT_TRUE(model);
      std::vector<double> misses;
      for (const double rate : rates) misses.push_back(rate * model->PartToMemory(rate));
      const std::vector<double> simulated = Simulate(rates, cache_lines, evenness);
      for (const std::size_t first : {kPages / 32, kPages / 8, kPages / 2}) {
        EXPECT_NEAR(ShareOfFirst(misses, first), ShareOfFirst(simulated, first), 0.03)
            << evenness << ", " << cache_lines << " lines, " << first << " pages";
      }
    }
  }
}

TEST(CacheModel, TheCacheIsFullOnceItHasTurnedOver) {
  const std::vector<CachedPages> pages = {{.rate = 640, .pages = 100}};
  const auto model = CacheModel::Make(pages, 3200 * 64, kEven);
  ASSERT_TRUE(model);
  // Half of the 6 400 lines are used within that time, each ten times a second.
  EXPECT_NEAR(model->turnover_seconds(), std::log(2) / 10, 0.001);
  EXPECT_NEAR(model->PartToMemory(640), 0.5, 0.01);
  EXPECT_EQ(model->PartToMemory(0), 1);
}

TEST(CacheModel, PagesThatHaveRoomInTheCacheDoNotReachMemory) {
  const std::vector<CachedPages> pages = {{.rate = 640, .pages = 100}, {.rate = 0, .pages = 1e6}};
  EXPECT_FALSE(CacheModel::Make(pages, 6400 * 64, kEven));
  EXPECT_TRUE(CacheModel::Make(pages, 6399 * 64, kEven));
  EXPECT_FALSE(CacheModel::Make({}, 64, kEven));
}

TEST(CacheModel, ACacheThatLacksNextToNothingIsModelledOrHoldsAll) {
  std::vector<CachedPages> pages = {{.rate = 1e6, .pages = 1}, {.rate = 1e-3, .pages = 1e6}};
  for (const double evenness : {1.0 / 32, kEven}) {
    const auto model = CacheModel::Make(pages, (1e6 + 1) * 4096 - 64, evenness);
    if (!model) continue;
    EXPECT_TRUE(std::isfinite(model->turnover_seconds()));
    EXPECT_GE(model->PartToMemory(1e6), 0);
    EXPECT_LT(model->PartToMemory(1e6), 1e-3);
  }
}

// Two samples of time in a page are of one line in proportion to the squares of the lines' times.
TEST(CacheModel, TellsHowOftenTwoSamplesOfAPageAreOfOneLine) {
  constexpr double kTimeOfMiss = 20;
  const std::vector<CachedPages> pages = PagesOf(Zipf());
  std::mt19937_64 random(11);
  for (const double evenness : {0.125, 0.5, 2.0, kEven}) {
    const auto model = CacheModel::Make(pages, 512 * 1024, evenness);
    ASSERT_TRUE(model);
    for (const double rate : {1'000.0, 100'000.0}) {
      std::gamma_distribution<double> of_line(evenness, rate / kLines / evenness);
      double of_one_line = 0;
      double of_page = 0;
      double accesses = 0;
      double time = 0;
      for (int page = 0; page < 4'000; ++page) {
        double sum = 0;
        for (std::size_t line = 0; line < kLines; ++line) {
          const double line_rate = of_line(random);
          const double reaches_memory = std::exp(-line_rate * model->turnover_seconds());
          const double of_time = line_rate * (1 + kTimeOfMiss * reaches_memory);
          of_one_line += of_time * of_time;
          accesses += line_rate;
          sum += of_time;
        }
        time += sum;
        of_page += sum * sum;
      }
      const double chance = of_one_line / of_page;
      EXPECT_NEAR(model->ChanceOfOneLine(rate), chance, 0.05 * chance) << evenness << " " << rate;
      EXPECT_NEAR(model->RelativeTime(rate), time / accesses, 0.05 * time / accesses);
    }
  }
}

}  // namespace cache_model_test
}  // namespace tmprof
