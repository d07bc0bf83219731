// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_tracker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "profiler/helper_processes.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace target_tracker_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

class TargetTrackerTest : public testing::Test {
 protected:
  using Options = TargetTracker::Options;

  TargetTracker Make(const Options& options) {
    return TargetTracker(procfs_, [this](Pid pid) { return ReadClock(pid); }, options);
  }
  std::optional<nanoseconds> ReadClock(Pid pid) const {
    const auto found = cpu_times_.find(pid.value());
    return found == cpu_times_.end() ? std::nullopt : std::optional(found->second);
  }
  // A live process with a CPU clock at `used`.
  void Start(const FakeProcess& process, nanoseconds used = 0ns) {
    tree_.Put(process);
    tree_.SetChildren(process.pid, process.pid, {});
    cpu_times_[process.pid] = used;
  }
  // Processes 10 and 11, of which 10 is the parent.
  void StartParentAndChild() {
    Start({.pid = 10});
    Start({.pid = 11, .parent = 10});
    tree_.SetChildren(10, 10, {11});
  }
  void End(std::int32_t pid) {
    tree_.Remove(pid);
    cpu_times_.erase(pid);
  }
  static MonotonicTime At(nanoseconds since_boot) { return MonotonicTime(since_boot); }
  static std::vector<std::int32_t> Tracked(const TargetTracker& tracker) {
    std::vector<std::int32_t> pids;
    for (const TrackedProcess& process : tracker.tracked()) pids.push_back(process.pid.value());
    return pids;
  }
  static std::vector<std::int32_t> Pids(const std::vector<Target>& targets) {
    std::vector<std::int32_t> pids;
    for (const Target& target : targets) pids.push_back(target.pid.value());
    return pids;
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  std::map<std::int32_t, nanoseconds> cpu_times_;
};

TEST_F(TargetTrackerTest, TracksANamedProcessBeforeAnyRefresh) {
  Start({.pid = 10, .name = "server", .start_time_ticks = 77});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_EQ(tracker.tracked().size(), 1u);
  const TrackedProcess& process = tracker.tracked()[0];
  EXPECT_EQ(process.id, TargetId(0));
  EXPECT_EQ(process.pid, Pid(10));
  EXPECT_EQ(process.start_time_ticks, 77u);
  ASSERT_EQ(process.mappings.size(), 1u);
  EXPECT_EQ(process.mappings[0].range, (VpnRange{Vpn(1), Vpn(3)}));
  EXPECT_TRUE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, TellsTheIpcNamespaceOfTargets) {
  Start({.pid = 10});
  tree_.Write("10/ns/ipc", "");
  Start({.pid = 11});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_TRUE(tracker.AddNamed(Pid(11)).has_value());
  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].ipc_namespace, procfs_.IpcNamespace(Pid(10)));
  EXPECT_TRUE(targets[0].ipc_namespace.has_value());
  EXPECT_EQ(targets[1].ipc_namespace, std::nullopt) << "it cannot be read";
}

TEST_F(TargetTrackerTest, TellsTheFirstParentOfTargets) {
  Start({.pid = 10, .parent = 7});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  Start({.pid = 10, .parent = 1});  // its parent has exited
  tracker.Refresh(At(1s));
  EXPECT_EQ(tracker.ParentOf(TargetId(0)), Pid(7));
  EXPECT_EQ(tracker.ParentOf(TargetId(1)), std::nullopt);
}

TEST_F(TargetTrackerTest, RefusesAProcessThatDoesNotExist) {
  TargetTracker tracker = Make({});
  const Status status = tracker.AddNamed(Pid(10));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().system_error, ESRCH);
  EXPECT_EQ(status.error().object, "10");
  EXPECT_FALSE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, RefusesAZombie) {
  Start({.pid = 10, .state = 'Z'});
  TargetTracker tracker = Make({});
  EXPECT_EQ(tracker.AddNamed(Pid(10)).error().system_error, ESRCH);
  EXPECT_THAT(tracker.tracked(), IsEmpty());
}

TEST_F(TargetTrackerTest, RefusesAThreadOfTheKernelByItsName) {
  Start({.pid = 10, .name = "kswapd0", .flags = 0x00200000, .virtual_bytes = 0, .maps = ""});
  TargetTracker tracker = Make({});
  const Status status = tracker.AddNamed(Pid(10));
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().Message(), testing::HasSubstr("kswapd0"));
  EXPECT_FALSE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, TellsTheNumberHereOfAProcessThatIsNamedAsItsContainerDoes) {
  Start({.pid = 20});
  tree_.Write("20/status", "Name:\tworker\nNSpid:\t20\t10\nVmLck:\t       0 kB\n");
  TargetTracker tracker = Make({});
  const Status status = tracker.AddNamed(Pid(10));
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().advice,
              testing::AllOf(testing::HasSubstr("container"), testing::EndsWith("here it is 20")));
}

