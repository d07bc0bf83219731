// SPDX-License-Identifier: Apache-2.0
// This process writes into a log like the tracker.

#include "objects/commands/object_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace tmprof::test {
namespace object_recorder_test {

using objtrace::LogEventKind;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kPage = 4096;
const MonotonicTime kBegin{std::chrono::seconds(100)};
const Pid kSelf(::getpid());

// A process that has what this one has mapped.
class Child {
 public:
  explicit Child(objtrace::AllocationLog* log) {
    EXPECT_EQ(::pipe(&asks_[0]), 0);
    EXPECT_EQ(::pipe(&answers_[0]), 0);
    process_ = ::fork();
    if (process_ != 0) return;
    char asked = 0;
    ::close(asks_[1]);
    while (::read(asks_[0], &asked, 1) == 1) {
      ::munmap(log, sizeof(*log));
      if (::write(answers_[1], &asked, 1) != 1) break;
    }
    ::_exit(0);
  }
  ~Child() {
    End();
    ::waitpid(process_, nullptr, 0);
    for (const int fd : {asks_[0], answers_[0], answers_[1]}) ::close(fd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Pid pid() const { return Pid(process_); }

  // Acts like another program that is begun in the process and writes no log.
  void Unmap() {
    char answer = 'u';
    EXPECT_EQ(::write(asks_[1], &answer, 1), 1);
    EXPECT_EQ(::read(answers_[0], &answer, 1), 1);
  }
  // Leaves it a zombie.
  void End() {
    if (has_ended_) return;
    has_ended_ = true;
    ::close(asks_[1]);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT), 0);
  }
  void Reap() {
    End();
    ::waitpid(process_, nullptr, 0);
  }

 private:
  std::array<int, 2> asks_{};
  std::array<int, 2> answers_{};
  pid_t process_ = 0;
  bool has_ended_ = false;
};

class ObjectRecorderTest : public ::testing::Test {
 protected:
  ObjectRecorderTest() {
    auto recorder = ObjectRecorder::Create({.parent = ::testing::TempDir()});
    EXPECT_TRUE(recorder) << recorder.error().Message();
    recorder_ = *std::move(recorder);
    log_ = MakeLog("1-1.log", kBegin);
  }
  ~ObjectRecorderTest() override { ::munmap(log_, sizeof(*log_)); }

