// SPDX-License-Identifier: Apache-2.0

#include "base/host/procfs.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "tests/base/host/headless_process.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace procfs_test {

using std::chrono::nanoseconds;

struct MapsCase {
  std::string_view line;
  MappingKind kind;
  std::string_view path;
};

TEST(ProcFs, TellsIpcNamespacesApart) {
  const std::optional<std::uint64_t> own = ProcFs().IpcNamespace(Pid(::getpid()));
  ASSERT_TRUE(own);
  EXPECT_NE(*own, 0U);
  EXPECT_EQ(ProcFs().IpcNamespace(Pid(0)), std::nullopt) << "no process";
  std::optional<std::uint64_t> other;
  std::thread([&other] {
    // This thread alone changes its namespace.
    if (::unshare(CLONE_NEWIPC) == 0) other = ProcFs().IpcNamespace(Pid(::gettid()));
  }).join();
  if (!other) GTEST_SKIP() << "it takes CAP_SYS_ADMIN";
  EXPECT_NE(own, other);
}

TEST(ProcFs, TellsPidNamespacesApart) {
  const ProcTree tree;
  tree.Write("10/ns/pid", "");
  tree.Write("11/ns/pid", "");
  const ProcFs procfs(tree.root());
  EXPECT_TRUE(procfs.PidNamespace(Pid(10)).has_value());
  EXPECT_NE(procfs.PidNamespace(Pid(10)), procfs.PidNamespace(Pid(11)));
  EXPECT_EQ(procfs.PidNamespace(Pid(12)), std::nullopt) << "no process";
  EXPECT_NE(ProcFs().PidNamespace(Pid(::getpid())), std::nullopt);
}

TEST(ProcFs, TellsTheEnvironmentAndThePrivilegesOfThisProgram) {
  const auto environment = ProcFs().Environment(Pid(::getpid()));
  ASSERT_TRUE(environment);
  EXPECT_NE(environment->find('\0'), std::string::npos);
  EXPECT_EQ(ProcFs().IsSecure(Pid(::getpid())), ::getauxval(AT_SECURE) != 0);
  EXPECT_EQ(ProcFs().IsSecure(Pid(0)), std::nullopt) << "no process";
  EXPECT_EQ(ProcFs().Environment(Pid(0)).error().system_error, ESRCH);
}

TEST(ProcFs, TellsAnEmptyEnvironmentFromOneThatIsNotThereYet) {
  const ProcTree tree;
  tree.Put({.pid = 10});
  tree.Write("10/environ", "");
  EXPECT_EQ(ProcFs(tree.root()).Environment(Pid(10)).value_or("none"), "");
  tree.Put({.pid = 10, .environment_end = 0});
  const auto environment = ProcFs(tree.root()).Environment(Pid(10));
  ASSERT_FALSE(environment);
  EXPECT_EQ(environment.error().system_error, EAGAIN);
}

TEST(ProcFs, TellsPrivilegesByTheAuxiliaryVector) {
  const ProcTree tree;
  const auto put = [&](std::uint64_t type, std::uint64_t value) {
    const Elf64_auxv_t entry{.a_type = type, .a_un = {value}};
    tree.Write("10/auxv", {reinterpret_cast<const char*>(&entry), sizeof entry});
    return ProcFs(tree.root()).IsSecure(Pid(10));
  };
  EXPECT_EQ(put(AT_SECURE, 1), true);
  EXPECT_EQ(put(AT_SECURE, 0), false);
  EXPECT_EQ(put(AT_PAGESZ, 1), std::nullopt);
}

