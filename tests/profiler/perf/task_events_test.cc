// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/task_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace task_events_test {

constexpr std::size_t kRingBytes = 4096;

TaskEvents::Event ClockEvent() {
  TaskEvents::Event event{.event = {.name = "cpu-clock", .attr = {}}};
  event.event.attr.type = PERF_TYPE_SOFTWARE;
  event.event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  event.event.attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  return event;
}

TaskEvents Create(FakePerfApi& api) {
  auto events = TaskEvents::Create(api, {ClockEvent()}, kRingBytes);
  EXPECT_TRUE(events.has_value());
  return std::move(*events);
}

const TaskEvents::Visit kIgnore = [](const PerfRecord&) {};

TEST(TaskEvents, OpensOneInheritedEventPerThreadAndCpuIntoThatCpusRing) {
  FakePerfApi api;
  api.cpus = {CpuId(0), CpuId(2)};
  api.threads[Pid(100)] = {Tid(100), Tid(101)};
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  const std::vector<int> rings = events.RingFds();
  ASSERT_EQ(rings.size(), 2u);
  for (const Tid thread : {Tid(100), Tid(101)}) {
    const auto opened = api.EventsOf(thread);
    ASSERT_EQ(opened.size(), 2u);
    EXPECT_EQ(opened[0].cpu, CpuId(0));
    EXPECT_EQ(opened[1].cpu, CpuId(2));
    EXPECT_TRUE(opened[0].attr.inherit);
    EXPECT_EQ(api.redirected[opened[0].fd], rings[0]);
    EXPECT_EQ(api.redirected[opened[1].fd], rings[1]);
  }
}

TEST(TaskEvents, CountsOfFamiliesThatHaveEndedStayInTheCount) {
  FakePerfApi api;
  api.cpus = {CpuId(0), CpuId(2)};
  api.threads[Pid(100)] = {Tid(100), Tid(101)};
  api.threads[Pid(200)] = {Tid(200)};
  NamedEvent misses{.name = "misses", .attr = {}};
  misses.attr.config = 77;
  auto events = TaskEvents::Create(api, {ClockEvent()}, kRingBytes, misses);
  ASSERT_TRUE(events.has_value());
  ASSERT_TRUE(events->Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  std::map<Tid, int> counters;
  for (const Tid thread : {Tid(100), Tid(101), Tid(200)}) {
    for (const FakePerfApi::Opened& event : api.EventsOf(thread)) {
      if (event.attr.config != 77) continue;
      EXPECT_FALSE(counters.contains(thread)) << "one for all CPUs";
      EXPECT_EQ(event.cpu, std::nullopt);
      EXPECT_TRUE(event.attr.inherit);
      EXPECT_FALSE(api.redirected.contains(event.fd)) << "it has no records";
      counters[thread] = event.fd;
    }
  }
  ASSERT_EQ(counters.size(), 3u);
  const auto reads = [&](std::uint32_t thread, std::uint64_t count) {
    api.readings[counters[Tid(thread)]].push_back(
        CounterReading{.count = count, .enabled_ns = count, .running_ns = count});
  };
  reads(100, 5);
  reads(101, 7);
  api.threads.erase(Pid(100));
  ASSERT_TRUE(events->Follow({Pid(200)}, kIgnore).has_value());
  reads(200, 100);
  EXPECT_EQ(events->TakeCount(), 112u);
  reads(200, 130);
  EXPECT_EQ(events->TakeCount(), 30u);
  EXPECT_EQ(Create(api).TakeCount(), std::nullopt) << "nothing is counted";
}

TEST(TaskEvents, TheCountIsUnknownIfAThreadHasNoCounter) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100), Tid(101)};
  NamedEvent misses{.name = "misses", .attr = {}};
  misses.attr.config = 77;
  api.refuse = [](const perf_event_attr& attr, std::optional<Tid> thread) {
    return attr.config == 77 && thread == Tid(101) ? std::optional(EMFILE) : std::nullopt;
  };
  auto events = TaskEvents::Create(api, {ClockEvent()}, kRingBytes, misses);
  ASSERT_TRUE(events.has_value());
  ASSERT_TRUE(events->Follow({Pid(100)}, kIgnore).has_value()) << "samples are taken all the same";
  for (const FakePerfApi::Opened& event : api.EventsOf(Tid(100)))
    api.readings[event.fd].push_back(CounterReading{.count = 5, .enabled_ns = 1, .running_ns = 1});
  EXPECT_EQ(events->TakeCount(), std::nullopt);
}