TEST_F(TargetTrackerTest, KeepsAProcessWhoseMainThreadHasExitedBeforeTheOthers) {
  Start({.pid = 10, .threads = 2});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  Start({.pid = 10, .state = 'Z', .threads = 2, .virtual_bytes = 0, .maps = ""});
  tree_.PutThread(10, {.pid = 11});
  tracker.Refresh(At(100s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10));
  EXPECT_EQ(tracker.tracked()[0].mappings.size(), 1u);
}

TEST_F(TargetTrackerTest, RefusesAProcessWhoseMappingsCannotBeRead) {
  Start({.pid = 10});
  std::filesystem::remove(tree_.Folder(10) / "maps");
  std::filesystem::create_directories(tree_.Folder(10) / "maps");
  TargetTracker tracker = Make({});
  EXPECT_EQ(tracker.AddNamed(Pid(10)).error().system_error, EISDIR);
  EXPECT_FALSE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, RegistersAProcessThatIsNamedTwiceOnce) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, FollowsChildrenOfChildrenInOneRefresh) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 12, .parent = 11});
  Start({.pid = 99});  // somebody else's
  tree_.SetChildren(10, 10, {11});
  tree_.SetChildren(11, 11, {12});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11, 12));
}

TEST_F(TargetTrackerTest, LeavesChildrenAloneWhenToldSo) {
  StartParentAndChild();
  TargetTracker tracker = Make({.follow_children = false});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, KeepsIdsAndWhatStaysATargetWhenItIsConfiguredAnew) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10, 11));
  const TargetId child = tracker.tracked()[1].id;
  tracker.Configure({.follow_children = false, .filter = std::nullopt});
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
  tracker.Configure({.filter = std::nullopt});
  tracker.Refresh(At(102s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10, 11));
  EXPECT_EQ(tracker.tracked()[1].id, child);
}

TEST_F(TargetTrackerTest, KeepsAChildWhoseParentExits) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  End(10);
  tree_.Put({.pid = 11, .parent = 1});
  Start({.pid = 12, .parent = 11});
  tree_.SetChildren(11, 11, {12});
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11, 12));
  EXPECT_TRUE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, NeverTakesTheObserverForATarget) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 12, .parent = 11});
  tree_.SetChildren(10, 10, {11});
  tree_.SetChildren(11, 11, {12});
  TargetTracker tracker = Make({.observer = Pid(11)});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(1s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, FindsAnOrphanAmongTheChildrenOfTheObserverThatAdoptsIt) {
  Start({.pid = 5});
  Start({.pid = 10, .parent = 5});
  Start({.pid = 12, .parent = 5});  // its parent, a child of 10, lived between two refreshes
  tree_.SetChildren(5, 5, {10, 12});
  TargetTracker tracker = Make({.observer = Pid(5), .observer_adopts_orphans = true});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(1s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 12));
}

TEST_F(TargetTrackerTest, NeverFollowsAHelperOfTheObserver) {
  const pid_t helper = ForkHelper();
  ASSERT_GE(helper, 0);
  if (helper == 0) ::_exit(0);
  ::waitpid(helper, nullptr, 0);
  Start({.pid = 5});
  Start({.pid = helper, .parent = 5});
  tree_.SetChildren(5, 5, {helper});
  TargetTracker tracker = Make({.observer = Pid(5), .observer_adopts_orphans = true});
  tracker.Refresh(At(1s));
  EXPECT_THAT(Tracked(tracker), IsEmpty());
  tracker.Follow(std::vector<ProcessInstance>{{.pid = Pid(helper), .start_time_ticks = 100}});
  EXPECT_THAT(Tracked(tracker), IsEmpty());
  ForgetHelper(Pid(helper));
  tracker.Refresh(At(2s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(helper)) << "another process has its number";
}

TEST_F(TargetTrackerTest, IgnoresAChildThatIsAlreadyDead) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10, .state = 'Z'});
  tree_.SetChildren(10, 10, {11, 12});  // 12 vanished before it was looked at
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  EXPECT_THAT(Pids(tracker.EndEpoch()), ElementsAre(10));
}