TEST(ParseMapsLine, TellsEveryKindByTheKernelsLabels) {
  for (const MapsCase& expected : {
           MapsCase{"1000-5000 rw-p 00000000 00:00 0 ", MappingKind::kAnonymous, ""},
           {"1000-5000 rw-p 00000000 00:00 0", MappingKind::kAnonymous, ""},
           {"1000-5000 rw-p 00000000 00:00 0                  [heap]", MappingKind::kHeap, ""},
           {"1000-5000 rw-p 00000000 00:00 0                  [stack]", MappingKind::kStack, ""},
           {"1000-5000 rw-p 00000000 00:00 0                  [stack:77]", MappingKind::kStack, ""},
           {"1000-5000 r-xp 00000000 00:00 0                  [vdso]", MappingKind::kSpecial,
            "[vdso]"},
           {"1000-5000 rw-p 00000000 00:00 0                  [anon:my arena]",
            MappingKind::kAnonymous, "[anon:my arena]"},
           {"1000-5000 rw-s 00000000 00:01 9                  [anon_shmem:ring]",
            MappingKind::kShared, "[anon_shmem:ring]"},
           {"1000-5000 r-xp 0001f000 08:01 131 /usr/bin/redis-server", MappingKind::kFile,
            "/usr/bin/redis-server"},
           {"1000-5000 r--p 00000000 08:01 131 /srv/my  file (v 2)", MappingKind::kFile,
            "/srv/my  file (v 2)"},
           {"1000-5000 r-xp 00000000 08:01 131 /tmp/old.so (deleted)", MappingKind::kFile,
            "/tmp/old.so (deleted)"},
           {"1000-5000 r-xp 00000000 08:01 131 /a\\012b", MappingKind::kFile, "/a\\012b"},
           {"1000-5000 rw-s 00000000 00:01 9 /dev/zero (deleted)", MappingKind::kShared,
            "/dev/zero (deleted)"},
           {"1000-5000 rw-s 00000000 00:05 9 /SYSV00000000 (deleted)", MappingKind::kShared,
            "/SYSV00000000 (deleted)"},
       }) {
    const auto mapping = ParseMapsLine(expected.line);
    ASSERT_TRUE(mapping.has_value()) << expected.line;
    EXPECT_EQ(mapping->range, (VpnRange{Vpn(1), Vpn(5)})) << expected.line;
    EXPECT_EQ(mapping->kind, expected.kind) << expected.line;
    EXPECT_EQ(mapping->path, expected.path) << expected.line;
  }
}

TEST(ParseMapsLine, TellsThePlaceInAFile) {
  const auto place = [](const std::string& rest) {
    return ParseMapsLine("1000-5000 rw-s " + rest)->file;
  };
  EXPECT_EQ(place("0001f000 08:01 131 /srv/data"),
            (FilePlace{.device = 0x800001, .inode = 131, .offset = PageCount(0x1f)}));
  EXPECT_EQ(place("fffffffff000 103:abcde 18446744073709551615 /srv/data"),
            (FilePlace{.device = 0x103abcde,
                       .inode = 18'446'744'073'709'551'615u,
                       .offset = PageCount(0xfffffffff)}));
  EXPECT_EQ(place("00000000 00:01 9 /dev/zero (deleted)"),
            (FilePlace{.device = 1, .inode = 9, .offset = PageCount(0)}));
  EXPECT_EQ(place("00000000 00:00 0 "), std::nullopt) << "no file has inode 0";
  EXPECT_EQ(place("00000000 0800 131 /srv/data"), std::nullopt) << "no device";
  EXPECT_EQ(place("fffffffffffff000 00:05 1 /dev/card0"), std::nullopt) << "past the end of files";
}

TEST(ParseMapsLine, TellsWhatNobodyMayAccess) {
  const auto accessible = [](const std::string& permissions) {
    return ParseMapsLine("1000-5000 " + permissions + " 00000000 00:00 0 ")->accessible;
  };
  EXPECT_FALSE(accessible("---p"));
  EXPECT_FALSE(accessible("---s"));
  EXPECT_TRUE(accessible("r--p"));
  EXPECT_TRUE(accessible("-w-p"));
  EXPECT_TRUE(accessible("--xp"));
}

