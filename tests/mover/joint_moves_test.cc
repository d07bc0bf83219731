// SPDX-License-Identifier: Apache-2.0

#include "mover/joint_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/mover/without_capability.h"

namespace tmprof {
namespace joint_moves_test {

TEST(MayMoveJointPages, IsRefusedWithoutSysNiceAndSaysWhatToDo) {
  const test::WithoutCapability without(CAP_SYS_NICE);
  const Status may = MayMoveJointPages();
  ASSERT_FALSE(may);
  EXPECT_EQ(may.error().system_error, EPERM);
  EXPECT_THAT(may.error().Message(), ::testing::HasSubstr("CAP_SYS_NICE"));
}

TEST(MayMoveJointPages, IsGrantedWithSysNice) {
  if (const test::WithoutCapability without(CAP_SYS_NICE); !without.had(CAP_SYS_NICE)) {
    GTEST_SKIP() << "it takes CAP_SYS_NICE";
  }
  EXPECT_TRUE(MayMoveJointPages());
}

}  // namespace joint_moves_test
}  // namespace tmprof
