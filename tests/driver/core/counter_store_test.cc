// SPDX-License-Identifier: Apache-2.0
#include "driver/core/counter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/driver/core/test_memory.h"

namespace tmprof {
namespace counter_store_test {

using Random = std::mt19937_64;

constexpr std::uint64_t kRegionPages = 1ULL << 32;
constexpr std::uint64_t kVpns57Bit = 1ULL << 45;

struct Counts {
  std::uint64_t references = 0, loads = 0, stores = 0;
  std::uint32_t node = TMPROF_NODE_UNKNOWN, span = 0, flags = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts Of(const tmprof_counts& counts) {
  return {counts.references,           counts.load_samples,         counts.store_samples,
          tmprof_counts_node(&counts), tmprof_counts_span(&counts), tmprof_counts_flags(&counts)};
}

tmprof_observation Reference(std::uint64_t vpn) {
  return {.vpn = vpn, .references = 1, .node = TMPROF_NODE_UNKNOWN};
}

/** The naive second implementation. */
class Model {
 public:
  void Add(const tmprof_observation& seen) {
    Counts& counts = pages_[seen.vpn];
    counts.references = std::min<std::uint64_t>(counts.references + seen.references, 65535);
    counts.loads = std::min<std::uint64_t>(counts.loads + seen.load_samples, 65535);
    counts.stores = std::min<std::uint64_t>(counts.stores + seen.store_samples, 65535);
    if (seen.node < 1023) counts.node = seen.node;
    counts.span = std::max<std::uint32_t>(counts.span, seen.span);
    counts.flags |= seen.flags;
  }
  [[nodiscard]] const std::map<std::uint64_t, Counts>& pages() const { return pages_; }