TEST(ParseMapsLine, ReadsAddressesOfTheWholeSpace) {
  const auto mapping =
      ParseMapsLine("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]");
  ASSERT_TRUE(mapping.has_value());
  EXPECT_EQ(mapping->range, (VpnRange{Vpn(0xf'ffff'ffff'f600), Vpn(0xf'ffff'ffff'f601)}));
}

TEST(ParseMapsLine, RefusesEveryLineThatIsCutBeforeItsInode) {
  constexpr std::string_view kLine = "1000-5000 rw-p 00000000 00:00 0";
  for (std::size_t length = 0; length < kLine.size(); ++length) {
    EXPECT_FALSE(ParseMapsLine(kLine.substr(0, length)).has_value()) << length;
  }
  EXPECT_TRUE(ParseMapsLine(kLine).has_value());
}

TEST(ParseMapsLine, RefusesWhatIsNotAMapping) {
  for (const std::string_view line :
       {"", "\n", "-", "hello", "5000-1000 rw-p 00000000 00:00 0 ", "1000-1000 rw-p 0 00:00 0 ",
        "0x1000-0x5000 rw-p 0 00:00 0 ", "1000 5000 rw-p 0 00:00 0 ", "-1000-5000 rw-p 0 00:00 0 ",
        "1000-5000 rwxps 0 00:00 0 ", "11111111111111111-22222222222222222 rw-p 0 00:00 0 "}) {
    EXPECT_FALSE(ParseMapsLine(line).has_value()) << line;
  }
}

class ProcFsTest : public testing::Test {
 protected:
  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
};

TEST_F(ProcFsTest, ReadsTheFieldsOfStat) {
  tree_.Put({.pid = 42,
             .parent = 7,
             .name = "redis-server",
             .state = 'R',
             .user_ticks = 250,
             .system_ticks = 50,
             .start_time_ticks = 987654321,
             .virtual_bytes = 5 * 8192,
             .resident_pages = 4096});
  const auto stat = procfs_.Stat(Pid(42));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->parent, Pid(7));
  EXPECT_EQ(stat->name, "redis-server");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->cpu_time, nanoseconds(300'000'000'000 / sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(stat->start_time_ticks, 987654321u);
  EXPECT_EQ(stat->mapped, PageCount(10));
  EXPECT_EQ(stat->resident, PageCount(4096));
  EXPECT_TRUE(stat->alive());
}

TEST_F(ProcFsTest, TakesAnyNameThatAProcessGivesItself) {
  for (const std::string name :
       {"two words", "a) S 1 (b", "((()))", ")", "(", "", "line\nbreak", "1 2 3 4 5 6 7"}) {
    tree_.Put({.pid = 42, .parent = 9, .name = name, .start_time_ticks = 5});
    const auto stat = procfs_.Stat(Pid(42));
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->name, name);
    EXPECT_EQ(stat->parent, Pid(9)) << name;
    EXPECT_EQ(stat->start_time_ticks, 5u) << name;
  }
}

TEST_F(ProcFsTest, CallsZombiesAndTheDeadNotAlive) {
  for (const char state : {'Z', 'X', 'x'}) {
    tree_.Put({.pid = 42, .state = state});
    EXPECT_FALSE(procfs_.Stat(Pid(42))->alive()) << state;
  }
  for (const char state : {'R', 'S', 'D', 'T', 't', 'I'}) {
    tree_.Put({.pid = 42, .state = state});
    EXPECT_TRUE(procfs_.Stat(Pid(42))->alive()) << state;
  }
}

