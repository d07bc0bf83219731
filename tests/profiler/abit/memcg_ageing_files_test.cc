// SPDX-License-Identifier: Apache-2.0
// Tests that Linux's facts about memory cgroups are read from a tree of files in its shape.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "profiler/sources/abit/memcg_ageing.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof::abit {
namespace memcg_ageing_files_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HeldClock final : public Clock {
 public:
  // Each call takes so long.
  MonotonicTime Now() const override { return now += takes; }
  mutable MonotonicTime now{seconds(1000)};
  milliseconds takes{0};
};

class MemcgAgeingFilesTest : public ::testing::Test {
 protected:
  MemcgAgeingFilesTest() {
    tree_.Write("proc/cgroups", "#subsys_name hierarchy num_cgroups enabled\nmemory 0 9 1\n");
    std::filesystem::create_directories(tree_.root() / "proc/self/ns");
    std::filesystem::create_symlink("cgroup:[4026531835]", tree_.root() / "proc/self/ns/cgroup");
    tree_.Write("enabled", "0x0007\n");
    tree_.Write("min_ttl", "0\n");
    WriteRelease("6.12.48+deb13-amd64");
    WriteLruGen();
    tree_.Write("cgroups/cgroup.controllers", "memory\n");
    tree_.Write("proc/kpagecgroup", "");
    tree_.Write("proc/kpageflags", "");
    tree_.Write("cgroups/s/cgroup.stat", "nr_descendants 1\nnr_dying_descendants 0\n");
  }

  void WriteLruGen(const std::string& more = "") {
    tree_.Write("lru_gen",
                "memcg 1 /\n node 0\n 2 9 0 0\nmemcg 2 /s\n node 0\n 5 9 12 20\n 6 9 3 0\n"
                "memcg 3 /t\n node 0\n 5 9 8 0\n" +
                    more);
  }
  void WriteRelease(const std::string& release) {
    tree_.Write("proc/sys/kernel/osrelease", release + "\n");
  }
  // A process has a tree of its own below "proc".
  void Put(std::int32_t pid, std::uint64_t pages, const std::string& cgroup) {
    tree_.Put({.pid = pid, .resident_pages = pages, .cgroup = "0::" + cgroup + "\n"});
    const std::string number = std::to_string(pid);
    std::filesystem::remove_all(tree_.root() / "proc" / number);
    std::filesystem::rename(tree_.root() / number, tree_.root() / "proc" / number);
  }
  AgeingFiles Files() const {
    const std::string root = tree_.root().string();
    return {.lru_gen = root + "/lru_gen",
            .lru_gen_enabled = root + "/enabled",
            .lru_gen_min_ttl = root + "/min_ttl",
            .cgroups = root + "/cgroups",
            .proc = root + "/proc",
            .sys = root + "/sys"};
  }
  std::shared_ptr<MemcgAgeing> Open() const {
    auto ageing = OpenMemcgAgeing(Files(), clock_);
    EXPECT_TRUE(ageing.has_value());
    return ageing ? *ageing : nullptr;
  }
  std::string Refusal() const {
    const auto ageing = OpenMemcgAgeing(Files(), clock_);
    return ageing ? "" : ageing.error().Message();
  }
  static std::vector<int> PidsOf(const MemcgAgeing::Group& group) {
    std::vector<int> pids;
    for (const MemcgAgeing::Member& member : group.members) pids.push_back(member.pid.value());
    return pids;
  }

  ProcTree tree_;
  std::shared_ptr<HeldClock> clock_ = std::make_shared<HeldClock>();
};

TEST_F(MemcgAgeingFilesTest, TellsTheMembersAndTheMemoryOfTheGroupThatIsCharged) {
  Put(10, 7, "/s");
  Put(11, 3, "/s/below/it");
  Put(12, 9, "/t");
  Put(13, 0, "/s");
  const auto ageing = Open();
  const auto* group = ageing->GroupOf(Pid(11));
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->path, "/s");
  EXPECT_THAT(PidsOf(*group), ElementsAre(10, 11));
  EXPECT_EQ(group->members[0].resident, PageCount(7));
  EXPECT_EQ(group->file, PageCount(20));
  EXPECT_EQ(group->held, PageCount(15));
}

