// SPDX-License-Identifier: Apache-2.0

#include "rank/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "rank/rank_model.h"
#include "rank/total_ranker.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace streams_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TargetId kTarget{1};
constexpr std::uint64_t kPages = 512;
constexpr std::uint64_t kStreamed = 0;      // first page of the streamed array
constexpr std::uint64_t kChased = 8 * 512;  // and of the other one
constexpr double kPeriod = 8;  // seconds from one access of a page to the next, on average
constexpr double kVisit = 2;   // seconds

// The time of each page's first access after the visit's begin; beyond the visit: not seen.
using Accesses = std::function<double(std::uint64_t page)>;

void Visit(EpochProfile& epoch, std::uint64_t first, const Accesses& accesses,
           std::uint64_t pages = kPages) {
  for (std::uint64_t page = 0; page < pages; ++page) {
    const double at = accesses(page);
    const bool is_found = at < kVisit;
    Append(epoch.pages, {.key = {kTarget, Vpn(first + page)},
                         .looks = 1,
                         .references = is_found ? 1u : 0u,
                         .first_accesses = is_found ? 1u : 0u,
                         .time_at_risk = LogDuration::FromNanoseconds(nanoseconds(
                             std::llround(1e9 * std::max(1e-6, std::min(at, kVisit)))))});
  }
}

EpochProfile EpochAt(std::uint64_t index) {
  EpochProfile epoch{.index = index,
                     .start = MonotonicTime(seconds(2 * index)),
                     .end = MonotonicTime(seconds(2 * index + 2))};
  epoch.targets.push_back({.id = kTarget, .pid = Pid(7), .cpu_time = seconds(2)});
  return epoch;
}

// A stream passes the array in 10 ms once in kPeriod; visits begin at a random moment of it.
Accesses Streamed(std::mt19937_64& random) {
  const double begin = std::uniform_real_distribution<double>(0, kPeriod)(random);
  return [begin](std::uint64_t page) {
    return begin + 0.01 * static_cast<double>(page) / static_cast<double>(kPages);
  };
}

Accesses AtRandom(std::mt19937_64& random, double mean_seconds = kPeriod) {
  return [&random, mean_seconds](std::uint64_t) {
    return std::exponential_distribution<double>(1 / mean_seconds)(random);
  };
}

double ShareOf(const std::function<Accesses(std::mt19937_64&, std::uint64_t)>& accesses,
               std::uint64_t epochs = 40) {
  std::mt19937_64 random(1);
  Streams streams;
  for (std::uint64_t index = 0; index < epochs; ++index) {
    EpochProfile epoch = EpochAt(index);
    Visit(epoch, 0, accesses(random, index));
    streams.Look(epoch);
  }
  return streams.Shares().Of({kTarget, Vpn(0)}, PageCount(kPages));
}

TEST(Streams, AStreamFindsItsPagesTogether) {
  EXPECT_GT(ShareOf([](auto& random, auto) { return Streamed(random); }), 0.8);
}

TEST(Streams, PagesAccessedAtRandomAreNone) {
  for (const double mean_seconds : {0.01, 1.0, 8.0, 100.0}) {
    EXPECT_LT(ShareOf([=](auto& random, auto) { return AtRandom(random, mean_seconds); }), 0.05)
        << mean_seconds;
  }
}

TEST(Streams, HotPagesBesideColdOnesAreNone) {
  EXPECT_LT(ShareOf([](auto& random, auto) -> Accesses {
              return [&random](std::uint64_t page) {
                return page < kPages / 2 ? std::exponential_distribution<double>(10)(random) : 1e9;
              };
            }),
            0.15);
}