// The kernel shows it this way: the zombie stands for the process, without its memory, and counts
// as a thread (fs/proc/array.c, do_task_stat()).
TEST_F(ProcFsTest, LooksThroughALivingThreadWhereTheMainOneHasExited) {
  tree_.Put({.pid = 42,
             .name = "server",
             .state = 'Z',
             .threads = 2,
             .virtual_bytes = 0,
             .resident_pages = 0,
             .command_line = "",
             .maps = ""});
  tree_.PutThread(42,
                  {.pid = 42, .state = 'Z', .virtual_bytes = 0, .command_line = "", .maps = ""});
  tree_.PutThread(42, {.pid = 57, .name = "io", .state = 'S', .resident_pages = 77});
  const auto stat = procfs_.Stat(Pid(42));
  ASSERT_TRUE(stat.has_value());
  EXPECT_TRUE(stat->alive());
  EXPECT_EQ(stat->name, "server");
  EXPECT_EQ(stat->mapped, PageCount(2));
  EXPECT_EQ(stat->resident, PageCount(77));
  EXPECT_EQ(procfs_.ThreadWithMemory(Pid(42)), Tid(57));
  EXPECT_EQ(procfs_.ThreadName(Pid(42), Tid(57)), "io");
  EXPECT_EQ(procfs_.ThreadName(Pid(42), Tid(58)), std::nullopt);
  EXPECT_EQ(procfs_.Command(Pid(42)), "worker --fast");
  const auto mappings = procfs_.Mappings(Pid(42));
  ASSERT_TRUE(mappings.has_value());
  EXPECT_EQ(mappings->size(), 1u);
}

TEST_F(ProcFsTest, FindsNoThreadWithMemoryInAZombie) {
  tree_.Put({.pid = 42, .state = 'Z', .virtual_bytes = 0, .command_line = "", .maps = ""});
  tree_.PutThread(42,
                  {.pid = 42, .state = 'Z', .virtual_bytes = 0, .command_line = "", .maps = ""});
  EXPECT_EQ(procfs_.ThreadWithMemory(Pid(42)), std::nullopt);
  EXPECT_EQ(procfs_.ThreadWithMemory(Pid(43)), std::nullopt);
  EXPECT_EQ(procfs_.Command(Pid(42)), "");
  EXPECT_TRUE(procfs_.Mappings(Pid(42)).value().empty());
}

TEST_F(ProcFsTest, SaysEsrchOfAProcessThatIsNotThere) {
  const auto stat = procfs_.Stat(Pid(42));
  ASSERT_FALSE(stat.has_value());
  EXPECT_EQ(stat.error().system_error, ESRCH);
  EXPECT_EQ(procfs_.Mappings(Pid(42)).error().system_error, ESRCH);
  EXPECT_EQ(procfs_.Command(Pid(42)), "");
  EXPECT_TRUE(procfs_.Children(Pid(42)).empty());
}

// Opening succeeds and reading fails, as when a process dies between the two.
TEST_F(ProcFsTest, ReturnsTheErrorOfAReadThatFailsAfterTheOpen) {
  std::filesystem::create_directories(tree_.Folder(42) / "stat");
  std::filesystem::create_directories(tree_.Folder(42) / "maps");
  std::filesystem::create_directories(tree_.Folder(42) / "cmdline");
  EXPECT_EQ(procfs_.Stat(Pid(42)).error().system_error, EISDIR);
  EXPECT_EQ(procfs_.Mappings(Pid(42)).error().system_error, EISDIR);
  EXPECT_EQ(procfs_.Command(Pid(42)), "");
}

TEST_F(ProcFsTest, RefusesAStatThatIsCutBeforeItsLastField) {
  tree_.Put({.pid = 42});
  for (const std::string text :
       {"", "42", "42 (wor", "42 (worker)", "42 (worker) S 1 5 6",
        "42 (worker) S 1 5 6 7 -1 9 10 11 12 13 1 2 16 17 18 19 20 21 22 23", "42 )worker( S 1"}) {
    tree_.Write("42/stat", text);
    const auto stat = procfs_.Stat(Pid(42));
    ASSERT_FALSE(stat.has_value()) << text;
    EXPECT_EQ(stat.error().kind, ErrorKind::kBadInput) << text;
    EXPECT_EQ(stat.error().object, (tree_.Folder(42) / "stat").string());
  }
}

