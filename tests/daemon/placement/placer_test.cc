// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <map>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace placer_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr NodeId kFar{2};  // only if there are three tiers
constexpr Pid kPid{100};

// A machine of two nodes on which moves can be played.
class FakeMemory final : public PageLocator {
 public:
  explicit FakeMemory(FakeClock& cpu_clock) : cpu_clock_(&cpu_clock) {}

  Result<std::vector<PlacedRun>> Locate(Pid /*pid*/, VpnRange range,
                                        std::span<const VpnRange> /*joint*/) override {
    ++looks;
    cpu_clock_->now += per_look;
    std::vector<PlacedRun> runs;
    for (auto page = node.lower_bound(range.start); page != node.end() && page->first < range.end;
         ++page) {
      runs.push_back({{page->first, page->first + PageCount(1)}, page->second, PageCount(1)});
    }
    return runs;
  }
  void Put(std::uint64_t first, std::uint64_t pages, NodeId on) {
    for (std::uint64_t i = 0; i < pages; ++i) node[Vpn(first + i)] = on;
  }
  PageCount PagesOn(NodeId on) const {
    return PageCount(static_cast<std::uint64_t>(
        std::ranges::count_if(node, [on](const auto& page) { return page.second == on; })));
  }

  std::map<Vpn, NodeId> node;
  int looks = 0;
  std::chrono::nanoseconds per_look{0};

 private:
  FakeClock* cpu_clock_;
};

