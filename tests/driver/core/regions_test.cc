// SPDX-License-Identifier: Apache-2.0
// Rules that the pictures of region_cases.h cannot show: they hold after any number of steps, and
// regions find hot pages.

#include "driver/core/regions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tests/driver/core/region_rules.h"

namespace tmprof {
namespace regions_test {

__u64 NextOf(void* engine) { return (*static_cast<std::mt19937_64*>(engine))(); }

struct Seen {
  std::uint64_t at_risk_ns = 0;
  std::uint64_t looks = 0;
  std::uint64_t references = 0;
  std::uint64_t first_accesses = 0;
  bool operator==(const Seen&) const = default;
};

Seen SeenBy(const tmprof_region_set& set) {
  Seen seen;
  for (const tmprof_region& region : std::span(set.regions, set.count)) {
    seen.at_risk_ns += region.at_risk_ns;
    seen.looks += region.looks;
    seen.references += region.references;
    seen.first_accesses += region.first_accesses;
  }
  return seen;
}

double Weighted(const tmprof_region_set& set) {
  double sum = 0;
  for (const tmprof_region& region : std::span(set.regions, set.count))
    sum += static_cast<double>(region.count) * static_cast<double>(region.end - region.start);
  return sum;
}

class RegionsTest : public ::testing::Test {
 protected:
  void Start(std::uint32_t min_regions, std::uint32_t max_regions,
             const std::vector<tmprof_area>& mappings) {
    params_.min_regions = min_regions;
    params_.max_regions = max_regions;
    ASSERT_EQ(tmprof_region_params_check(&params_, 0).field, nullptr);
    regions_.resize(tmprof_regions_capacity(max_regions));
    FindAreas(mappings);
    tmprof_regions_start(&set_, regions_.data(), &params_, areas_.data(),
                         static_cast<std::uint32_t>(areas_.size()));
  }
  void Update(const std::vector<tmprof_area>& mappings) {
    FindAreas(mappings);
    tmprof_regions_update(&set_, areas_.data(), static_cast<std::uint32_t>(areas_.size()));
  }
  void FindAreas(const std::vector<tmprof_area>& mappings) {
    areas_.resize(TMPROF_REGION_AREAS);
    areas_.resize(tmprof_region_areas(mappings.data(), mappings.size(), areas_.data()));
  }
  std::uint64_t Below(std::uint64_t end) { return engine_() % end; }

