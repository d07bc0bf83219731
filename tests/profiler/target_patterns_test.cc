// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace target_patterns_test {

using ::testing::HasSubstr;

TEST(FaultOfCommand, RefusesNamesThatTheKernelCutsShort) {
  EXPECT_EQ(FaultOfCommand("fifteen-letters"), "");
  EXPECT_THAT(FaultOfCommand("sixteen--letters"), HasSubstr("keeps 15 bytes of a name"));
  EXPECT_EQ(FaultOfCommand("sixteen--letter*"), "");
}

TEST(FaultOfExecutable, TakesPathsAndPatternsThatCanBeginOne) {
  EXPECT_EQ(FaultOfExecutable("/usr/bin/redis-server"), "");
  EXPECT_EQ(FaultOfExecutable("*/redis-server"), "");
  EXPECT_THAT(FaultOfExecutable("redis-server"), HasSubstr("can match no process"));
}

TEST(FaultOfCgroup, TakesPathsAsProcHasThem) {
  EXPECT_EQ(FaultOfCgroup("/system.slice/redis.service"), "");
  EXPECT_THAT(FaultOfCgroup("/sys/fs/cgroup/system.slice"), HasSubstr("'/system.slice'"));
  for (const char* cgroup : {"system.slice", "/system.slice/", "/a/../b", "/"}) {
    EXPECT_THAT(FaultOfCgroup(cgroup), HasSubstr("is no control group")) << cgroup;
  }
}

}  // namespace target_patterns_test
}  // namespace tmprof