TEST(TaskEvents, AttachesThreadsThatAppearWhileItAttaches) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  int asked = 0;
  api.on_threads = [&] {
    if (++asked == 2) api.threads[Pid(100)].push_back(Tid(101));
  };
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(api.EventsOf(Tid(101)).size(), 1u);
}

TEST(TaskEvents, DoesNotAttachAThreadTwiceThatHasInheritedTheEvent) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  api.on_open = [&](const FakePerfApi::Opened& opened) {
    if (opened.thread != Tid(100)) return;
    api.threads[Pid(100)].push_back(Tid(101));
    api.Write(0, ForkRecord(100, 100, 101, 100));
  };
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_TRUE(api.EventsOf(Tid(101)).empty());
}

TEST(TaskEvents, LeavesAForkedChildToInheritance) {
  FakePerfApi api;
  api.threads = {{Pid(100), {Tid(100)}}, {Pid(200), {Tid(200)}}};
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  api.Write(0, ForkRecord(200, 100, 200, 100));
  ASSERT_TRUE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  EXPECT_TRUE(api.EventsOf(Tid(200)).empty());
}

TEST(TaskEvents, KnowsADescendantByItsAncestorsWhereTheForksWereNotRecorded) {
  FakePerfApi api;
  api.threads = {{Pid(100), {Tid(100)}}, {Pid(300), {Tid(300)}}};
  api.now_ticks = 50;
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  api.origins = {{Pid(300), {Pid(200), 70}}, {Pid(200), {Pid(100), 60}}};
  ASSERT_TRUE(events.Follow({Pid(100), Pid(300)}, kIgnore).has_value());
  EXPECT_TRUE(api.EventsOf(Tid(300)).empty());
}

TEST(TaskEvents, AttachesAChildThatIsOlderThanItsParentsAttachment) {
  FakePerfApi api;
  api.threads = {{Pid(100), {Tid(100)}}, {Pid(200), {Tid(200)}}};
  api.now_ticks = 50;
  api.origins = {{Pid(200), {Pid(100), 40}}};
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  EXPECT_EQ(api.EventsOf(Tid(200)).size(), 1u);
}

// Closing shows on real descriptors only, so the fake hands out one.
class ClosingTest : public ::testing::Test {
 protected:
  bool IsOpen(Tid thread) {
    const auto opened = api_.EventsOf(thread);
    return !opened.empty() && ::fcntl(opened.back().fd, F_GETFD) >= 0;
  }
  FakePerfApi api_;
};

TEST_F(ClosingTest, KeepsAnExitedParentsEventsOpenForItsChildren) {
  api_.threads = {{Pid(100), {Tid(100)}}};
  TaskEvents events = Create(api_);
  const int real = ::dup(STDERR_FILENO);
  ASSERT_GE(real, 0);
  api_.next_fd = real;
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  api_.Write(0, ForkRecord(200, 100, 200, 100));
  ASSERT_TRUE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  api_.threads.clear();
  api_.threads[Pid(200)] = {Tid(200)};
  ASSERT_TRUE(events.Follow({Pid(200)}, kIgnore).has_value());
  EXPECT_TRUE(IsOpen(Tid(100)));
  ASSERT_TRUE(events.Follow({}, kIgnore).has_value());
  EXPECT_FALSE(IsOpen(Tid(100)));
}

TEST(TaskEvents, FollowsAProcessAgainAfterItWasDropped) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  ASSERT_TRUE(events.Follow({}, kIgnore).has_value());
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(api.EventsOf(Tid(100)).size(), 2u);
}

TEST(TaskEvents, TakesAVanishedThreadAsNoError) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100), Tid(101)};
  api.refuse = [](const perf_event_attr&, std::optional<Tid> thread) -> std::optional<int> {
    if (thread == Tid(100)) return ESRCH;
    return std::nullopt;
  };
  TaskEvents events = Create(api);
  EXPECT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(api.EventsOf(Tid(101)).size(), 1u);
}

TEST(TaskEvents, ReportsRefusalAndKeepsWhatItHasOpened) {
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100), Tid(101)};
  api.refuse = [](const perf_event_attr&, std::optional<Tid> thread) -> std::optional<int> {
    if (thread == Tid(101)) return EMFILE;
    return std::nullopt;
  };
  TaskEvents events = Create(api);
  const Status status = events.Follow({Pid(100)}, kIgnore);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().system_error, EMFILE);
  EXPECT_TRUE(events.HasEvents());
}