TEST_F(TargetTrackerTest, MakesAFollowedProcessNamedWhenItIsNamed) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tracker.Refresh(At(101s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10));  // 11 is idle
  ASSERT_TRUE(tracker.AddNamed(Pid(11)).has_value());
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  tracker.Refresh(At(103s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, JudgesAChildOnlyAfterAFullSecond) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tracker.Refresh(At(100'999ms));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, LeavesTheMappingsOfAFilteredChildOutOfTheEpochsInWhichItWasNotTracked) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  const auto mappings_at_end = [&] {
    std::vector<std::size_t> counts;
    for (const Target& target : tracker.EndEpoch()) counts.push_back(target.mappings.size());
    return counts;
  };
  tracker.Refresh(At(100s));
  tracker.Refresh(At(101s));  // filtered from here on, yet seen before
  EXPECT_THAT(mappings_at_end(), ElementsAre(1, 1));
  tracker.Refresh(At(102s));
  EXPECT_THAT(mappings_at_end(), ElementsAre(1, 0));
  cpu_times_[11] += 500ms;
  tracker.Refresh(At(103s));
  EXPECT_THAT(mappings_at_end(), ElementsAre(1, 1));
}

TEST_F(TargetTrackerTest, TracksAChildWhileItUsesEnoughCpu) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10}, 3h);  // its past does not count
  tree_.SetChildren(10, 10, {11});
  TargetTracker tracker = Make({.filter = ProcessFilter{.busiest_part = 0}});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  nanoseconds now = 100s;
  // CPU used in each second, and whether that reaches 5 %.
  for (const auto& [used, expected] : std::vector<std::pair<nanoseconds, bool>>{
           {49'999us, false}, {50ms, true}, {0ns, false}, {1s, true}, {51ms, true}, {1ns, false}}) {
    now += 1s;
    cpu_times_[11] += used;
    tracker.Refresh(At(now));
    EXPECT_EQ(Tracked(tracker).size(), expected ? 2u : 1u) << used.count();
  }
}

TEST_F(TargetTrackerTest, DividesByTheTimeThatReallyPassed) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = ProcessFilter{.busiest_part = 0}});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[11] += 199ms;  // 4.975 % of 4 s
  tracker.Refresh(At(104s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

// A database server has such processes, one for each of its clients.
TEST_F(TargetTrackerTest, TracksTheChildrenThatDoTheWorkThoughEachUsesLittle) {
  Start({.pid = 10});
  for (const std::int32_t child : {11, 12, 13, 14, 15}) Start({.pid = child, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12, 13, 14, 15});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  for (const std::int32_t child : {11, 12, 14, 15}) cpu_times_[child] += 20ms;
  cpu_times_[13] += 1ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11, 12, 14, 15));
  for (int second = 102; second < 130; ++second) tracker.Refresh(At(std::chrono::seconds(second)));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11, 12, 14, 15)) << "all rest";
}

TEST_F(TargetTrackerTest, LeavesOutTheChildThatAddsLittleToTheWorkOfTheOthers) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[10] += 900ms;
  cpu_times_[11] += 40ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, FindsTheChildrenThatDoTheWorkOfEachNamedProcess) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 20});
  tree_.SetChildren(10, 10, {11});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_TRUE(tracker.AddNamed(Pid(20)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[11] += 20ms;
  cpu_times_[20] += 1s;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 20, 11));
}

TEST_F(TargetTrackerTest, LetsNoChildGiveWayToOneThatIsHardlyBusier) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 12, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12});
  TargetTracker tracker = Make({.filter = ProcessFilter{.busiest_part = 0.3}});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[11] += 30ms;
  cpu_times_[12] += 20ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  cpu_times_[12] += 20ms;
  tracker.Refresh(At(111s));  // half of what they were before, and of this second
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  for (const auto second : {112s, 113s, 114s}) {
    EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
    cpu_times_[12] += 49ms;
    tracker.Refresh(At(second));
  }
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 12));
}

TEST_F(TargetTrackerTest, TellsOfTheChildrenThatTheFilterLeavesOut) {
  Start({.pid = 10});
  for (const std::int32_t child : {11, 12, 13})
    Start({.pid = child, .parent = 10, .resident_pages = 100});
  tree_.SetChildren(10, 10, {11, 12, 13});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  EXPECT_EQ(tracker.filtered(), FilteredChildren()) << "not judged yet";
  cpu_times_[10] += 900ms;
  cpu_times_[11] += 10ms;
  cpu_times_[12] += 5ms;
  cpu_times_[13] += 100ms;
  tracker.Refresh(At(101s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10, 13));
  EXPECT_EQ(tracker.filtered().processes, 2u);
  EXPECT_EQ(tracker.filtered().resident, PageCount(200));
  EXPECT_DOUBLE_EQ(tracker.filtered().cpu_share, 0.015);
  End(11);
  tracker.Refresh(At(102s));
  EXPECT_EQ(tracker.filtered().processes, 1u);
}

TEST_F(TargetTrackerTest, TracksAnIdleChildThatHoldsEnoughMemory) {
  tree_.Write("meminfo", "MemTotal: 4000 kB\n");  // 1000 pages
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10, .resident_pages = 99});
  Start({.pid = 12, .parent = 10, .resident_pages = 100});
  tree_.SetChildren(10, 10, {11, 12});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 12));
}

TEST_F(TargetTrackerTest, TracksEveryDescendantWithoutAFilter) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  for (int second = 100; second < 105; ++second) {
    tracker.Refresh(At(std::chrono::seconds(second)));
    EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  }
}

TEST_F(TargetTrackerTest, GoesOnTrackingAChildWhoseCpuClockCannotBeRead) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_.erase(11);  // unknown is not idle
  tracker.Refresh(At(101s));
  tracker.Refresh(At(102s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, CutsToTheCapByCpuShare) {
  Start({.pid = 10});
  for (const std::int32_t child : {11, 12, 13}) Start({.pid = child, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12, 13});
  TargetTracker tracker = Make({.max_targets = 2});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[11] += 300ms;
  cpu_times_[12] += 100ms;
  cpu_times_[13] += 900ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11, 13));  // 10 is named, but idle
  EXPECT_EQ(tracker.left_out(), 2u);
}