TEST_F(ProcFsTest, JoinsTheArgumentsBySpaces) {
  tree_.Put({.pid = 42, .command_line = std::string("sh\0-c\0a b\0\0\0", 12)});
  EXPECT_EQ(procfs_.Command(Pid(42)), "sh -c a b");
  tree_.Put({.pid = 42, .command_line = ""});
  EXPECT_EQ(procfs_.Command(Pid(42)), "");
}

TEST_F(ProcFsTest, ReadsThousandsOfMappingsInOrder) {
  std::string maps;
  for (int i = 1; i <= 5000; ++i) {
    char line[64];
    std::snprintf(line, sizeof line, "%x000-%x000 rw-p 00000000 00:00 0 \n", 2 * i, 2 * i + 1);
    maps += line;
  }
  tree_.Put({.pid = 42, .maps = maps});
  const auto mappings = procfs_.Mappings(Pid(42));
  ASSERT_TRUE(mappings.has_value());
  ASSERT_EQ(mappings->size(), 5000u);
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    ASSERT_EQ((*mappings)[i - 1].range, (VpnRange{Vpn(2 * i), Vpn(2 * i + 1)}));
  }
}

TEST_F(ProcFsTest, SkipsMalformedLinesAndKeepsTheRest) {
  tree_.Put({.pid = 42,
             .maps = "1000-2000 rw-p 00000000 00:00 0 \n\ngarbage\n"
                     "3000-4000 rw-p 00000000 00:00 0 \n5000-6000 rw"});
  const auto mappings = procfs_.Mappings(Pid(42));
  ASSERT_TRUE(mappings.has_value());
  ASSERT_EQ(mappings->size(), 2u);
  EXPECT_EQ((*mappings)[1].range, (VpnRange{Vpn(3), Vpn(4)}));
}

TEST_F(ProcFsTest, GivesDisjointMappingsWhereOneGrewBetweenTwoReads) {
  tree_.Put({.pid = 42,
             .maps = "1000-3000 rw-p 00000000 00:00 0 \n"
                     "1000-5000 rw-p 00000000 00:00 0 \n"
                     "2000-4000 rw-p 00000000 00:00 0 \n"
                     "5000-6000 rw-p 00000000 00:00 0 \n"});
  const auto mappings = procfs_.Mappings(Pid(42));
  ASSERT_TRUE(mappings.has_value());
  ASSERT_EQ(mappings->size(), 3u);
  EXPECT_EQ((*mappings)[0].range, (VpnRange{Vpn(1), Vpn(3)}));
  EXPECT_EQ((*mappings)[1].range, (VpnRange{Vpn(3), Vpn(5)}));
  EXPECT_EQ((*mappings)[2].range, (VpnRange{Vpn(5), Vpn(6)}));
}

TEST_F(ProcFsTest, FindsTheChildrenOfEveryThread) {
  tree_.Put({.pid = 42});
  tree_.SetChildren(42, 42, {90, 50});
  tree_.SetChildren(42, 43, {});
  tree_.SetChildren(42, 44, {60});
  EXPECT_EQ(procfs_.Children(Pid(42)), (std::vector{Pid(50), Pid(60), Pid(90)}));
}

TEST_F(ProcFsTest, FindsChildrenByTheirParentWhereTheKernelListsNone) {
  tree_.Put({.pid = 42});
  std::filesystem::create_directories(tree_.Folder(42) / "task" / "42");
  tree_.Put({.pid = 9, .parent = 42});
  tree_.Put({.pid = 8, .parent = 9});
  tree_.Put({.pid = 7, .parent = 42});
  tree_.Write("self/stat", "not a process");
  tree_.Write("-5/stat", "not a process");
  EXPECT_EQ(procfs_.Children(Pid(42)), (std::vector{Pid(7), Pid(9)}));
}