 private:
  std::map<std::uint64_t, Counts> pages_;
};

class Store {
 public:
  explicit Store(TestMemory& memory) { tmprof_store_init(&store_, memory.get()); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() { tmprof_store_clear(&store_); }

  tmprof_store* operator->() { return &store_; }
  tmprof_store* get() { return &store_; }
  int Add(const tmprof_observation& seen) { return tmprof_store_add(&store_, &seen); }

  /** In pieces of `limit` pages, as a reader with a small buffer would. */
  std::map<std::uint64_t, Counts> ReadAll(std::uint32_t limit) {
    std::map<std::uint64_t, Counts> pages;
    std::vector<tmprof_page> piece(limit);
    std::uint64_t next = 0;
    while (const auto copied = tmprof_store_read(&store_, next, piece.data(), limit)) {
      for (std::uint32_t i = 0; i < copied; ++i) {
        EXPECT_GE(piece[i].vpn, next) << "not ascending";
        next = piece[i].vpn + 1;
        pages[piece[i].vpn] = Of(piece[i].counts);
      }
      if (copied < limit) break;
    }
    return pages;
  }

 private:
  tmprof_store store_{};
};

/** Every rule of the tree that the functions rely on; checked by walking it whole. */
void CheckTree(const tmprof_store& store) {
  std::uint64_t pages = 0;
  std::uint64_t nodes = 0;
  std::vector<const tmprof_leaf*> leaves;
  const auto walk = [&](auto&& self, void* node, std::uint32_t level, std::uint64_t start,
                        std::uint64_t end) -> void {
    ++nodes;
    if (level < store.height) {
      const auto* branch = static_cast<const tmprof_branch*>(node);
      ASSERT_GT(branch->count, 0U);
      ASSERT_LE(branch->count, TMPROF_BRANCH_CHILDREN);
      for (std::uint32_t i = 0; i < branch->count; ++i) {
        const std::uint64_t from = i == 0 ? start : branch->first[i];
        const std::uint64_t to = i + 1 < branch->count ? branch->first[i + 1] : end;
        ASSERT_LT(from, to);
        self(self, branch->child[i], level + 1, from, to);
      }
      return;
    }
    const auto* leaf = static_cast<const tmprof_leaf*>(node);
    ASSERT_GT(leaf->count, 0U);
    ASSERT_LE(leaf->count, TMPROF_LEAF_PAGES);
    for (std::uint32_t i = 0; i < leaf->count; ++i) {
      ASSERT_GE(tmprof_leaf_vpn(leaf, i), start);
      ASSERT_LT(tmprof_leaf_vpn(leaf, i), end);
      if (i > 0) {
        ASSERT_LT(leaf->low[i - 1], leaf->low[i]);
      }
    }
    pages += leaf->count;
    leaves.push_back(leaf);
  };
  if (store.root) walk(walk, store.root, 0, 0, ~0ULL);
  EXPECT_EQ(pages, store.pages);
  EXPECT_EQ(nodes, store.nodes);
}

TEST(CounterStoreTest, AnEmptyStoreHasNoPages) {
  TestMemory memory;
  Store store(memory);
  EXPECT_EQ(tmprof_store_find(store.get(), 0), nullptr);
  EXPECT_TRUE(store.ReadAll(4).empty());
  EXPECT_EQ(memory.allocations(), 0U);
}

TEST(CounterStoreTest, KeepsEachCounterApart) {
  TestMemory memory;
  Store store(memory);
  ASSERT_EQ(store.Add({.vpn = 7, .references = 2, .node = 1}), 0);
  ASSERT_EQ(store.Add({.vpn = 7, .load_samples = 3, .node = TMPROF_NODE_UNKNOWN, .flags = 1}), 0);
  ASSERT_EQ(store.Add({.vpn = 7, .store_samples = 5, .node = 0, .span = 1, .flags = 4}), 0);
  ASSERT_EQ(store.Add({.vpn = 7, .references = 1, .node = TMPROF_NODE_UNKNOWN}), 0);
  const tmprof_counts* counts = tmprof_store_find(store.get(), 7);
  ASSERT_NE(counts, nullptr);
  EXPECT_EQ(Of(*counts),
            (Counts{.references = 3, .loads = 3, .stores = 5, .node = 0, .span = 1, .flags = 5}));
  EXPECT_EQ(tmprof_store_find(store.get(), 6), nullptr);
  EXPECT_EQ(tmprof_store_find(store.get(), 8), nullptr);
  EXPECT_EQ(tmprof_store_find(store.get(), 7 + kRegionPages), nullptr);
}

TEST(CounterStoreTest, ANodeWhoseNumberDoesNotFitIsUnknown) {
  TestMemory memory;
  Store store(memory);
  ASSERT_EQ(store.Add({.vpn = 1, .references = 1, .node = 1022}), 0);
  ASSERT_EQ(store.Add({.vpn = 2, .references = 1, .node = 0xffff}), 0);
  EXPECT_EQ(tmprof_counts_node(tmprof_store_find(store.get(), 1)), 1022U);
  EXPECT_EQ(tmprof_counts_node(tmprof_store_find(store.get(), 2)), TMPROF_NODE_UNKNOWN);
}

struct Saturation {
  std::uint32_t first, second;
  std::uint64_t sum;
};

class CounterSaturationTest : public testing::TestWithParam<Saturation> {};

TEST_P(CounterSaturationTest, StopsAtTheLargestCount) {
  const auto [first, second, sum] = GetParam();
  for (auto counter : {&tmprof_observation::references, &tmprof_observation::load_samples,
                       &tmprof_observation::store_samples}) {
    TestMemory memory;
    Store store(memory);
    for (const std::uint32_t count : {first, second}) {
      tmprof_observation seen{.vpn = 3};
      seen.*counter = count;
      ASSERT_EQ(store.Add(seen), 0);
    }
    const tmprof_counts* counts = tmprof_store_find(store.get(), 3);
    const Counts read = Of(*counts);
    EXPECT_EQ(read.references + read.loads + read.stores, sum) << "spilt into another counter";
    EXPECT_EQ(tmprof_counts_saturated(counts), sum == 65535);
  }
}

INSTANTIATE_TEST_SUITE_P(Sums, CounterSaturationTest,
                         testing::Values(Saturation{65533, 1, 65534}, Saturation{65534, 1, 65535},
                                         Saturation{65535, 1, 65535},
                                         Saturation{65535, 65535, 65535},
                                         Saturation{1, 0xffffffff, 65535},
                                         Saturation{0xffffffff, 0xffffffff, 65535},
                                         Saturation{0, 0, 0}));

TEST(CounterStoreTest, APageThatSaturatesLeavesItsNeighboursAlone) {
  TestMemory memory;
  Store store(memory);
  for (std::uint64_t vpn : {10, 11, 12}) ASSERT_EQ(store.Add(Reference(vpn)), 0);
  for (int i = 0; i < 70000; ++i) ASSERT_EQ(store.Add(Reference(11)), 0);
  EXPECT_EQ(Of(*tmprof_store_find(store.get(), 10)), (Counts{.references = 1}));
  EXPECT_EQ(Of(*tmprof_store_find(store.get(), 11)), (Counts{.references = 65535}));
  EXPECT_EQ(Of(*tmprof_store_find(store.get(), 12)), (Counts{.references = 1}));
}

/** A way of choosing pages; the seed makes it repeatable. */
struct Footprint {
  std::string name;
  std::vector<std::uint64_t> (*vpns)(Random& random, std::size_t pages);
  double max_bytes_per_page;
};

/** The bound that counter_store.h states, for all orders of insertion. */
constexpr double kBoundBytesPerPage = 16.4;

std::vector<std::uint64_t> Ascending(std::size_t pages, std::uint64_t start, std::uint64_t step) {
  std::vector<std::uint64_t> vpns(pages);
  for (std::size_t i = 0; i < pages; ++i) vpns[i] = start + i * step;
  return vpns;
}

std::vector<std::uint64_t> Shuffled(std::vector<std::uint64_t> vpns, Random& random) {
  std::ranges::shuffle(vpns, random);
  return vpns;
}

const Footprint kFootprints[] = {
    {"DenseAscending", [](Random&, std::size_t pages) { return Ascending(pages, 0x7f0000000, 1); },
     12.2},
    {"DenseDescending",
     [](Random&, std::size_t pages) {
       auto vpns = Ascending(pages, 0x7f0000000, 1);
       std::ranges::reverse(vpns);
       return vpns;
     },
     kBoundBytesPerPage},
    {"DenseShuffled",
     [](Random& random, std::size_t pages) {
       return Shuffled(Ascending(pages, 0x7f0000000, 1), random);
     },
     kBoundBytesPerPage},
    {"OnePagePer2MiBAscending",
     [](Random&, std::size_t pages) { return Ascending(pages, 0x550000000, 512); }, 12.2},
    {"OnePagePer2MiBShuffled",
     [](Random& random, std::size_t pages) {
       return Shuffled(Ascending(pages, 0x550000000, 512), random);
     },
     kBoundBytesPerPage},
    {"AnywhereIn47Bits",
     [](Random& random, std::size_t pages) {
       std::vector<std::uint64_t> vpns(pages);
       for (auto& vpn : vpns) vpn = random() % (1ULL << 35);
       return vpns;
     },
     kBoundBytesPerPage},
    {"SamplesFirstThenAScan",
     [](Random& random, std::size_t pages) {
       std::vector<std::uint64_t> vpns(pages / 8);
       for (auto& vpn : vpns) vpn = 0x7f0000000 + random() % pages;
       const auto scan = Ascending(pages - vpns.size(), 0x7f0000000, 1);
       vpns.insert(vpns.end(), scan.begin(), scan.end());
       return vpns;
     },
     kBoundBytesPerPage},
    {"HeapAndStackGrowingTowardsEachOther",
     [](Random&, std::size_t pages) {
       std::vector<std::uint64_t> vpns;
       for (std::size_t i = 0; i < pages / 2; ++i) {
         vpns.push_back(0x7f0000000 + i);
         vpns.push_back(0x7ffffffff - i);
       }
       return vpns;
     },
     kBoundBytesPerPage},
    {"AlwaysIntoTheFullestLeaf",
     [](Random& random, std::size_t pages) {
       // Bursts at one random place after another: each fills a leaf, and splits it, before the
       // next.
       std::vector<std::uint64_t> vpns;
       while (vpns.size() < pages) {
         const std::uint64_t start = 0x600000000 + random() % (1ULL << 26);
         for (std::uint64_t i = 0; i < 64 && vpns.size() < pages; ++i) vpns.push_back(start + i);
       }
       return vpns;
     },
     kBoundBytesPerPage},
};

class CounterFootprintTest : public testing::TestWithParam<Footprint> {};

// More than 255 leaves of 340 pages take a tree of three levels. Under sanitizers a page costs some
// 15 us.
#ifdef __has_feature
constexpr std::size_t kMostPages = __has_feature(address_sanitizer) ? 120'000 : 300'000;
#else
constexpr std::size_t kMostPages = 300'000;
#endif

TEST_P(CounterFootprintTest, AgreesWithAMapAndKeepsItsMemoryBound) {
  for (const std::size_t pages : {1UL, 340UL, 341UL, 5'000UL, kMostPages}) {
    SCOPED_TRACE(pages);
    Random random(pages);
    TestMemory memory;
    Store store(memory);
    Model model;
    for (const std::uint64_t vpn : GetParam().vpns(random, pages)) {
      const tmprof_observation seen{.vpn = vpn,
                                    .references = static_cast<std::uint32_t>(random() % 3),
                                    .load_samples = static_cast<std::uint32_t>(random() % 2),
                                    .node = static_cast<std::uint16_t>(random() % 2)};
      ASSERT_EQ(store.Add(seen), 0);
      model.Add(seen);
    }
    CheckTree(*store.get());
    ASSERT_TRUE(store.ReadAll(4096) == model.pages());
    EXPECT_EQ(tmprof_store_bytes(store.get()), memory.live_blocks() * 4096);

    const auto touched = static_cast<double>(model.pages().size());
    std::uint64_t regions = 0;
    std::uint64_t previous = ~0ULL;
    for (const auto& [vpn, counts] : model.pages()) {
      regions += vpn / kRegionPages != previous;
      previous = vpn / kRegionPages;
    }
    const double fixed = 8192.0 + 4096.0 * static_cast<double>(regions);
    const auto bytes = static_cast<double>(tmprof_store_bytes(store.get()));
    EXPECT_LE(bytes, GetParam().max_bytes_per_page * touched + fixed);
    if (pages == kMostPages) {
      RecordProperty("bytes_per_page", std::to_string(bytes / touched));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Footprints, CounterFootprintTest, testing::ValuesIn(kFootprints),
                         [](const auto& footprint) { return footprint.param.name; });

class CounterRandomTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(CounterRandomTest, AgreesWithAMapUnderMixedUse) {
  Random random(GetParam());
  TestMemory memory;
  Store store(memory);
  Model model;
  std::uint64_t place = random() % kVpns57Bit;
  for (int i = 0; i < 60'000; ++i) {
    // Runs of neighbours, jumps nearby, jumps to another region, and pages seen before.
    switch (random() % 64) {
      case 0:
        place = random() % kVpns57Bit;
        break;
      case 1:
        place ^= kRegionPages << (random() % 4);
        break;
      case 2:
      case 3:
        place += random() % 100'000;
        break;
      case 4:
        place -= std::min<std::uint64_t>(place, random() % 100'000);
        break;
      default:
        place += random() % 3;
        break;
    }
    place %= kVpns57Bit;
    const tmprof_observation seen{
        .vpn = place,
        .references = static_cast<std::uint32_t>(random() % 4 == 0 ? random() % 40'000 : 1),
        .load_samples = static_cast<std::uint32_t>(random() % 3),
        .store_samples = static_cast<std::uint32_t>(random() % 3),
        .node = static_cast<std::uint16_t>(random() % 3 == 0 ? TMPROF_NODE_UNKNOWN : random() % 4),
        .span = static_cast<std::uint8_t>(random() % 3),
        .flags = static_cast<std::uint8_t>(1U << (random() % 4))};
    ASSERT_EQ(store.Add(seen), 0);
    model.Add(seen);
    if (i % 5'000 == 0) CheckTree(*store.get());
  }
  CheckTree(*store.get());
  EXPECT_TRUE(store.ReadAll(1) == model.pages());
  EXPECT_TRUE(store.ReadAll(1'000'000) == model.pages());
  for (const auto& [vpn, counts] : model.pages()) {
    const tmprof_counts* found = tmprof_store_find(store.get(), vpn);
    ASSERT_NE(found, nullptr) << vpn;
    EXPECT_EQ(Of(*found), counts) << vpn;
    if (!model.pages().contains(vpn + 1)) {
      EXPECT_EQ(tmprof_store_find(store.get(), vpn + 1), nullptr) << vpn;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CounterRandomTest, testing::Range<std::uint64_t>(1, 11));

TEST(CounterStoreTest, ReadsFromAnyPlaceOnwards) {
  TestMemory memory;
  Store store(memory);
  for (const std::uint64_t vpn : {5UL, 9UL, 2 * kRegionPages + 1, 2 * kRegionPages + 4}) {
    ASSERT_EQ(store.Add(Reference(vpn)), 0);
  }
  const auto first_from = [&](std::uint64_t vpn) {
    tmprof_page page{.vpn = 0};
    return tmprof_store_read(store.get(), vpn, &page, 1) == 1 ? page.vpn : ~0ULL;
  };
  EXPECT_EQ(first_from(0), 5U);
  EXPECT_EQ(first_from(6), 9U);
  EXPECT_EQ(first_from(10), 2 * kRegionPages + 1);
  EXPECT_EQ(first_from(kRegionPages), 2 * kRegionPages + 1);
  EXPECT_EQ(first_from(2 * kRegionPages + 2), 2 * kRegionPages + 4);
  EXPECT_EQ(first_from(2 * kRegionPages + 5), ~0ULL);
  EXPECT_EQ(first_from(7 * kRegionPages), ~0ULL);
}

TEST(CounterStoreTest, AnAllocationThatFailsLosesOneObservationAndNothingElse) {
  // 90 000 shuffled pages take some 350 leaves and a second level of branches. Each of the
  // allocations fails once; the page is then added again.
  Random random(1);
  const auto vpns = Shuffled(Ascending(90'000, 0x7f0000000, 3), random);
  TestMemory counting;
  {
    Store store(counting);
    for (const auto vpn : vpns) ASSERT_EQ(store.Add(Reference(vpn)), 0);
    ASSERT_EQ(store->height, 2U) << "the case is too small to split a branch";
  }
  TestMemory memory;
  Store store(memory);
  Model model;
  std::uint64_t failed = 0;
  memory.FailAllocation(0);
  for (const auto vpn : vpns) {
    const tmprof_observation seen = Reference(vpn);
    while (true) {
      const std::uint64_t before = memory.allocations();
      const std::uint64_t nodes = store->nodes;
      const std::size_t live = memory.live_blocks();
      const int error = store.Add(seen);
      if (error == 0) {
        // The next insertion that allocates fails at its first allocation …
        if (memory.allocations() != before) memory.FailAllocation(0);
        break;
      }
      ASSERT_EQ(error, -ENOMEM);
      ++failed;
      ASSERT_EQ(memory.live_blocks(), live);
      ASSERT_EQ(store->nodes, nodes);
      ASSERT_EQ(tmprof_store_find(store.get(), vpn), nullptr);
      // … then at its second, and so on, until none is left to fail.
      memory.FailAllocation(memory.allocations() - before);
    }
    model.Add(seen);
  }
  // Every allocation that the undisturbed run made failed once here.
  EXPECT_EQ(failed, counting.allocations());
  EXPECT_EQ(store->lost, failed);
  EXPECT_EQ(memory.get()->failures, failed);
  CheckTree(*store.get());
  EXPECT_TRUE(store.ReadAll(4096) == model.pages());
}

TEST(CounterStoreTest, AtTheLimitNewPagesAreRefusedAndKnownOnesStillCount) {
  TestMemory memory(64 * 4096);
  Store store(memory);
  Model model;
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const tmprof_observation seen = Reference(0x7f0000000 + i * 7 % 100'000);
    const int error = store.Add(seen);
    if (error == 0) {
      model.Add(seen);
    } else {
      ASSERT_EQ(error, -ENOSPC);
      ++refused;
    }
  }
  ASSERT_GT(refused, 0U);
  for (const auto& [vpn, counts] : std::map(model.pages())) {
    ASSERT_EQ(store.Add(Reference(vpn)), 0);
    model.Add(Reference(vpn));
  }
  EXPECT_EQ(store->lost, refused);
  EXPECT_EQ(memory.get()->limit_hits, refused);
  EXPECT_EQ(memory.get()->failures, 0U);
  EXPECT_LE(memory.get()->peak_bytes, 64U * 4096U);
  // 64 nodes of 340 pages, less a root and what is kept free.
  EXPECT_GE(store->pages, 63U * 255U);
  CheckTree(*store.get());
  EXPECT_TRUE(store.ReadAll(4096) == model.pages());
}

TEST(CounterStoreTest, ClearingGivesBackEveryNode) {
  for (const std::size_t pages : {0UL, 1UL, 341UL, 5'000UL, 200'000UL}) {
    Random random(pages);
    TestMemory memory;
    Store store(memory);
    for (const auto vpn : Shuffled(Ascending(pages, 1000, 5), random)) {
      ASSERT_EQ(store.Add(Reference(vpn)), 0);
    }
    tmprof_store_clear(store.get());
    EXPECT_EQ(memory.live_blocks(), 0U);
    EXPECT_EQ(memory.get()->used_bytes, 0U);
    EXPECT_TRUE(memory.released_as_allocated());
    EXPECT_EQ(store->pages, 0U);
    ASSERT_EQ(store.Add(Reference(3)), 0) << "unusable after a clear";
  }
}

TEST(CounterStoreTest, TurningOverKeepsTheEndedEpochAndStartsAnEmptyOne) {
  TestMemory memory;
  Store current(memory);
  Store ended(memory);
  for (std::uint64_t vpn = 0; vpn < 1000; ++vpn) ASSERT_EQ(current.Add(Reference(vpn)), 0);
  tmprof_store_turn_over(current.get(), ended.get());
  ASSERT_EQ(current.Add(Reference(999)), 0);
  ASSERT_EQ(current.Add(Reference(5)), 0);
  EXPECT_EQ(ended.ReadAll(64).size(), 1000U);
  EXPECT_EQ(Of(*tmprof_store_find(ended.get(), 999)), (Counts{.references = 1}));
  EXPECT_EQ(current.ReadAll(64), (std::map<std::uint64_t, Counts>{{5, Counts{.references = 1}},
                                                                  {999, Counts{.references = 1}}}));
}

}  // namespace counter_store_test
}  // namespace tmprof