class RefusalTest : public ClosingTest {
 protected:
  RefusalTest() {
    api_.threads[Pid(100)] = {Tid(100), Tid(101)};
    api_.cpus = {CpuId(0), CpuId(2)};
    // The event on the second CPU is refused.
    api_.refuse = [this](const perf_event_attr&, std::optional<Tid> thread) -> std::optional<int> {
      if (thread == Tid(101) && !api_.EventsOf(Tid(101)).empty()) return EMFILE;
      return std::nullopt;
    };
  }
  std::size_t EventsOn(Tid thread) const { return api_.EventsOf(thread).size(); }
};

TEST_F(RefusalTest, AttachesAThreadWithAllOfItsEventsOrWithNone) {
  TaskEvents events = Create(api_);
  const int real = ::dup(STDERR_FILENO);
  ASSERT_GE(real, 0);
  api_.on_open = [&](const FakePerfApi::Opened& opened) {
    if (opened.thread == Tid(100) && opened.cpu == CpuId(2)) api_.next_fd = real;
  };
  EXPECT_FALSE(events.Follow({Pid(100)}, kIgnore).has_value());
  ASSERT_EQ(api_.EventsOf(Tid(101)).at(0).fd, real);
  EXPECT_FALSE(IsOpen(Tid(101)));
}

TEST_F(RefusalTest, TriesARefusedThreadAgainAndLeavesTheOthersAlone) {
  TaskEvents events = Create(api_);
  EXPECT_FALSE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(EventsOn(Tid(101)), 1u);
  api_.refuse = nullptr;
  EXPECT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(EventsOn(Tid(100)), 2u);
  EXPECT_EQ(EventsOn(Tid(101)), 1u + 2u);
  EXPECT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_EQ(EventsOn(Tid(101)), 1u + 2u) << "it is attached now";
}

TEST_F(RefusalTest, AttachesWhatARefusedThreadHasCreated) {
  TaskEvents events = Create(api_);
  api_.on_open = [&](const FakePerfApi::Opened& opened) {
    if (opened.thread != Tid(101) || EventsOn(Tid(101)) != 1) return;
    api_.threads[Pid(100)].push_back(Tid(102));
    api_.Write(0, ForkRecord(100, 100, 102, 101));
    api_.threads[Pid(200)] = {Tid(200)};
    api_.Write(0, ForkRecord(200, 100, 200, 102));
  };
  EXPECT_FALSE(events.Follow({Pid(100)}, kIgnore).has_value());
  api_.refuse = nullptr;
  EXPECT_TRUE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  EXPECT_EQ(EventsOn(Tid(102)), 2u);
  EXPECT_EQ(EventsOn(Tid(200)), 2u);
}

TEST_F(RefusalTest, TakesNoDescendantForCoveredWhileAThreadIsNot) {
  TaskEvents events = Create(api_);
  api_.now_ticks = 50;
  EXPECT_FALSE(events.Follow({Pid(100)}, kIgnore).has_value());
  api_.threads[Pid(200)] = {Tid(200)};
  api_.origins = {{Pid(200), {Pid(100), 60}}};
  EXPECT_FALSE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  EXPECT_EQ(EventsOn(Tid(200)), 2u);
}

TEST(TaskEvents, DisablesWhatItHasAndWhatItAttachesLater) {
  FakePerfApi api;
  api.threads = {{Pid(100), {Tid(100)}}, {Pid(200), {Tid(200)}}};
  TaskEvents events = Create(api);
  ASSERT_TRUE(events.Follow({Pid(100)}, kIgnore).has_value());
  EXPECT_FALSE(api.enabled.empty());
  events.SetEnabled(false);
  ASSERT_TRUE(events.Follow({Pid(100), Pid(200)}, kIgnore).has_value());
  EXPECT_EQ(api.EventsOf(Tid(200)).size(), 1u);
  EXPECT_TRUE(api.enabled.empty());
  events.SetEnabled(true);
  EXPECT_EQ(api.enabled.size(), 2u);
}

TEST(TaskEvents, CountsBytesThatMakeNoSense) {
  FakePerfApi api;
  TaskEvents events = Create(api);
  api.Write(0, RecordBytes(PERF_RECORD_FORK).Build());  // a fork without a body
  api.Write(0, std::vector<std::byte>(24));
  events.Drain(kIgnore);
  EXPECT_EQ(events.corrupt_bytes(), 8u + 24u);
}

}  // namespace task_events_test
}  // namespace tmprof
