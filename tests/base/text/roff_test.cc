// SPDX-License-Identifier: Apache-2.0

#include "base/text/roff.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace roff_test {

TEST(Roff, EscapesWhatItWouldTakeForItsOwn) {
  EXPECT_EQ(Roff("--all\\x"), "\\-\\-all\\\\x");
  EXPECT_EQ(Roff(".TH\n'a' .b"), "\\&.TH\n\\&'a' .b");
}

}  // namespace roff_test
}  // namespace tmprof