class PlacerTest : public testing::Test {
 protected:
  PlacerTest() {
    options_.policy = *FindPolicy("history");
    options_.ranker = Ranker::DefaultOptions(RankModel::kSum);
    options_.capacity = PageCount(100);
    options_.most_pages = PageCount(10'000);
    options_.cost_of_move = 0.5;
  }

  // An epoch in which each of these pages was sampled so often.
  EpochProfile Epoch(const std::map<std::uint64_t, std::uint32_t>& samples) {
    EpochProfile epoch{.index = next_epoch_,
                       .start = MonotonicTime(seconds(next_epoch_)),
                       .end = MonotonicTime(seconds(next_epoch_ + 1))};
    ++next_epoch_;
    epoch.targets.push_back({.id = TargetId(0), .pid = kPid, .cpu_time = seconds(1)});
    for (const auto& [vpn, count] : samples) {
      Append(epoch.pages, {.key = {TargetId(0), Vpn(vpn)}, .load_samples = count});
    }
    return epoch;
  }
  static std::map<std::uint64_t, std::uint32_t> Hot(std::uint64_t first, std::uint64_t pages) {
    std::map<std::uint64_t, std::uint32_t> samples;
    for (std::uint64_t i = 0; i < pages; ++i) samples[first + i] = 10;
    return samples;
  }
  PlacementDecision Decide(Placer& placer, const EpochProfile& epoch) {
    const std::vector<PlacedTarget> targets{
        {TargetId(0), kPid, {{Vpn(0), Vpn(100'000)}}, &binding_}};
    const std::vector<NodeMemory> nodes{
        {.id = kFast, .free = free_, .allocatable = free_},
        {.id = kSlow, .free = PageCount(50'000), .allocatable = PageCount(50'000)},
        {.id = kFar, .free = PageCount(50'000), .allocatable = PageCount(50'000)}};
    return placer.Decide(epoch, targets, nodes);
  }
  // Carries the moves out and reports them.
  std::uint64_t Play(Placer& placer, const PlacementDecision& decision) {
    std::vector<MoveOutcome> outcomes;
    for (const Move& move : decision.moves) {
      EXPECT_EQ(memory_.node.at(move.key.vpn), move.from);
      memory_.node[move.key.vpn] = move.to;
      outcomes.push_back({.move = move, .attempts = 1, .latency = std::chrono::microseconds(2)});
    }
    return placer.Learn(outcomes, next_epoch_);
  }

  // Reports outcomes like a mover in a dry run.
  std::uint64_t Suppose(Placer& placer, const PlacementDecision& decision) {
    std::vector<MoveOutcome> outcomes;
    for (const Move& move : decision.moves) outcomes.push_back({.move = move, .error = ECANCELED});
    return placer.Learn(outcomes, next_epoch_);
  }

  PlacerOptions options_{.tiers = *Tiers::Make({{kFast}, {kSlow}})};
  FakeClock cpu_clock_;
  FakeMemory memory_{cpu_clock_};
  MemoryBinding binding_{std::nullopt, std::nullopt, {}};
  PageCount free_{1000};
  std::uint64_t next_epoch_ = 0;
};

TEST_F(PlacerTest, BringsTheHotPagesIn) {
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_EQ(decision.wanted, PageCount(50));
  EXPECT_EQ(decision.hit_ratio, 0.0);
  ASSERT_THAT(decision.moves, SizeIs(50));
  Play(placer, decision);
  const PlacementDecision next = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_THAT(next.moves, IsEmpty());
  EXPECT_EQ(next.hit_ratio, 1.0);
}

TEST_F(PlacerTest, ListsTheHottestSpansWithTheirTiersAndAges) {
  memory_.Put(0, 10, kSlow);
  memory_.Put(10, 10, kFast);
  EXPECT_THAT(Placer(options_, memory_, cpu_clock_).Hottest(10), IsEmpty());
  Placer placer(options_, memory_, cpu_clock_);
  Decide(placer, Epoch({{3, 40}, {12, 90}, {15, 10}}));
  const std::vector<HotSpan> first = placer.Hottest(2);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(placer.ranked_spans(), 3U);
  EXPECT_EQ(first[0].key, (PageKey{TargetId(0), Vpn(12)}));
  EXPECT_EQ(first[0].score, 90);
  EXPECT_EQ(first[0].node, kFast);
  EXPECT_EQ(first[0].tier, kTier1);
  EXPECT_EQ(first[1].key, (PageKey{TargetId(0), Vpn(3)}));
  EXPECT_EQ(first[1].tier, Tier(2));
  EXPECT_FALSE(first[1].assumed);
  ASSERT_TRUE(first[1].relative_sd.has_value());
  EXPECT_NEAR(*first[1].relative_sd, 1 / std::sqrt(40), 0.01);
  // Nobody had asked before, so that nobody knows when they were seen.
  EXPECT_EQ(first[0].age, std::nullopt);
}

TEST_F(PlacerTest, FollowsAgesOnceSomebodyHasAsked) {
  options_.ranker = Ranker::DefaultOptions(RankModel::kRate);
  memory_.Put(0, 10, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Decide(placer, Epoch({{3, 40}, {5, 40}}));
  placer.Hottest(10);
  Decide(placer, Epoch({{3, 40}, {5, 40}}));
  Decide(placer, Epoch({{5, 90}}));
  std::map<std::uint64_t, std::optional<std::chrono::nanoseconds>> ages;
  for (const HotSpan& span : placer.Hottest(10)) ages[span.key.vpn.value()] = span.age;
  EXPECT_EQ(ages.at(3), seconds(1));
  EXPECT_EQ(ages.at(5), seconds(0));
}

// The fast pages, 0 to 63, are found accessed at once and never miss the cache. The slow ones, 64
// to 127, are found later, and each visit of them misses.
EpochProfile SlowPagesMiss(std::uint64_t index, std::optional<std::uint64_t> accesses_per_sample) {
  EpochProfile epoch{
      .index = index,
      .start = MonotonicTime(seconds(index)),
      .end = MonotonicTime(seconds(index + 1)),
      .sources = {
          {.name = "abit_bpf", .role = SourceRole::kReferences, .state = SourceState::kActive},
          {.name = "ibs",
           .role = SourceRole::kSamples,
           .state = SourceState::kActive,
           .samples_of = accesses_per_sample ? SampleSubject::kMemory : SampleSubject::kTime,
           .accesses_per_sample = accesses_per_sample}}};
  epoch.targets.push_back({.id = TargetId(0), .pid = kPid, .cpu_time = seconds(1)});
  for (std::uint64_t vpn = 0; vpn < 128; ++vpn) {
    const bool is_fast = vpn < 64;
    Append(epoch.pages,
           {.key = {TargetId(0), Vpn(vpn)},
            .looks = 10,
            .references = 10,
            .first_accesses = 10,
            .time_at_risk = LogDuration::FromNanoseconds(is_fast ? milliseconds(10) : seconds(1)),
            .load_samples = is_fast ? 0u : 2u});
  }
  return epoch;
}

TEST_F(PlacerTest, PlacesByMemoryOnceASamplerOfMissesIsOn) {
  options_.ranker = Ranker::DefaultOptions(RankModel::kRate);
  options_.rank = RankSource::kMemory;
  options_.capacity = PageCount(64);
  memory_.Put(0, 128, kSlow);
  Placer by_misses(options_, memory_, cpu_clock_);
  const PlacementDecision slow = Decide(by_misses, SlowPagesMiss(0, 16384));
  EXPECT_EQ(slow.rank, RankSource::kMemory);
  ASSERT_THAT(slow.moves, SizeIs(64));
  for (const Move& move : slow.moves) EXPECT_GE(move.key.vpn, Vpn(64));
  EXPECT_NEAR(slow.moves[0].score, 2 * 16384, 0.2 * 16384) << "accesses to memory in the epoch";

  Placer by_time(options_, memory_, cpu_clock_);
  const PlacementDecision fast = Decide(by_time, SlowPagesMiss(0, std::nullopt));
  EXPECT_EQ(fast.rank, RankSource::kCombined) << "samples of time tell no misses";
  ASSERT_THAT(fast.moves, SizeIs(64));
  for (const Move& move : fast.moves) EXPECT_LT(move.key.vpn, Vpn(64));

  EpochProfile few = SlowPagesMiss(0, 16384);
  for (std::size_t i = 0; i < few.pages.size(); ++i) {
    if (i < 100) few.pages.load_samples[i] = 0;
  }
  few.pages.load_samples[100] = 0;  // 27 pages are left, with two samples each
  Placer by_few(options_, memory_, cpu_clock_);
  EXPECT_EQ(Decide(by_few, few).rank, RankSource::kMemory);
  for (std::size_t i = 0; i < few.pages.size(); ++i) few.pages.load_samples[i] = i < 29 ? 1 : 0;
  Placer by_too_few(options_, memory_, cpu_clock_);
  EXPECT_EQ(Decide(by_too_few, few).rank, RankSource::kCombined);

  EpochProfile mixed = SlowPagesMiss(0, 16384);
  mixed.sources.push_back({.name = "clock",
                           .role = SourceRole::kSamples,
                           .state = SourceState::kActive,
                           .samples_of = SampleSubject::kTime});
  Placer by_both(options_, memory_, cpu_clock_);
  EXPECT_EQ(Decide(by_both, mixed).rank, RankSource::kCombined);

  EpochProfile gated = SlowPagesMiss(1, 16384);
  gated.sources[1].state = SourceState::kGated;
  EXPECT_EQ(Decide(by_misses, gated).rank, RankSource::kMemory) << "what was sampled stays known";
}

TEST_F(PlacerTest, LetsWhatNobodyAccessesGiveWay) {
  memory_.Put(0, 100, kFast);
  memory_.Put(100, 900, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Play(placer, Decide(placer, Epoch(Hot(500, 80))));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(100));
  for (std::uint64_t vpn = 500; vpn < 580; ++vpn) EXPECT_EQ(memory_.node[Vpn(vpn)], kFast) << vpn;
}

// The pages that were touched first lie in tier 1, and are found first.
TEST_F(PlacerTest, NoPageLeavesATierForAShareOfPagesFoundSoFar) {
  memory_.Put(0, 1000, kFast);
  memory_.Put(20'000, 40'000, kSlow);
  options_.capacity = Ratio{1, 8};
  memory_.per_look = milliseconds(10);  // all that an epoch pays for
  Placer placer(options_, memory_, cpu_clock_);
  PageCount found;
  for (int epoch = 0; epoch < 10; ++epoch) {
    const PlacementDecision decision = Decide(placer, Epoch(Hot(0, 10)));
    EXPECT_THAT(decision.moves, IsEmpty()) << "epoch " << epoch;
    if (epoch == 0) {
      EXPECT_EQ(decision.capacity, PageCount(1000)) << "of what is found";
    }
    found = decision.capacity;
  }
  EXPECT_EQ(found, PageCount(41'000 / 8));
}

TEST_F(PlacerTest, NoPageLeavesATierForPagesFoundWhileLookingForTheBest) {
  memory_.Put(0, 1000, kFast);
  memory_.Put(55'000, 30'000, kSlow);
  memory_.Put(90'000, 500, kFast);  // far behind what is surveyed
  options_.capacity = Ratio{1, 8};
  memory_.per_look = milliseconds(4);
  Placer placer(options_, memory_, cpu_clock_);
  for (int epoch = 0; epoch < 10; ++epoch) {
    EXPECT_THAT(Decide(placer, Epoch(Hot(90'000, 400))).moves, IsEmpty()) << "epoch " << epoch;
  }
}

// A newcomer, whose pages take many epochs to be found, is no reason for another one to keep more
// than its share.
TEST_F(PlacerTest, AShareHoldsForTargetsThatAreFoundWhileOthersAreBeing) {
  constexpr TargetId kNewcomer{1};
  memory_.Put(0, 800, kFast);  // the first target's, which uses 100 of them
  options_.capacity = FreeCapacity{};
  memory_.per_look = milliseconds(10);  // all that an epoch pays for
  Placer placer(options_, memory_, cpu_clock_);
  const auto epoch = [this] {
    EpochProfile looked_at = Epoch({});
    for (std::uint64_t vpn = 0; vpn < 800; ++vpn) {
      Append(looked_at.pages,
             {.key = {TargetId(0), Vpn(vpn)}, .looks = 10, .references = vpn < 100 ? 10U : 0U});
    }
    return looked_at;
  };
  const std::vector<NodeMemory> nodes{
      {.id = kFast, .free = free_, .allocatable = free_},
      {.id = kSlow, .free = PageCount(50'000), .allocatable = PageCount(50'000)}};
  std::vector<PlacedTarget> targets{{TargetId(0), kPid, {{Vpn(0), Vpn(10'000)}}, &binding_}};
  ASSERT_THAT(placer.Decide(epoch(), targets, nodes).moves, IsEmpty());
  ASSERT_EQ(placer.map().PagesIn(TargetId(0), options_.tiers, kTier1), PageCount(800));
  memory_.Put(100'000, 400, kFast);
  memory_.Put(500'000, 2000, kSlow);  // far behind
  targets.push_back({kNewcomer, Pid(101), {{Vpn(100'000), Vpn(600'000)}}, &binding_});
  options_.capacity = Ratio{1, 8};
  placer.Configure(options_);
  const PlacementDecision decision = placer.Decide(epoch(), targets, nodes);
  EXPECT_EQ(decision.capacity, PageCount((800 + 400) / 8 + 400 - 50)) << "400 are found so far";
  Play(placer, decision);
  EXPECT_EQ(placer.map().PagesIn(TargetId(0), options_.tiers, kTier1), PageCount(100));
  EXPECT_EQ(placer.map().PagesIn(kNewcomer, options_.tiers, kTier1), PageCount(400));
}

TEST_F(PlacerTest, AnAmountHoldsWhilePagesAreBeingFound) {
  memory_.Put(0, 1000, kFast);
  memory_.Put(55'000, 1000, kSlow);
  options_.capacity = PageCount(300);
  memory_.per_look = milliseconds(10);
  Placer placer(options_, memory_, cpu_clock_);
  Play(placer, Decide(placer, Epoch(Hot(0, 10))));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(300));
}

TEST_F(PlacerTest, ACapacityHoldsOnceAllPagesAreFound) {
  memory_.Put(0, 1000, kFast);
  memory_.Put(20'000, 1000, kSlow);
  options_.capacity = Ratio{1, 8};
  memory_.per_look = milliseconds(10);
  Placer placer(options_, memory_, cpu_clock_);
  for (int epoch = 0; epoch < 10; ++epoch) Play(placer, Decide(placer, Epoch(Hot(0, 10))));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(2000 / 8));
}

TEST_F(PlacerTest, RefusedPagesThatSeemedFreeAreNoRoom) {
  memory_.Put(0, 1000, kSlow);
  free_ = PageCount(60);
  options_.capacity = FreeCapacity{};
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_EQ(decision.capacity, PageCount(60));
  EXPECT_EQ(decision.gain, 1);
  std::vector<MoveOutcome> outcomes;
  for (const Move& move : decision.moves)
    outcomes.push_back({.move = move, .error = ENOMEM, .attempts = 1});
  placer.Learn(outcomes, next_epoch_);
  const PlacementDecision next = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_EQ(next.capacity, PageCount(0));
  EXPECT_THAT(next.moves, IsEmpty());
  EXPECT_THAT(Decide(placer, Epoch(Hot(500, 50))).moves, SizeIs(50)) << "it is tried again";
}

TEST_F(PlacerTest, FollowsAShift) {
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Play(placer, Decide(placer, Epoch(Hot(0, 100))));
  EXPECT_EQ(Play(placer, Decide(placer, Epoch(Hot(700, 100)))), 100U);  // the first ones move back
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(100));
  EXPECT_EQ(memory_.node[Vpn(750)], kFast);
}

TEST_F(PlacerTest, GoesDownToItsCapacity) {
  memory_.Put(0, 300, kFast);
  Placer placer(options_, memory_, cpu_clock_);
  Play(placer, Decide(placer, Epoch({{7, 5}})));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(100));
  EXPECT_EQ(memory_.node[Vpn(7)], kFast);
}

TEST_F(PlacerTest, HasWhatIsThereAndFreeAsCapacity) {
  options_.capacity = FreeCapacity{};
  options_.reserve = PageCount(30);
  free_ = PageCount(50);
  memory_.Put(0, 10, kFast);
  memory_.Put(100, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(100, 100)));
  EXPECT_EQ(decision.capacity, PageCount(30));
  Play(placer, decision);
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(30));
}

TEST_F(PlacerTest, HasAShareOfTheMemoryAsCapacity) {
  options_.capacity = Ratio{1, 8};
  memory_.Put(0, 800, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  EXPECT_EQ(Decide(placer, Epoch({})).capacity, PageCount(100));
}

TEST_F(PlacerTest, ATierBelowHasACapacityToo) {
  options_.tiers = *Tiers::Make({{kFast}, {kSlow}, {kFar}});
  options_.lower_capacities = {Ratio{1, 8}};
  memory_.Put(0, 80, kFast);
  memory_.Put(100, 720, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(100, 10)));
  EXPECT_THAT(decision.lower_capacities, ElementsAre(PageCount(100)));
  Play(placer, decision);
  EXPECT_EQ(memory_.PagesOn(kSlow), PageCount(90)) << "100 of 800, 10 of which went up";
  EXPECT_EQ(memory_.PagesOn(kFar), PageCount(620));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(90));
}

TEST_F(PlacerTest, LeavesWhatIsBound) {
  memory_.Put(0, 100, kSlow);
  binding_ = MemoryBinding(std::nullopt, std::vector{kSlow}, {});
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(0, 10)));
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved, NotMoved{.bound = 10});
}

TEST_F(PlacerTest, ADryRunGoesOnFromWhatItWouldHaveMoved) {
  options_.dry_run = true;
  memory_.Put(0, 1000, kSlow);
  free_ = PageCount(80);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision first = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_THAT(first.moves, SizeIs(50));
  Suppose(placer, first);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const PlacementDecision next = Decide(placer, Epoch(Hot(500, 50)));
    EXPECT_THAT(next.moves, IsEmpty()) << "they would be there, though the survey looks again";
    EXPECT_EQ(next.hit_ratio, 1.0);
  }
  const PlacementDecision shift = Decide(placer, Epoch(Hot(700, 80)));
  EXPECT_THAT(shift.moves, SizeIs(80 + 50)) << "room for 30, and the 50 give way";
  EXPECT_EQ(Suppose(placer, shift), 50U) << "as moves that undo others";
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(0)) << "nothing has moved";
}

TEST_F(PlacerTest, MovesWhatADryRunWouldHaveOnceItIsNone) {
  options_.dry_run = true;
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Suppose(placer, Decide(placer, Epoch(Hot(500, 50))));
  ASSERT_THAT(Decide(placer, Epoch(Hot(500, 50))).moves, IsEmpty());
  options_.dry_run = false;
  placer.Configure(options_);
  memory_.per_look = seconds(1);  // the survey does not come by
  const PlacementDecision decision = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_EQ(decision.hit_ratio, 0.0);
  EXPECT_THAT(decision.moves, SizeIs(50));
}

TEST_F(PlacerTest, KeepsWhatItKnowsWhenItIsConfiguredAnew) {
  options_.capacity = PageCount(10);
  options_.ranker.memory = Ranker::Memory::kHalfLife;
  options_.ranker.half_life = seconds(100);
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Play(placer, Decide(placer, Epoch(Hot(500, 20))));
  ASSERT_EQ(memory_.PagesOn(kFast), PageCount(10));
  const int looks = memory_.looks;
  options_.capacity = PageCount(15);
  options_.cool_down_epochs = 5;
  placer.Configure(options_);
  memory_.per_look = seconds(1);  // the survey finds nothing more
  Play(placer, Decide(placer, Epoch({})));
  EXPECT_EQ(memory_.PagesOn(kFast), PageCount(15)) << "of the 20 that were hot before";
  EXPECT_LE(memory_.looks, looks + 1);
  options_.capacity = PageCount(0);
  placer.Configure(options_);
  EXPECT_THAT(Decide(placer, Epoch({})).moves, IsEmpty()) << "all of them moved lately";
}

TEST_F(PlacerTest, AnotherPolicyDecidesOnceItIsConfigured) {
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  options_.policy = *FindPolicy("first_touch");
  placer.Configure(options_);
  EXPECT_THAT(Decide(placer, Epoch(Hot(0, 10))).moves, IsEmpty());
}

// Another page stayed that was to make room for it: that says nothing of the node, nor of the page.
TEST_F(PlacerTest, DecidesAgainOnMovesThatWereNotTriedForWantOfRoom) {
  memory_.Put(0, 1000, kSlow);
  options_.capacity = FreeCapacity{};
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(500, 50)));
  ASSERT_THAT(decision.moves, SizeIs(50));
  std::vector<MoveOutcome> outcomes;
  for (const Move& move : decision.moves) outcomes.push_back({.move = move, .error = ENOMEM});
  placer.Learn(outcomes, next_epoch_);
  const PlacementDecision next = Decide(placer, Epoch(Hot(500, 50)));
  EXPECT_EQ(next.capacity, PageCount(1000));
  EXPECT_THAT(next.moves, SizeIs(50));
}

TEST_F(PlacerTest, LetsBeWhatTheKernelRefuses) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch({{5, 10}}));
  ASSERT_THAT(decision.moves, SizeIs(1));
  const std::vector<MoveOutcome> refused{
      {.move = decision.moves[0], .error = EINVAL, .attempts = 1}};
  placer.Learn(refused, next_epoch_);
  const PlacementDecision next = Decide(placer, Epoch({{5, 10}}));
  EXPECT_THAT(next.moves, IsEmpty());
  EXPECT_EQ(next.not_moved, NotMoved{.backoff = 1});
}

TEST_F(PlacerTest, LeavesWhatNobodyKnowsTheBindingOf) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  binding_ = binding_.WithUnread(std::vector<VpnRange>{{Vpn(5), Vpn(8)}});
  const PlacementDecision decision = Decide(placer, Epoch(Hot(0, 10)));
  EXPECT_THAT(decision.moves, SizeIs(7));
  EXPECT_EQ(decision.not_moved, NotMoved{.binding_unknown = 3});
}

TEST_F(PlacerTest, TriesAgainWhatWasBoundForAWhile) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch({{5, 10}}));
  ASSERT_THAT(decision.moves, SizeIs(1));
  placer.Learn(std::vector<MoveOutcome>{{.move = decision.moves[0], .error = kPolicyChanged}},
               next_epoch_);
  EXPECT_THAT(Decide(placer, Epoch({{5, 10}})).moves, SizeIs(1));
}

TEST_F(PlacerTest, LooksAgainAtAHugePageThatFoundNoRoomInOnePiece) {
  memory_.Put(51'200, 512, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Decide(placer, Epoch({}));
  memory_.Put(51'200, 100, kFast);
  const Move huge{
      .key = {TargetId(0), Vpn(51'200)}, .span = PageCount(512), .from = kSlow, .to = kFast};
  placer.Learn(std::vector{MoveOutcome{.move = huge, .error = ENOMEM, .attempts = 1}}, next_epoch_);
  memory_.per_look = seconds(1);  // the survey does not come by
  Decide(placer, Epoch({}));
  EXPECT_EQ(placer.map().PagesIn(TargetId(0), options_.tiers, kTier1), PageCount(100));
}

// Pages 0 to 99 are in tier 1 and were not looked at; of the others 50 are accessed.
TEST_F(PlacerTest, SendsAwayWhatNobodyLookedAtOnlyForMore) {
  memory_.Put(0, 100, kFast);
  memory_.Put(100, 100, kSlow);
  for (const std::uint32_t references : {1U, 10U}) {
    EpochProfile epoch = Epoch({});
    for (std::uint64_t vpn = 100; vpn < 200; ++vpn) {
      Append(
          epoch.pages,
          {.key = {TargetId(0), Vpn(vpn)}, .looks = 10, .references = vpn < 150 ? references : 1});
    }
    Placer placer(options_, memory_, cpu_clock_);
    const PlacementDecision decision = Decide(placer, epoch);
    EXPECT_EQ(decision.hit_ratio, 0.0) << "what is assumed is left out";
    EXPECT_EQ(decision.looked_at, 0.5);
    EXPECT_EQ(decision.moves.empty(), references == 1);
    if (references == 1) continue;
    EXPECT_THAT(decision.moves, SizeIs(100)) << "50 of 10 for 50 of 5.5";
    EXPECT_NEAR(decision.gain.value(), 500.0 / 550, 1e-9);
  }
}

TEST_F(PlacerTest, TriesAgainWhatWasBusy) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch({{5, 10}}));
  const std::vector<MoveOutcome> busy{
      {.move = decision.moves.at(0), .error = EBUSY, .attempts = 1}};
  placer.Learn(busy, next_epoch_);
  EXPECT_THAT(Decide(placer, Epoch({{5, 10}})).moves, SizeIs(1));
}

TEST_F(PlacerTest, LetsWhatIsBusyTimeAndAgainBeForLongerAndLonger) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  std::vector<std::uint64_t> tried;
  while (next_epoch_ < 100) {
    const std::uint64_t epoch = next_epoch_;
    const PlacementDecision decision = Decide(placer, Epoch({{5, 10}}));
    if (decision.moves.empty()) continue;
    tried.push_back(epoch);
    placer.Learn(
        std::vector<MoveOutcome>{{.move = decision.moves[0], .error = EBUSY, .attempts = 1}},
        next_epoch_);
  }
  EXPECT_THAT(tried, testing::ElementsAre(0, 1, 3, 6, 11, 20, 37, 70));
}

TEST_F(PlacerTest, MovesTheOthersOfAPieceOfWhichOneIsRefused) {
  memory_.Put(0, 200, kFast);  // twice the capacity, none of it accessed
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch({}));
  ASSERT_FALSE(decision.moves.empty());
  const Move pinned = decision.moves[decision.moves.size() / 2];
  placer.Learn(std::vector<MoveOutcome>{{.move = pinned, .error = EACCES, .attempts = 1}},
               next_epoch_);
  const PlacementDecision next = Decide(placer, Epoch({}));
  EXPECT_THAT(next.moves, testing::Not(testing::Contains(testing::Field(&Move::key, pinned.key))));
  EXPECT_GE(next.moves.size(), decision.moves.size() - 1);
}

TEST_F(PlacerTest, LeavesWhatDoesNotPay) {
  options_.cost_of_move = 20;
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(0, 10)));
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved.without_gain, 10U);
}

TEST_F(PlacerTest, LearnsWhatMovesCost) {
  options_.cost_of_move.reset();
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(Hot(0, 100)));
  ASSERT_THAT(decision.moves, SizeIs(100)) << "some us each";
  std::vector<MoveOutcome> slow;
  for (const Move& move : decision.moves) {
    slow.push_back({.move = move, .attempts = 1, .latency = milliseconds(1)});
  }
  placer.Learn(slow, next_epoch_);
  EXPECT_THAT(Decide(placer, Epoch(Hot(500, 100))).moves, IsEmpty())
      << "10 accesses do not make up for it";
}

TEST_F(PlacerTest, LooksAtWhatAPageGainsInTimeNotInAnEpoch) {
  options_.cost_of_move.reset();
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  EpochProfile epoch = Epoch(Hot(0, 10));
  epoch.end = epoch.start + seconds(10);
  EXPECT_THAT(Decide(placer, epoch).moves, IsEmpty()) << "an access a second";
  EXPECT_THAT(Decide(placer, Epoch(Hot(500, 10))).moves, SizeIs(10)) << "ten a second";
}

// Memory time in seconds, if an access takes so much longer below tier 1.
double SavedBy(const std::vector<Move>& moves, double gap_ns) {
  double accesses = 0;
  for (const Move& move : moves) accesses += move.to == kFast ? move.score : -move.score;
  return accesses * gap_ns * 1e-9;
}

TEST_F(PlacerTest, AnAccessIsWorthTheLatencyThatItSaves) {
  options_.cost_of_move.reset();
  memory_.Put(0, 1000, kSlow);
  EpochProfile epoch = Epoch(Hot(0, 10));
  epoch.end = epoch.start + seconds(10);  // an access a second
  options_.gaps = GapsOf({80.0, 90.0}, std::nullopt);
  Placer near(options_, memory_, cpu_clock_);
  EXPECT_THAT(Decide(near, epoch).moves, IsEmpty());
  options_.gaps = GapsOf({80.0, 5080.0}, std::nullopt);
  Placer far(options_, memory_, cpu_clock_);
  const PlacementDecision counts = Decide(far, epoch);
  EXPECT_THAT(counts.moves, SizeIs(10));
  EXPECT_EQ(counts.saved_per_second, std::nullopt) << "counts of samples are no accesses";
  options_.ranker = Ranker::DefaultOptions(RankModel::kRate);
  Placer rated(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(rated, epoch);
  ASSERT_THAT(decision.moves, SizeIs(10));
  ASSERT_TRUE(decision.saved_per_second.has_value());
  EXPECT_DOUBLE_EQ(*decision.saved_per_second, SavedBy(decision.moves, 5000) / 10)
      << "the epoch took 10 s";
}

TEST_F(PlacerTest, SavingsOfMovesAreReducedByThePagesThatGiveWay) {
  options_.ranker = Ranker::DefaultOptions(RankModel::kRate);
  options_.capacity = PageCount(10);
  memory_.Put(0, 10, kFast);
  memory_.Put(100, 10, kSlow);
  std::map<std::uint64_t, std::uint32_t> samples;
  for (std::uint64_t vpn = 0; vpn < 10; ++vpn) {
    samples[vpn] = 40;
    samples[100 + vpn] = 400;
  }
  Placer placer(options_, memory_, cpu_clock_);
  const PlacementDecision decision = Decide(placer, Epoch(samples));
  ASSERT_THAT(decision.moves, SizeIs(20));
  ASSERT_TRUE(decision.saved_per_second.has_value());
  EXPECT_NEAR(*decision.saved_per_second, SavedBy(decision.moves, 100), 1e-9);
  std::vector<Move> promotions = decision.moves;
  std::erase_if(promotions, [](const Move& move) { return move.to != kFast; });
  EXPECT_LT(*decision.saved_per_second, SavedBy(promotions, 100) - 1e-9);
}

TEST_F(PlacerTest, MovesNothingUnderFirstTouch) {
  options_.policy = *FindPolicy("first_touch");
  memory_.Put(0, 1000, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  EXPECT_THAT(Decide(placer, Epoch(Hot(0, 10))).moves, IsEmpty());
}

TEST_F(PlacerTest, LooksForTheBestBeforeItsSurveyComesBy) {
  options_.survey_share = 0.001;
  memory_.Put(90'000, 10, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  cpu_clock_.now = MonotonicTime(seconds(1));
  EXPECT_THAT(Decide(placer, Epoch(Hot(90'000, 10))).moves, SizeIs(10));
}

TEST_F(PlacerTest, ForgetsATargetThatIsGone) {
  memory_.Put(0, 100, kSlow);
  Placer placer(options_, memory_, cpu_clock_);
  Decide(placer, Epoch(Hot(0, 10)));
  EXPECT_GT(placer.map().runs(), 0U);
  const PlacementDecision decision = placer.Decide(Epoch(Hot(0, 10)), {}, {});
  EXPECT_EQ(placer.map().runs(), 0U);
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.hit_ratio, std::nullopt);
}

}  // namespace placer_test
}  // namespace tmprof
