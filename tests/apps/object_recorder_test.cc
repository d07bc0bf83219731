// SPDX-License-Identifier: Apache-2.0
// What this process, as the tracker would, writes into a log.

#include "apps/tmprof/object_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/unique_fd.h"

namespace tmprof::testing {
namespace {

using objtrace::LogEventKind;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kPage = 4096;
const MonotonicTime kBegin{std::chrono::seconds(100)};
const Pid kSelf(::getpid());

class ObjectRecorderTest : public ::testing::Test {
 protected:
  ObjectRecorderTest() {
    auto recorder = ObjectRecorder::Create({.parent = ::testing::TempDir()});
    EXPECT_TRUE(recorder) << recorder.error().Message();
    recorder_ = *std::move(recorder);
    const std::string request = recorder_->request();
    const std::string path = request.substr(request.find('/')) + "/1-1.log";
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(fd.get(), sizeof(objtrace::AllocationLog)), 0);
    log_ = static_cast<objtrace::AllocationLog*>(::mmap(
        nullptr, sizeof(objtrace::AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    log_->pid = static_cast<std::uint64_t>(kSelf.value());
    log_->begin_ns = static_cast<std::uint64_t>(kBegin.time_since_epoch().count());
    log_->magic = objtrace::kLogMagic;
  }
  ~ObjectRecorderTest() override { ::munmap(log_, sizeof(*log_)); }

  void Log(LogEventKind kind, std::uint64_t address, std::uint64_t bytes, std::uint32_t site = 0) {
    const std::uint64_t at = log_->written++;
    objtrace::LogEvent& event = log_->event[at];
    event.address = address;
    event.bytes = bytes;
    event.time_ns = static_cast<std::uint64_t>(kBegin.time_since_epoch().count()) + at + 1;
    event.kind = kind;
    event.site = site;
    event.turn = at + 1;
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
    epoch.targets = {{.id = TargetId(0), .pid = kSelf, .name = "test"}};
    for (const std::uint64_t address : accessed) {
      Append(epoch.pages, {.key = {TargetId(0), VpnOfAddress(address)}, .load_samples = 1});
    }
    recorder_->Complete(epoch);
    return *epoch.allocations;
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

TEST_F(ObjectRecorderTest, WhatAnotherThreadMapsWhereAMappingHasJustGoneStays) {
  Log(LogEventKind::kMapped, 16 * kPage, 2 * kPage);
  Log(LogEventKind::kGoing, 16 * kPage, 2 * kPage);
  Log(LogEventKind::kMapped, 17 * kPage, kPage);  // the other's, who is told of first
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
  volatile char on_stack = 1;
  const auto at = [](const volatile void* place) { return reinterpret_cast<std::uint64_t>(place); };
  const Allocations then = Complete({at(&table[2 * kPage]), at(&on_stack)});
  const auto holds = [&](FixedKind kind, std::uint64_t address) {
    return std::ranges::any_of(then.fixed, [&](const FixedEvent& event) {
      return event.kind == kind && event.address <= address &&
             address < event.address + event.bytes;
    });
  };
  EXPECT_TRUE(holds(FixedKind::kVariable, at(&table[2 * kPage])));
  EXPECT_TRUE(holds(FixedKind::kStack, at(&on_stack)));
}

}  // namespace
}  // namespace tmprof::testing