TEST_F(ProcFsTest, ListsProcessesByNumberAndTellsOneFolderFromAnother) {
  for (const std::int32_t pid : {42, 7, 1000}) tree_.Put({.pid = pid});
  tree_.Write("self/stat", "not a process");
  const std::vector<ListedProcess> listed = procfs_.Processes();
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[0].pid, Pid(7));
  EXPECT_EQ(listed[1].pid, Pid(42));
  EXPECT_EQ(listed[2].pid, Pid(1000));
  std::filesystem::rename(tree_.Folder(42), tree_.root() / "gone");
  tree_.Put({.pid = 42});
  EXPECT_EQ(procfs_.Processes()[0].inode, listed[0].inode);
  EXPECT_NE(procfs_.Processes()[1].inode, listed[1].inode);
}

TEST_F(ProcFsTest, ListsNothingWhereThereIsNothing) {
  EXPECT_TRUE(ProcFs(tree_.root() / "missing").Processes().empty());
}

TEST_F(ProcFsTest, TellsKernelThreadsByTheirFlag) {
  tree_.Put({.pid = 42, .name = "kworker/0:1", .flags = 69238880});  // 0x4208060
  EXPECT_TRUE(procfs_.Stat(Pid(42))->kernel_thread);
  tree_.Put({.pid = 42, .flags = 4194304});  // 0x400000
  EXPECT_FALSE(procfs_.Stat(Pid(42))->kernel_thread);
}

TEST_F(ProcFsTest, ReadsThePathOfTheProgramThatWasStarted) {
  tree_.Put({.pid = 42, .executable = "/usr/bin/my server"});
  EXPECT_EQ(procfs_.Executable(Pid(42)).value(), "/usr/bin/my server");
  tree_.Put({.pid = 42, .executable = "/usr/bin/my server (deleted)"});
  EXPECT_EQ(procfs_.Executable(Pid(42)).value(), "/usr/bin/my server");
  tree_.Put({.pid = 42});
  EXPECT_EQ(procfs_.Executable(Pid(42)).error().system_error, ESRCH);
  tree_.PutThread(42, {.pid = 42, .state = 'Z', .virtual_bytes = 0});
  tree_.PutThread(42, {.pid = 57, .executable = "/usr/bin/x"});
  EXPECT_EQ(procfs_.Executable(Pid(42)).value(), "/usr/bin/x");
}

TEST_F(ProcFsTest, ReadsThePathInCgroupVersion2) {
  tree_.Put({.pid = 42, .cgroup = "9:memory:/v1\n1:name=systemd:/v1\n0::/system.slice/a:b\n"});
  EXPECT_EQ(procfs_.Cgroup(Pid(42)).value(), "/system.slice/a:b");
  tree_.Put({.pid = 42, .cgroup = "9:memory:/v1\n"});
  EXPECT_EQ(procfs_.Cgroup(Pid(42)).error().system_error, ENOENT);
  tree_.Remove(42);
  EXPECT_EQ(procfs_.Cgroup(Pid(42)).error().system_error, ESRCH);
}

TEST_F(ProcFsTest, ReadsTheSizeOfMemoryAndSaysWhereItIsUnknown) {
  EXPECT_EQ(procfs_.TotalMemory(), std::nullopt);
  tree_.Write("meminfo", "MemFree: 12 kB\n");
  EXPECT_EQ(procfs_.TotalMemory(), std::nullopt);
  tree_.Write("meminfo", "MemTotal: lots\n");
  EXPECT_EQ(procfs_.TotalMemory(), std::nullopt);
  tree_.Write("meminfo", "MemTotal:        8010020 kB\nMemFree: 12 kB\n");
  EXPECT_EQ(procfs_.TotalMemory(), PageCount(2002505));
}

