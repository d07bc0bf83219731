// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/true_hit_rates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace tmprof {
namespace true_hit_rates_test {

using std::chrono::seconds;

constexpr Pid kPid{7};

// Pages 0 to 3 weigh 5, 3, 2 and 0 in the first ten seconds, and then the other way around.
Truth ShiftingTruth() {
  const auto phase = [](int start, std::vector<double> weights) {
    TruthPhase made{.start = MonotonicTime(seconds(start)),
                    .end = MonotonicTime(seconds(start + 10)),
                    .processes = {{.pid = kPid, .spans = {}}}};
    for (std::uint64_t page = 0; page < weights.size(); ++page) {
      made.processes[0].spans.push_back(
          {.range = {Vpn(page), Vpn(page + 1)}, .page_weight = weights[page]});
    }
    return made;
  };
  return {.phases = {phase(0, {5, 3, 2, 0}), phase(10, {0, 2, 3, 5})}};
}

EpochProfile Epoch(int start, std::chrono::milliseconds cpu, Pid pid = kPid) {
  EpochProfile epoch;
  epoch.start = MonotonicTime(seconds(start));
  epoch.end = MonotonicTime(seconds(start + 1));
  epoch.targets = {{.id = TargetId(0), .pid = pid, .cpu_time = cpu}};
  return epoch;
}

// Capacities of one and two pages; `order`: pages in the order of choice.
ChosenSpans Choice(std::vector<std::uint8_t> first_choice) {
  ChosenSpans chosen{.capacities = {PageCount(1), PageCount(2)},
                     .key = {},
                     .span_pages = {},
                     .first_choice = std::move(first_choice)};
  for (std::uint64_t page = 0; page < chosen.first_choice.size(); ++page) {
    chosen.key.push_back({TargetId(0), Vpn(page)});
    chosen.span_pages.push_back(1);
  }
  return chosen;
}

TEST(TrueHitRates, AreOfTheLastPhaseAndOfEachEpochByItsCpuTime) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  const ChosenSpans first_pages = Choice({0, 1, 2, 2});
  judge.Add(Epoch(0, std::chrono::milliseconds(100)), first_pages);
  judge.Add(Epoch(1, std::chrono::milliseconds(300)), first_pages);
  judge.Add(Epoch(12, std::chrono::milliseconds(100)), Choice({2, 2, 1, 0}));
  const TrueHitRates one = judge.At(PageCount(1));
  EXPECT_DOUBLE_EQ(one.best.value(), 0.5);
  EXPECT_DOUBLE_EQ(one.ranked.value(), 0.5);
  EXPECT_DOUBLE_EQ(one.history.value(), 0.75 * 0.5 + 0.25 * 0);
  const TrueHitRates two = judge.At(PageCount(2));
  EXPECT_DOUBLE_EQ(two.best.value(), 0.8);
  EXPECT_DOUBLE_EQ(two.ranked.value(), 0.8);
  EXPECT_DOUBLE_EQ(two.history.value(), 0.75 * 0.8 + 0.25 * 0.2);
}

TEST(TrueHitRates, LeaveOutEpochsThatTheTruthDoesNotKnow) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  judge.Add(Epoch(0, std::chrono::milliseconds(100)), Choice({0, 1, 2, 2}));
  EXPECT_EQ(judge.At(PageCount(1)).history, std::nullopt);
  judge.Add(Epoch(25, std::chrono::milliseconds(100)), Choice({2, 2, 1, 0}));
  EXPECT_EQ(judge.At(PageCount(1)).history, std::nullopt);
  // The last phase that was recorded is the first one, and so is the last choice that is judged.
  EXPECT_DOUBLE_EQ(judge.At(PageCount(1)).ranked.value(), 0.5);
}

TEST(TrueHitRates, JudgeAnEpochByAllPhasesThatItReachesInto) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  judge.Add(Epoch(8, std::chrono::milliseconds(100)), Choice({0, 1, 2, 2}));
  EpochProfile across = Epoch(9, std::chrono::milliseconds(100));
  across.end = MonotonicTime(seconds(13));
  judge.Add(across, Choice({0, 1, 2, 2}));
  EXPECT_DOUBLE_EQ(judge.At(PageCount(1)).history.value(), 0.25 * 0.5 + 0.75 * 0);
}

TEST(TrueHitRates, KnowTheProcessThatHasEnded) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  judge.Add(Epoch(0, std::chrono::milliseconds(100)), Choice({0, 1, 2, 2}));
  EpochProfile empty = Epoch(1, std::chrono::milliseconds(100));
  empty.targets.clear();
  judge.Add(empty, Choice({0, 1, 2, 2}));
  EXPECT_DOUBLE_EQ(judge.At(PageCount(1)).ranked.value(), 0.5);
}

TEST(TrueHitRates, CountNothingWhereNoSpanFits) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  judge.Add(Epoch(0, std::chrono::milliseconds(100)), Choice({2, 2, 2, 2}));
  judge.Add(Epoch(1, std::chrono::milliseconds(100)), Choice({2, 2, 2, 2}));
  EXPECT_EQ(judge.At(PageCount(1)).ranked, 0);
  EXPECT_EQ(judge.At(PageCount(1)).history, 0);
}

TEST(TrueHitRates, AreZeroOfAnotherProcessAndUnknownBeforeAChoice) {
  const Truth truth = ShiftingTruth();
  TrueHitRateJudge judge(truth);
  EXPECT_EQ(judge.At(PageCount(1)).best, std::nullopt);
  EXPECT_EQ(judge.At(PageCount(1)).ranked, std::nullopt);
  judge.Add(Epoch(0, std::chrono::milliseconds(100), Pid(8)), Choice({0, 1, 2, 2}));
  EXPECT_EQ(judge.At(PageCount(1)).ranked, 0);
  EXPECT_DOUBLE_EQ(judge.At(PageCount(1)).best.value(), 0.5);
}

}  // namespace true_hit_rates_test
}  // namespace tmprof
