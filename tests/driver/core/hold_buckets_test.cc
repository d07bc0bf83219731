// SPDX-License-Identifier: Apache-2.0
#include "driver/core/hold_buckets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tmprof {
namespace hold_buckets_test {

// The ABI's wording, counted up rather than computed: the end of each bucket but the last.
std::vector<uint64_t> BucketEndsNs() {
  std::vector<uint64_t> ends = {64, 128, 192, 256};
  for (uint64_t octave_ns = 256; ends.size() < TMPROF_HOLD_BUCKETS; octave_ns *= 2) {
    for (uint64_t quarter = 1; quarter <= 4; ++quarter) {
      ends.push_back(octave_ns + quarter * octave_ns / 4);
    }
  }
  ends.pop_back();
  return ends;
}

TEST(HoldBucketsTest, AdjoinEachOtherFromZeroOn) {
  const std::vector<uint64_t> ends = BucketEndsNs();
  ASSERT_EQ(ends.size(), TMPROF_HOLD_BUCKETS - 1U);
  uint64_t start_ns = 0;
  for (uint32_t bucket = 0; bucket < ends.size(); ++bucket) {
    EXPECT_EQ(tmprof_hold_bucket(start_ns), bucket);
    EXPECT_EQ(tmprof_hold_bucket(ends[bucket] - 1), bucket);
    EXPECT_EQ(tmprof_hold_bucket_end_ns(bucket), ends[bucket]);
    start_ns = ends[bucket];
  }
}

TEST(HoldBucketsTest, TheLastHasNoEnd) {
  const uint32_t last = TMPROF_HOLD_BUCKETS - 1;
  EXPECT_EQ(tmprof_hold_bucket((1ULL << 31) - 1), last);
  EXPECT_EQ(tmprof_hold_bucket(1ULL << 31), last);
  EXPECT_EQ(tmprof_hold_bucket(~0ULL), last);
  EXPECT_EQ(tmprof_hold_bucket_end_ns(last), TMPROF_UNKNOWN);
}

TEST(HoldBucketsTest, AnEndIsAtMostAQuarterAboveWhatTheBucketHolds) {
  for (uint64_t hold_ns = 256; hold_ns < 1'000'000'000; hold_ns += 1 + hold_ns / 1000) {
    const uint64_t end_ns = tmprof_hold_bucket_end_ns(tmprof_hold_bucket(hold_ns));
    ASSERT_GT(end_ns, hold_ns);
    ASSERT_LE(end_ns * 4, hold_ns * 5) << hold_ns;
  }
}

TEST(HoldBucketsTest, AQuantileIsTheEndOfItsBucket) {
  __u64 holds[TMPROF_HOLD_BUCKETS] = {};
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 990), TMPROF_UNKNOWN);
  holds[tmprof_hold_bucket(1000)] = 990;  // the bucket [896, 1024)
  holds[tmprof_hold_bucket(50'000)] = 9;  // the bucket [49152, 57344)
  holds[tmprof_hold_bucket(~0ULL)] = 1;
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 0), 1024U);
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 990), 1024U);
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 991), 57'344U);
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 999), 57'344U);
  EXPECT_EQ(tmprof_hold_quantile_ns(holds, 1000), TMPROF_UNKNOWN);
}

}  // namespace hold_buckets_test
}  // namespace tmprof