TEST_F(ProcFsTest, ReadsWhatIsLockedAndInHugePagesAndSaysWhereItIsUnknown) {
  tree_.Put({.pid = 10});
  EXPECT_FALSE(procfs_.Held(Pid(10)));
  tree_.Write("10/status", "Name:\tVmLck: 7 kB\nVmPin:\t 12 kB\n");
  EXPECT_FALSE(procfs_.Held(Pid(10))) << "what a program calls itself is no field";
  tree_.Write("10/status", "Name:\tworker\nVmLck:\t    2048 kB\n");
  ASSERT_TRUE(procfs_.Held(Pid(10)));
  EXPECT_EQ(procfs_.Held(Pid(10))->locked, PageCount(512));
  EXPECT_EQ(procfs_.Held(Pid(10))->hugetlb, PageCount(0));
  tree_.Write("10/status", "Name:\tworker\nVmLck:\t 0 kB\nHugetlbPages:\t    4096 kB\n");
  EXPECT_EQ(procfs_.Held(Pid(10))->locked, PageCount(0));
  EXPECT_EQ(procfs_.Held(Pid(10))->hugetlb, PageCount(1024));
}

TEST_F(ProcFsTest, ReadsMemoryByMapping) {
  EXPECT_EQ(procfs_.MemoryByMapping(Pid(10)).error().system_error, ESRCH);
  tree_.Put({.pid = 10});
  // The line of a field that begins with a hexadecimal digit is no mapping.
  std::string text =
      "10000-20000 rw-p 00000000 00:00 0 \nSize: 64 kB\nRss:                  20 kB\n"
      "Pss:                  11 kB\nPss_Dirty: 8 kB\nAnonHugePages: 0 kB\nVmFlags: rd wr io2\n"
      "8000000-8007000 rw-s 00002000 00:05 9 /dev/gpu\nRss: 0 kB\nPss: 0 kB\n"
      "VmFlags: rd sh pf dd \n"
      "8008000-8009000 rw-s 00000000 00:05 9 /dev/mem\nVmFlags: rd sh io dd \n"
      "7fff0000-7fff4000 r--p 00000000 00:00 0 [vvar]\nRss: 0 kB\nVmFlags: rd mr pf io de dd\n";
  // More than is read at a time.
  for (int i = 0; i < 1'000; ++i) text += "Filler: 0 kB\n";
  text += "7fff8000-7fff9000 r-xp 00000000 00:00 0 [vdso]\nRss: 4 kB\n";
  tree_.Write("10/smaps", text);
  const auto memory = procfs_.MemoryByMapping(Pid(10));
  ASSERT_TRUE(memory.has_value());
  ASSERT_EQ(memory->size(), 5u);
  EXPECT_EQ((*memory)[0].mapping.range, (VpnRange{Vpn(0x10), Vpn(0x20)}));
  EXPECT_EQ((*memory)[0].resident, PageCount(5));
  EXPECT_EQ((*memory)[0].proportional_bytes, 11u * 1024);
  EXPECT_FALSE((*memory)[0].of_device);
  EXPECT_EQ((*memory)[1].mapping.kind, MappingKind::kShared);
  EXPECT_EQ((*memory)[1].mapping.file->offset, PageCount(2));
  EXPECT_TRUE((*memory)[1].of_device) << "VM_PFNMAP";
  EXPECT_TRUE((*memory)[2].of_device) << "VM_IO";
  EXPECT_FALSE((*memory)[3].of_device) << "the kernel's own";
  EXPECT_EQ((*memory)[4].resident, PageCount(1));
}

TEST_F(ProcFsTest, FindsTheOneProcessThatHasANumberInAnotherNamespace) {
  for (const std::int32_t pid : {20, 21, 22}) tree_.Put({.pid = pid});
  tree_.Write("20/status", "Name:\ta\nNSpid:\t20\n");
  tree_.Write("21/status", "Name:\tb\nNSpid:\t21\t7\t3\n");
  EXPECT_EQ(procfs_.InOtherNamespace(Pid(3)), Pid(21));
  EXPECT_EQ(procfs_.InOtherNamespace(Pid(7)), std::nullopt) << "of a namespace in between";
  EXPECT_EQ(procfs_.InOtherNamespace(Pid(20)), std::nullopt) << "of this namespace";
  tree_.Write("22/status", "Name:\tc\nNSpid:\t22\t3\n");
  EXPECT_EQ(procfs_.InOtherNamespace(Pid(3)), std::nullopt) << "of two containers";
}

TEST_F(ProcFsTest, RefusesTheProcOfAnotherNamespace) {
  EXPECT_FALSE(procfs_.CheckNamespace()) << "nothing says whose it is";
  std::filesystem::create_symlink(std::to_string(getpid()), tree_.root() / "self");
  EXPECT_TRUE(procfs_.CheckNamespace());
  std::filesystem::remove(tree_.root() / "self");
  std::filesystem::create_symlink("1", tree_.root() / "self");
  const Status status = procfs_.CheckNamespace();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().Message().find("another PID namespace"), std::string::npos);
}

