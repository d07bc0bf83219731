// SPDX-License-Identifier: Apache-2.0

#include "base/host/own_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <set>

#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace own_cpus_test {

using Cpus = std::set<CpuId>;

TEST(CpusBeside, AreThoseThatNobodyElseUses) {
  EXPECT_EQ(CpusBeside({CpuId(0), CpuId(1), CpuId(4)}, {CpuId(1), CpuId(2)}),
            (Cpus{CpuId(0), CpuId(4)}));
}

TEST(CpusBeside, AreAllWhereOthersUseEveryOne) {
  EXPECT_EQ(CpusBeside({CpuId(0), CpuId(1)}, {CpuId(0), CpuId(1), CpuId(2)}),
            (Cpus{CpuId(0), CpuId(1)}));
}

TEST(CpusInUse, AreThoseOfRunningThreads) {
  const ProcTree tree;
  tree.Put({.pid = 10, .threads = 3});
  tree.PutThread(10, {.pid = 10, .state = 'R', .cpu = 3});
  tree.PutThread(10, {.pid = 11, .state = 'S', .cpu = 1});
  tree.PutThread(10, {.pid = 12, .state = 'R', .cpu = 7});
  EXPECT_EQ(ProcFs(tree.root()).CpusInUse(Pid(10)), (Cpus{CpuId(3), CpuId(7)}));
  EXPECT_TRUE(ProcFs(tree.root()).CpusInUse(Pid(99)).empty()) << "no such process";
}

class OwnCpusTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "needs two CPUs";
    while (!CPU_ISSET(first_, &before_)) ++first_;
    tree_.Put({.pid = 10});
    tree_.PutThread(10, {.pid = 10, .state = 'R', .cpu = first_});
    // This process is where OwnCpus looks for its own threads.
    tree_.PutThread(getpid(), {.pid = gettid(), .state = 'R'});
  }
  static bool Allowed(int cpu) {
    cpu_set_t now;
    return sched_getaffinity(0, sizeof now, &now) == 0 && CPU_ISSET(cpu, &now);
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  cpu_set_t before_{};
  int first_ = 0;
};

TEST_F(OwnCpusTest, LeavesTheTargetsCpuAndReturnsWhenItIsLeftAlone) {
  OwnCpus own(procfs_);
  const TrackedProcess target{.id = TargetId(1), .pid = Pid(10)};
  own.MakeWayFor({target});
  EXPECT_FALSE(Allowed(first_));
  tree_.PutThread(10, {.pid = 10, .state = 'S', .cpu = first_});
  own.MakeWayFor({target});
  EXPECT_TRUE(Allowed(first_));
}

TEST_F(OwnCpusTest, RestoresWhatWasAllowedInTheEnd) {
  {
    OwnCpus own(procfs_);
    own.MakeWayFor({{.id = TargetId(1), .pid = Pid(10)}});
    ASSERT_FALSE(Allowed(first_));
  }
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&after, &before_));
}

}  // namespace own_cpus_test
}  // namespace tmprof
