// SPDX-License-Identifier: Apache-2.0

#include "base/epoch_stream.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace epoch_stream_test {

TEST(VectorEpochStream, GivesEachEpochOnceInOrderAndThenEnds) {
  VectorEpochStream stream({EpochProfile{.index = 4}, EpochProfile{.index = 9}});
  EpochProfile epoch;
  EXPECT_TRUE(stream.Next(epoch).value());
  EXPECT_EQ(epoch.index, 4u);
  EXPECT_TRUE(stream.Next(epoch).value());
  EXPECT_EQ(epoch.index, 9u);
  EXPECT_FALSE(stream.Next(epoch).value());
  EXPECT_FALSE(stream.Next(epoch).value());
}

}  // namespace epoch_stream_test
}  // namespace tmprof