TEST(LiveProcFs, IsOfTheNamespaceOfThisProcess) { EXPECT_TRUE(ProcFs().CheckNamespace()); }

TEST(LiveProcFs, ReadsThisProcess) {
  const ProcFs procfs;
  const Pid self(getpid());
  const auto stat = procfs.Stat(self);
  ASSERT_TRUE(stat.has_value()) << stat.error().Message();
  EXPECT_EQ(stat->parent, Pid(getppid()));
  EXPECT_TRUE(stat->alive());
  EXPECT_GT(stat->resident, PageCount(0));
  EXPECT_NE(procfs.Command(self).find("host_test"), std::string::npos);
  EXPECT_GT(procfs.TotalMemory().value(), stat->resident);
}

TEST(LiveProcFs, FindsAFreshMappingOfThisProcess) {
  constexpr std::size_t kPages = 3;
  void* memory = mmap(nullptr, kPages * kBasePageBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Vpn first = VpnOfAddress(reinterpret_cast<std::uintptr_t>(memory));
  auto mappings = ProcFs().Mappings(Pid(getpid()));
  munmap(memory, kPages * kBasePageBytes);
  ASSERT_TRUE(mappings.has_value());
  const Target target{.mappings = *std::move(mappings)};
  Vpn last_end;
  for (const Mapping& mapping : target.mappings) {
    ASSERT_LE(last_end, mapping.range.start);
    ASSERT_LT(mapping.range.start, mapping.range.end);
    last_end = mapping.range.end;
  }
  const Mapping* found = FindMapping(target, first);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->range.Contains(first + PageCount(kPages - 1)));
  EXPECT_EQ(found->kind, MappingKind::kShared);
}

TEST(LiveProcFs, SeesAChildLiveAndDie) {
  const ProcFs procfs;
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  EXPECT_TRUE(std::ranges::count(procfs.Children(Pid(getpid())), Pid(child)) == 1);
  EXPECT_TRUE(ProcessCpuTime(Pid(child)).has_value());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(procfs.Stat(Pid(child))->alive());  // a zombie until it is waited for
  waitpid(child, nullptr, 0);
  EXPECT_EQ(procfs.Stat(Pid(child)).error().system_error, ESRCH);
  EXPECT_EQ(ProcessCpuTime(Pid(child)), std::nullopt);
}

TEST(LiveProcFs, SeesAProcessLiveOnAfterItsMainThread) {
  const HeadlessProcess child;
  const ProcFs procfs;
  EXPECT_TRUE(procfs.Stat(child.pid())->alive());
  EXPECT_GT(procfs.Stat(child.pid())->resident, PageCount(0));
  EXPECT_NE(procfs.ThreadWithMemory(child.pid()).value().value(), child.pid().value());
  EXPECT_FALSE(procfs.Mappings(child.pid()).value().empty());
  EXPECT_FALSE(procfs.Command(child.pid()).empty());
}

TEST(LiveProcFs, ReadsACpuTimeThatNeverGoesBack) {
  const auto before = ProcessCpuTime(Pid(getpid()));
  const auto after = ProcessCpuTime(Pid(getpid()));
  ASSERT_TRUE(before && after);
  EXPECT_GT(*before, nanoseconds(0));
  EXPECT_GE(*after, *before);
}

}  // namespace procfs_test
}  // namespace tmprof
