// SPDX-License-Identifier: Apache-2.0
// Unmodified programs report what they allocate.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "objects/format/arena_advice.h"
#include "objects/tracker/advice.h"
#include "objects/tracker/arenas.h"
#include "objects/tracker/log_reader.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace tracker_test {

using objtrace::LogEventKind;
using ::testing::IsSupersetOf;

const std::string kLibrary = std::string(TMPROF_BINARY_DIR) + "/lib/libtmprof_allocations.so";

const char* const kFull = "tmprof: advice: arena 0 is full; malloc has the rest of its objects\n";

struct Told {
  int pid = 0;
  LoggedEvent event;
  std::vector<std::uint64_t> frames;
  std::size_t modules = 0;  // known when its site was found
};

class TrackerTest : public ::testing::Test {
 protected:
  static AllocationLogs Logs(std::uint64_t interval_bytes = 0,
                             const std::filesystem::path& parent = ::testing::TempDir()) {
    return Logs({.interval_bytes = interval_bytes, .parent = parent});
  }
  static AllocationLogs Logs(const AllocationLogs::Options& options) {
    auto logs = AllocationLogs::Create(options);
    EXPECT_TRUE(logs) << logs.error().Message();
    return *std::move(logs);
  }

  static Outcome Run(
      const std::string& request, std::vector<std::string> arguments,
      const std::string& advice = "", const std::function<void()>& before = [] {}) {
    arguments.insert(arguments.begin(),
                     std::string(TMPROF_BINARY_DIR) + "/tests/objects_allocates");
    return RunProgram(arguments, [&] {
      before();
      ::setenv("LD_PRELOAD", kLibrary.c_str(), 1);
      ::setenv(objtrace::kTrackVariable, request.c_str(), 1);
      if (!advice.empty()) ::setenv(objtrace::kAdviceVariable, advice.c_str(), 1);
    });
  }

  // Takes the logs of ended processes.
  void Take(AllocationLogs& logs) {
    logs.Take(
        [&](const AllocationLogs::Log& log, const LoggedEvent& event) {
          const auto frames = log->Frames(event.site);
          told_.push_back({log->pid().value(),
                           event,
                           {frames.begin(), frames.end()},
                           log->ModulesOf(event.site)});
        },
        [&](const AllocationLogs::Log& log, std::optional<MonotonicTime> end) {
          EXPECT_TRUE(end) << "it has ended";
          lost_ += log->lost();
          for (const LoggedModule& module : log->Modules()) modules_.push_back(module);
        });
  }

  std::vector<const LoggedEvent*> Allocated(std::uint64_t bytes) const {
    std::vector<const LoggedEvent*> found;
    for (const Told& told : told_) {
      if (told.event.kind == LogEventKind::kAllocated && told.event.bytes == bytes) {
        found.push_back(&told.event);
      }
    }
    return found;
  }

  std::string ModuleOf(std::uint64_t address) const {
    const auto found = std::ranges::find_if(modules_, [&](const LoggedModule& module) {
      return module.start <= address && address < module.end;
    });
    return found != modules_.end() ? found->path : "none";
  }

  // A file that places allocations of these bytes, by the calls that were reported.
  std::string Advice(const std::map<std::uint64_t, std::uint32_t>& arenas,
                     ArenaAdvice advice = {}) const {
    for (const Told& told : told_) {
      const auto arena = arenas.find(told.event.bytes);
      if (arena == arenas.end() || told.event.kind != LogEventKind::kAllocated) continue;
      AdvisedSite site{.arena = arena->second, .calls = {}};
      for (const std::uint64_t address : told.frames) {
        const auto module = std::ranges::find_if(modules_, [&](const LoggedModule& candidate) {
          return candidate.start < address && address <= candidate.end;
        });
        if (module == modules_.end()) {
          ADD_FAILURE() << "a call in no module";
          continue;
        }
        site.calls.push_back({.module = module->path, .offset = address - 1 - module->bias});
      }
      advice.sites.push_back(std::move(site));
    }
    const std::string file = folder_.File("advice");
    WriteFile(file, AdviceText(advice, {"of a test"}));
    return file;
  }

