// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "profiler/helper_processes.h"
#include "tests/base/host/headless_process.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace target_finder_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kLongestInterval = 32;  // in looks, until a known process is examined again

class TargetFinderTest : public testing::Test {
 protected:
  TargetFinder Make(TargetRules rules, std::optional<Pid> observer = std::nullopt) {
    return TargetFinder(
        procfs_, [this](Pid pid) { return ReadClock(pid); }, std::move(rules), observer);
  }
  std::optional<nanoseconds> ReadClock(Pid pid) {
    ++clocks_read_;
    const auto found = cpu_times_.find(pid.value());
    return found == cpu_times_.end() ? std::nullopt : std::optional(found->second);
  }
  // Another process with the number of one that was there before.
  void PutInItsPlace(const FakeProcess& process) {
    std::filesystem::rename(tree_.Folder(process.pid),
                            tree_.root() / ("gone-" + std::to_string(process.pid)));
    tree_.Put(process);
  }
  // A look, a second after the one before.
  std::vector<std::int32_t> Look(TargetFinder& finder) {
    findings_ = finder.Look(now_ += 1s);
    std::vector<std::int32_t> pids;
    for (const ProcessInstance& target : findings_.targets) pids.push_back(target.pid.value());
    return pids;
  }
  // Processes found by the time when everything has been examined again.
  std::vector<std::int32_t> LookForLong(TargetFinder& finder) {
    for (int look = 1; look < kLongestInterval; ++look) Look(finder);
    return Look(finder);
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  std::map<std::int32_t, nanoseconds> cpu_times_;
  int clocks_read_ = 0;
  MonotonicTime now_{100s};
  TargetFinder::Findings findings_;
};

TEST_F(TargetFinderTest, FindsNothingWithoutARule) {
  tree_.Put({.pid = 10});
  TargetFinder finder = Make({});
  EXPECT_THAT(Look(finder), IsEmpty());
  EXPECT_EQ(clocks_read_, 0);
}

TEST_F(TargetFinderTest, SaysWhichProcessHasTheNumber) {
  tree_.Put({.pid = 10, .name = "redis-server", .start_time_ticks = 77});
  TargetFinder finder = Make({.commands = {"redis-*"}});
  Look(finder);
  EXPECT_THAT(findings_.targets,
              ElementsAre(ProcessInstance{.pid = Pid(10), .start_time_ticks = 77}));
}

TEST_F(TargetFinderTest, MatchesCommandsByPattern) {
  const struct {
    const char* pattern;
    const char* command;
    bool expected;
  } cases[] = {
      {"redis-server", "redis-server", true},
      {"redis-server", "redis-serve", false},
      {"redis-*", "redis-sentinel", true},
      {"*", "anything", true},
      {"?ysqld", "mysqld", true},
      {"[mn]ysqld", "nysqld", true},
      {"postgres", "Postgres", false},
      {"a*b", "a) S 1 (b", true},
      {"kworker*", "kworker/0:1", true},
  };
  for (const auto& [pattern, command, expected] : cases) {
    tree_.Put({.pid = 10, .name = command});
    TargetFinder finder = Make({.commands = {"no such", pattern}});
    EXPECT_EQ(Look(finder).size(), expected ? 1U : 0U) << pattern << ' ' << command;
  }
}

TEST_F(TargetFinderTest, MatchesALongCommandByTheNameOfItsProgram) {
  // The kernel keeps "elasticsearch-n".
  tree_.Put({.pid = 10, .name = "elasticsearch-n", .executable = "/opt/elasticsearch-node"});
  tree_.Put({.pid = 11, .name = "elasticsearch-n", .executable = "/usr/bin/java"});
  tree_.Put({.pid = 12, .name = "short", .executable = "/opt/elasticsearch-node"});
  TargetFinder whole = Make({.commands = {"elasticsearch-node"}});
  EXPECT_THAT(Look(whole), ElementsAre(10));
  TargetFinder cut = Make({.commands = {"elasticsearch-n"}});
  EXPECT_THAT(Look(cut), ElementsAre(10, 11));
}

TEST_F(TargetFinderTest, MatchesProgramsByTheirPath) {
  const struct {
    const char* pattern;
    const char* program;
    bool expected;
  } cases[] = {
      {"/usr/bin/redis-server", "/usr/bin/redis-server", true},
      {"/usr/bin/redis-server", "/usr/bin/redis-server (deleted)", true},
      {"/usr/lib/postgresql/*/bin/postgres", "/usr/lib/postgresql/15/bin/postgres", true},
      {"/usr/*/postgres", "/usr/lib/postgresql/15/bin/postgres", true},
      {"redis-server", "/usr/bin/redis-server", false},
      {"/opt/my app/*", "/opt/my app/run", true},
  };
  for (const auto& [pattern, program, expected] : cases) {
    tree_.Put({.pid = 10, .executable = program});
    TargetFinder finder = Make({.executables = {pattern}});
    EXPECT_EQ(Look(finder).size(), expected ? 1U : 0U) << pattern << ' ' << program;
  }
}

TEST_F(TargetFinderTest, MatchesACgroupAndWhatIsBelowIt) {
  const struct {
    const char* rule;
    const char* cgroup;
    bool expected;
  } cases[] = {
      {"/system.slice/redis.service", "0::/system.slice/redis.service\n", true},
      {"/system.slice/redis.service/", "0::/system.slice/redis.service\n", true},
      {"/system.slice", "0::/system.slice/redis.service\n", true},
      {"/system.slice/redis", "0::/system.slice/redis.service\n", false},
      {"/system.slice/redis.service", "0::/system.slice\n", false},
      {"/", "0::/\n", true},
      {"/", "0::/user.slice\n", true},
      {"/a", "9:memory:/a\n0::/b\n", false},
      {"/b", "9:memory:/a\n0::/b\n", true},
      {"/a b", "0::/a b/c:d\n", true},
  };
  for (const auto& [rule, cgroup, expected] : cases) {
    tree_.Put({.pid = 10, .cgroup = cgroup});
    TargetFinder finder = Make({.cgroups = {rule}});
    EXPECT_EQ(Look(finder).size(), expected ? 1U : 0U) << rule << ' ' << cgroup;
    EXPECT_EQ(findings_.unreadable, 0U);
  }
}

TEST_F(TargetFinderTest, FindsWhatAnyRuleHoldsForOnceAndInOrder) {
  tree_.Put({.pid = 30, .name = "a", .cgroup = "0::/g\n"});
  tree_.Put({.pid = 9, .name = "b", .executable = "/x"});
  tree_.Put({.pid = 200, .name = "a"});
  tree_.Put({.pid = 40, .name = "c"});
  TargetFinder finder =
      Make({.commands = {"a"}, .executables = {"/x"}, .cgroups = {"/g"}, .pids = {Pid(30)}});
  EXPECT_THAT(Look(finder), ElementsAre(9, 30, 200));
}

TEST_F(TargetFinderTest, NeverFindsTheObserverNorKernelThreadsNorTheDead) {
  tree_.Put({.pid = 10, .name = "a"});
  tree_.Put({.pid = 11, .name = "a", .flags = 0x00208040});
  tree_.Put({.pid = 12, .name = "a", .state = 'Z'});
  tree_.Put({.pid = 13, .name = "a"});
  cpu_times_ = {{10, 0s}, {11, 0s}, {12, 0s}, {13, 0s}};
  TargetFinder finder = Make({.commands = {"a"}, .any = ProcessFilter{.min_cpu_share = 0}},
                             /*observer=*/Pid(10));
  EXPECT_THAT(Look(finder), ElementsAre(13));
  EXPECT_EQ(clocks_read_, 1);
}

TEST_F(TargetFinderTest, NeverFindsAHelper) {
  const pid_t helper = ForkHelper();
  ASSERT_GE(helper, 0);
  if (helper == 0) ::_exit(0);
  ::waitpid(helper, nullptr, 0);
  tree_.Put({.pid = helper});
  TargetFinder finder = Make({.commands = {"*"}});
  EXPECT_THAT(Look(finder), IsEmpty());
  ForgetHelper(Pid(helper));
  EXPECT_THAT(Look(finder), ElementsAre(helper)) << "another process has its number";
}

TEST_F(TargetFinderTest, FindsProcessesAsTheyComeAndGo) {
  tree_.Put({.pid = 10, .name = "a"});
  TargetFinder finder = Make({.commands = {"a"}});
  EXPECT_THAT(Look(finder), ElementsAre(10));
  tree_.Put({.pid = 9, .name = "a"});
  tree_.Put({.pid = 11, .name = "a"});
  EXPECT_THAT(Look(finder), ElementsAre(9, 10, 11));
  tree_.Remove(10);
  EXPECT_THAT(Look(finder), ElementsAre(9, 11));
}

TEST_F(TargetFinderTest, TakesAReusedNumberForAnotherProcess) {
  tree_.Put({.pid = 10, .name = "a", .start_time_ticks = 1});
  tree_.Put({.pid = 11, .name = "b", .start_time_ticks = 1});
  TargetFinder finder = Make({.commands = {"a"}});
  EXPECT_THAT(Look(finder), ElementsAre(10));
  PutInItsPlace({.pid = 10, .name = "b", .start_time_ticks = 2});
  PutInItsPlace({.pid = 11, .name = "a", .start_time_ticks = 2});
  EXPECT_THAT(Look(finder), ElementsAre(11));
  EXPECT_EQ(findings_.targets[0].start_time_ticks, 2U);
}

TEST_F(TargetFinderTest, DoesNotReadAgainWhatItKnows) {
  tree_.Put({.pid = kLongestInterval + 5, .name = "a"});
  TargetFinder finder = Make({.commands = {"a"}});
  EXPECT_THAT(Look(finder), ElementsAre(kLongestInterval + 5));
  std::filesystem::remove(tree_.Folder(kLongestInterval + 5) / "stat");
  EXPECT_THAT(Look(finder), ElementsAre(kLongestInterval + 5));
}

TEST_F(TargetFinderTest, ReexaminesAnOldProcessNowAndThen) {
  for (const std::int32_t pid : {10, 11}) tree_.Put({.pid = pid, .name = "sh"});
  TargetFinder finder = Make({.commands = {"a"}});
  EXPECT_THAT(Look(finder), IsEmpty());
  tree_.Put({.pid = 11, .name = "a"});  // an exec
  EXPECT_THAT(LookForLong(finder), ElementsAre(11));
  tree_.Put({.pid = 10, .name = "a"});
  tree_.Put({.pid = 11, .name = "sh"});
  EXPECT_THAT(LookForLong(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, ReexaminesAYoungProcessSoon) {
  TargetFinder finder = Make({.cgroups = {"/g"}});
  EXPECT_THAT(Look(finder), IsEmpty());
  tree_.Put({.pid = 10, .cgroup = "0::/\n"});
  EXPECT_THAT(Look(finder), IsEmpty());
  tree_.Put({.pid = 10, .cgroup = "0::/g\n"});  // a service manager does so before the exec
  EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, TakesNumbersForTheProcessesThatHadThemAtTheStart) {
  tree_.Put({.pid = 10, .start_time_ticks = 1});
  tree_.Put({.pid = 12, .state = 'Z'});
  TargetFinder finder = Make({.pids = {Pid(10), Pid(11), Pid(12)}});
  EXPECT_THAT(finder.missing(), ElementsAre(Pid(11), Pid(12)));
  EXPECT_THAT(Look(finder), ElementsAre(10));
  tree_.Put({.pid = 11});
  PutInItsPlace({.pid = 10, .start_time_ticks = 2});
  EXPECT_THAT(LookForLong(finder), IsEmpty());
}

TEST_F(TargetFinderTest, FindsAnyProcessThatUsesEnoughCpu) {
  for (const std::int32_t pid : {10, 11}) tree_.Put({.pid = pid});
  cpu_times_ = {{10, 3h}, {11, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  EXPECT_THAT(Look(finder), IsEmpty());  // its past does not count
  cpu_times_[10] += 49ms;
  cpu_times_[11] += 50ms;
  EXPECT_THAT(Look(finder), ElementsAre(11));
  cpu_times_[10] += 1s;
  EXPECT_THAT(Look(finder), ElementsAre(10));
  EXPECT_THAT(Look(finder), IsEmpty());
}

// PostgreSQL is such a server: its process of each client heads a session and has the name of its
// parent.
TEST_F(TargetFinderTest, FindsTheProcessesOfAServerThatTogetherUseEnoughCpu) {
  tree_.Put({.pid = 10, .parent = 1, .session = 10, .name = "postgres"});
  cpu_times_[10] = 0s;
  for (const std::int32_t pid : {11, 12, 13, 14, 15}) {
    tree_.Put({.pid = pid, .parent = 10, .session = pid, .name = "postgres"});
    cpu_times_[pid] = 0s;
  }
  TargetFinder finder = Make({.any = ProcessFilter{}});
  EXPECT_THAT(Look(finder), IsEmpty());
  for (const std::int32_t pid : {11, 12, 13, 15}) cpu_times_[pid] += 20ms;
  cpu_times_[14] += 1ms;
  EXPECT_THAT(Look(finder), ElementsAre(11, 12, 13, 15)) << "95 % of what they use";
  for (const std::int32_t pid : {11, 12, 13, 15}) cpu_times_[pid] += 12ms;
  EXPECT_THAT(Look(finder), IsEmpty()) << "4.8 % of a CPU";
}

TEST_F(TargetFinderTest, TellsFamiliesByParentsSessionsAndNames) {
  const struct {
    const char* what;
    FakeProcess first;
    FakeProcess second;
    bool is_family;
  } cases[] = {
      {"a child", {.pid = 10, .name = "a"}, {.pid = 11, .parent = 10, .name = "b"}, true},
      {"of a login",
       {.pid = 10, .name = "sshd"},
       {.pid = 11, .parent = 10, .session = 11, .name = "bash"},
       false},
      {"that heads a session, of the name of its parent",
       {.pid = 10, .name = "a"},
       {.pid = 11, .parent = 10, .session = 11, .name = "a"},
       true},
      {"of init", {.pid = 1, .parent = 0, .name = "systemd"}, {.pid = 11, .name = "b"}, false},
      {"of a server that is PID 1 of a container",
       {.pid = 1, .parent = 0, .name = "a"},
       {.pid = 11, .name = "a"},
       true},
      {"of nobody", {.pid = 10, .name = "a"}, {.pid = 11, .parent = 9, .name = "a"}, false},
      {"of a process before the one that has its number",
       {.pid = 10, .name = "a", .start_time_ticks = 200},
       {.pid = 11, .parent = 10, .name = "a"},
       false},
      {"in a circle, as what is known of one is old",
       {.pid = 10, .parent = 11, .name = "a"},
       {.pid = 11, .parent = 10, .name = "a"},
       true},
  };
  for (const auto& [what, first, second, is_family] : cases) {
    tree_.Put(first);
    tree_.Put(second);
    cpu_times_ = {{first.pid, 0s}, {second.pid, 0s}};
    TargetFinder finder = Make({.any = ProcessFilter{}});
    Look(finder);
    cpu_times_[first.pid] += 30ms;
    cpu_times_[second.pid] += 30ms;
    EXPECT_EQ(Look(finder).size(), is_family ? 2U : 0U) << what;
    tree_.Remove(first.pid);
    tree_.Remove(second.pid);
  }
}

TEST_F(TargetFinderTest, FindsAGrandchildOfTheFamilyThatSomeoneIdleLinks) {
  tree_.Put({.pid = 10, .name = "a"});
  tree_.Put({.pid = 11, .parent = 10, .name = "sh"});
  tree_.Put({.pid = 12, .parent = 11, .name = "b"});
  cpu_times_ = {{10, 0s}, {11, 0s}, {12, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  Look(finder);
  cpu_times_[10] += 30ms;
  cpu_times_[12] += 30ms;
  EXPECT_THAT(Look(finder), ElementsAre(10, 12));
}

TEST_F(TargetFinderTest, JudgesEachProcessAloneIfNoPartIsAskedFor) {
  for (const std::int32_t pid : {10, 11}) {
    tree_.Put({.pid = pid, .parent = pid - 1});
    cpu_times_[pid] = 0s;
  }
  TargetFinder finder = Make({.any = ProcessFilter{.busiest_part = 0}});
  Look(finder);
  cpu_times_[10] += 60ms;
  cpu_times_[11] += 40ms;
  EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, FindsAnyProcessThatHoldsEnoughMemory) {
  tree_.Write("meminfo", "MemTotal: 4000 kB\n");  // 1000 pages
  tree_.Put({.pid = 10, .resident_pages = 99});
  tree_.Put({.pid = 11, .resident_pages = 100});
  cpu_times_ = {{10, 0s}, {11, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  EXPECT_THAT(Look(finder), ElementsAre(11)) << "at once";
  tree_.Put({.pid = 10, .resident_pages = 100});
  tree_.Put({.pid = 11, .resident_pages = 99});
  cpu_times_[10] += 1ms;  // it takes some to get memory, or to give it back
  cpu_times_[11] += 1ms;
  EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, JudgesByFullSecondsHoweverOftenItLooks) {
  tree_.Put({.pid = 10});
  cpu_times_ = {{10, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  EXPECT_THAT(finder.Look(now_).targets, IsEmpty());
  cpu_times_[10] = 60ms;
  EXPECT_THAT(finder.Look(now_ + 500ms).targets, IsEmpty());
  EXPECT_EQ(finder.Look(now_ + 1s).targets.size(), 1U);
  EXPECT_EQ(finder.Look(now_ + 1500ms).targets.size(), 1U);
  EXPECT_THAT(finder.Look(now_ + 2s).targets, IsEmpty());
}

TEST_F(TargetFinderTest, KeepsWhatMatchesHoweverIdle) {
  tree_.Put({.pid = 10, .name = "a"});
  cpu_times_ = {{10, 0s}};
  TargetFinder finder = Make({.commands = {"a"}, .any = ProcessFilter{}});
  for (int look = 0; look < 3; ++look) EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, ReadsTheMemoryOnlyOfThoseThatRan) {
  tree_.Write("meminfo", "MemTotal: 4000 kB\n");
  const std::int32_t pid = kLongestInterval + 9;
  tree_.Put({.pid = pid, .resident_pages = 500});
  cpu_times_ = {{pid, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  EXPECT_THAT(Look(finder), ElementsAre(pid));
  std::filesystem::remove(tree_.Folder(pid) / "stat");
  EXPECT_THAT(Look(finder), ElementsAre(pid));
  cpu_times_[pid] += 1ns;
  EXPECT_THAT(Look(finder), IsEmpty());
}

TEST_F(TargetFinderTest, KeepsItsJudgementWhereTheCpuClockCannotBeRead) {
  tree_.Put({.pid = 10});
  cpu_times_ = {{10, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  Look(finder);
  cpu_times_[10] += 500ms;
  EXPECT_THAT(Look(finder), ElementsAre(10));
  cpu_times_.erase(10);  // unknown is not idle
  EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, JudgesAReusedNumberAnew) {
  tree_.Put({.pid = 10, .start_time_ticks = 1});
  cpu_times_ = {{10, 0s}};
  TargetFinder finder = Make({.any = ProcessFilter{}});
  Look(finder);
  PutInItsPlace({.pid = 10, .start_time_ticks = 2});
  cpu_times_[10] = 900ms;
  EXPECT_THAT(Look(finder), IsEmpty());
  cpu_times_[10] += 60ms;
  EXPECT_THAT(Look(finder), ElementsAre(10));
}

TEST_F(TargetFinderTest, TakesAProcessThatVanishesMeanwhileForGone) {
  std::filesystem::create_directories(tree_.Folder(10));  // listed, without any file
  tree_.Put({.pid = 11, .name = "a"});
  std::filesystem::remove(tree_.Folder(11) / "cgroup");
  TargetFinder finder = Make({.executables = {"/x"}, .cgroups = {"/g"}});
  EXPECT_THAT(Look(finder), IsEmpty());
  EXPECT_EQ(findings_.unreadable, 0U);
  EXPECT_EQ(findings_.refusal, std::nullopt);
}

TEST_F(TargetFinderTest, CountsProcessesThatCouldNotBeReadAndSaysWhy) {
  for (const std::int32_t pid : {10, 11, 12}) {
    tree_.Put({.pid = pid, .name = pid == 12 ? "a" : "b"});
    std::filesystem::create_directories(tree_.Folder(pid) / "exe");  // EINVAL for EACCES
  }
  std::filesystem::remove(tree_.Folder(11) / "stat");
  std::filesystem::create_directories(tree_.Folder(11) / "stat");  // EISDIR for, say, EMFILE
  TargetFinder finder = Make({.commands = {"a"}, .executables = {"/x"}});
  EXPECT_THAT(Look(finder), ElementsAre(12)) << "known by its name";
  EXPECT_EQ(findings_.unreadable, 2U);
  ASSERT_TRUE(findings_.refusal.has_value());
  EXPECT_EQ(findings_.refusal->system_error, EISDIR) << "of the last";
}

TEST_F(TargetFinderTest, TriesAgainWhereTheStateCouldNotBeRead) {
  std::filesystem::create_directories(tree_.Folder(10) / "stat");
  TargetFinder finder = Make({.commands = {"a"}});
  EXPECT_THAT(Look(finder), IsEmpty());
  EXPECT_EQ(findings_.unreadable, 1U);
  std::filesystem::remove(tree_.Folder(10) / "stat");
  tree_.Put({.pid = 10, .name = "a"});
  EXPECT_THAT(Look(finder), ElementsAre(10));
  EXPECT_EQ(findings_.unreadable, 0U);
}

TEST(LiveTargetFinder, FindsThisProgramsChildByItsPathAndNotTheObserver) {
  const ProcFs procfs;
  const HeadlessProcess child;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  TargetFinder finder(procfs, ProcessCpuTime, {.executables = {program}}, Pid(getpid()));
  const auto found = finder.Look(MonotonicTime(1s)).targets;
  const auto pids_of = [](const std::vector<ProcessInstance>& targets) {
    std::vector<Pid> pids;
    for (const ProcessInstance& target : targets) pids.push_back(target.pid);
    return pids;
  };
  EXPECT_THAT(pids_of(found), testing::Contains(child.pid()));
  EXPECT_THAT(pids_of(found), testing::Not(testing::Contains(Pid(getpid()))));
}

TEST(LiveTargetFinder, NoticesTheDeathOfAProcess) {
  const ProcFs procfs;
  std::optional<HeadlessProcess> child(std::in_place);
  const Pid pid = child->pid();
  TargetFinder finder(procfs, ProcessCpuTime, {.pids = {pid}}, std::nullopt);
  EXPECT_EQ(finder.Look(MonotonicTime(1s)).targets.size(), 1U);
  child.reset();
  EXPECT_THAT(finder.Look(MonotonicTime(2s)).targets, IsEmpty());
}

}  // namespace target_finder_test
}  // namespace tmprof