TEST_F(MemcgAgeingFilesTest, LeavesThisProcessOut) {
  Put(10, 7, "/s");
  Put(::getpid(), 4, "/s");
  const auto ageing = Open();
  const auto* group = ageing->GroupOf(Pid(10));
  ASSERT_NE(group, nullptr);
  EXPECT_THAT(PidsOf(*group), ElementsAre(10));
  EXPECT_EQ(group->held, PageCount(11));
  EXPECT_EQ(ageing->PresentIn("/s", {})->held, PageCount(11));
}

TEST_F(MemcgAgeingFilesTest, RemembersASurveyForSomeSeconds) {
  Put(10, 7, "/s");
  Put(11, 3, "/s");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  Put(11, 3, "/t");
  clock_->now += seconds(4);
  EXPECT_THAT(PidsOf(*ageing->GroupOf(Pid(10))), ElementsAre(10, 11));
  clock_->now += seconds(2);
  EXPECT_THAT(PidsOf(*ageing->GroupOf(Pid(10))), ElementsAre(10));
}

class SurveyThatTakesLongTest : public MemcgAgeingFilesTest {
 protected:
  SurveyThatTakesLongTest() {
    Put(10, 7, "/s");
    Put(11, 3, "/s");
  }
  void Survey(milliseconds takes) {
    clock_->takes = takes;
    EXPECT_THAT(PidsOf(*ageing_->GroupOf(Pid(10))), ElementsAre(10, 11));
    clock_->takes = milliseconds(0);
    Put(11, 3, "/t");
  }
  bool IsSurveyedAfter(seconds time) {
    clock_->now += time;
    const auto* group = ageing_->GroupOf(Pid(10));
    return group != nullptr && group->members.size() == 1;
  }

  std::shared_ptr<MemcgAgeing> ageing_ = Open();
};

TEST_F(SurveyThatTakesLongTest, IsMadeMoreRarely) {
  Survey(milliseconds(100));
  EXPECT_FALSE(IsSurveyedAfter(seconds(19)));
  EXPECT_TRUE(IsSurveyedAfter(seconds(2)));
}

TEST_F(SurveyThatTakesLongTest, IsMadeMoreRarelyForLooksAtTheMemoryOfProcesses) {
  Survey(milliseconds(0));
  clock_->takes = milliseconds(100);
  ageing_->ProportionalOf(Pid(10));
  ageing_->ProportionalOf(Pid(10));
  clock_->takes = milliseconds(0);
  EXPECT_FALSE(IsSurveyedAfter(seconds(19)));
  EXPECT_TRUE(IsSurveyedAfter(seconds(2)));
}

TEST_F(SurveyThatTakesLongTest, IsMadeOnceAMinute) {
  Survey(seconds(10));
  EXPECT_FALSE(IsSurveyedAfter(seconds(59)));
  EXPECT_TRUE(IsSurveyedAfter(seconds(2)));
}

TEST_F(SurveyThatTakesLongTest, IsMadeSoonerIfAGroupIsDistrusted) {
  Survey(milliseconds(400));
  ageing_->Distrust("/s");
  EXPECT_FALSE(IsSurveyedAfter(seconds(7)));
  EXPECT_TRUE(IsSurveyedAfter(seconds(2))) << "at 5 % of a CPU";
}

TEST_F(MemcgAgeingFilesTest, AddsANewProcessToTheSurvey) {
  Put(10, 7, "/s");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  Put(20, 2, "/s");
  Put(21, 2, "/s");
  EXPECT_THAT(PidsOf(*ageing->GroupOf(Pid(20))), ElementsAre(10, 20))
      << "and nobody else is looked up";
}

// Nobody knows who else is in a group that is new.
TEST_F(MemcgAgeingFilesTest, TellsOfANewGroupAfterTheNextSurvey) {
  Put(10, 7, "/s");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  WriteLruGen("memcg 4 /s/new\n node 0\n 5 9 8 0\n");
  tree_.Write("cgroups/s/new/memory.stat", "");
  Put(20, 2, "/s/new");
  Put(21, 2, "/s/new");
  EXPECT_FALSE(ageing->GroupOf(Pid(20)));
  clock_->now += seconds(6);
  EXPECT_EQ(ageing->GroupOf(Pid(20))->path, "/s/new");
  EXPECT_THAT(PidsOf(*ageing->GroupOf(Pid(20))), ElementsAre(20, 21));
}