  // Advice that leaves no room for the allocations of "spill".
  std::string AdviceThatSpills() {
    AllocationLogs logs = Logs();
    EXPECT_EQ(Run(logs.request(), {"spill"}).status, 0);
    Take(logs);
    ArenaAdvice bounded{.room_bytes = {{0, 1000}}, .sites = {}};
    return Advice({{100'001, 0}}, std::move(bounded));
  }

  TemporaryFolder folder_;
  std::vector<Told> told_;
  std::vector<LoggedModule> modules_;
  std::uint64_t lost_ = 0;
};

TEST_F(TrackerTest, EachWayToAllocateIsTold) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"kinds"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  for (const std::uint64_t bytes : {100'001, 100'020, 200'003, 102'400, 100'005, 100'060, 200'070,
                                    100'008, 100'009, 100'010, 100'011}) {
    ASSERT_EQ(Allocated(bytes).size(), 1U) << bytes;
    EXPECT_EQ(Allocated(bytes)[0]->weight, 1U);
  }
  const auto freed = [&](std::uint64_t address) {
    return std::ranges::count_if(told_, [&](const Told& told) {
      return told.event.kind == LogEventKind::kFreed && told.event.address == address;
    });
  };
  EXPECT_GE(freed(Allocated(100'001)[0]->address), 1);
  EXPECT_GE(freed(Allocated(100'020)[0]->address), 1) << "it was resized";
  const auto mapped = std::ranges::find_if(told_, [](const Told& told) {
    return told.event.kind == LogEventKind::kMapped && told.event.bytes == 1 << 20;
  });
  ASSERT_NE(mapped, told_.end());
  const auto unmapped = std::ranges::find_if(mapped, told_.end(), [&](const Told& told) {
    return told.event.kind == LogEventKind::kGone && told.event.address == mapped->event.address &&
           told.event.bytes == 1 << 20;
  });
  EXPECT_NE(unmapped, told_.end());
  EXPECT_TRUE(std::ranges::is_sorted(told_, {}, [](const Told& told) { return told.event.time; }));
  for (const Told& told : told_) {
    const bool is_ours = told.event.bytes > 100'000;
    const bool allocates = told.event.kind == LogEventKind::kAllocated;
    if (!is_ours || (!allocates && told.event.kind != LogEventKind::kMapped)) continue;
    const char* caller =
        allocates && told.event.bytes == 100'005 ? "libstdc++" : "/objects_allocates";
    EXPECT_THAT(told.frames.empty() ? "none" : ModuleOf(told.frames.front()),
                ::testing::HasSubstr(caller))
        << told.event.bytes;
  }
}

TEST_F(TrackerTest, AStackLeadsFromTheCallerOfMallocToMain) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  Take(logs);
  const auto told = std::ranges::find_if(
      told_, [](const Told& candidate) { return candidate.event.bytes == 100'001; });
  ASSERT_NE(told, told_.end());
  ASSERT_GE(told->frames.size(), 3U) << "Make, Kinds or main, and the C library";
  EXPECT_THAT(ModuleOf(told->frames.front()), ::testing::EndsWith("objects_allocates"))
      << "not the tracker";
  EXPECT_THAT(
      ModuleOf(told->frames.back()),
      ::testing::AnyOf(::testing::EndsWith("objects_allocates"), ::testing::HasSubstr("libc.so")));
}

TEST_F(TrackerTest, AStackThatIsKnownAgainIsNoOtherOfTheSameDepth) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"turns"}).status, 0);
  Take(logs);
  std::map<std::uint64_t, std::set<std::vector<std::uint64_t>>> stacks;  // key: bytes
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kAllocated) stacks[told.event.bytes].insert(told.frames);
  }
  EXPECT_EQ(Allocated(100'001).size(), 100U);
  EXPECT_EQ(Allocated(100'002).size(), 100U);
  ASSERT_EQ(stacks[100'001].size(), 1U);
  ASSERT_EQ(stacks[100'002].size(), 1U);
  const std::vector<std::uint64_t>& left = *stacks[100'001].begin();
  const std::vector<std::uint64_t>& right = *stacks[100'002].begin();
  EXPECT_EQ(left.at(0), right.at(0)) << "in Make";
  EXPECT_NE(left.at(1), right.at(1)) << "in Left and Right";
}

TEST_F(TrackerTest, ReportsAShareOfSmallAllocationsThatStandsForAll) {
  struct Case {
    std::uint64_t bytes;
    std::uint64_t interval_bytes;
    double told;  // reported of 100 000: 1 - exp(-bytes / interval_bytes)
  };
  for (const Case& each : {Case{.bytes = 1000, .interval_bytes = 100'000, .told = 995},
                           Case{.bytes = 2500, .interval_bytes = 4096, .told = 45'683},
                           Case{.bytes = 4000, .interval_bytes = 1000, .told = 98'168}}) {
    AllocationLogs logs = Logs(each.interval_bytes);
    // Allocates as many as the log has room for, because nobody takes events meanwhile.
    const double fits = std::min(1.0, objtrace::kLogEvents / 2 / each.told);
    const auto count = static_cast<std::uint64_t>(100'000 * fits * 0.9);
    ASSERT_EQ(
        Run(logs.request(), {"small", std::to_string(each.bytes), std::to_string(count)}).status,
        0);
    told_.clear();
    lost_ = 0;
    Take(logs);
    EXPECT_EQ(lost_, 0U);
    double stood_for = 0;
    for (const LoggedEvent* event : Allocated(each.bytes)) {
      stood_for += event->weight;
      EXPECT_GT(event->weight, 1) << "others like it are not told";
    }
    // The sum's standard deviation is that of a binomial's, sqrt((1 - p) / (p n)): 3.3 % at most.
    EXPECT_NEAR(stood_for / static_cast<double>(count), 1, each.told < 1000 ? 0.2 : 0.05)
        << each.bytes;
  }
}

TEST_F(TrackerTest, AThreadsFirstAllocationIsToldAsOftenAsOthers) {
  AllocationLogs logs = Logs(4096);
  ASSERT_EQ(Run(logs.request(), {"brief"}).status, 0);
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  double stood_for = 0;
  for (const LoggedEvent* event : Allocated(2500)) stood_for += event->weight;
  EXPECT_NEAR(stood_for, 2000, 300);  // the standard deviation is 49
}

TEST_F(TrackerTest, ThreadsLoseNothing) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"threads"}).status, 0);
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  EXPECT_EQ(Allocated(50'000).size(), 4000U);
  std::map<std::uint64_t, int> live;
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kAllocated) {
      EXPECT_EQ(++live[told.event.address], 1) << "freed before it is allocated again";
    } else if (told.event.kind == LogEventKind::kFreed) {
      EXPECT_EQ(--live[told.event.address], 0);
    }
  }
}

TEST_F(TrackerTest, CountsEventsThatDoNotFit) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"many"}).status, 0);  // nobody takes events meanwhile
  Take(logs);
  EXPECT_EQ(told_.size(), objtrace::kLogEvents);
  EXPECT_GE(lost_, 400'000 - objtrace::kLogEvents);
}

TEST_F(TrackerTest, ALogWithoutRoomAsksForItTenTimesASecondAndGoesOnOnceItHasSome) {
  AllocationLogs logs = Logs();
  const Outcome ran = RunProgram({std::string(TMPROF_BINARY_DIR) + "/tests/objects_roomless"}, [&] {
    ::setenv("LD_PRELOAD", kLibrary.c_str(), 1);
    ::setenv(objtrace::kTrackVariable, logs.request().c_str(), 1);
  });
  ASSERT_EQ(ran.status, 0) << ran.err;
  unsigned asked = 0;
  unsigned ms = 0;
  ASSERT_EQ(std::sscanf(ran.out.c_str(), "%u %u", &asked, &ms), 2) << ran.out;
  EXPECT_GE(asked, 1U);
  EXPECT_LE(asked, 2 + ms / 100);
  Take(logs);
  EXPECT_EQ(Allocated(100'001).size(), 10U);
  EXPECT_LT(Allocated(100'002).size(), 1000U) << "what had memory from the start";
  EXPECT_GT(lost_, 2 * 19'000U);
  EXPECT_EQ(Allocated(100'003).size(), 100U);
}

// A file system in memory that only this process and its children see.
class SmallFilesystem {
 public:
  explicit SmallFilesystem(const std::string& size) {
    is_mounted_ =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("tmprof-test", folder_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallFilesystem() {
    if (is_mounted_) ::umount(folder_.path().c_str());
  }
  SmallFilesystem(const SmallFilesystem&) = delete;
  SmallFilesystem& operator=(const SmallFilesystem&) = delete;

  bool is_mounted() const { return is_mounted_; }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool is_mounted_ = false;
};

TEST_F(TrackerTest, AQuarterOfASmallFileSystemIsLeftToOthers) {
  const SmallFilesystem small("512k");
  if (!small.is_mounted()) GTEST_SKIP() << "may not mount";
  AllocationLogs logs = Logs(0, small.path());
  constexpr std::size_t kPrograms = 16;
  std::uintmax_t of_first = 0;  // bytes of its log
  for (std::size_t i = 0; i < kPrograms; ++i) {
    const auto before = std::filesystem::space(small.path());
    const Outcome ran = Run(logs.request(), {"kinds"});
    ASSERT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    if (i == 0) of_first = before.available - std::filesystem::space(small.path()).available;
  }
  const auto space = std::filesystem::space(small.path());
  EXPECT_GT(space.available, space.capacity / 4 - of_first);
  Take(logs);
  const std::size_t tracked = Allocated(100'001).size();
  EXPECT_EQ(tracked, (space.capacity - space.capacity / 4) / of_first + 1);
  EXPECT_EQ(logs.refused(), kPrograms - tracked);
  told_.clear();
  EXPECT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  Take(logs);
  EXPECT_EQ(Allocated(100'001).size(), 1U) << "there is room again";
  EXPECT_EQ(logs.refused(), kPrograms - tracked);
}

TEST_F(TrackerTest, AShortProgramTakesLittleMemory) {
  const SmallFilesystem small("12m");
  if (!small.is_mounted()) GTEST_SKIP() << "may not mount";
  AllocationLogs logs = Logs(0, small.path());
  const auto before = std::filesystem::space(small.path()).available;
  ASSERT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  EXPECT_LT(before - std::filesystem::space(small.path()).available, 128U << 10);
}

TEST_F(TrackerTest, EventsWithoutMemoryAreCountedAsLost) {
  const SmallFilesystem small("1m");
  if (!small.is_mounted()) GTEST_SKIP() << "may not mount";
  AllocationLogs logs = Logs(0, small.path());
  const Outcome ran = Run(logs.request(), {"many"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, "");
  const auto space = std::filesystem::space(small.path());
  EXPECT_GT(space.available, space.capacity / 8) << "a quarter, but for what was added last";
  Take(logs);
  EXPECT_GT(told_.size(), 1'000U);
  EXPECT_LT(told_.size(), (1U << 20) / sizeof(objtrace::LogEvent));
  EXPECT_GE(lost_, 400'000 - told_.size());
}

TEST(HasRoomForLog, IsTrueIfAQuarterOr256MiBAreFree) {
  constexpr std::uint64_t kMib = 256;  // blocks
  EXPECT_TRUE(objtrace::HasRoomForLog(12 * kMib, 3 * kMib, 4096));
  EXPECT_FALSE(objtrace::HasRoomForLog(12 * kMib, 3 * kMib - 1, 4096));
  EXPECT_TRUE(objtrace::HasRoomForLog(2000 * kMib, 256 * kMib, 4096));
  EXPECT_FALSE(objtrace::HasRoomForLog(2000 * kMib, 256 * kMib - 1, 4096));
  EXPECT_FALSE(objtrace::HasRoomForLog(2000 * kMib, 256 * kMib, 2048));
  EXPECT_FALSE(objtrace::HasRoomForLog(2000 * kMib, 0, 4096));
}

TEST_F(TrackerTest, AForkedChildAndAnExecHaveLogsOfTheirOwn) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"fork"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  std::map<int, std::set<std::uint64_t>> by_process;
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kAllocated) by_process[told.pid].insert(told.event.bytes);
  }
  ASSERT_EQ(by_process.size(), 2U);
  for (const auto& [pid, bytes] : by_process) {
    if (bytes.contains(100'002)) {
      EXPECT_EQ(bytes, std::set<std::uint64_t>{100'002});
    } else {
      EXPECT_THAT(bytes, IsSupersetOf(std::set<std::uint64_t>{100'001, 100'003, 200'003}));
    }
  }
}

TEST_F(TrackerTest, ChildrenThatBecomeAnotherProgramHaveItsLogsAlone) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"spawn"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  std::map<int, std::set<std::uint64_t>> by_process;
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kAllocated) by_process[told.pid].insert(told.event.bytes);
  }
  ASSERT_EQ(by_process.size(), 4U) << "itself, and by fork(2), vfork(2) and posix_spawn(3)";
  int parents = 0;
  for (const auto& [pid, bytes] : by_process) {
    const bool is_parent = bytes.contains(100'021);
    parents += is_parent ? 1 : 0;
    EXPECT_EQ(bytes.contains(100'022), is_parent) << "it goes on as before";
    EXPECT_EQ(bytes.contains(100'001), !is_parent);
    EXPECT_EQ(bytes.contains(200'003), !is_parent);
  }
  EXPECT_EQ(parents, 1);
}

TEST_F(TrackerTest, WithoutARecorderNothingIsWrittenOrSaid) {
  std::string request;
  std::filesystem::path folder;
  {
    const AllocationLogs logs = Logs();
    request = logs.request();
    folder = request.substr(request.find('/'));
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  const Outcome gone = Run(request, {"kinds"});
  EXPECT_EQ(gone.status, 0);
  EXPECT_EQ(gone.err, "");

  // A recorder that was killed leaves such a folder.
  std::filesystem::create_directory(folder);
  WriteFile(folder / objtrace::kTrackLock, "");
  EXPECT_EQ(Run(request, {"kinds"}).status, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST_F(TrackerTest, AdviceTellsSitesApartByTheCallsAround) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"turns"}).status, 0);
  Take(logs);
  const std::string advice = Advice({{100'001, 0}, {100'002, 1}});
  told_.clear();
  const Outcome ran = Run(logs.request(), {"turns"}, advice);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  Take(logs);
  std::set<std::uint64_t> left;
  std::set<std::uint64_t> right;
  for (const LoggedEvent* event : Allocated(100'001)) left.insert(event->address);
  for (const LoggedEvent* event : Allocated(100'002)) right.insert(event->address);
  ASSERT_EQ(left.size(), 1U) << "what is freed is used again";
  ASSERT_EQ(right.size(), 1U);
  EXPECT_EQ(*right.begin() - *left.begin(), kArenaBytes);
}

TEST_F(TrackerTest, EachWayToAllocateCanBePlaced) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  Take(logs);
  const std::string advice =
      Advice({{100'001, 5}, {100'020, 5}, {200'003, 5}, {100'005, 5}, {102'400, 5}});
  told_.clear();
  const Outcome ran = Run(logs.request(), {"kinds"}, advice);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  Take(logs);
  const auto address_of = [&](std::uint64_t bytes) {
    const auto events = Allocated(bytes);
    EXPECT_EQ(events.size(), 1U) << bytes;
    return events.empty() ? 0 : events[0]->address;
  };
  const std::uint64_t first = address_of(100'001);
  for (const std::uint64_t bytes : {100'020, 200'003, 100'005}) {
    EXPECT_LT(address_of(bytes) - first, std::uint64_t{1} << 20) << bytes;
  }
  EXPECT_GT(address_of(102'400) - first, kArenaBytes) << "aligned ones stay";
}

TEST_F(TrackerTest, AnArenaThatIsFullLeavesTheRestToMalloc) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  Take(logs);
  // The arena has room for one block of 100 000 bytes, which is used three times, and not for one
  // of 200 003.
  ArenaAdvice bounded{.room_bytes = {{5, 200'000}}, .sites = {}};
  const std::string advice = Advice({{100'001, 5}, {100'020, 5}, {100'005, 5}}, std::move(bounded));
  told_.clear();
  const Outcome ran = Run(logs.request(), {"kinds"}, advice);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "tmprof: advice: arena 5 is full; malloc has the rest of its objects\n");
  Take(logs);
  const auto address_of = [&](std::uint64_t bytes) { return Allocated(bytes).at(0)->address; };
  EXPECT_EQ(address_of(100'020), address_of(100'001));
  EXPECT_EQ(address_of(100'005), address_of(100'001));
  EXPECT_GT(address_of(200'003) - address_of(100'001), kArenaBytes);
}

TEST_F(TrackerTest, ThatAnArenaIsFullIsSaidOnce) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"turns"}).status, 0);
  Take(logs);
  ArenaAdvice bounded{.room_bytes = {{0, 1000}}, .sites = {}};
  const std::string advice = Advice({{100'001, 0}, {100'002, 0}}, std::move(bounded));
  const Outcome ran = Run(logs.request(), {"turns"}, advice);
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, kFull);
}

TEST_F(TrackerTest, ThatAnArenaIsFullIsNotSaidAgainByAChild) {
  const std::string advice = AdviceThatSpills();
  const Outcome ran = Run("", {"spill in each"}, advice);
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, kFull);
}

TEST_F(TrackerTest, ThatAnArenaIsFullIsNotWrittenToWhatTheProgramOpened) {
  const std::string advice = AdviceThatSpills();
  const std::string own = folder_.File("own");
  const Outcome ran = Run("", {"spill elsewhere", own}, advice);
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(std::filesystem::exists(own));
  EXPECT_EQ(ReadFile(own), "");
}

TEST_F(TrackerTest, ThatAnArenaIsFullIsNoSignalToAProgramThatNobodyListensTo) {
  const std::string advice = AdviceThatSpills();
  const Outcome ran = Run("", {"spill"}, advice, [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  });
  EXPECT_EQ(ran.status, 0);
}

TEST_F(TrackerTest, ThatAnArenaIsFullWaitsForNoReader) {
  const std::string advice = AdviceThatSpills();
  const Outcome ran = Run("", {"spill"}, advice, [] {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK) != 0) ::_exit(126);
    while (::write(ends[1], "full", 1) == 1) continue;
    ::fcntl(ends[1], F_SETFL, 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::alarm(600);  // ends it where it waits
  });
  EXPECT_EQ(ran.status, 0);
}

TEST_F(TrackerTest, ThreadsAndForkedChildrenShareArenas) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"threads"}).status, 0);
  ASSERT_EQ(Run(logs.request(), {"fork"}).status, 0);
  Take(logs);
  const std::string advice = Advice({{50'000, 0}, {100'001, 1}, {100'002, 1}, {100'003, 2}});
  told_.clear();
  EXPECT_EQ(Run(logs.request(), {"fork"}, advice).status, 0);
  EXPECT_EQ(Run(logs.request(), {"threads"}, advice).status, 0);
  Take(logs);
  std::set<std::uint64_t> live;
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kAllocated && told.event.bytes == 50'000) {
      EXPECT_TRUE(live.insert(told.event.address).second) << "freed before it is allocated again";
    } else if (told.event.kind == LogEventKind::kFreed) {
      live.erase(told.event.address);
    }
  }
  EXPECT_EQ(Allocated(50'000).size(), 4000U);
}

TEST_F(TrackerTest, APlacedObjectIsNotFreedTwice) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"kinds"}).status, 0);
  ASSERT_NE(Run(logs.request(), {"twice"}).status, 0) << "malloc(3) finds out itself";
  Take(logs);
  const std::string advice = Advice({{100'001, 0}});
  const Outcome ran = Run(logs.request(), {"twice"}, advice);
  EXPECT_EQ(ran.status, 128 + SIGABRT);
  EXPECT_THAT(ran.err, ::testing::MatchesRegex("tmprof: a pointer was freed twice: 0x[0-9a-f]+\n"));
}

TEST_F(TrackerTest, AMappingThatStaysWhereItIsStaysTheSame) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"remaps"}).status, 0);
  Take(logs);
  const auto mapped = std::ranges::find_if(told_, [](const Told& told) {
    return told.event.kind == LogEventKind::kMapped && told.event.bytes == 3 << 20;
  });
  ASSERT_NE(mapped, told_.end());
  const std::uint64_t start = mapped->event.address;
  std::vector<std::string> later;
  for (auto told = std::next(mapped); told != told_.end(); ++told) {
    const auto& event = told->event;
    if (event.address < start || event.address >= start + (3 << 20)) continue;
    later.push_back(std::to_string(event.address - start) + "+" + std::to_string(event.bytes));
    EXPECT_EQ(event.kind, later.size() == 1 ? LogEventKind::kGoing : LogEventKind::kGone);
  }
  EXPECT_THAT(later, ::testing::ElementsAre("1048576+2097152", "1048576+2097152"))
      << "what was cut off";
}

TEST_F(TrackerTest, AMappingIsToldToGoBeforeItDoesAndToHaveGoneOrStayed) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"moves"}).status, 0);
  Take(logs);
  const auto mapped = std::ranges::find_if(told_, [](const Told& told) {
    return told.event.kind == LogEventKind::kMapped && told.event.bytes == 3 << 20;
  });
  ASSERT_NE(mapped, told_.end());
  const auto wanted = std::find_if(std::next(mapped), told_.end(), [](const Told& told) {
    return told.event.kind == LogEventKind::kMapped && told.event.bytes == 5 << 20;
  });
  ASSERT_NE(wanted, told_.end());
  std::vector<std::string> later;
  for (auto told = std::next(mapped); told != told_.end(); ++told) {
    const LoggedEvent& event = told->event;
    const std::map<LogEventKind, std::string> kinds = {{LogEventKind::kMapped, "mapped"},
                                                       {LogEventKind::kGoing, "going"},
                                                       {LogEventKind::kGone, "gone"},
                                                       {LogEventKind::kStayed, "stayed"}};
    const auto kind = kinds.find(event.kind);
    if (kind == kinds.end()) continue;
    const std::string which = event.address == mapped->event.address   ? "first"
                              : event.address == wanted->event.address ? "second"
                                                                       : "part";
    later.push_back(fmt::format("{} {} {}", which, kind->second, event.bytes >> 20));
  }
  EXPECT_THAT(later, ::testing::ElementsAre("first going 3", "first stayed 3", "second mapped 5",
                                            "first going 3", "first gone 3", "second mapped 5",
                                            "part going 4", "part gone 4", "part going 1",
                                            "part stayed 1", "second going 1", "second gone 1"));
}

TEST_F(TrackerTest, ThreadsTellOfTheirStacksAndNames) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"stacks"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  std::vector<const LoggedEvent*> began;
  std::vector<const LoggedEvent*> ended;
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kThreadBegan) began.push_back(&told.event);
    if (told.event.kind == LogEventKind::kThreadEnded) ended.push_back(&told.event);
  }
  std::string stacks;
  for (const LoggedEvent* event : began) {
    stacks += fmt::format("0x{:x} {}\n", event->address, event->bytes);
  }
  EXPECT_EQ(stacks, ran.out) << "as the C library has them";
  ASSERT_EQ(began.size(), 4U);
  ASSERT_EQ(ended.size(), 4U) << "also of one that pthread_exit(3) ends";
  EXPECT_EQ(ended[0]->site, began[0]->site);
  EXPECT_NE(began[0]->site, began[1]->site);
  EXPECT_EQ(ThreadNameOf(*ended[0]), "with buffer");
  EXPECT_EQ(ThreadNameOf(*ended[1]), "objects_allocat") << "15 bytes of the program's";
  EXPECT_EQ(ThreadNameOf(*ended[3]), "of C11");
  // The tracker, which begins the thread, is not in the stacks of what it allocates.
  for (const std::uint64_t bytes : {100'001, 100'002}) {
    const auto made =
        std::ranges::find_if(told_, [&](const Told& told) { return told.event.bytes == bytes; });
    ASSERT_NE(made, told_.end());
    ASSERT_FALSE(made->frames.empty());
    for (const std::uint64_t frame : made->frames) {
      EXPECT_THAT(ModuleOf(frame), ::testing::Not(::testing::HasSubstr("tmprof_allocations")));
    }
    EXPECT_LE(made->frames.size(), 4U) << "Make, the thread's function, two of the C library";
  }
}

// It gives an arena to each thread that allocates or frees.
TEST_F(TrackerTest, ThreadsThatDoNotAllocateHaveNoArenaOfMalloc) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"idle threads"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::HasSubstr("<heap nr=\"0\">"));
  EXPECT_THAT(ran.out, ::testing::Not(::testing::HasSubstr("<heap nr=\"1\">")));
  Take(logs);
  EXPECT_EQ(std::ranges::count(told_, LogEventKind::kThreadBegan,
                               [](const Told& told) { return told.event.kind; }),
            8);
}

TEST_F(TrackerTest, HoweverAThreadEndsWhatItAllocatedStaysAndWhatItFreesIsTold) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"ends"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  const auto count = [&](LogEventKind kind) {
    return std::ranges::count_if(told_, [&](const Told& told) { return told.event.kind == kind; });
  };
  EXPECT_EQ(count(LogEventKind::kThreadBegan), 3);
  EXPECT_EQ(count(LogEventKind::kThreadEnded), 3) << "one of them was cancelled";
  const auto live = [&](std::uint64_t bytes) {
    std::set<std::uint64_t> addresses;
    for (const Told& told : told_) {
      const LoggedEvent& event = told.event;
      if (event.kind == LogEventKind::kAllocated && event.bytes == bytes) {
        addresses.insert(event.address);
      } else if (event.kind == LogEventKind::kAllocated || event.kind == LogEventKind::kFreed) {
        addresses.erase(event.address);
      }
    }
    return addresses.size();
  };
  EXPECT_EQ(Allocated(100'031).size(), 3U);
  EXPECT_EQ(live(100'031), 0U) << "freed by the last destructor, after the tracker's";
  EXPECT_EQ(live(100'032), 3U);
}

// The handler's mappings are reported unless the tracker was in the middle of an event.
TEST_F(TrackerTest, AHandlerAmidAnEventLosesNone) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"steps"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto steps = std::stoul(ran.out);
  EXPECT_GT(steps, 10 * 100U) << "the processor does not step";
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  std::vector<LogEventKind> of_objects;
  std::map<std::uint64_t, LogEventKind> pages;  // key: address; the latest event
  std::size_t mapped = 0;
  const std::vector<const LoggedEvent*> made = Allocated(100'041);
  ASSERT_EQ(made.size(), 11U);
  for (const Told& told : told_) {
    const LoggedEvent& event = told.event;
    if (event.address == made[0]->address && event.kind <= LogEventKind::kFreed) {
      of_objects.push_back(event.kind);
    }
    if (event.bytes != 4096 || event.kind == LogEventKind::kAllocated) continue;
    const auto before = pages.find(event.address);
    switch (event.kind) {
      case LogEventKind::kMapped:
        ++mapped;
        EXPECT_TRUE(before == pages.end() || before->second == LogEventKind::kGone);
        break;
      case LogEventKind::kGoing:
        EXPECT_TRUE(before != pages.end() && before->second == LogEventKind::kMapped);
        break;
      default:
        EXPECT_EQ(event.kind, LogEventKind::kGone);
        EXPECT_TRUE(before != pages.end() && before->second == LogEventKind::kGoing);
    }
    pages[event.address] = event.kind;
  }
  std::vector<LogEventKind> turns;
  for (int round = 0; round < 11; ++round) {
    turns.insert(turns.end(), {LogEventKind::kAllocated, LogEventKind::kFreed});
  }
  of_objects.resize(std::min(of_objects.size(), turns.size()));  // then others may lie there
  EXPECT_EQ(of_objects, turns) << "all at one address, each freed before the next";
  EXPECT_GT(mapped, steps / 20);
}

TEST_F(TrackerTest, APageHoldsAllSmallAllocationsThatFit) {
  AllocationLogs logs = Logs({.threshold_bytes = 1, .parent = ::testing::TempDir()});
  ASSERT_EQ(Run(logs.request(), {"crowd"}).status, 0);
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  const std::vector<const LoggedEvent*> made = Allocated(24);
  EXPECT_EQ(made.size(), 10'000U);
  std::set<std::uint64_t> live;
  for (const LoggedEvent* event : made) live.insert(event->address);
  for (const Told& told : told_) {
    if (told.event.kind == LogEventKind::kFreed) live.erase(told.event.address);
  }
  EXPECT_TRUE(live.empty()) << "all were freed";
}

TEST_F(TrackerTest, AnArenaThatCannotBeBoundIsSaidAndUsed) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"turns"}).status, 0);
  Take(logs);
  ArenaAdvice bound{.nodes = {{1, {63}}}, .sites = {}};  // the highest that a file can name
  const std::string advice = Advice({{100'001, 0}, {100'002, 1}}, std::move(bound));
  told_.clear();
  const Outcome ran = Run(logs.request(), {"turns"}, advice);
  EXPECT_EQ(ran.status, 0);
  if (ran.err.empty()) GTEST_SKIP() << "there is a node 63";
  // EINVAL, or what a sandbox or a kernel without NUMA says.
  EXPECT_THAT(ran.err, ::testing::MatchesRegex(
                           "tmprof: advice '.*': arena 1 cannot be bound to nodes 63: E[A-Z]+; its "
                           "objects lie where the kernel puts them\n"));
  Take(logs);
  EXPECT_EQ(Allocated(100'002).at(0)->address - Allocated(100'001).at(0)->address, kArenaBytes);
}

// Reads hexadecimal digits with readelf(1).
std::string BuildIdOf(const std::string& path) {
  const Outcome read = RunProgram({"readelf", "-n", path});
  const std::string title = "Build ID: ";
  const std::size_t at = read.out.find(title);
  EXPECT_NE(at, std::string::npos) << read.out << read.err;
  if (at == std::string::npos) return {};
  return read.out.substr(at + title.size(), read.out.find('\n', at) - at - title.size());
}

std::string Bytes(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST_F(TrackerTest, AdviceOfAnotherBuildIsSaidOnceAndPlacesNothingOfIt) {
  AllocationLogs logs = Logs();
  ASSERT_EQ(Run(logs.request(), {"turns"}).status, 0);
  Take(logs);
  const std::vector<Told> told = told_;
  const std::string program =
      std::filesystem::canonical(std::string(TMPROF_BINARY_DIR) + "/tests/objects_allocates");
  std::string build_id = Bytes(BuildIdOf(program));
  ASSERT_FALSE(build_id.empty());
  const auto distance = [&](const std::string& build, std::string& said) {
    told_ = told;
    const std::string advice =
        Advice({{100'001, 0}, {100'002, 1}}, ArenaAdvice{.build_ids = {{program, build}}});
    told_.clear();
    const Outcome ran = Run(logs.request(), {"turns"}, advice);
    EXPECT_EQ(ran.status, 0);
    said = ran.err;
    Take(logs);
    return Allocated(100'002).at(0)->address - Allocated(100'001).at(0)->address;
  };
  std::string said;
  EXPECT_EQ(distance(build_id, said), kArenaBytes);
  EXPECT_EQ(said, "");
  const std::string other = "tmprof: advice: '" + program +
                            "' is not the build that the advice is of; nothing that it calls is "
                            "placed\n";
  build_id.back() = static_cast<char>(build_id.back() ^ 1);
  EXPECT_LT(distance(build_id, said), kArenaBytes);
  EXPECT_EQ(said, other);
  build_id.pop_back();
  EXPECT_LT(distance(build_id, said), kArenaBytes);
  EXPECT_EQ(said, other);
}

TEST_F(TrackerTest, AdviceThatIsNotUnderstoodIsSaidAndNothingIsPlaced) {
  const std::string file = folder_.File("wrong");
  const std::string first = std::string(kAdviceFirstLine) + "\n";
  for (const auto& [text, wrong] : std::map<std::string, std::string>{
           {"", "line 0: it is empty"},
           {"other\n", "line 1: it is not 'tmprof-advice 1'"},
           {first + "place 3\n", "line 2: it is none of"},
           {first + "# all is well\n\nsite 0 1+0x10\n", "line 4: a call is MODULE+0xOFFSET"},
           {first + "module 1 /a\nsite 64 1+0x10\n", "line 3: an arena is a number"},
           {first + "module 1 /a\nsite 0\n", "line 3: a site has calls"},
           {first + "module 0 /a\n", "line 2: a module has a number"},
           {first + "module 1\n", "line 2: a module has a path"},
           {first + "build 1 ab\n", "line 2: a build ID is of a module above"},
           {first + "module 1 /a\nbuild 1\n", "line 3: a build ID is up to 64 bytes"},
           {first + "module 1 /a\nbuild 1 abc\n", "line 3: a build ID is up to 64 bytes"},
           {first + "module 1 /a\nbuild 1 x1\n", "line 3: a build ID is up to 64 bytes"},
           {first + "module 1 /a\nbuild 1 " + std::string(130, 'a') + "\n",
            "line 3: a build ID is up to 64 bytes"},
           {first + "bind 1 x\n", "line 2: nodes are numbers"}}) {
    WriteFile(file, text);
    const Outcome ran = Run("", {"kinds"}, file);
    EXPECT_EQ(ran.status, 0);
    EXPECT_THAT(ran.err, ::testing::HasSubstr(wrong)) << text;
    EXPECT_THAT(ran.err, ::testing::EndsWith("nothing is placed\n"));
  }
  EXPECT_THAT(Run("", {"kinds"}, "/nowhere").err, ::testing::HasSubstr("it cannot be read"));
}

TEST_F(TrackerTest, AFailedAllocationIsNotReported) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"refused"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "bad_alloc\n");
  Take(logs);
  EXPECT_EQ(lost_, 0U);
  const std::uint64_t most = std::uint64_t{1} << 61;
  EXPECT_TRUE(
      std::ranges::all_of(told_, [&](const Told& told) { return told.event.bytes < most; }));
  // An object that realloc(3) could not grow is reported again, with all its usable bytes.
  const auto grown = std::ranges::find_if(told_, [](const Told& told) {
    return told.event.kind == LogEventKind::kAllocated && told.event.bytes == 50'007;
  });
  ASSERT_NE(grown, told_.end());
  const auto again = std::ranges::find_if(std::next(grown), told_.end(), [&](const Told& told) {
    return told.event.kind == LogEventKind::kAllocated &&
           told.event.address == grown->event.address;
  });
  ASSERT_NE(again, told_.end());
  EXPECT_GE(again->event.bytes, 50'007U);
  EXPECT_EQ(Allocated(100'007).size(), 1U);
}

TEST_F(TrackerTest, StacksThatAreLeftByJumpsAndExceptionsAreThoseOfTheirCalls) {
  AllocationLogs logs = Logs();
  const Outcome ran = Run(logs.request(), {"leaves"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  std::map<std::uint64_t, std::set<std::vector<std::uint64_t>>> stacks;  // key: bytes
  for (const Told& told : told_) stacks[told.event.bytes].insert(told.frames);
  for (const std::uint64_t bytes : {100'001, 100'002, 100'003}) {
    EXPECT_EQ(Allocated(bytes).size(), 100U) << bytes;
    EXPECT_EQ(stacks[bytes].size(), 1U) << bytes;
  }
  EXPECT_NE(stacks[100'001], stacks[100'002]);
  EXPECT_NE(stacks[100'002], stacks[100'003]);
}

TEST_F(TrackerTest, ReportsTheMappingsOfAProgramWithItsOwnAllocator) {
  AllocationLogs logs = Logs();
  const Outcome ran =
      RunProgram({std::string(TMPROF_BINARY_DIR) + "/tests/objects_own_allocator"}, [&] {
        ::setenv("LD_PRELOAD", kLibrary.c_str(), 1);
        ::setenv(objtrace::kTrackVariable, logs.request().c_str(), 1);
      });
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "100 of its own\n");
  Take(logs);
  EXPECT_TRUE(Allocated(100'001).empty()) << "the program's malloc() comes first";
  EXPECT_EQ(std::ranges::count_if(told_,
                                  [](const Told& told) {
                                    return told.event.kind == LogEventKind::kMapped &&
                                           told.event.bytes == 16 << 20;
                                  }),
            1);
}

TEST_F(TrackerTest, ReportsTheProgramsAllocationsFromAnAllocatorInALibrary) {
  AllocationLogs logs = Logs();
  const std::string own = std::string(TMPROF_BINARY_DIR) + "/lib/libobjects_own_allocator.so";
  // Before the C library, as one that the program is linked with.
  const Outcome ran =
      RunProgram({std::string(TMPROF_BINARY_DIR) + "/tests/objects_allocates", "kinds"}, [&] {
        ::setenv("LD_PRELOAD", (kLibrary + ":" + own).c_str(), 1);
        ::setenv(objtrace::kTrackVariable, logs.request().c_str(), 1);
      });
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  Take(logs);
  ASSERT_EQ(Allocated(100'001).size(), 1U);
  ASSERT_FALSE(Allocated(100'020).empty());
  EXPECT_EQ(Allocated(100'020)[0]->address, Allocated(100'001)[0]->address + 100'016)
      << "one behind the other, though the first was freed";
  EXPECT_FALSE(Allocated(100'005).empty()) << "by new";
}

TEST_F(TrackerTest, AProgramOutlivesItsRecorder) {
  int go[2];
  int ready[2];
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe(ready), 0);
  std::optional<AllocationLogs> logs = Logs();
  Outcome ran;
  std::thread runs([&] {
    ran = Run(logs->request(), {"outlives", std::to_string(ready[1]), std::to_string(go[0])});
  });
  pollfd is_ready{.fd = ready[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&is_ready, 1, 600'000), 1) << "or it has ended before it was asked to go on";
  logs.reset();
  EXPECT_EQ(::write(go[1], "g", 1), 1);
  runs.join();
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, "300000\n");
  EXPECT_EQ(ran.err, "");
  for (const int fd : {go[0], go[1], ready[0], ready[1]}) ::close(fd);
}

TEST_F(TrackerTest, LibrariesThatWereLoadedAgainAreKnown) {
  AllocationLogs logs = Logs();
  const std::string library = std::string(TMPROF_BINARY_DIR) + "/lib/libobjects_made.so";
  const Outcome ran = Run(logs.request(), {"load", library, library});
  ASSERT_EQ(ran.status, 0) << ran.err;
  Take(logs);
  EXPECT_EQ(Allocated(100'001).size(), 2U);
  EXPECT_TRUE(std::ranges::any_of(
      modules_, [&](const LoggedModule& module) { return module.path == library; }));
}

TEST_F(TrackerTest, ASiteIsInTheLibraryThatIsThereWhenItIsFound) {
  AllocationLogs logs = Logs();
  const auto library = [](const char* name) {
    return std::string(TMPROF_BINARY_DIR) + "/lib/libobjects_" + name + ".so";
  };
  const std::vector<std::string> loaded = {library("made"), library("made_later"),
                                           library("made_last")};
  ASSERT_EQ(Run(logs.request(), {"load", loaded[0], loaded[1], loaded[2]}).status, 0);
  Take(logs);
  const std::set<std::uint64_t> starts = [&] {
    std::set<std::uint64_t> found;
    for (const LoggedModule& module : modules_) {
      if (std::ranges::find(loaded, module.path) != loaded.end()) found.insert(module.start);
    }
    return found;
  }();
  if (starts.size() != 1) GTEST_SKIP() << "they were not loaded at one address";
  std::vector<std::string> paths;
  for (const Told& told : told_) {
    if (told.event.bytes != 100'001) continue;
    const auto known = std::span(modules_).first(told.modules);
    const auto module = std::find_if(known.rbegin(), known.rend(), [&](const auto& candidate) {
      return candidate.start < told.frames.at(0) && told.frames[0] <= candidate.end;
    });
    paths.push_back(module != known.rend() ? module->path : "none");
  }
  EXPECT_EQ(paths, loaded);
}

}  // namespace tracker_test
}  // namespace tmprof::test