  objtrace::AllocationLog* MakeLog(const std::string& name, MonotonicTime begin) {
    const std::string request = recorder_->request();
    const std::string path = request.substr(request.find('/')) + "/" + name;
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(fd.get(), sizeof(objtrace::AllocationLog)), 0);
    auto* log = static_cast<objtrace::AllocationLog*>(::mmap(
        nullptr, sizeof(objtrace::AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    log->pid = static_cast<std::uint64_t>(pid_.value());
    log->begin_ns = static_cast<std::uint64_t>(begin.time_since_epoch().count());
    log->magic = objtrace::kLogMagic;
    return log;
  }

  // Before anything is recorded.
  void BeOf(const Child& child) {
    pid_ = child.pid();
    log_->pid = static_cast<std::uint64_t>(pid_.value());
  }

  void Log(LogEventKind kind, std::uint64_t address, std::uint64_t bytes, std::uint32_t site = 0) {
    const std::uint64_t at = log_->written++;
    objtrace::LogEvent& event = log_->event[at];
    event.address = address;
    event.bytes = bytes;
    event.time_ns = static_cast<std::uint64_t>(kBegin.time_since_epoch().count()) + at + 1;
    event.kind = kind;
    event.site = site;
    event.turn = objtrace::LapOf(at) + 1;
  }

  void LogEnd(std::uint32_t thread, const char* name) {
    char text[objtrace::kThreadNameBytes] = {};
    std::strncpy(text, name, sizeof(text) - 1);
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    objtrace::SetThreadName(text, address, bytes);
    Log(LogEventKind::kThreadEnded, address, bytes, thread);
  }

  Allocations Complete(const std::vector<std::uint64_t>& accessed = {}) {
    EpochProfile epoch;
    epoch.start = kBegin;
    epoch.end = kBegin + milliseconds(1000);
    epoch.targets = {{.id = TargetId(0), .pid = pid_, .name = "test"}};
    for (const std::uint64_t address : accessed) {
      Append(epoch.pages, {.key = {TargetId(0), VpnOfAddress(address)}, .load_samples = 1});
    }
    recorder_->Complete(epoch);
    return *AllocationsOf(epoch);
  }

  // "mapped 0x10000+12288"
  static std::vector<std::string> Text(const std::vector<AllocationEvent>& events) {
    std::vector<std::string> text;
    for (const AllocationEvent& event : events) {
      text.push_back(fmt::format("{} {:#x}+{}",
                                 event.kind == AllocationKind::kMapped ? "mapped" : "unmapped",
                                 event.address, event.bytes));
    }
    return text;
  }

  std::optional<ObjectRecorder> recorder_;
  Pid pid_ = kSelf;
  objtrace::AllocationLog* log_ = nullptr;
};

TEST_F(ObjectRecorderTest, AMappingThatCouldNotBeMovedIsAsItWas) {
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  Log(LogEventKind::kGoing, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  Log(LogEventKind::kStayed, 16 * kPage, kPage);
  EXPECT_THAT(Complete().events, IsEmpty());
  Log(LogEventKind::kUnmapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("unmapped 0x10000+4096")) << "it still was";
}

TEST_F(ObjectRecorderTest, MappingsMadeByAnotherThreadWhereOneHasJustGoneStay) {
  Log(LogEventKind::kMapped, 16 * kPage, 2 * kPage);
  Log(LogEventKind::kGoing, 16 * kPage, 2 * kPage);
  Log(LogEventKind::kMapped, 17 * kPage, kPage);  // the other's, which is reported first
  Log(LogEventKind::kGone, 16 * kPage, 2 * kPage);
  Log(LogEventKind::kMapped, 32 * kPage, 4 * kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+8192", "unmapped 0x10000+8192",
                                                   "mapped 0x11000+4096", "mapped 0x20000+16384"));
  Log(LogEventKind::kUnmapped, 17 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("unmapped 0x11000+4096"));
}

TEST_F(ObjectRecorderTest, AStackIsToldWithItsNameOnceItIsAccessed) {
  Log(LogEventKind::kThreadBegan, 64 * kPage, 4 * kPage, 43);
  Log(LogEventKind::kThreadBegan, 80 * kPage, 4 * kPage, 44);
  EXPECT_THAT(Complete().fixed, IsEmpty());
  LogEnd(43, "worker");
  LogEnd(44, "idle");
  const Allocations told = Complete({66 * kPage});
  ASSERT_EQ(told.sites.size(), 1U);
  EXPECT_EQ(told.sites[0].name, "worker");
  EXPECT_EQ(told.sites[0].thread, Tid(43));
  ASSERT_EQ(told.fixed.size(), 2U);
  EXPECT_EQ(told.fixed[0].kind, FixedKind::kStack);
  EXPECT_EQ(told.fixed[0].address, 64 * kPage);
  EXPECT_EQ(told.fixed[0].bytes, 4 * kPage);
  EXPECT_EQ(told.fixed[0].time, kBegin + std::chrono::nanoseconds(1));
  EXPECT_TRUE(told.fixed[1].ends);
  EXPECT_EQ(told.fixed[1].time, kBegin + std::chrono::nanoseconds(3));
}

TEST_F(ObjectRecorderTest, AThreadWhoseEndWasLostEndsWithTheNextOneThere) {
  Log(LogEventKind::kThreadBegan, 64 * kPage, 4 * kPage, 43);
  Log(LogEventKind::kThreadBegan, 62 * kPage, 4 * kPage, 44);
  LogEnd(44, "next");
  const Allocations told = Complete({65 * kPage});
  EXPECT_EQ(std::ranges::count(told.fixed, true, &FixedEvent::ends), 2);
}

TEST_F(ObjectRecorderTest, TheMainThreadsStackAndAVariableAreThoseOfThisProcess) {
  static volatile char table[4 * kPage];
  table[0] = 1;
  // Sanitizers keep variables elsewhere.
  const volatile void* const on_stack = __builtin_frame_address(0);
  const auto at = [](const volatile void* place) { return reinterpret_cast<std::uint64_t>(place); };
  const Allocations then = Complete({at(&table[2 * kPage]), at(on_stack)});
  const auto holds = [&](FixedKind kind, std::uint64_t address) {
    return std::ranges::any_of(then.fixed, [&](const FixedEvent& event) {
      return event.kind == kind && event.address <= address &&
             address < event.address + event.bytes;
    });
  };
  EXPECT_TRUE(holds(FixedKind::kVariable, at(&table[2 * kPage])));
  EXPECT_TRUE(holds(FixedKind::kStack, at(on_stack)));
}

TEST_F(ObjectRecorderTest, ObjectsThatAProcessLeavesEndWithIt) {
  Child child(log_);
  BeOf(child);
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  EXPECT_THAT(Complete().events, IsEmpty()) << "it runs";
  const MonotonicTime before = SystemClock().Now();
  child.Reap();
  const Allocations then = Complete();
  EXPECT_THAT(Text(then.events), ElementsAre("unmapped 0x10000+4096"));
  EXPECT_GE(then.events.at(0).time, before) << "not with what it told last";
}

TEST_F(ObjectRecorderTest, AProcessThatNobodyHasWaitedForHasEnded) {
  Child child(log_);
  BeOf(child);
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  child.End();
  EXPECT_THAT(Text(Complete().events), ElementsAre("unmapped 0x10000+4096"));
}

TEST_F(ObjectRecorderTest, ObjectsOfAProgramEndWhenItsProcessBeginsAnotherLog) {
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  objtrace::AllocationLog* next = MakeLog("1-2.log", kBegin + milliseconds(500));
  const Allocations then = Complete();
  EXPECT_THAT(Text(then.events), ElementsAre("unmapped 0x10000+4096"));
  EXPECT_EQ(then.events.at(0).time, kBegin + milliseconds(500));
  ::munmap(next, sizeof(*next));
}

TEST_F(ObjectRecorderTest, TakesTheLogThatBeganLastForAProcessWithTwo) {
  objtrace::AllocationLog* next = MakeLog("1-10.log", kBegin + milliseconds(500));
  objtrace::AllocationLog* before = MakeLog("1-9.log", kBegin + milliseconds(400));
  Complete();
  std::swap(log_, next);
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  for (objtrace::AllocationLog* log : {next, before}) ::munmap(log, sizeof(*log));
}

TEST_F(ObjectRecorderTest, ObjectsOfAProgramEndWhenItsProcessRunsOneThatWritesNoLog) {
  Child child(log_);
  BeOf(child);
  Log(LogEventKind::kMapped, 16 * kPage, kPage);
  EXPECT_THAT(Text(Complete().events), ElementsAre("mapped 0x10000+4096"));
  Log(LogEventKind::kMapped, 32 * kPage, kPage);  // its last
  const MonotonicTime before = SystemClock().Now();
  child.Unmap();
  const Allocations then = Complete();
  EXPECT_THAT(Text(then.events),
              ElementsAre("mapped 0x20000+4096", "unmapped 0x10000+4096", "unmapped 0x20000+4096"));
  EXPECT_GE(then.events.at(1).time, before);
  EXPECT_THAT(Complete().events, IsEmpty());
}

TEST_F(ObjectRecorderTest, AProgramHasNoneOfTheVariablesOfTheNextInItsProcess) {
  static volatile char table[4 * kPage];
  table[0] = 1;
  const std::vector<std::uint64_t> accessed = {reinterpret_cast<std::uint64_t>(&table[2 * kPage])};
  Child child(log_);
  BeOf(child);
  child.Unmap();
  EXPECT_THAT(Complete(accessed).fixed, IsEmpty());
  EXPECT_THAT(Complete(accessed).fixed, IsEmpty()) << "it has ended";
}

}  // namespace object_recorder_test
}  // namespace tmprof::test