TEST_F(MemcgAgeingFilesTest, RemembersForSomeSecondsThatAProcessHasNoGroup) {
  const auto ageing = Open();
  EXPECT_FALSE(ageing->GroupOf(Pid(10)));
  Put(10, 7, "/s");
  EXPECT_FALSE(ageing->GroupOf(Pid(10)));
  clock_->now += seconds(6);
  EXPECT_TRUE(ageing->GroupOf(Pid(10)));
}

TEST_F(MemcgAgeingFilesTest, TellsNothingOfADistrustedGroupBeforeTheNextSurvey) {
  Put(10, 7, "/s");
  Put(12, 9, "/t");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  ageing->Distrust("/s");
  EXPECT_FALSE(ageing->GroupOf(Pid(10)));
  EXPECT_TRUE(ageing->GroupOf(Pid(12)));
  clock_->now += seconds(6);
  EXPECT_TRUE(ageing->GroupOf(Pid(10)));
}

TEST_F(MemcgAgeingFilesTest, TellsWhoIsPresentNow) {
  Put(10, 7, "/s");
  Put(11, 3, "/t");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  Put(10, 7, "/t");
  Put(11, 3, "/s");
  WriteLruGen("memcg 2 /s\n node 0\n 5 9 40 0\n");
  const std::array pids{Pid(10), Pid(11), Pid(99)};
  const auto present = ageing->PresentIn("/s", pids);
  ASSERT_TRUE(present);
  EXPECT_THAT(present->inside, ElementsAre(Pid(11)));
  EXPECT_THAT(present->outside, ElementsAre(Pid(10)));
  EXPECT_EQ(present->held, PageCount(40));
  std::filesystem::remove(tree_.root() / "lru_gen");
  EXPECT_FALSE(ageing->PresentIn("/s", pids));
}

TEST_F(MemcgAgeingFilesTest, TellsTheProportionalMemoryOfAProcess) {
  tree_.Write("proc/10/smaps_rollup",
              "1000-9000 ---p 00000000 00:00 0    [rollup]\nRss:      100 kB\nPss:       60 kB\n"
              "Pss_Anon:  12 kB\nPss_File:  40 kB\nPss_Shmem:  8 kB\n");
  tree_.Write("proc/11/smaps_rollup",
              "1000-9000 ---p 00000000 00:00 0    [rollup]\nPss_Anon:  12 kB\n");
  const auto ageing = Open();
  EXPECT_EQ(ageing->ProportionalOf(Pid(10)), PageCount(5));
  EXPECT_FALSE(ageing->ProportionalOf(Pid(11)));
  EXPECT_FALSE(ageing->ProportionalOf(Pid(12)));
}

// Otherwise each newcomer would have the page tables of all be walked anew.
TEST_F(MemcgAgeingFilesTest, RemembersTheProportionalMemoryUntilTheNextSurvey) {
  const auto write = [&](int pid, int kib) {
    tree_.Write(
        "proc/" + std::to_string(pid) + "/smaps_rollup",
        "0-9 ---p 0 00:00 0 [rollup]\nPss_Anon: " + std::to_string(kib) + " kB\nPss_Shmem: 0 kB\n");
  };
  Put(10, 7, "/s");
  write(10, 20);
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  EXPECT_EQ(ageing->ProportionalOf(Pid(10)), PageCount(5));
  Put(20, 2, "/s");
  write(20, 8);
  write(10, 12);
  ASSERT_TRUE(ageing->GroupOf(Pid(20)));
  EXPECT_EQ(ageing->ProportionalOf(Pid(20)), PageCount(2));
  EXPECT_EQ(ageing->ProportionalOf(Pid(10)), PageCount(5));
  clock_->now += seconds(6);
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  EXPECT_EQ(ageing->ProportionalOf(Pid(10)), PageCount(3));
}

TEST_F(MemcgAgeingFilesTest, TellsThePressureOfTheGroup) {
  tree_.Write("cgroups/s/memory.pressure", "some avg10=2.50 avg60=0.00 avg300=0.00 total=9\n");
  tree_.Write("cgroups/t/memory.pressure", "some avg10=0.50 avg60=0.00 avg300=0.00 total=9\n");
  const auto ageing = Open();
  EXPECT_THAT(ageing->Pressure("/s").value_or(""), HasSubstr("2.5 %"));
  EXPECT_FALSE(ageing->Pressure("/t"));
  EXPECT_FALSE(ageing->Pressure("/none"));
}