TEST_F(TargetTrackerTest, GivesTheOnlyPlaceToTheBusyChildOfAnIdleShellBeforeASecondIsOver) {
  Start({.pid = 10, .name = "sh"}, 5ms);
  TargetTracker tracker = Make({.max_targets = 1});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  Start({.pid = 11, .parent = 10});
  tree_.SetChildren(10, 10, {11});
  tracker.Refresh(At(100s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10)) << "nobody has used any time since";
  cpu_times_[11] += 200ms;
  cpu_times_[10] += 1ms;
  tracker.Refresh(At(100s + 250ms));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11));
  cpu_times_[11] += 700ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11));
  cpu_times_[10] += 20ms;
  tracker.Refresh(At(102s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11)) << "it rests for a second";
  for (const auto second : {103s, 104s, 105s, 106s}) {
    cpu_times_[10] += 900ms;
    tracker.Refresh(At(second));
  }
  EXPECT_THAT(Tracked(tracker), ElementsAre(10)) << "the shell is the busy one now";
}

TEST_F(TargetTrackerTest, KeepsATargetUnderTheCapUnlessAnotherUsesClearlyMore) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 12, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12});
  TargetTracker tracker = Make({.filter = std::nullopt, .max_targets = 1});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  nanoseconds now = 100s;
  tracker.Refresh(At(now));
  // CPU time of both in each step, and who has the place then. Before a second is over, all that
  // was used so far counts.
  struct Step {
    nanoseconds length;
    nanoseconds of_11;
    nanoseconds of_12;
    std::int32_t target;
  };
  for (const Step& step : {Step{250ms, 100ms, 100ms, 11},
                           {250ms, 0ns, 25ms, 11},  // 1.25 times as much, and no more
                           {250ms, 0ns, 1ms, 12},
                           {250ms, 300ms, 274ms, 12},
                           {1s, 501ms, 400ms, 11},
                           {1s, 400ms, 390ms, 11},
                           {1s, 390ms, 400ms, 11},
                           {1s, 400ms, 500ms, 11},
                           {1s, 400ms, 501ms, 12},
                           {1s, 500ms, 400ms, 12},
                           {1s, 501ms, 400ms, 11},
                           {1s, 0ns, 0ns, 11}}) {
    now += step.length;
    cpu_times_[11] += step.of_11;
    cpu_times_[12] += step.of_12;
    tracker.Refresh(At(now));
    EXPECT_THAT(Tracked(tracker), ElementsAre(step.target)) << now.count();
  }
}

TEST_F(TargetTrackerTest, GivesThePlaceOfATargetThatEndsToTheNext) {
  StartParentAndChild();
  TargetTracker tracker = Make({.max_targets = 1});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  cpu_times_[11] += 900ms;
  tracker.Refresh(At(101s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(11));
  End(11);
  tree_.SetChildren(10, 10, {});
  tracker.Refresh(At(101s + 250ms));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, LeavesNothingOutWithoutACap) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  EXPECT_EQ(tracker.left_out(), 0u);
}

TEST_F(TargetTrackerTest, BreaksATieAtTheCapByTheOrderOfRegistration) {
  Start({.pid = 10});
  for (const std::int32_t child : {11, 12, 13}) Start({.pid = child, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12, 13});
  TargetTracker tracker = Make({.max_targets = 2});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  for (const std::int32_t child : {11, 12, 13}) cpu_times_[child] += 200ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11, 12));
}

TEST_F(TargetTrackerTest, HonoursACapBelowTheNumberOfNamedProcesses) {
  Start({.pid = 10});
  Start({.pid = 20});
  TargetTracker tracker = Make({.max_targets = 1});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_TRUE(tracker.AddNamed(Pid(20)).has_value());
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
}

TEST_F(TargetTrackerTest, RenewsNameCommandAndMappingsAtAnExec) {
  Start({.pid = 10, .name = "sh"});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tree_.Put({.pid = 10,
             .name = "redis-server",
             .command_line = std::string("redis-server\0*:6379\0", 20),
             .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100s));
  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].id, TargetId(0));
  EXPECT_EQ(targets[0].name, "redis-server");
  EXPECT_EQ(targets[0].command, "redis-server *:6379");
  ASSERT_EQ(tracker.tracked()[0].mappings.size(), 1u);
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

TEST_F(TargetTrackerTest, RenewsTheCommandAtAnExecThatKeepsTheName) {
  Start({.pid = 10, .name = "python3", .command_line = std::string("python3\0a.py\0", 13)});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tree_.Put({.pid = 10, .name = "python3", .command_line = std::string("python3\0b.py\0", 13)});
  tracker.Refresh(At(100s));
  EXPECT_EQ(tracker.EndEpoch()[0].command, "python3 b.py");
}

TEST_F(TargetTrackerTest, ReadsMappingsAgainWhenTheAddressSpaceChangesItsSize) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10, .virtual_bytes = 4096, .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100'250ms));
  ASSERT_EQ(tracker.tracked()[0].mappings.size(), 1u);
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

