// SPDX-License-Identifier: Apache-2.0

#include "profiler/frame_comparison.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "profiler/epoch_builder.h"

namespace tmprof {
namespace frame_comparison_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Each reading takes a while.
class SlowClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now += step; }
  mutable MonotonicTime now{seconds(100)};
  nanoseconds step{0};
};

// Process t has the PID 100 + t.
class FrameComparisonTest : public testing::Test {
 protected:
  // Pages [0, 1000) are private memory of each process, and the next 1000 are shared memory.
  void Start(std::uint32_t target, std::int32_t parent) {
    targets_.push_back(
        {.id = TargetId(target),
         .pid = Pid(100 + static_cast<std::int32_t>(target)),
         .mappings = {{.range = {Vpn(0), Vpn(1000)}, .kind = MappingKind::kAnonymous},
                      {.range = {Vpn(1000), Vpn(2000)}, .kind = MappingKind::kShared}}});
    parent_of_[TargetId(target)] = Pid(parent);
  }
  void Look(std::uint32_t target, std::uint64_t vpn, std::optional<SeenFrame> frame,
            std::uint64_t span = 1) {
    looks_.push_back({.key = {TargetId(target), Vpn(vpn)},
                      .span = PageCount(span),
                      .looks = 1,
                      .frame = frame,
                      .region = !frame});
  }
  static SeenFrame At(std::uint64_t number) { return {.number = number, .is_shareable = true}; }
  static SeenFrame OwnAt(std::uint64_t number) { return {.number = number, .is_shareable = false}; }

  EpochProfile Epoch() {
    std::vector<std::optional<SeenFrame>> frames;
    EpochProfile profile =
        BuildEpoch({.targets = targets_}, {{.references = std::exchange(looks_, {})}}, &frames);
    comparison_.Compare(
        profile, frames,
        [this](TargetId target) -> std::optional<Pid> {
          const auto known = parent_of_.find(target);
          return known == parent_of_.end() ? std::nullopt : std::optional(known->second);
        },
        clock_);
    return profile;
  }
  using Column = std::optional<std::vector<std::uint32_t>>;
  Column SameAs() { return Epoch().pages.same_as; }

  std::vector<Target> targets_;
  std::map<TargetId, Pid> parent_of_;
  std::vector<ReferenceRecord> looks_;
  SlowClock clock_;
  FrameComparison comparison_;
};

TEST_F(FrameComparisonTest, JoinsPagesOfAFamilyWithEqualFrames) {
  Start(0, 1);
  Start(1, 100);
  Start(2, 101);
  for (std::uint32_t target = 0; target < 3; ++target) {
    Look(target, 5, At(70));
    Look(target, 6, At(80 + target));
  }
  EXPECT_EQ(SameAs(), (Column{{0, 1, 0, 3, 0, 5}}));
}

TEST_F(FrameComparisonTest, JoinsPagesOfChildrenWhoseParentIsNoTarget) {
  Start(0, 50);
  Start(1, 50);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 0}}));
}

TEST_F(FrameComparisonTest, DoesNotCompareStrangers) {
  Start(0, 1);
  Start(1, 1);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt);
  Start(2, 101);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  Look(2, 5, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1, 1}}));
}

TEST_F(FrameComparisonTest, JoinsNoPageThatItsProcessMayWriteTo) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, At(70));
  Look(1, 5, OwnAt(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1}}));
}

TEST_F(FrameComparisonTest, JoinsNoPagesAtDifferentAddressesOrOfOtherSizes) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, At(70));
  Look(1, 6, At(70));
  Look(0, 512, At(512), 512);
  Look(1, 512, At(512));
  EXPECT_EQ(SameAs(), (Column{{0, 1, 2, 3}}));
}

TEST_F(FrameComparisonTest, LeavesSharedMappingsToTheirFiles) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 1005, At(70));
  Look(1, 1005, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1}}));
}

TEST_F(FrameComparisonTest, ComparesNothingWithoutFrames) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, std::nullopt, 100);
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt);
  Look(0, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt) << "one process has pages";
}

TEST_F(FrameComparisonTest, RestsFor500TimesWhatAComparisonTook) {
  Start(0, 1);
  Start(1, 100);
  const auto compares_after = [&](nanoseconds time) {
    clock_.now += time;
    Look(0, 5, At(70));
    Look(1, 5, At(70));
    return SameAs().has_value();
  };
  clock_.step = milliseconds(1);
  EXPECT_TRUE(compares_after(seconds(0)));
  EXPECT_FALSE(compares_after(milliseconds(490)));
  EXPECT_TRUE(compares_after(milliseconds(10)));
}

// Random families, whose records meet or do not.
TEST_F(FrameComparisonTest, AgreesWithAComparisonOfAllPairs) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return random() % n; };
    targets_.clear();
    parent_of_.clear();
    std::map<std::uint32_t, std::uint32_t> root;
    const auto processes = static_cast<std::uint32_t>(2 + below(6));
    for (std::uint32_t target = 0; target < processes; ++target) {
      const auto parent = static_cast<std::uint32_t>(below(target + 1));
      Start(target, parent == target ? 1 : static_cast<std::int32_t>(100 + parent));
      root[target] = parent == target ? target : root[parent];
    }
    std::vector<std::optional<SeenFrame>> frames;
    for (std::uint32_t target = 0; target < processes; ++target) {
      for (std::uint64_t page = 0; page < 20; ++page) {
        if (below(3) == 0) continue;
        Look(target, 990 + page, SeenFrame{.number = below(4), .is_shareable = below(4) != 0});
        frames.push_back(looks_.back().frame);
      }
    }
    const EpochProfile epoch = Epoch();
    const PageColumns& pages = epoch.pages;
    std::vector<std::uint32_t> naive;
    bool any_family = false;
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      std::uint32_t first = i;
      for (std::uint32_t j = 0; j < pages.size(); ++j) {
        const bool are_relatives = root[pages.target[i].value()] == root[pages.target[j].value()];
        any_family |= are_relatives && pages.target[i] != pages.target[j];
        if (j < first && are_relatives && pages.vpn[i] == pages.vpn[j] &&
            pages.vpn[i] < Vpn(1000) && frames[i] == frames[j] && frames[i]->is_shareable) {
          first = j;
        }
      }
      naive.push_back(first);
    }
    EXPECT_EQ(pages.same_as, any_family ? Column(naive) : std::nullopt);
  }
}

}  // namespace frame_comparison_test
}  // namespace tmprof
