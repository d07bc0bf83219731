// SPDX-License-Identifier: Apache-2.0

#include "profiler/found_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <vector>

#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace found_targets_test {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FoundTargetsTest : public testing::Test {
 protected:
  FoundTargetsTest() {
    tree_.Put({.pid = 10, .name = "redis", .start_time_ticks = 5});
    tree_.Put({.pid = 11, .name = "nginx", .start_time_ticks = 6});
  }
  // Targets by process number, after another look.
  std::map<std::int32_t, TargetId> Look(FoundTargets& found) {
    EXPECT_THAT(found.Look(now_ += seconds(1)), IsEmpty());
    found.tracker().Refresh(now_);
    std::map<std::int32_t, TargetId> targets;
    for (const TrackedProcess& process : found.tracker().tracked()) {
      targets[process.pid.value()] = process.id;
    }
    return targets;
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  CpuTimeOf no_clock_ = [](Pid) { return std::optional(std::chrono::nanoseconds(0)); };
  MonotonicTime now_{seconds(100)};
};

TEST_F(FoundTargetsTest, FollowsWhatTheRulesFind) {
  FoundTargets found(procfs_, no_clock_, {.commands = {"redis"}}, {});
  EXPECT_THAT(Look(found), ElementsAre(testing::Key(10)));
}

TEST_F(FoundTargetsTest, KeepsTheNumbersOfTargetsUnderOtherRules) {
  FoundTargets found(procfs_, no_clock_, {.commands = {"redis"}}, {});
  const TargetId redis = Look(found).at(10);
  found.Configure({.commands = {"*"}}, {});
  const auto all = Look(found);
  EXPECT_THAT(all, ElementsAre(testing::Key(10), testing::Key(11)));
  EXPECT_EQ(all.at(10), redis);
  found.Configure({.commands = {"nginx"}}, {});
  EXPECT_THAT(Look(found), ElementsAre(testing::Key(11)));
}

TEST_F(FoundTargetsTest, TakesTheObserverForNoTarget) {
  FoundTargets found(procfs_, no_clock_, {.commands = {"*"}}, {.observer = Pid(10)});
  EXPECT_THAT(Look(found), ElementsAre(testing::Key(11)));
}

TEST_F(FoundTargetsTest, TellsTheNumbersThatNoProcessHas) {
  FoundTargets found(procfs_, no_clock_, {.pids = {Pid(10), Pid(77)}}, {});
  EXPECT_THAT(found.missing(), ElementsAre(Pid(77)));
  found.Configure({.pids = {Pid(10)}}, {});
  EXPECT_THAT(found.missing(), IsEmpty());
}

}  // namespace found_targets_test
}  // namespace tmprof