TEST_F(TargetTrackerTest, ReadsMappingsAgainWhenOtherPagesAreResident) {
  Start(
      {.pid = 10, .maps = "1000-2000 rw-p 00000000 00:00 0 \n2000-3000 ---p 00000000 00:00 0 \n"});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10, .resident_pages = 11, .maps = "1000-3000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100'250ms));
  ASSERT_EQ(tracker.tracked()[0].mappings.size(), 1u);
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.end, Vpn(3));
  EXPECT_EQ(tracker.resident(), PageCount(11));
}

TEST_F(TargetTrackerTest, ReadsMappingsAgainThatChangedWhileTheyWereRead) {
  Start({.pid = 10});
  int clock_reads = 0;
  TargetTracker tracker(
      procfs_,
      [&](Pid) {
        // A refresh reads the clock first before the mappings are read, and a second time after
        // that.
        if (++clock_reads == 3) {
          tree_.Put(
              {.pid = 10, .virtual_bytes = 4096, .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
        }
        return std::optional(0ns);
      },
      {});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_EQ(clock_reads, 1);
  tracker.Refresh(At(100s));
  ASSERT_EQ(clock_reads, 3);
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(1));
  tracker.Refresh(At(100'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

TEST_F(TargetTrackerTest, ReadsMappingsOfAnAddressSpaceOfTheSameSizeEachSecond) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10, .maps = "8000-a000 rw-p 00000000 00:00 0 \n"}, 1us);
  tracker.Refresh(At(100'999ms));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(1));
  tracker.Refresh(At(101s));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

// A file that is written without CPU time of the process shows that it is not read.
TEST_F(TargetTrackerTest, DoesNotReadMappingsAgainOfAProcessThatDidNotRun) {
  Start({.pid = 10}, 5s);
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10, .maps = "8000-a000 rw-p 00000000 00:00 0 \n"}, 5s);
  tracker.Refresh(At(200s));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(1));
  cpu_times_[10] += 1ns;
  tracker.Refresh(At(200'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

TEST_F(TargetTrackerTest, ReadsMappingsEachSecondIfTheClockCannotBeRead) {
  Start({.pid = 10});
  cpu_times_.erase(10);
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tree_.Put({.pid = 10, .maps = "8000-a000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(101s));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
}

// 12 500 mappings take some 25 ms to read.
TEST_F(TargetTrackerTest, ReadsVeryManyMappingsForATwentiethOfTheTimeAtMost) {
  std::string maps;
  for (int i = 0; i < 12'500; ++i)
    maps += fmt::format("{:x}000-{:x}000 rw-p 00000000 00:00 0 \n", 2 * i + 2, 2 * i + 3);
  Start({.pid = 10, .maps = maps});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  ASSERT_EQ(tracker.tracked()[0].mappings.size(), 12'500u);
  const std::string fewer = maps.substr(maps.find('\n') + 1);
  Start({.pid = 10, .virtual_bytes = 4096, .maps = fewer}, 1s);
  tracker.Refresh(At(100'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings.size(), 12'500u);
  tracker.Refresh(At(100'500ms));
  EXPECT_EQ(tracker.tracked()[0].mappings.size(), 12'499u);
}

TEST_F(TargetTrackerTest, ReadsVeryManyMappingsAtOnceAfterAnExec) {
  std::string maps;
  for (int i = 0; i < 12'500; ++i)
    maps += fmt::format("{:x}000-{:x}000 rw-p 00000000 00:00 0 \n", 2 * i + 2, 2 * i + 3);
  Start({.pid = 10, .name = "sh", .maps = maps});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10, .name = "redis-server", .maps = "8000-a000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings.size(), 1u);
}

TEST_F(TargetTrackerTest, ReadsAllAgainAtAnExecToAnAddressSpaceOfTheSameSize) {
  Start({.pid = 10, .name = "sh"});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 10,
         .name = "redis-server",
         .command_line = std::string("redis-server\0*:6379\0", 20),
         .maps = "8000-a000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
  EXPECT_EQ(tracker.EndEpoch()[0].command, "redis-server *:6379");
}

TEST_F(TargetTrackerTest, TakesAReusedPidForAnotherProcess) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10, .name = "old", .start_time_ticks = 200});
  tree_.SetChildren(10, 10, {11});
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  Start({.pid = 11,
         .parent = 10,
         .name = "new",
         .start_time_ticks = 201,
         .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(101s));
  ASSERT_EQ(tracker.tracked().size(), 2u);
  EXPECT_EQ(tracker.tracked()[1].id, TargetId(2));
  EXPECT_EQ(tracker.tracked()[1].start_time_ticks, 201u);

  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_THAT(Pids(targets), ElementsAre(10, 11, 11));
  EXPECT_TRUE(targets[1].exited);
  EXPECT_EQ(targets[1].name, "old");
  ASSERT_EQ(targets[1].mappings.size(), 1u);
  EXPECT_EQ(targets[1].mappings[0].range.start, Vpn(1));  // its own, not the new owner's
  EXPECT_FALSE(targets[2].exited);
  EXPECT_EQ(targets[2].name, "new");
}

TEST_F(TargetTrackerTest, TakesAReusedPidForAStrangerWhenItIsNoChild) {
  Start({.pid = 10, .start_time_ticks = 200});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  Start({.pid = 10, .start_time_ticks = 300});
  tracker.Refresh(At(100s));
  EXPECT_THAT(tracker.tracked(), IsEmpty());
  EXPECT_FALSE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, DoesNotTakeAFailedLookForADeath) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  std::filesystem::remove(tree_.Folder(10) / "stat");
  std::filesystem::create_directories(tree_.Folder(10) / "stat");  // EISDIR for, say, EMFILE
  tracker.Refresh(At(100s));
  EXPECT_TRUE(tracker.AnyAlive());
  EXPECT_THAT(Tracked(tracker), ElementsAre(10));
  std::filesystem::remove(tree_.Folder(10) / "stat");
  tracker.Refresh(At(101s));
  EXPECT_FALSE(tracker.AnyAlive());
}

TEST_F(TargetTrackerTest, KeepsTheLastMappingsWhereNewOnesCannotBeRead) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  std::filesystem::remove(tree_.Folder(10) / "maps");
  tracker.Refresh(At(100s));
  EXPECT_EQ(tracker.tracked()[0].mappings.size(), 1u);
  Start({.pid = 10, .maps = "8000-a000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100'250ms));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8)) << "tried again at once";
}

TEST_F(TargetTrackerTest, KeepsTheMappingsOfAProcessThatBecameAZombie) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tree_.Put({.pid = 10, .state = 'Z', .command_line = "", .maps = ""});
  tracker.Refresh(At(100s));
  EXPECT_FALSE(tracker.AnyAlive());
  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_TRUE(targets[0].exited);
  EXPECT_EQ(targets[0].mappings.size(), 1u);
  EXPECT_EQ(targets[0].command, "worker --fast");
}

TEST_F(TargetTrackerTest, CountsCpuTimeByEpoch) {
  Start({.pid = 10}, 5h);
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  cpu_times_[10] += 300ms;
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, 300ms);
  cpu_times_[10] += 700ms;
  tracker.Refresh(At(100s));
  cpu_times_[10] += 50ms;
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, 750ms);
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, 0ns);
}

TEST_F(TargetTrackerTest, CountsAChildsCpuTimeFromItsBirth) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.EndEpoch();
  Start({.pid = 11, .parent = 10}, 40ms);
  tree_.SetChildren(10, 10, {11});
  tracker.Refresh(At(100s));
  cpu_times_[11] += 2ms;
  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[1].cpu_time, 42ms);
}

TEST_F(TargetTrackerTest, SaysThatCpuTimeIsUnknownWhileItsClockIsGone) {
  Start({.pid = 10}, 1s);
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  cpu_times_.erase(10);
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, std::nullopt);
  cpu_times_[10] = 4s;
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, std::nullopt);  // since when is not known
  cpu_times_[10] = 5s;
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, 1s);
}

TEST_F(TargetTrackerTest, DoesNotChargeAProcessWithTheTimeOfItsPidsNextOwner) {
  Start({.pid = 10, .start_time_ticks = 200}, 100s);
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  cpu_times_[10] += 20ms;
  tracker.Refresh(At(100s));
  Start({.pid = 10, .start_time_ticks = 300}, 7ms);
  const std::vector<Target> targets = tracker.EndEpoch();
  EXPECT_EQ(targets[0].cpu_time, 20ms);
  EXPECT_TRUE(targets[0].exited);
}

TEST_F(TargetTrackerTest, CountsTheFinalCpuTimeOfAZombie) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  cpu_times_[10] = 80ms;
  tree_.Put({.pid = 10, .state = 'Z'});
  EXPECT_EQ(tracker.EndEpoch()[0].cpu_time, 80ms);
}

TEST_F(TargetTrackerTest, NamesAnExitedTargetInTheEpochOfItsDeathAndTheNext) {
  Start({.pid = 10});
  Start({.pid = 20});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  ASSERT_TRUE(tracker.AddNamed(Pid(20)).has_value());
  EXPECT_THAT(Pids(tracker.EndEpoch()), ElementsAre(10, 20));
  cpu_times_[10] += 30ms;
  tracker.Refresh(At(100s));
  End(10);
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(20));

  const std::vector<Target> death = tracker.EndEpoch();
  ASSERT_THAT(Pids(death), ElementsAre(10, 20));
  EXPECT_TRUE(death[0].exited);
  EXPECT_EQ(death[0].cpu_time, 30ms);  // the part that was seen

  const std::vector<Target> after = tracker.EndEpoch();
  ASSERT_THAT(Pids(after), ElementsAre(10, 20));
  EXPECT_TRUE(after[0].exited);
  EXPECT_EQ(after[0].cpu_time, 0ns);

  EXPECT_THAT(Pids(tracker.EndEpoch()), ElementsAre(20));
}