class AgeingReachTest : public MemcgAgeingFilesTest {
 protected:
  static constexpr std::uint64_t kLru = 1U << 5;
  static constexpr std::uint64_t kUnevictable = 1U << 18;

  void WriteFrames(const std::string& file, const std::vector<std::uint64_t>& values) {
    tree_.Write("proc/" + file, std::string(reinterpret_cast<const char*>(values.data()),
                                            values.size() * sizeof values[0]));
  }
  std::uint64_t Inode(const std::string& group) const {
    struct stat folder{};
    EXPECT_EQ(::stat((tree_.root() / "cgroups" / group).c_str(), &folder), 0);
    return folder.st_ino;
  }
  static constexpr AgeingReach kYes = AgeingReach::kYes;
  static constexpr AgeingReach kNo = AgeingReach::kNo;
};

TEST_F(AgeingReachTest, IsOfFramesThatAreChargedToTheGroup) {
  const std::uint64_t inode = Inode("s");
  WriteFrames("kpagecgroup", {inode, inode + 1, inode, inode, 0, inode, inode});
  WriteFrames("kpageflags", std::vector<std::uint64_t>(6, kLru));
  const auto ageing = Open();
  const std::vector<std::uint64_t> frames{5, 0, 1, 2, 4, 3, 6, 7};
  EXPECT_THAT(ageing->ReachOf("/s", frames),
              ElementsAre(kYes, kYes, kNo, kYes, kNo, kYes, kNo, kNo));
  EXPECT_THAT(ageing->ReachOf("/none", std::vector<std::uint64_t>{0}), ElementsAre(kNo));
}

TEST_F(AgeingReachTest, IsOfPagesOnTheListsOfTheLru) {
  WriteFrames("kpagecgroup", std::vector<std::uint64_t>(4, Inode("s")));
  WriteFrames("kpageflags", {kLru, 0, kLru | kUnevictable, kLru | 1U});
  EXPECT_THAT(Open()->ReachOf("/s", std::vector<std::uint64_t>{0, 1, 2, 3}),
              ElementsAre(kYes, kNo, kNo, kYes));
}

// The kernel then shows pages of the removed group as the group's own.
TEST_F(AgeingReachTest, IsUnknownIfAGroupBelowWasRemoved) {
  WriteFrames("kpagecgroup", {Inode("s"), 0});
  WriteFrames("kpageflags", {kLru, kLru});
  const std::vector<std::uint64_t> frames{0, 1};
  for (const char* stat : {"nr_descendants 1\nnr_dying_descendants 2\n", "nr_descendants 1\n"}) {
    tree_.Write("cgroups/s/cgroup.stat", stat);
    EXPECT_THAT(Open()->ReachOf("/s", frames), ElementsAre(AgeingReach::kUnknown, kNo)) << stat;
  }
}

TEST_F(MemcgAgeingFilesTest, TellsTheNodeOfAFrame) {
  EXPECT_EQ(Open()->NodeOf(1), std::nullopt) << "nothing was read yet";
  Put(10, 7, "/s");
  const auto one = Open();
  ASSERT_TRUE(one->GroupOf(Pid(10)));
  EXPECT_EQ(one->NodeOf(1), NodeId(0)) << "there is no other";
  WriteLruGen("memcg 4 /u\n node 1\n 5 9 8 0\n");
  tree_.Write("sys/devices/system/memory/block_size_bytes", "1000\n");
  std::filesystem::create_directories(tree_.root() / "sys/devices/system/node/node0/memory0");
  std::filesystem::create_directories(tree_.root() / "sys/devices/system/node/node1/memory1");
  const auto two = Open();
  ASSERT_TRUE(two->GroupOf(Pid(10)));
  EXPECT_EQ(two->NodeOf(0), NodeId(0));
  EXPECT_EQ(two->NodeOf(1), NodeId(1));
  EXPECT_EQ(two->NodeOf(2), std::nullopt);
}

