// SPDX-License-Identifier: Apache-2.0
#include "driver/core/params_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace tmprof {
namespace params_check_test {

tmprof_params Defaults() {
  tmprof_params params;
  std::memset(&params, 0xff, sizeof(params));  // the caller's old bytes must not shine through
  tmprof_params_defaults(&params);
  return params;
}

TEST(ParamsCheckTest, ZeroesAreRefused) {
  const tmprof_params params{};
  EXPECT_STREQ(tmprof_params_check(&params).field, "head.version");
}

TEST(ParamsCheckTest, NoBitOfAReservedFieldMayBeSet) {
  for (std::size_t word = 0; word < std::size(tmprof_params{}.reserved); ++word) {
    for (int bit = 0; bit < 64; ++bit) {
      tmprof_params params = Defaults();
      params.reserved[word] = 1ULL << bit;
      EXPECT_STREQ(tmprof_params_check(&params).field, "reserved");
    }
  }
}

TEST(ParamsCheckTest, RegionsAreRefusedThatCannotBeCheckedInTimeOrFlushed) {
  tmprof_params params = Defaults();
  params.abit_mode = 2;
  EXPECT_STREQ(tmprof_params_check(&params).field, "abit_mode");
  params.abit_mode = TMPROF_ABIT_REGIONS;
  EXPECT_EQ(tmprof_params_check(&params).field, nullptr);
  params.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT_STREQ(tmprof_params_check(&params).field, "flush_policy");
  params = Defaults();
  params.regions.monitoring_ns = 99'999;
  params.regions.max_regions = 10;
  EXPECT_STREQ(tmprof_params_check(&params).field, "monitoring_ns");
  params.regions.monitoring_ns = 100'000;
  EXPECT_EQ(tmprof_params_check(&params).field, nullptr);
  // 100 ns a check.
  params.regions.max_regions = 1000;
  EXPECT_EQ(tmprof_params_check(&params).field, nullptr);
  params.regions.max_regions = 1001;
  EXPECT_STREQ(tmprof_params_check(&params).field, "monitoring_ns");
  params = Defaults();
  params.regions.aggregation_ns = 9'999'999;
  EXPECT_STREQ(tmprof_params_check(&params).field, "aggregation_ns");
  params = Defaults();
  params.region_log = (1U << 20) + 1;
  EXPECT_STREQ(tmprof_params_check(&params).field, "region_log");
}

TEST(ParamsCheckTest, NoUnknownBitOfAnEventsFlagsIsTaken) {
  constexpr std::uint32_t kSampled = 0x30f;
  constexpr std::uint32_t kCounted = 0x003;
  for (int bit = 0; bit < 32; ++bit) {
    const std::uint32_t flags = TMPROF_EVENT_PRESENT | 1U << bit;
    tmprof_params sampled = Defaults();
    sampled.sample_event.flags = flags;
    sampled.sample_period = 1;
    EXPECT_EQ(tmprof_params_check(&sampled).error == 0, (flags & ~kSampled) == 0) << bit;

    tmprof_params counted = Defaults();
    counted.gate[TMPROF_SAMPLER].mode = TMPROF_GATE_COUNTED;
    counted.gate[TMPROF_SAMPLER].event.flags = flags;
    EXPECT_EQ(tmprof_params_check(&counted).error == 0, (flags & ~kCounted) == 0) << bit;
  }
}

TEST(ParamsCheckTest, RingsHoldPowersOfTwoOnly) {
  for (std::uint32_t samples = 0; samples <= 140'000; ++samples) {
    tmprof_params params = Defaults();
    params.ring_samples = samples;
    bool allowed = false;
    for (std::uint32_t power = 16; power <= 65536; power *= 2) allowed |= samples == power;
    ASSERT_EQ(tmprof_params_check(&params).error == 0, allowed) << samples;
  }
}

TEST(ParamsCheckTest, RandomBytesGiveAVerdictThatNamesAFieldExactlyWhenItRefuses) {
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    // Defaults with a few bytes changed, so that some are still good.
    tmprof_params params = Defaults();
    const auto bytes = std::as_writable_bytes(std::span(&params, 1));
    const auto changes = 1 + random() % 3;
    for (std::uint64_t change = 0; change < changes; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 256);
    }
    const tmprof_params before = params;
    const tmprof_params_verdict verdict = tmprof_params_check(&params);
    ASSERT_EQ(std::memcmp(&before, &params, sizeof(params)), 0);
    ASSERT_EQ(verdict.error != 0, verdict.field != nullptr);
    ASSERT_EQ(verdict.error != 0, verdict.reason != nullptr);
    ASSERT_TRUE(verdict.error == 0 || verdict.error == -EINVAL || verdict.error == -EPROTO);
    accepted += verdict.error == 0;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace params_check_test
}  // namespace tmprof