TEST_F(TargetTrackerTest, NamesTargetsThatTheFilterLeavesOut) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tracker.Refresh(At(101s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10));
  EXPECT_THAT(Pids(tracker.EndEpoch()), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, NeverGivesAnIdTwice) {
  Start({.pid = 10});
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  nanoseconds now = 100s;
  for (std::uint32_t life = 1; life <= 5; ++life) {
    Start({.pid = 11, .parent = 10, .start_time_ticks = life});
    tree_.SetChildren(10, 10, {11});
    tracker.Refresh(At(now += 1s));
    ASSERT_EQ(tracker.tracked().size(), 2u);
    EXPECT_EQ(tracker.tracked()[1].id, TargetId(life));
    End(11);
    tree_.SetChildren(10, 10, {});
    tracker.Refresh(At(now += 1s));
    tracker.EndEpoch();
    tracker.EndEpoch();
  }
}

ProcessInstance Instance(std::int32_t pid, std::uint64_t start_time_ticks = 100) {
  return {.pid = Pid(pid), .start_time_ticks = start_time_ticks};
}

TEST_F(TargetTrackerTest, TracksWhatWasFoundHoweverIdle) {
  Start({.pid = 10});
  Start({.pid = 11});
  TargetTracker tracker = Make({});
  EXPECT_THAT(tracker.Follow({{Instance(10), Instance(11)}}), IsEmpty());
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  for (int second = 100; second < 103; ++second) tracker.Refresh(At(std::chrono::seconds(second)));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, NoLongerTracksWhatIsFoundNoLonger) {
  Start({.pid = 10});
  Start({.pid = 11});
  TargetTracker tracker = Make({});
  tracker.Follow({{Instance(10), Instance(11)}});
  tracker.Refresh(At(100s));
  tracker.EndEpoch();
  tracker.Follow({{Instance(11)}});
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11));
  const std::vector<Target> last = tracker.EndEpoch();
  EXPECT_THAT(Pids(last), ElementsAre(10, 11)) << "evidence from before it was dropped";
  EXPECT_EQ(last[0].mappings.size(), 1u);
  EXPECT_FALSE(last[0].exited);
  tracker.Refresh(At(102s));
  EXPECT_THAT(Pids(tracker.EndEpoch()), ElementsAre(11));
}

