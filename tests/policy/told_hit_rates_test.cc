// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/told_hit_rates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/base/hand_made.h"

namespace tmprof {
namespace told_hit_rates_test {

constexpr std::uint64_t kPages = 8192;

// Each epoch finds each eighth page after a millisecond of CPU time, and no other in 8 ms.
OpenTrace HotEighth(int epochs) {
  std::vector<EpochProfile> trace;
  for (int e = 0; e < epochs; ++e) {
    EpochProfile epoch;
    epoch.index = static_cast<std::uint64_t>(e);
    epoch.start = MonotonicTime(std::chrono::seconds(e));
    epoch.end = MonotonicTime(std::chrono::seconds(e + 1));
    for (std::uint64_t vpn = 0; vpn < kPages; ++vpn) {
      const bool hot = vpn % 8 == 0;
      Append(
          epoch.pages,
          {.key = {TargetId(0), Vpn(vpn)},
           .looks = 4,
           .references = hot,
           .first_accesses = hot,
           .time_at_risk = LogDuration::FromNanoseconds(std::chrono::milliseconds(hot ? 1 : 8))});
    }
    trace.push_back(std::move(epoch));
  }
  return [trace = std::move(trace)]() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<VectorEpochStream>(trace);
  };
}

Result<std::vector<HitRates>> Tell(int epochs, const std::vector<PageCount>& capacities) {
  return TellHitRates(HotEighth(epochs), Ranker::DefaultOptions(RankModel::kRate),
                      RankSource::kCombined, capacities);
}

TEST(ToldHitRates, AreInTheOrderOfTheCapacitiesGiven) {
  const auto told =
      Tell(4, {PageCount(kPages / 16), PageCount(kPages / 8), PageCount(kPages / 16)});
  ASSERT_TRUE(told.has_value());
  ASSERT_EQ(told->size(), 3u);
  for (const std::size_t i : {0, 2}) {
    EXPECT_EQ((*told)[i].capacity, PageCount(kPages / 16));
    EXPECT_EQ((*told)[i].pages, PageCount(kPages));
    EXPECT_EQ((*told)[i].history->value, (*told)[0].history->value);
    EXPECT_EQ((*told)[i].attainable->value, (*told)[0].attainable->value);
    EXPECT_LT((*told)[i].history->value, (*told)[1].history->value - 0.05);
    EXPECT_LT((*told)[i].attainable->value, (*told)[1].attainable->value - 0.05);
  }
  // All pages that were ever found accessed.
  EXPECT_GT((*told)[1].history->value, 0.9);
  EXPECT_GT((*told)[1].attainable->value, 0.9);
}

TEST(ToldHitRates, HaveNoHistoryAfterOneEpoch) {
  const auto told = Tell(1, {PageCount(kPages / 8)});
  ASSERT_TRUE(told.has_value());
  EXPECT_TRUE((*told)[0].attainable.has_value());
  EXPECT_FALSE((*told)[0].history.has_value());
}

TEST(ToldHitRates, AreOfEstimatedRatesOnly) {
  const Ranker::Options rate = Ranker::DefaultOptions(RankModel::kRate);
  EXPECT_TRUE(CanTellHitRates(rate, RankSource::kCombined));
  EXPECT_TRUE(CanTellHitRates(rate, RankSource::kReferences));
  EXPECT_FALSE(CanTellHitRates(rate, RankSource::kSamples));
  EXPECT_FALSE(CanTellHitRates(rate, RankSource::kTruth));
  EXPECT_FALSE(CanTellHitRates(Ranker::DefaultOptions(RankModel::kSum), RankSource::kCombined));
}

}  // namespace told_hit_rates_test
}  // namespace tmprof
