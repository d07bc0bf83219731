// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/cache_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace cache_model_test {

// Said again without tags or shifts: a list of granules for each set, the next to go in front.
class NaiveCache {
 public:
  NaiveCache(std::uint64_t sets, std::size_t ways, std::uint64_t granule, tiersim_policy policy)
      : sets_(sets), ways_(ways), granule_(granule), policy_(policy) {}

  bool Access(std::uint64_t address) {
    const std::uint64_t granule = address / granule_;
    std::deque<std::uint64_t>& set = contents_[granule % sets_];
    const auto found = std::find(set.begin(), set.end(), granule);
    const bool hit = found != set.end();
    if (hit && policy_ == TIERSIM_ROUND_ROBIN) return true;
    if (hit) set.erase(found);
    if (set.size() == ways_) set.pop_front();
    set.push_back(granule);
    return hit;
  }

 private:
  std::uint64_t sets_;
  std::size_t ways_;
  std::uint64_t granule_;
  tiersim_policy policy_;
  std::map<std::uint64_t, std::deque<std::uint64_t>> contents_;
};

class Cache {
 public:
  Cache(std::uint64_t entries, std::uint32_t ways, std::uint64_t granule, tiersim_policy policy) {
    const char* error = tiersim_cache_init(&cache_, entries, ways, granule, policy);
    EXPECT_EQ(error, nullptr) << error;
  }
  ~Cache() { tiersim_cache_free(&cache_); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool Access(std::uint64_t address) { return tiersim_cache_access(&cache_, address); }
  void Remove(std::uint64_t address) { tiersim_cache_remove(&cache_, address); }
  void Flush() { tiersim_cache_flush(&cache_); }
  std::string Description() const {
    char text[64];
    tiersim_cache_describe(&cache_, text, sizeof(text));
    return text;
  }

 private:
  tiersim_cache cache_;
};

struct Shape {
  std::uint64_t sets;
  std::uint32_t ways;
  std::uint64_t granule;
  tiersim_policy policy;
};

class CacheModelTest : public testing::TestWithParam<Shape> {};

TEST_P(CacheModelTest, AgreesWithANaiveOneOnEveryOf200000Accesses) {
  const Shape& shape = GetParam();
  Cache cache(shape.sets * shape.ways, shape.ways, shape.granule, shape.policy);
  NaiveCache naive(shape.sets, shape.ways, shape.granule, shape.policy);
  std::mt19937_64 random(1);
  // Three times what fits, the low addresses oftener, and some beyond 2^40.
  const std::uint64_t range = 3 * shape.sets * shape.ways * shape.granule;
  std::uint64_t hits = 0;
  for (int i = 0; i < 200000; ++i) {
    std::uint64_t address = random() % (random() % range + 1);
    if (random() % 16 == 0) address += std::uint64_t{1} << 40;
    const bool expected = naive.Access(address);
    ASSERT_EQ(cache.Access(address), expected) << "access " << i << " to " << address;
    hits += expected ? 1u : 0u;
  }
  EXPECT_GT(hits, 20000u) << "the accesses test hits and misses";
  EXPECT_LT(hits, 180000u) << "the accesses test hits and misses";
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CacheModelTest,
    testing::Values(Shape{64, 16, 64, TIERSIM_LRU}, Shape{64, 16, 64, TIERSIM_ROUND_ROBIN},
                    Shape{16, 8, 4096, TIERSIM_LRU}, Shape{1, 12, 64, TIERSIM_LRU},
                    Shape{1, 12, 64, TIERSIM_ROUND_ROBIN}, Shape{256, 1, 32, TIERSIM_LRU}));

// Two ways, one set: after A B A, the oldest access is B's and the oldest line is A's.
TEST(CacheModel, LruEvictsTheLineWhoseLastAccessIsOldest) {
  Cache cache(2, 2, 64, TIERSIM_LRU);
  EXPECT_FALSE(cache.Access(0));
  EXPECT_FALSE(cache.Access(64));
  EXPECT_TRUE(cache.Access(0));
  EXPECT_FALSE(cache.Access(128));
  EXPECT_TRUE(cache.Access(0));
  EXPECT_FALSE(cache.Access(64));
}

TEST(CacheModel, RoundRobinEvictsTheLineThatCameFirst) {
  Cache cache(2, 2, 64, TIERSIM_ROUND_ROBIN);
  EXPECT_FALSE(cache.Access(0));
  EXPECT_FALSE(cache.Access(64));
  EXPECT_TRUE(cache.Access(0));
  EXPECT_FALSE(cache.Access(128));
  EXPECT_FALSE(cache.Access(0));
  EXPECT_TRUE(cache.Access(128));
}

TEST(CacheModel, BytesOfOneLineShareIt) {
  Cache cache(4, 2, 64, TIERSIM_LRU);
  EXPECT_FALSE(cache.Access(64));
  EXPECT_TRUE(cache.Access(127));
  EXPECT_FALSE(cache.Access(128));
}

TEST(CacheModel, AFlushedOneMissesOnceForEachLine) {
  Cache cache(4, 2, 64, TIERSIM_LRU);
  cache.Access(0);
  cache.Access(64);
  cache.Flush();
  EXPECT_FALSE(cache.Access(0));
  EXPECT_FALSE(cache.Access(64));
  EXPECT_TRUE(cache.Access(0));
}

TEST(CacheModel, OneLineIsTakenOutAndTheOthersStay) {
  for (const tiersim_policy policy : {TIERSIM_LRU, TIERSIM_ROUND_ROBIN}) {
    Cache cache(4, 4, 64, policy);
    for (const std::uint64_t address : {0, 64, 128, 192}) cache.Access(address);
    cache.Remove(64 + 5);
    cache.Remove(4096);  // is not in
    for (const std::uint64_t address : {0, 128, 192}) EXPECT_TRUE(cache.Access(address));
    EXPECT_FALSE(cache.Access(64));
  }
}

TEST(CacheModel, AnLruOneFillsThePlaceThatWasTakenOutFirst) {
  Cache cache(2, 2, 64, TIERSIM_LRU);
  cache.Access(0);
  cache.Access(64);
  cache.Remove(64);
  EXPECT_FALSE(cache.Access(128));
  EXPECT_TRUE(cache.Access(0));
}

TEST(CacheModel, ShapesThatNoHardwareHasAreRefused) {
  tiersim_cache cache;
  EXPECT_STREQ(tiersim_cache_init(&cache, 64, 0, 64, TIERSIM_LRU), "ways are 1 to 64");
  EXPECT_STREQ(tiersim_cache_init(&cache, 65, 65, 64, TIERSIM_LRU), "ways are 1 to 64");
  EXPECT_STREQ(tiersim_cache_init(&cache, 64, 4, 48, TIERSIM_LRU),
               "a line's bytes are a power of two");
  EXPECT_STREQ(tiersim_cache_init(&cache, 66, 4, 64, TIERSIM_LRU),
               "the lines do not fill sets of that many ways");
  EXPECT_STREQ(tiersim_cache_init(&cache, 48, 4, 64, TIERSIM_LRU),
               "the number of sets is not a power of two");
  EXPECT_STREQ(tiersim_cache_init(&cache, 0, 4, 64, TIERSIM_LRU),
               "the number of sets is not a power of two");
}

TEST(CacheModel, SaysItsShape) {
  EXPECT_EQ(Cache(16384, 16, 64, TIERSIM_LRU).Description(), "16384 x 64 B, 16 ways, LRU");
  EXPECT_EQ(Cache(1536, 12, 4096, TIERSIM_ROUND_ROBIN).Description(),
            "1536 x 4096 B, 12 ways, round robin");
}

}  // namespace cache_model_test