TEST_F(TargetTrackerTest, KnowsAProcessThatIsFoundAgain) {
  Start({.pid = 10});
  Start({.pid = 11});
  TargetTracker tracker = Make({});
  tracker.Follow({{Instance(10), Instance(11)}});
  tracker.Follow({{Instance(11)}});
  for (int epoch = 0; epoch < 3; ++epoch) tracker.EndEpoch();
  tree_.Put({.pid = 10, .name = "other", .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  cpu_times_[10] += 30ms;
  tracker.EndEpoch();
  tracker.Follow({{Instance(10), Instance(11)}});
  ASSERT_EQ(tracker.tracked().size(), 2u);
  EXPECT_EQ(tracker.tracked()[0].id, TargetId(0));
  EXPECT_EQ(tracker.tracked()[0].mappings[0].range.start, Vpn(8));
  cpu_times_[10] += 5ms;
  const std::vector<Target> targets = tracker.EndEpoch();
  EXPECT_EQ(targets[0].name, "other");
  EXPECT_EQ(targets[0].cpu_time, 5ms);
}

TEST_F(TargetTrackerTest, ReadsNothingOfTheMemoryOfWhatIsFoundNoLonger) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  tracker.Follow({{Instance(10)}});
  tracker.Follow({});
  tree_.Put({.pid = 10, .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  tracker.Refresh(At(100s));
  const std::vector<Target> targets = tracker.EndEpoch();
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].mappings[0].range.start, Vpn(1));
}

TEST_F(TargetTrackerTest, KeepsWhatIsNamedOrAChildThoughItIsFoundNoLonger) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = std::nullopt});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Follow({{Instance(10), Instance(11)}});
  tracker.Refresh(At(100s));
  tracker.Follow({});
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, FollowsTheChildrenOfWhatIsFoundWhileItIs) {
  StartParentAndChild();
  TargetTracker tracker = Make({.filter = std::nullopt});
  tracker.Follow({{Instance(10)}});
  tracker.Refresh(At(100s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
  tracker.Follow({});
  Start({.pid = 12, .parent = 10});
  tree_.SetChildren(10, 10, {11, 12});
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(11));
}

TEST_F(TargetTrackerTest, FollowsNobodyWhoIsGone) {
  Start({.pid = 11, .start_time_ticks = 2});
  Start({.pid = 12, .state = 'Z'});
  TargetTracker tracker = Make({});
  EXPECT_THAT(tracker.Follow({{Instance(10), Instance(11, 1), Instance(12)}}), IsEmpty());
  EXPECT_THAT(tracker.tracked(), IsEmpty());
  EXPECT_THAT(tracker.EndEpoch(), IsEmpty());
}

TEST_F(TargetTrackerTest, NeverFollowsTheObserver) {
  Start({.pid = 10});
  TargetTracker tracker = Make({.observer = Pid(10)});
  EXPECT_THAT(tracker.Follow({{Instance(10)}}), IsEmpty());
  EXPECT_THAT(tracker.tracked(), IsEmpty());
}

TEST_F(TargetTrackerTest, DropsAFoundProcessThatDiesAfterOneMoreEpoch) {
  Start({.pid = 10});
  TargetTracker tracker = Make({});
  tracker.Follow({{Instance(10)}});
  End(10);
  tracker.Follow({});
  tracker.Refresh(At(101s));
  EXPECT_FALSE(tracker.AnyAlive());
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::vector<Target> targets = tracker.EndEpoch();
    ASSERT_EQ(targets.size(), 1u);
    EXPECT_TRUE(targets[0].exited);
    EXPECT_EQ(targets[0].mappings.size(), 1u);
  }
  EXPECT_THAT(tracker.EndEpoch(), IsEmpty());
}