// The walk of the first node then hides page tables from the walk of the second.
TEST_F(MemcgAgeingFilesTest, IsRefusedWithSeveralNodesBeforeLinux612) {
  WriteRelease("6.1.0-41-amd64");
  EXPECT_EQ(Refusal(), "");
  WriteLruGen("memcg 4 /u\n node 1\n 5 9 8 0\n");
  for (const char* old : {"6.1.0-41-amd64", "5.19.0", "6.11.9", "unknown"}) {
    WriteRelease(old);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("several memory nodes"), HasSubstr("Linux 6.12")))
        << old;
  }
  for (const char* release : {"6.12.0", "6.18.1", "7.0.0"}) {
    WriteRelease(release);
    EXPECT_EQ(Refusal(), "") << release;
  }
}

TEST_F(MemcgAgeingFilesTest, TellsNoGroupWhileTheKernelIsSetOtherwiseAndSaysWhy) {
  Put(10, 7, "/s");
  const auto ageing = Open();
  const auto expect_trouble = [&](const std::string& reason) {
    clock_->now += seconds(6);
    EXPECT_FALSE(ageing->GroupOf(Pid(10))) << reason;
    EXPECT_THAT(ageing->Trouble().value_or(""), HasSubstr(reason));
  };
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  EXPECT_FALSE(ageing->Trouble());
  tree_.Write("min_ttl", "1000\n");
  expect_trouble("kill processes");
  tree_.Write("min_ttl", "0\n");
  tree_.Write("enabled", "0x0001\n");
  expect_trouble("page tables are not walked");
  tree_.Write("enabled", "0x0007\n");
  WriteRelease("6.1.0");
  WriteLruGen("memcg 4 /u\n node 1\n 5 9 8 0\n");
  expect_trouble("several memory nodes");
  std::filesystem::remove(tree_.root() / "lru_gen");
  expect_trouble("ENOENT");
  WriteLruGen();
  clock_->now += seconds(6);
  EXPECT_TRUE(ageing->GroupOf(Pid(10)));
  EXPECT_FALSE(ageing->Trouble());
}

TEST_F(MemcgAgeingFilesTest, TellsNoGroupOfAProcessWhoseCgroupCannotBeLookedAt) {
  Put(10, 7, "/s");
  const auto ageing = Open();
  ASSERT_TRUE(ageing->GroupOf(Pid(10)));
  Put(20, 2, "/" + std::string(300, 'a'));
  EXPECT_FALSE(ageing->GroupOf(Pid(20))) << "the name is too long";
  EXPECT_FALSE(ageing->GroupOf(Pid(21))) << "there is no such process";
}

TEST_F(MemcgAgeingFilesTest, IsRefusedWithWhatIsMissing) {
  EXPECT_EQ(Refusal(), "");
  for (const char* file : {"proc/kpageflags", "proc/kpagecgroup"}) {
    std::filesystem::remove(tree_.root() / file);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr(file), HasSubstr("CONFIG_PROC_PAGE_MONITOR")));
  }
  std::filesystem::remove(tree_.root() / "cgroups/cgroup.controllers");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("cgroup.controllers"), HasSubstr("mount -t cgroup2")));
  tree_.Write("proc/cgroups", "memory 4 9 1\n");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("version 1"), HasSubstr("unified_cgroup_hierarchy")));
  std::filesystem::remove(tree_.root() / "proc/self/ns/cgroup");
  std::filesystem::create_symlink("cgroup:[4026531999]", tree_.root() / "proc/self/ns/cgroup");
  EXPECT_THAT(Refusal(), HasSubstr("cgroup namespace"));
  std::filesystem::remove(tree_.root() / "lru_gen");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("ENOENT"), HasSubstr("mount debugfs")));
  // The kernel kills processes if all generations are younger.
  tree_.Write("min_ttl", "1000\n");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("min_ttl"), HasSubstr("kill"), HasSubstr("echo 0")));
  std::filesystem::remove(tree_.root() / "min_ttl");
  EXPECT_THAT(Refusal(), HasSubstr("min_ttl"));
  for (const char* mask : {"0x0001\n", "0x0005\n"}) {
    tree_.Write("enabled", mask);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("page tables are not walked"), HasSubstr("echo y")));
  }
  for (const char* mask : {"0x0000\n", "0x0006\n"}) {
    tree_.Write("enabled", mask);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("switched off"), HasSubstr("echo y")));
  }
  std::filesystem::remove(tree_.root() / "enabled");
  EXPECT_THAT(Refusal(), HasSubstr("CONFIG_LRU_GEN"));
}

}  // namespace memcg_ageing_files_test
}  // namespace tmprof::abit
