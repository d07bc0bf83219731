// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/decider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace decider_test {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::SizeIs;

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};

// All pages are on one node.
class OneNode final : public PageLocator {
 public:
  Result<std::vector<PlacedRun>> Locate(Pid /*pid*/, VpnRange range,
                                        std::span<const VpnRange> /*joint*/) override {
    return std::vector<PlacedRun>{{range, node, PageCount(1)}};
  }
  NodeId node = kSlow;
};

class DeciderTest : public testing::Test {
 protected:
  DeciderTest() {
    options_.placer.policy = *FindPolicy("history");
    options_.placer.ranker = Ranker::DefaultOptions(RankModel::kSum);
    options_.placer.capacity = PageCount(100);
    options_.placer.most_pages = PageCount(1000);
    options_.placer.cost_of_move = 0.5;
    options_.shortest_epoch = seconds(1);
    options_.max_cpu_share = 0.1;
  }

  // Decides after an epoch in which the first ten of a hundred pages were sampled.
  PlacementDecision Decide(Decider& decider) {
    EpochProfile epoch{.index = next_epoch_,
                       .start = MonotonicTime(seconds(next_epoch_)),
                       .end = MonotonicTime(seconds(next_epoch_ + 1))};
    ++next_epoch_;
    epoch.targets.push_back({.id = TargetId(0), .pid = Pid(1), .cpu_time = seconds(1)});
    for (std::uint64_t vpn = 0; vpn < 10; ++vpn) {
      Append(epoch.pages, {.key = {TargetId(0), Vpn(vpn)}, .load_samples = 10});
    }
    const std::vector<PlacedTarget> targets{{TargetId(0), Pid(1), {{Vpn(0), Vpn(100)}}, &binding_}};
    const std::vector<NodeMemory> nodes{
        {.id = kFast, .free = PageCount(500), .allocatable = PageCount(500)},
        {.id = kSlow, .free = PageCount(500), .allocatable = PageCount(500)}};
    return decider.Decide(epoch, targets, nodes);
  }

  DeciderOptions options_{.placer = {.tiers = *Tiers::Make({{kFast}, {kSlow}})}};
  OneNode memory_;
  FakeClock cpu_clock_;
  MemoryBinding binding_{std::nullopt, std::nullopt, {}};
  std::uint64_t next_epoch_ = 0;
};

TEST_F(DeciderTest, DecidesTheMovesOfHotPages) {
  Decider decider(options_, memory_, cpu_clock_);
  EXPECT_THAT(Decide(decider).moves, SizeIs(10));
}

TEST_F(DeciderTest, MakesEpochsLongEnoughForTheShareOfACpu) {
  Decider decider(options_, memory_, cpu_clock_);
  EXPECT_EQ(decider.NextEpoch(), seconds(1));
  Decide(decider);
  EXPECT_FALSE(decider.Pace(seconds(1), milliseconds(500)));
  EXPECT_EQ(decider.NextEpoch(), seconds(5)) << "10 % of 5 s are what it took";
  options_.max_cpu_share = 0.25;
  decider.Configure(options_);
  EXPECT_EQ(decider.NextEpoch(), seconds(2));
}

TEST_F(DeciderTest, MakesEpochsFourTimesAsLongWhereNoMovesAreWorthIt) {
  memory_.node = kFast;  // all is where it should be
  Decider decider(options_, memory_, cpu_clock_);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Decide(decider);
    decider.Pace(decider.NextEpoch(), milliseconds(500));
  }
  EXPECT_EQ(decider.NextEpoch(), seconds(20));
  memory_.node = kSlow;
  Decider paying(options_, memory_, cpu_clock_);
  Decide(paying);
  paying.Pace(seconds(1), milliseconds(500));
  EXPECT_EQ(paying.NextEpoch(), seconds(5));
}

TEST_F(DeciderTest, TellsOncePerConfigurationThatTheShareIsNotKept) {
  Decider decider(options_, memory_, cpu_clock_);
  Decide(decider);
  EXPECT_TRUE(decider.Pace(minutes(1), seconds(30)));
  EXPECT_FALSE(decider.Pace(minutes(1), seconds(30)));
  decider.Configure(options_);
  EXPECT_TRUE(decider.Pace(minutes(1), seconds(30)));
}

}  // namespace decider_test
}  // namespace tmprof