  // Ascending, apart or adjacent, some far apart.
  std::vector<tmprof_area> SomeMappings() {
    std::vector<tmprof_area> mappings;
    std::uint64_t at = 0x400;
    for (std::uint64_t left = Below(12); left > 0; --left) {
      at += Below(4) == 0 ? Below(1 << 20) : Below(8);
      const std::uint64_t pages = 1 + (Below(3) == 0 ? Below(5000) : Below(20));
      mappings.push_back({at, at + pages});
      at += pages;
    }
    return mappings;
  }
  void SeeSomething() {
    for (tmprof_region& region : std::span(set_.regions, set_.count)) {
      region.looks = static_cast<std::uint32_t>(Below(100));
      region.references = static_cast<std::uint32_t>(Below(region.looks + 1));
      region.first_accesses = region.references;
      region.at_risk_ns = Below(1'000'000'000);
      region.count =
          Below(2) == 0 ? 0 : tmprof_region_count_checks(&region, TMPROF_REGION_COUNT_MAX);
    }
  }

  std::mt19937_64 engine_{20};
  tmprof_random random_{NextOf, &engine_};
  tmprof_region_params params_ = tmprof_region_params_default();
  std::vector<tmprof_region> regions_;
  std::vector<tmprof_area> areas_;
  tmprof_region_set set_{};
};

TEST_F(RegionsTest, CoverTheAreasWithinTheirNumbersWhateverHappens) {
  for (int round = 0; round < 300; ++round) {
    const auto least = static_cast<std::uint32_t>(3 + Below(20));
    Start(least, static_cast<std::uint32_t>(least + Below(60)), SomeMappings());
    for (int step = 0; step < 20; ++step) {
      SeeSomething();
      tmprof_regions_merge(&set_);
      ASSERT_EQ(BrokenRule(set_, areas_), "") << "merge, round " << round;
      tmprof_regions_reset(&set_);
      if (step % 5 == 4) {
        Update(SomeMappings());
        ASSERT_EQ(BrokenRule(set_, areas_), "") << "update, round " << round;
      }
      for (int sample = 0; sample < 5; ++sample) tmprof_regions_split_at(&set_, Below(8000));
      ASSERT_EQ(BrokenRule(set_, areas_), "") << "split at a page, round " << round;
      tmprof_regions_split(&set_, &random_);
      ASSERT_EQ(BrokenRule(set_, areas_), "") << "split, round " << round;
    }
  }
}

TEST_F(RegionsTest, MergingKeepsWhatWasSeenAndTheCountsBySize) {
  for (int round = 0; round < 300; ++round) {
    Start(3, 50, SomeMappings());
    for (int i = 0; i < 4; ++i) tmprof_regions_split(&set_, &random_);
    SeeSomething();
    const Seen seen = SeenBy(set_);
    const double weighted = Weighted(set_);
    const std::uint32_t before = set_.count;
    tmprof_regions_merge(&set_);
    EXPECT_EQ(SeenBy(set_), seen);
    // Each join rounds its mean to a whole count.
    const double rounding =
        0.5 * static_cast<double>(tmprof_regions_pages(&set_)) * (before - set_.count);
    EXPECT_NEAR(Weighted(set_), weighted, rounding);
  }
}

TEST_F(RegionsTest, SplittingKeepsTheCountsBySize) {
  for (int round = 0; round < 300; ++round) {
    Start(3, 50, SomeMappings());
    SeeSomething();
    tmprof_regions_reset(&set_);
    const double weighted = Weighted(set_);
    tmprof_regions_split(&set_, &random_);
    for (int sample = 0; sample < 5; ++sample) tmprof_regions_split_at(&set_, Below(8000));
    EXPECT_EQ(Weighted(set_), weighted);
  }
}

TEST_F(RegionsTest, AreasAreThoseOfASecondImplementation) {
  for (int round = 0; round < 2000; ++round) {
    std::vector<tmprof_area> mappings = SomeMappings();
    FindAreas(mappings);
    const std::vector<tmprof_area> expected = NaiveAreas(mappings);
    ASSERT_EQ(areas_.size(), expected.size());
    for (std::size_t i = 0; i < areas_.size(); ++i) {
      EXPECT_EQ(areas_[i].start, expected[i].start);
      EXPECT_EQ(areas_[i].end, expected[i].end);
    }
  }
}

TEST_F(RegionsTest, AnyPageOfARegionIsPickedAndNoOther) {
  Start(3, 10, {{100, 107}, {200, 201}, {300, 301}});
  tmprof_region& region = set_.regions[0];
  std::vector<int> picked(7);
  for (int i = 0; i < 700; ++i) ++picked.at(tmprof_region_pick(&region, &random_) - 100);
  for (const int times : picked) EXPECT_NEAR(times, 100, 40);
}

TEST_F(RegionsTest, FindsEachPageAndNoneInAGap) {
  Start(3, 10, {{100, 107}, {200, 201}, {300, 305}});
  for (std::uint64_t page = 90; page < 310; ++page) {
    const tmprof_region* found = tmprof_regions_find(&set_, page);
    bool inside = false;
    for (const tmprof_area& area : areas_) inside |= page >= area.start && page < area.end;
    ASSERT_EQ(found != nullptr, inside) << page;
    if (found != nullptr) {
      // Copies: a region is packed, so no reference may be taken to what is in it.
      EXPECT_LE(std::uint64_t{found->start}, page);
      EXPECT_GT(std::uint64_t{found->end}, page);
    }
  }
}

// One page in 64 of 256 MiB is accessed, in one run: after two seconds of the published intervals
// the regions stand out for it that hold hardly any other page.
TEST_F(RegionsTest, NarrowDownToWhatIsAccessed) {
  constexpr tmprof_area kHot{0x10000 + 20'000, 0x10000 + 21'024};
  constexpr std::uint32_t kChecks = 100;
  Start(10, 1000, {{0x10000, 0x20000}});
  const auto is_hot = [&](std::uint64_t page) { return page >= kHot.start && page < kHot.end; };
  double hot_pages = 0;
  double pages = 0;
  for (int aggregation = 0; aggregation < 20; ++aggregation) {
    for (tmprof_region& region : std::span(set_.regions, set_.count)) {
      for (std::uint32_t check = 0; check < kChecks; ++check) {
        ++region.looks;
        region.references += is_hot(tmprof_region_pick(&region, &random_));
      }
      region.count = tmprof_region_count_checks(&region, TMPROF_REGION_COUNT_MAX);
    }
    tmprof_regions_merge(&set_);
    hot_pages = pages = 0;
    for (const tmprof_region& region : std::span(set_.regions, set_.count)) {
      if (2 * region.count < TMPROF_REGION_COUNT_MAX) continue;
      pages += static_cast<double>(region.end - region.start);
      for (std::uint64_t page = region.start; page < region.end; ++page) hot_pages += is_hot(page);
    }
    tmprof_regions_reset(&set_);
    tmprof_regions_split(&set_, &random_);
  }
  EXPECT_GE(hot_pages / 1024, 0.9) << "of the pages that are accessed";
  EXPECT_GE(hot_pages / pages, 0.9) << "of the pages taken for accessed";
}

// Ten steps of a price per region each, as where a budget is what they wait for. No two neighbours
// are alike, so that as many regions are kept as there may be.
TEST_F(RegionsTest, AreAsManyAsThereIsTimeForWhileThePriceChanges) {
  constexpr std::uint64_t kChecks = 10;
  constexpr std::uint64_t kLongest = 800'000'000;
  Start(10, 1000, {{0x10000, 0x110000}});
  const auto aggregate = [&](std::uint64_t price_ns) {
    const std::uint64_t took_ns = kChecks * set_.count * price_ns;
    for (std::uint32_t i = 0; i < set_.count; ++i) {
      regions_[i].looks = TMPROF_REGION_TRIALS_MAX;
      regions_[i].count = (1 + 2 * (i % 3)) * TMPROF_REGION_COUNT_MAX / 8;
    }
    tmprof_regions_conclude(&set_, &params_, took_ns);
    tmprof_regions_renew(&set_, nullptr, 0, nullptr, 0, &random_);
    return took_ns;
  };
  // In ns: 100 us, a millisecond, ten, and back again.
  for (const std::uint64_t price_ns : {100'000, 1'000'000, 10'000'000, 1'000'000, 100'000}) {
    // A quarter more each time: from 40 to 1000 in 15.
    for (int aggregation = 0; aggregation < 16; ++aggregation) aggregate(price_ns);
    for (int aggregation = 0; aggregation < 20; ++aggregation) {
      const std::uint64_t took_ns = aggregate(price_ns);
      const bool least = set_.max_regions == 4 * params_.min_regions;
      EXPECT_TRUE(took_ns <= kLongest || least) << price_ns;
      // A set above half of the greatest number is not split: a quarter of the time may be left.
      const bool most = set_.max_regions == params_.max_regions;
      EXPECT_TRUE(took_ns >= kLongest / 4 || most) << price_ns;
    }
  }
}

// The aggregation that a change falls into is long; the next one is as it should be.
TEST_F(RegionsTest, AreFewEnoughWithTheAggregationAfterOneThatTookTooLong) {
  Start(10, 1000, {{0x10000, 0x110000}});
  while (set_.count < 500) tmprof_regions_split(&set_, &random_);
  const std::uint32_t before = set_.count;
  for (std::uint32_t i = 0; i < set_.count; ++i) {
    regions_[i].looks = TMPROF_REGION_TRIALS_MAX;
    regions_[i].count = (1 + 2 * (i % 3)) * TMPROF_REGION_COUNT_MAX / 8;
  }
  tmprof_regions_conclude(&set_, &params_, 8'000'000'000);  // ten times too long
  EXPECT_LE(set_.count, before / 5) << "a split makes two of each";
  tmprof_regions_renew(&set_, nullptr, 0, nullptr, 0, &random_);
  EXPECT_LE(set_.count, before / 5);
}

// Three regions of at most eight: a sampled page takes two more, and then five are too many to
// split each.
TEST_F(RegionsTest, TheNextBeginInTheAddressSpaceAsItIsThenAtSampledPagesAndSplitWithTheRoomLeft) {
  using Pages = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  const auto renewed = [&](bool moved, const std::vector<std::uint64_t>& sampled) {
    Start(3, 8, {{100, 110}, {200, 210}, {300, 310}});
    for (std::uint32_t i = 0; i < set_.count; ++i) regions_[i].looks = 7;
    FindAreas({{100, 110}, {200, 210}, {400, 410}});
    const std::vector<__u64> pages(sampled.begin(), sampled.end());
    tmprof_regions_renew(&set_, moved ? areas_.data() : nullptr, moved ? 3 : 0, pages.data(),
                         static_cast<__u32>(pages.size()), &random_);
    Pages found;
    for (const tmprof_region& region : std::span(set_.regions, set_.count)) {
      EXPECT_EQ(region.looks, 0U) << "what was seen is forgotten";
      found.emplace_back(std::uint64_t{region.start},
                         std::uint64_t{region.end});  // copies: it is packed
    }
    return found;
  };
  EXPECT_EQ(renewed(false, {205}),
            (Pages{{100, 110}, {200, 205}, {205, 206}, {206, 210}, {300, 310}}));
  EXPECT_EQ(renewed(false, {205, 105}), renewed(false, {205})) << "one in eight of the regions";
  EXPECT_EQ(renewed(true, {405}),
            (Pages{{100, 110}, {200, 210}, {400, 405}, {405, 406}, {406, 410}}));
  EXPECT_EQ(renewed(true, {}).size(), 6U) << "and else each is split";
}

TEST_F(RegionsTest, TakeNoMoreMemoryThanPublished) {
  EXPECT_LE(sizeof(tmprof_region), 44U);
  EXPECT_LE(tmprof_regions_capacity(1000) * sizeof(tmprof_region), 45'000U);
}

}  // namespace regions_test
}  // namespace tmprof
