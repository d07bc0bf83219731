// SPDX-License-Identifier: Apache-2.0

#include "mover/automatic_balancing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tmprof {
namespace automatic_balancing_test {

class WarningOfAutomaticBalancingTest : public testing::Test {
 protected:
  std::optional<std::string> Of(const std::string& text) const {
    std::ofstream(file_) << text;
    return WarningOfAutomaticBalancing(file_);
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) /
      ("numa_balancing." +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(WarningOfAutomaticBalancingTest, TellsOfEachModeThatMovesPages) {
  for (const char* mode : {"1\n", "2\n", "3\n"}) {
    const auto warning = Of(mode);
    ASSERT_TRUE(warning) << mode;
    EXPECT_THAT(*warning, testing::HasSubstr(std::string("is ") + mode[0] + ")"));
  }
}

TEST_F(WarningOfAutomaticBalancingTest, IsSilentWhereItIsOffOrThereIsNone) {
  EXPECT_FALSE(Of("0\n"));
  EXPECT_FALSE(Of(""));
  EXPECT_FALSE(WarningOfAutomaticBalancing(file_.string() + ".missing"));
}

}  // namespace automatic_balancing_test
}  // namespace tmprof