TEST_F(TargetTrackerTest, TakesAFoundProcessWithAReusedNumberForAnother) {
  Start({.pid = 10, .start_time_ticks = 1});
  TargetTracker tracker = Make({});
  tracker.Follow({{Instance(10, 1)}});
  Start({.pid = 10, .start_time_ticks = 2});
  tracker.Follow({{Instance(10, 2)}});
  tracker.Refresh(At(100s));
  ASSERT_EQ(tracker.tracked().size(), 1u);
  EXPECT_EQ(tracker.tracked()[0].id, TargetId(1));
  EXPECT_EQ(tracker.tracked()[0].start_time_ticks, 2u);
}

TEST_F(TargetTrackerTest, SaysOnceWhyAFoundProcessCannotBeTrackedAndTriesAgain) {
  Start({.pid = 10});
  Start({.pid = 11});
  std::filesystem::remove(tree_.Folder(10) / "maps");
  std::filesystem::create_directories(tree_.Folder(10) / "maps");  // EISDIR for EACCES
  TargetTracker tracker = Make({});
  const std::vector<ProcessInstance> found{Instance(10), Instance(11)};
  const std::vector<Error> errors = tracker.Follow(found);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].system_error, EISDIR);
  EXPECT_EQ(errors[0].object, "10");
  EXPECT_THAT(Tracked(tracker), ElementsAre(11));
  EXPECT_THAT(tracker.Follow(found), IsEmpty());
  std::filesystem::remove(tree_.Folder(10) / "maps");
  Start({.pid = 10});
  EXPECT_THAT(tracker.Follow(found), IsEmpty());
  EXPECT_THAT(Tracked(tracker), ElementsAre(11, 10)) << "in order of registration";
}

TEST_F(TargetTrackerTest, CutsToTheCapWithABusyChildBeforeWhatWasFoundIdle) {
  Start({.pid = 10});
  Start({.pid = 11, .parent = 10});
  Start({.pid = 12});
  tree_.SetChildren(10, 10, {11});
  TargetTracker tracker = Make({.max_targets = 2});
  const std::vector<ProcessInstance> found{Instance(10), Instance(12)};
  tracker.Follow(found);
  tracker.Refresh(At(100s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 12)) << "what was found comes first of equals";
  cpu_times_[11] += 900ms;
  tracker.Refresh(At(101s));
  EXPECT_THAT(Tracked(tracker), ElementsAre(10, 11));
}

TEST_F(TargetTrackerTest, RenewsTheMappingsOfAChildAsSoonAsItPassesAgain) {
  StartParentAndChild();
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tracker.Refresh(At(101s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10));
  tree_.Put({.pid = 11, .parent = 10, .maps = "8000-9000 rw-p 00000000 00:00 0 \n"});
  cpu_times_[11] += 900ms;
  tracker.Refresh(At(102s));
  ASSERT_THAT(Tracked(tracker), ElementsAre(10, 11));
  EXPECT_EQ(tracker.tracked()[1].mappings[0].range.start, Vpn(8));
}

TEST_F(TargetTrackerTest, AddsUpTheResidentPagesOfWhatItTracks) {
  Start({.pid = 10, .resident_pages = 100});
  Start({.pid = 11, .parent = 10, .resident_pages = 20});
  Start({.pid = 12, .resident_pages = 3});
  tree_.SetChildren(10, 10, {11});
  TargetTracker tracker = Make({});
  EXPECT_EQ(tracker.resident(), PageCount(0));
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  EXPECT_EQ(tracker.resident(), PageCount(100)) << "before any refresh";
  tracker.Follow({{Instance(12)}});
  tracker.Refresh(At(100s));
  EXPECT_EQ(tracker.resident(), PageCount(123));
  tree_.Put({.pid = 12, .resident_pages = 5});
  tracker.Refresh(At(101s));
  EXPECT_EQ(tracker.resident(), PageCount(105)) << "the child is idle";
  End(10);
  tracker.Refresh(At(102s));
  EXPECT_EQ(tracker.resident(), PageCount(5));
}

TEST_F(TargetTrackerTest, TellsTheResidentPagesAtTheEndOfTheEpoch) {
  Start({.pid = 10, .resident_pages = 100});
  TargetTracker tracker = Make({});
  ASSERT_TRUE(tracker.AddNamed(Pid(10)).has_value());
  tracker.Refresh(At(100s));
  tree_.Put({.pid = 10, .resident_pages = 7});
  EXPECT_EQ(tracker.EndEpoch()[0].resident_pages, PageCount(7));
  End(10);
  EXPECT_EQ(tracker.EndEpoch()[0].resident_pages, std::nullopt) << "it has exited";
}

}  // namespace target_tracker_test
}  // namespace tmprof