// Rates of real spreads through the scanner's ladder, which stops once half of a block is found.
TEST(Streams, TheScannersVisitsMakeNoneOfRandomAccesses) {
  constexpr std::size_t kMany = 8 * kPages;
  for (const auto& rates : {simulation::Zipf(kMany, 20'000), simulation::Hotset(kMany, 20'000),
                            simulation::HalfIdle(kMany, 2'000), simulation::Rates(kMany, 0.5)}) {
    Streams streams;
    for (int index = 0; index < 40; ++index) {
      streams.Look(simulation::ToEpoch(
          simulation::Observe(rates, {}, static_cast<std::uint32_t>(index + 1)), index));
    }
    EXPECT_LT(streams.Shares().Of({TargetId(0), Vpn(0)}, PageCount(kMany)), 0.1) << rates.front();
  }
}

// Four visits in which all pages are used at random, then twelve in which none is.
TEST(Streams, BurstsOfRandomAccessesAreNone) {
  EXPECT_LT(ShareOf([](auto& random, std::uint64_t index) -> Accesses {
              if (index % 16 < 4) return AtRandom(random, 0.01);
              return [](std::uint64_t) { return 1e9; };
            }),
            0.1);
}

TEST(Streams, LittleEvidenceTellsNothing) {
  const auto stream = [](auto& random, auto) { return Streamed(random); };
  EXPECT_EQ(ShareOf(stream, 4), 0);
  EXPECT_EQ(Streams().Shares().Of({kTarget, Vpn(0)}, PageCount(1)), 0);
  // Huge pages have one bit for all.
  std::mt19937_64 random(1);
  Streams streams;
  for (std::uint64_t index = 0; index < 40; ++index) {
    EpochProfile epoch = EpochAt(index);
    Visit(epoch, 0, Streamed(random));
    for (std::uint32_t& span : epoch.pages.span_pages) span = 512;
    streams.Look(epoch);
  }
  EXPECT_EQ(streams.Shares().Of({kTarget, Vpn(0)}, PageCount(kPages)), 0);
}

TEST(Streams, OldVisitsCountForLess) {
  EXPECT_LT(
      ShareOf([](auto& random,
                 std::uint64_t index) { return index < 640 ? Streamed(random) : AtRandom(random); },
              /*epochs=*/640 + 256),
      0.2);
}

// Nine visits of 16 pages that are found every fourth time: too few finds for one block alone.
TEST(Streams, NeighboursTellOfABlock) {
  const auto share_of_first = [](std::uint64_t blocks, std::uint64_t apart) {
    std::mt19937_64 random(1);
    Streams streams;
    for (std::uint64_t index = 0; index < 9; ++index) {
      EpochProfile epoch = EpochAt(index);
      const double at = index % 3 == 0 ? 0.5 : 1e9;
      for (std::uint64_t block = 0; block < blocks; ++block)
        Visit(epoch, 512 * apart * block, [at](std::uint64_t) { return at; }, /*pages=*/16);
      streams.Look(epoch);
    }
    return streams.Shares().Of({kTarget, Vpn(0)}, PageCount(16));
  };
  EXPECT_EQ(share_of_first(1, 1), 0);
  EXPECT_GT(share_of_first(3, 1), 0.3);
  EXPECT_EQ(share_of_first(3, 3), 0) << "blocks beyond two others are no neighbours";
}

Streams SeenFor(std::uint64_t epochs) {
  std::mt19937_64 random(1);
  Streams streams;
  for (std::uint64_t index = 0; index < epochs; ++index) {
    EpochProfile epoch = EpochAt(index);
    Visit(epoch, kStreamed, Streamed(random));
    streams.Look(epoch);
  }
  return streams;
}

TEST(Streams, ABlockIsForgottenWithTheEvidenceOfItsLastVisit) {
  Streams streams = SeenFor(40);
  ASSERT_EQ(streams.blocks(), 1u);
  const Keeps half(Keep{.evidence = 0.5});
  for (int epoch = 0; epoch < 9; ++epoch) streams.Age(half);
  EXPECT_GT(streams.Shares().Of({kTarget, Vpn(0)}, PageCount(kPages)), 0.8);
  EpochProfile again = EpochAt(40);
  std::mt19937_64 random(2);
  Visit(again, kStreamed, Streamed(random));
  streams.Look(again);
  for (int epoch = 0; epoch < 9; ++epoch) streams.Age(half);
  EXPECT_EQ(streams.blocks(), 1u) << "it was visited since";
  streams.Age(half);
  streams.Age(half);
  EXPECT_EQ(streams.blocks(), 0u);
}

TEST(Streams, ATargetThatIsGoneIsForgotten) {
  Streams streams = SeenFor(40);
  streams.ForgetAllBut(std::vector{TargetId(0), kTarget});
  EXPECT_EQ(streams.blocks(), 1u);
  streams.ForgetAllBut(std::vector{TargetId(0), TargetId(2)});
  EXPECT_EQ(streams.blocks(), 0u);
}

TEST(Streams, AHugePageThatTakesABlocksPlaceCountsInFull) {
  Streams streams = SeenFor(40);
  ASSERT_GT(streams.Shares().Of({kTarget, Vpn(0)}, PageCount(kPages)), 0.8);
  EpochProfile epoch = EpochAt(40);
  Append(epoch.pages, {.key = {kTarget, Vpn(0)}, .span = PageCount(512), .looks = 1});
  streams.Look(epoch);
  EXPECT_EQ(streams.Shares().Of({kTarget, Vpn(0)}, PageCount(kPages)), 0);
}

// The daemon runs for months.
TEST(Streams, ARankerForgetsThoseOfProcessesThatHaveExited) {
  Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
  options.llc_bytes = 64 << 10;
  Ranker ranker(options);
  std::mt19937_64 random(1);
  for (std::uint64_t index = 0; index < 20; ++index) {
    EpochProfile epoch = EpochAt(index);
    const TargetId target(static_cast<std::uint32_t>(index));
    epoch.targets.front().id = target;
    Visit(epoch, kStreamed, Streamed(random));
    for (TargetId& of : epoch.pages.target) of = target;
    ranker.Absorb(epoch);
  }
  EXPECT_EQ(ranker.stream_blocks(), 1u);
}

// Both arrays are found as often, and no cache has room for them.
TEST(Streams, AChasedArrayIsRankedAboveAStreamedOneOfTheSameRate) {
  std::mt19937_64 random(2);
  TotalRanker total(RankModel::kRate, /*llc_bytes=*/64 << 10);
  Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
  options.llc_bytes = 64 << 10;
  Ranker ranker(options);
  for (std::uint64_t index = 0; index < 40; ++index) {
    EpochProfile epoch = EpochAt(index);
    Visit(epoch, kStreamed, Streamed(random));
    Visit(epoch, kChased, AtRandom(random));
    total.Absorb(epoch);
    ranker.Absorb(epoch);
  }
  const auto sums = [](const EvidenceTable& table, const Scores& scores) {
    std::pair<double, double> sum{0, 0};
    for (std::size_t row = 0; row < table.size(); ++row) {
      (table.key[row].vpn < Vpn(kChased) ? sum.first : sum.second) += scores[row];
    }
    return sum;
  };
  const auto [streamed_accesses, chased_accesses] =
      sums(total.table(), total.Score(RankSource::kCombined));
  EXPECT_NEAR(streamed_accesses / chased_accesses, 1, 0.5) << "they are accessed as often";
  const auto [streamed, chased] = sums(total.table(), total.Score(RankSource::kMemory));
  EXPECT_LT(streamed, chased / 3);
  const auto [streamed_now, chased_now] = sums(ranker.table(), ranker.Score(RankSource::kMemory));
  EXPECT_LT(streamed_now, chased_now / 3);
}

// Samples of misses show by themselves what a prefetcher leaves.
TEST(Streams, SamplesOfMissesAreBelieved) {
  std::mt19937_64 random(3);
  Ranker ranker([] {
    Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
    options.llc_bytes = 64 << 10;
    return options;
  }());
  for (std::uint64_t index = 0; index < 40; ++index) {
    EpochProfile epoch = EpochAt(index);
    Visit(epoch, kStreamed, Streamed(random));
    Visit(epoch, kChased, AtRandom(random));
    for (std::size_t i = 0; i < epoch.pages.size(); i += 8) epoch.pages.load_samples[i] = 1;
    epoch.sources.push_back({.name = "sampler",
                             .role = SourceRole::kSamples,
                             .state = SourceState::kActive,
                             .samples_of = SampleSubject::kMemory,
                             .accesses_per_sample = 1000,
                             .duty_cycle = 1.0,
                             .observations = 128});
    ranker.Absorb(epoch);
  }
  const Scores scores = ranker.Score(RankSource::kMemory);
  double streamed = 0;
  double chased = 0;
  for (std::size_t row = 0; row < ranker.table().size(); ++row) {
    (ranker.table().key[row].vpn < Vpn(kChased) ? streamed : chased) += scores[row];
  }
  EXPECT_GT(streamed, chased / 2);
}

}  // namespace streams_test
}  // namespace tmprof
