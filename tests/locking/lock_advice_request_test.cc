// SPDX-License-Identifier: Apache-2.0

#include "locking/lock_advice_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

namespace tmprof {
namespace lock_advice_request_test {

using ::testing::HasSubstr;

TEST(LockAdviceRequest, LimitsBytesOrAShareOfTheMemory) {
  EXPECT_EQ(std::get<double>(OptionsOf({}, {}, {})->limit), 0.25);
  EXPECT_EQ(std::get<std::uint64_t>(OptionsOf({.limit = "2MiB"}, {}, {})->limit), 2u << 20);
  EXPECT_THAT(OptionsOf({.limit = "lots"}, {}, {}).error().Message(), HasSubstr("--limit lots"));
}

TEST(LockAdviceRequest, CountsAllAccessesUnlessItIsToldOtherwise) {
  EXPECT_EQ(OptionsOf({}, {}, {})->weight, RankWeight::kAccesses);
  EXPECT_EQ(OptionsOf({}, {.weight = "memory"}, {})->weight, RankWeight::kMemory);
}

TEST(LockAdviceRequest, RefusesACacheUnlessAccessesToMemoryAreCounted) {
  EXPECT_THAT(OptionsOf({}, {}, 1 << 20).error().Message(),
              HasSubstr("accesses that a cache serves count, too"));
  EXPECT_TRUE(OptionsOf({}, {.weight = "memory"}, 1 << 20));
  EXPECT_TRUE(OptionsOf({}, {.by = "memory"}, 1 << 20));
  EXPECT_FALSE(OptionsOf({}, {.by = "samples", .weight = "memory"}, 1 << 20));
}

}  // namespace lock_advice_request_test
}  // namespace tmprof
