// SPDX-License-Identifier: Apache-2.0

#include "profiler/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/kept_groups.h"
#include "base/unique_fd.h"
#include "proto/extension_codec.h"
#include "tests/base/fake_clock.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace recorder_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr MonotonicTime kStart{1'000'000s};

// Time passes only while somebody waits.
class FakeWaiter final : public Waiter {
 public:
  explicit FakeWaiter(FakeClock& clock) : clock_(clock) {}

  void Wait(const std::vector<int>& fds, nanoseconds timeout) override {
    last_fds = fds;
    waits.push_back(timeout);
    // A wait that does not advance would spin for ever.
    ASSERT_GT(timeout, 0ns);
    clock_.now += timeout + late;
    if (at_wake) at_wake(clock_.now);
  }

  std::vector<int> last_fds;
  std::vector<nanoseconds> waits;
  nanoseconds late{0};                         // every wait takes longer than asked by this
  std::function<void(MonotonicTime)> at_wake;  // called at each wake, for events meanwhile

 private:
  FakeClock& clock_;
};

// Calls that a source received; outlives it.
struct SourceLog {
  std::vector<std::vector<std::int32_t>> target_sets;
  std::vector<bool> active;
  std::vector<MonotonicTime> services;
  bool has_input = true;  // at each service
  int epochs = 0;
  std::optional<Error> target_error;  // SetTargets() fails with it …
  std::size_t good_target_sets = 1;   // … after so many
};

class FakeSource final : public Source {
 public:
  FakeSource(const FakeClock& clock, SourceRole role, SourceLog& log,
             std::optional<double> stall_share = std::nullopt, std::vector<int> fds = {})
      : clock_(clock), role_(role), log_(log), stall_share_(stall_share), fds_(std::move(fds)) {}

  std::string_view name() const override { return "fake"; }
  SourceRole role() const override { return role_; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override {
    if (log_.target_error && log_.target_sets.size() >= log_.good_target_sets)
      return Fail(*log_.target_error);
    std::vector<std::int32_t> pids;
    for (const TrackedProcess& target : targets) pids.push_back(target.pid.value());
    log_.target_sets.push_back(pids);
    return {};
  }
  void SetActive(bool active) override { log_.active.push_back(active); }
  std::vector<int> PollFds() const override { return fds_; }
  bool Service() override {
    log_.services.push_back(clock_.now);
    return log_.has_input;
  }
  // One sample of page n in its n-th epoch.
  SourceEpoch TakeEpoch() override {
    const auto n = static_cast<std::uint64_t>(log_.epochs++);
    return {.status = {.name = "fake", .role = role_, .state = SourceState::kActive},
            .samples = {{.key = {TargetId(0), Vpn(n)}, .loads = 1}}};
  }
  std::optional<double> MemoryStallShare() const override { return stall_share_; }

 private:
  const FakeClock& clock_;
  SourceRole role_;
  SourceLog& log_;
  std::optional<double> stall_share_;
  std::vector<int> fds_;
};

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    tree_.Put({.pid = 10});
    EXPECT_TRUE(targets_.AddNamed(Pid(10)).has_value());
  }

  Recorder::Environment World() {
    return {.clock = clock_,
            .waiter = waiter_,
            .targets = targets_,
            .own_cpu_time = [this] { return own_cpu_time_; },
            .stop_requested = [this] { return stop_; },
            .stop_fds = {},
            .gate = {},
            .on_source_failure = [this](const Error& error) { failures_.push_back(error); }};
  }
  std::vector<std::unique_ptr<Source>> OneSource() {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kSamples, log_));
    return sources;
  }
  Result<Recorder::StopReason> Run(const Recorder::Options& options) {
    return RunIn(World(), options, OneSource());
  }
  Result<Recorder::StopReason> RunIn(Recorder::Environment world, const Recorder::Options& options,
                                     std::vector<std::unique_ptr<Source>> sources) {
    Recorder recorder(options, std::move(world), std::move(sources), unavailable_);
    return recorder.Run([this](const EpochProfile& epoch) -> Status {
      epochs_.push_back(epoch);
      if (sink_error_ && epochs_.size() == 2) return Fail(*sink_error_);
      return {};
    });
  }
  std::vector<nanoseconds> Lengths() const {
    std::vector<nanoseconds> lengths;
    for (const EpochProfile& epoch : epochs_) lengths.push_back(epoch.length());
    return lengths;
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  nanoseconds target_cpu_time_{5h};
  TargetTracker targets_{procfs_, [this](Pid) { return std::optional(target_cpu_time_); }, {}};
  FakeClock clock_{kStart};
  FakeWaiter waiter_{clock_};
  nanoseconds own_cpu_time_{0};
  bool stop_ = false;
  SourceLog log_;
  std::vector<SourceStatus> unavailable_;
  std::optional<Error> sink_error_;
  std::vector<Error> failures_;
  std::vector<EpochProfile> epochs_;
};

TEST_F(RecorderTest, EndsAtItsDurationWithAnEpochForEachSecond) {
  EXPECT_EQ(Run({.duration = 3s}).value(), Recorder::StopReason::kDuration);
  EXPECT_THAT(Lengths(), ElementsAre(1s, 1s, 1s));
  EXPECT_EQ(clock_.now, kStart + 3s);
}

TEST_F(RecorderTest, JoinsEpochsWithoutAGapAndNumbersThem) {
  ASSERT_TRUE(Run({.epoch = 100ms, .duration = 1s}).has_value());
  ASSERT_EQ(epochs_.size(), 10u);
  MonotonicTime last_end = kStart;
  for (std::size_t i = 0; i < epochs_.size(); ++i) {
    EXPECT_EQ(epochs_[i].index, i);
    EXPECT_EQ(epochs_[i].start, last_end);
    last_end = epochs_[i].end;
  }
}

TEST_F(RecorderTest, AsksForTheLengthOfEachEpochAsItBegins) {
  Recorder::Environment world = World();
  world.epoch_length = [this] { return 1s * (epochs_.size() + 1); };
  ASSERT_TRUE(RunIn(std::move(world), {.duration = 6s}, OneSource()).has_value());
  EXPECT_THAT(Lengths(), ElementsAre(1s, 2s, 3s));
}

TEST_F(RecorderTest, DeliversALastShorterEpoch) {
  EXPECT_EQ(Run({.duration = 2300ms}).value(), Recorder::StopReason::kDuration);
  EXPECT_THAT(Lengths(), ElementsAre(1s, 1s, 300ms));
}

TEST_F(RecorderTest, KeepsOneEpochWhereTheDurationIsShorter) {
  ASSERT_TRUE(Run({.epoch = 10s, .duration = 30ms}).has_value());
  EXPECT_THAT(Lengths(), ElementsAre(30ms));
}

TEST_F(RecorderTest, SaysHowLongAnEpochReallyWasWhenItWakesLate) {
  waiter_.late = 7ms;
  ASSERT_TRUE(Run({.epoch = 100ms, .duration = 1s}).has_value());
  MonotonicTime last_end = kStart;
  for (const EpochProfile& epoch : epochs_) {
    EXPECT_EQ(epoch.start, last_end);
    last_end = epoch.end;
    const bool is_last = &epoch == &epochs_.back();
    EXPECT_TRUE(is_last || epoch.length() >= 100ms);
  }
  EXPECT_EQ(last_end, clock_.now);
}

TEST_F(RecorderTest, GivesEachEpochWhatItsSourcesTookInIt) {
  ASSERT_TRUE(Run({.duration = 2500ms}).has_value());
  ASSERT_EQ(epochs_.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(epochs_[i].pages.size(), 1u);
    EXPECT_EQ(epochs_[i].pages.vpn[0], Vpn(i));
  }
}

TEST_F(RecorderTest, HasOthersServedLikeSourcesAndEachEpochCompleted) {
  Recorder::Environment world = World();
  std::vector<MonotonicTime> services;
  world.service = [&] { services.push_back(clock_.now); };
  world.complete_epoch = [&](EpochProfile& epoch) {
    ASSERT_EQ(epoch.pages.size(), 1U) << "after the sources";
    epoch.extension =
        ExtensionSlot(std::make_unique<UndecodedExtension>(std::to_string(epoch.index), 0));
  };
  ASSERT_TRUE(RunIn(std::move(world), {.duration = 2500ms}, OneSource()).has_value());
  EXPECT_EQ(services, log_.services);
  ASSERT_EQ(epochs_.size(), 3U);
  for (const EpochProfile& epoch : epochs_)
    EXPECT_EQ(epoch.extension->Encode(epoch), std::to_string(epoch.index));
}

// Processes of a family, whose first pages it sees at one frame each.
class ForkedSource final : public Source {
 public:
  explicit ForkedSource(std::uint64_t pages = 1) : pages_(pages) {}
  std::string_view name() const override { return "forked"; }
  SourceRole role() const override { return SourceRole::kReferences; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override {
    targets_ = targets;
    return {};
  }
  void SetActive(bool /*active*/) override {}
  SourceEpoch TakeEpoch() override {
    SourceEpoch epoch{.status = {.name = "forked", .state = SourceState::kActive}};
    for (const TrackedProcess& target : targets_) {
      for (std::uint64_t page = 1; page <= pages_; ++page) {
        epoch.references.push_back({.key = {target.id, Vpn(page)},
                                    .looks = 1,
                                    .frame = SeenFrame{.number = 8 + page, .is_shareable = true}});
      }
    }
    return epoch;
  }

 private:
  std::uint64_t pages_;
  std::vector<TrackedProcess> targets_;
};

TEST_F(RecorderTest, TellsWhichPagesAProcessSharesWithItsChild) {
  tree_.Put({.pid = 11, .parent = 10});
  ASSERT_TRUE(targets_.AddNamed(Pid(11)).has_value());
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<ForkedSource>());
  ASSERT_TRUE(RunIn(World(), {.duration = 2s}, std::move(sources)).has_value());
  ASSERT_EQ(epochs_.size(), 2U);
  EXPECT_EQ(epochs_[1].pages.same_as, (std::vector<std::uint32_t>{0, 0}));
}

TEST_F(RecorderTest, SaysHowManyRecordsOfRelativesItDidNotCompare) {
  tree_.Put({.pid = 11, .parent = 10});
  ASSERT_TRUE(targets_.AddNamed(Pid(11)).has_value());
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<ForkedSource>(FrameComparison::kMostRecords / 2 + 3));
  ASSERT_TRUE(RunIn(World(), {.duration = 1s}, std::move(sources)).has_value());
  ASSERT_EQ(epochs_.size(), 1U);
  EXPECT_EQ(std::ranges::count(*epochs_[0].pages.same_as, kNotCompared), 6);
  EXPECT_THAT(epochs_[0].sources[0].details,
              testing::Contains(NamedCount{.name = "records_not_compared", .count = 6}));
}

TEST_F(RecorderTest, SaysThatRelativesHideTheirFrames) {
  tree_.Put({.pid = 11, .parent = 10});
  tree_.Put({.pid = 12, .parent = 10});
  for (const int pid : {11, 12}) ASSERT_TRUE(targets_.AddNamed(Pid(pid)).has_value());
  // A source that never looks at the last target.
  class Partial final : public Source {
   public:
    std::string_view name() const override { return "partial"; }
    SourceRole role() const override { return SourceRole::kReferences; }
    Status SetTargets(const std::vector<TrackedProcess>& targets) override {
      std::vector<TrackedProcess> some = targets;
      some.pop_back();
      return forked_.SetTargets(some);
    }
    void SetActive(bool /*active*/) override {}
    SourceEpoch TakeEpoch() override { return forked_.TakeEpoch(); }

   private:
    ForkedSource forked_;
  };
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<Partial>());
  Recorder::Environment world = World();
  int opened = 0;
  world.open_frames = [&opened](const Target&) -> FrameComparison::ReadFrames {
    ++opened;
    return
        [](VpnRange pages) { return std::vector<std::optional<SeenFrame>>(pages.size().value()); };
  };
  ASSERT_TRUE(RunIn(std::move(world), {.duration = 2s}, std::move(sources)).has_value());
  ASSERT_EQ(epochs_.size(), 2U);
  EXPECT_EQ(opened, 1);
  for (const EpochProfile& epoch : epochs_)
    EXPECT_THAT(epoch.sources[0].note, testing::HasSubstr("CAP_SYS_ADMIN"));
}

TEST_F(RecorderTest, EndsWhenAskedWithWhatTheOpenEpochHolds) {
  waiter_.at_wake = [&](MonotonicTime now) { stop_ = now >= kStart + 1200ms; };
  EXPECT_EQ(Run({}).value(), Recorder::StopReason::kRequested);
  EXPECT_THAT(Lengths(), ElementsAre(1s, 200ms));
}

TEST_F(RecorderTest, DeliversNothingWhenStoppedAtTheVeryStart) {
  stop_ = true;
  EXPECT_EQ(Run({}).value(), Recorder::StopReason::kRequested);
  EXPECT_THAT(epochs_, IsEmpty());
  EXPECT_THAT(waiter_.waits, IsEmpty());
}

TEST_F(RecorderTest, DeliversNoEpochOfZeroLength) {
  EXPECT_EQ(Run({.duration = 0ns}).value(), Recorder::StopReason::kDuration);
  EXPECT_THAT(epochs_, IsEmpty());
}

TEST_F(RecorderTest, AddsNoEmptyEpochWhenStoppedOnABoundary) {
  waiter_.at_wake = [&](MonotonicTime now) { stop_ = now >= kStart + 1s; };
  EXPECT_EQ(Run({}).value(), Recorder::StopReason::kRequested);
  EXPECT_THAT(Lengths(), ElementsAre(1s));
}

TEST_F(RecorderTest, EndsWhenItsTargetsAreGone) {
  waiter_.at_wake = [&](MonotonicTime now) {
    if (now >= kStart + 1100ms) tree_.Remove(10);
  };
  EXPECT_EQ(Run({.duration = 60s}).value(), Recorder::StopReason::kTargetsGone);
  ASSERT_EQ(epochs_.size(), 2u);
  // Found by the refresh that follows, every 250 ms.
  EXPECT_EQ(epochs_[1].end, kStart + 1250ms);
  ASSERT_EQ(epochs_[1].targets.size(), 1u);
  EXPECT_TRUE(epochs_[1].targets[0].exited);
  EXPECT_EQ(epochs_[1].pages.size(), 1u);  // its last evidence is kept
}

TEST_F(RecorderTest, GoesOnWithoutTargetsWhereItIsToWaitForThem) {
  waiter_.at_wake = [&](MonotonicTime now) {
    if (now >= kStart + 100ms) tree_.Remove(10);
  };
  EXPECT_EQ(Run({.duration = 4s, .wait_for_targets = true}).value(),
            Recorder::StopReason::kDuration);
  EXPECT_THAT(Lengths(), ElementsAre(1s, 1s, 1s, 1s));
  EXPECT_THAT(epochs_[3].targets, IsEmpty());
  EXPECT_THAT(log_.target_sets.back(), IsEmpty());
}

TEST_F(RecorderTest, StopsWhileItWaitsForTargets) {
  tree_.Remove(10);
  waiter_.at_wake = [&](MonotonicTime now) { stop_ = now >= kStart + 1200ms; };
  EXPECT_EQ(Run({.wait_for_targets = true}).value(), Recorder::StopReason::kRequested);
  EXPECT_THAT(Lengths(), ElementsAre(1s, 200ms));
}

TEST_F(RecorderTest, HasTargetsLookedForOnceASecondFromTheStart) {
  Recorder::Environment world = World();
  std::vector<nanoseconds> asked;
  world.find_targets = [&](MonotonicTime now) { asked.push_back(now - kStart); };
  ASSERT_TRUE(RunIn(world, {.duration = 2500ms}, OneSource()).has_value());
  EXPECT_THAT(asked, ElementsAre(0s, 1s, 2s));
}

TEST_F(RecorderTest, LooksForTargetsWithTheRefreshThatComesNext) {
  Recorder::Environment world = World();
  std::vector<nanoseconds> asked;
  world.find_targets = [&](MonotonicTime now) { asked.push_back(now - kStart); };
  const Recorder::Options options{.duration = 2s, .refresh = 400ms, .find_period = 500ms};
  ASSERT_TRUE(RunIn(world, options, OneSource()).has_value());
  EXPECT_THAT(asked, ElementsAre(0ms, 800ms, 1600ms));
}

TEST_F(RecorderTest, GivesSourcesATargetAsSoonAsItIsFound) {
  tree_.Remove(10);
  Recorder::Environment world = World();
  world.find_targets = [&](MonotonicTime now) {
    if (now < kStart + 1s) return;
    tree_.Put({.pid = 20});
    const std::vector<ProcessInstance> found{{.pid = Pid(20), .start_time_ticks = 100}};
    EXPECT_THAT(targets_.Follow(found), IsEmpty());
  };
  const Recorder::Options options{.duration = 2s, .wait_for_targets = true};
  ASSERT_TRUE(RunIn(world, options, OneSource()).has_value());
  using Set = std::vector<std::int32_t>;
  EXPECT_THAT(log_.target_sets,
              ElementsAre(Set{}, Set{}, Set{}, Set{}, Set{20}, Set{20}, Set{20}, Set{20}, Set{20}));
  ASSERT_EQ(epochs_.size(), 2u);
  EXPECT_EQ(epochs_[1].targets.back().pid, Pid(20));
}

TEST_F(RecorderTest, EndsAtOnceWhereEveryTargetDiedBeforeTheStart) {
  tree_.Remove(10);
  EXPECT_EQ(Run({}).value(), Recorder::StopReason::kTargetsGone);
  EXPECT_THAT(epochs_, IsEmpty());
}

TEST_F(RecorderTest, GivesSourcesTheTargetsAtTheStartAndAtEachRefresh) {
  waiter_.at_wake = [&](MonotonicTime now) {
    if (now < kStart + 300ms) return;
    tree_.Put({.pid = 11, .parent = 10});
    tree_.SetChildren(10, 10, {11});
  };
  ASSERT_TRUE(Run({.duration = 1s}).has_value());
  using Set = std::vector<std::int32_t>;
  EXPECT_THAT(log_.target_sets,
              ElementsAre(Set{10}, Set{10}, Set{10, 11}, Set{10, 11}, Set{10, 11}));
}

TEST_F(RecorderTest, ServicesSourcesAtLeastEvery50Milliseconds) {
  ASSERT_TRUE(Run({.epoch = 2s, .duration = 10s, .refresh = 3s}).has_value());
  ASSERT_FALSE(log_.services.empty());
  MonotonicTime last = kStart;
  for (const MonotonicTime service : log_.services) {
    EXPECT_LE(service - last, 50ms);
    last = service;
  }
  EXPECT_EQ(last, clock_.now);
}

TEST_F(RecorderTest, WaitsOnTheFilesOfSourcesAndOfTheStopRequest) {
  std::vector<std::unique_ptr<Source>> sources;
  SourceLog other;
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kSamples, log_, std::nullopt,
                                                 std::vector{21, 22}));
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kReferences, other,
                                                 std::nullopt, std::vector{23}));
  Recorder::Environment world = World();
  world.stop_fds = {7};
  ASSERT_TRUE(RunIn(world, {.duration = 10ms}, std::move(sources)).has_value());
  EXPECT_THAT(waiter_.last_fds, ElementsAre(7, 21, 22, 23));
}

TEST_F(RecorderTest, SwitchesEachRoleByTheGatesVerdict) {
  std::vector<std::unique_ptr<Source>> sources;
  SourceLog scanner;
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kReferences, scanner));
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kSamples, log_, 0.25));
  Recorder::Environment world = World();
  std::vector<std::optional<double>> shares;
  world.gate = [&](GateLook look, std::optional<double> share) -> GateVerdict {
    if (look == GateLook::kPeriod) shares.push_back(share);
    return {.references_active = shares.size() == 1, .samples_active = shares.size() != 1};
  };
  ASSERT_TRUE(RunIn(world, {.duration = 200ms}, std::move(sources)).has_value());
  // Sources are on when they begin.
  EXPECT_THAT(scanner.active, ElementsAre(false));
  EXPECT_THAT(log_.active, ElementsAre(false, true));
  EXPECT_THAT(shares, ElementsAre(0.25, 0.25));  // shares of the source that can measure them
}

TEST_F(RecorderTest, AsksTheGateOncePerPeriod) {
  Recorder::Environment world = World();
  std::vector<MonotonicTime> asked;
  world.gate = [&](GateLook look, std::optional<double> share) -> GateVerdict {
    EXPECT_EQ(look, GateLook::kPeriod);
    EXPECT_EQ(share, std::nullopt);
    asked.push_back(clock_.now);
    return {};
  };
  ASSERT_TRUE(RunIn(world, {.duration = 100ms, .gate_period = 30ms}, OneSource()).has_value());
  EXPECT_THAT(asked, ElementsAre(kStart + 30ms, kStart + 60ms, kStart + 90ms));
}

TEST_F(RecorderTest, AsksTheGateMoreOftenWhileARoleIsOff) {
  Recorder::Environment world = World();
  std::vector<std::pair<nanoseconds, GateLook>> asked;
  world.gate = [&](GateLook look, std::optional<double>) -> GateVerdict {
    asked.emplace_back(clock_.now - kStart, look);
    return {.samples_active = asked.size() != 1 && asked.size() != 2};
  };
  ASSERT_TRUE(RunIn(world, {.duration = 110ms, .gate_period = 40ms}, OneSource()).has_value());
  // A whole period follows on what came on.
  EXPECT_THAT(
      asked,
      ElementsAre(std::pair(40ms, GateLook::kPeriod), std::pair(50ms, GateLook::kWhatIsOff),
                  std::pair(60ms, GateLook::kWhatIsOff), std::pair(100ms, GateLook::kPeriod)));
  EXPECT_THAT(log_.active, ElementsAre(false, true));
}

TEST_F(RecorderTest, AsksTheGateOncePerPeriodWhereNothingComesOnEarlier) {
  Recorder::Environment world = World();
  std::vector<std::pair<nanoseconds, GateLook>> asked;
  world.gate = [&](GateLook look, std::optional<double>) -> GateVerdict {
    asked.emplace_back(clock_.now - kStart, look);
    return {.samples_active = asked.size() == 2, .may_come_on_early = false};
  };
  ASSERT_TRUE(RunIn(world, {.duration = 100ms, .gate_period = 40ms}, OneSource()).has_value());
  EXPECT_THAT(asked,
              ElementsAre(std::pair(40ms, GateLook::kPeriod), std::pair(80ms, GateLook::kPeriod)));
  EXPECT_THAT(log_.active, ElementsAre(false, true));
}

TEST_F(RecorderTest, DoesNotWakeForAGateWhoseVerdictHolds) {
  log_.has_input = false;
  Recorder::Environment world = World();
  std::vector<nanoseconds> asked;
  world.gate = [&](GateLook, std::optional<double>) -> GateVerdict {
    asked.push_back(clock_.now - kStart);
    return {.holds_until_samples = true};
  };
  ASSERT_TRUE(RunIn(world, {.duration = 1s, .gate_period = 10ms}, OneSource()).has_value());
  EXPECT_EQ(asked.front(), 10ms);
  EXPECT_EQ(asked.size(), waiter_.waits.size());
  EXPECT_LE(waiter_.waits.size(), 10u);
}

TEST_F(RecorderTest, WakesLessOftenForSourcesWithoutInput) {
  ASSERT_TRUE(Run({.duration = 10s}).has_value());
  EXPECT_EQ(waiter_.waits.size(), 200u);
  waiter_.waits.clear();
  log_.services.clear();
  log_.has_input = false;
  ASSERT_TRUE(Run({.duration = 10s}).has_value());
  // A refresh each 250 ms, and a service in between.
  EXPECT_LE(waiter_.waits.size(), 81u);
  for (const nanoseconds wait : waiter_.waits) EXPECT_LE(wait, 200ms);
}

TEST_F(RecorderTest, WakesAsOftenAsBeforeOnceASourceHasInput) {
  log_.has_input = false;
  waiter_.at_wake = [&](MonotonicTime now) { log_.has_input = now >= kStart + 5s; };
  ASSERT_TRUE(Run({.duration = 10s}).has_value());
  MonotonicTime last = kStart + 5s + 200ms;
  for (const MonotonicTime service : log_.services) {
    if (service <= last) continue;
    EXPECT_LE(service - last, 50ms);
    last = service;
  }
  EXPECT_EQ(last, clock_.now);
}

TEST_F(RecorderTest, LeavesSourcesAloneWithoutAGate) {
  ASSERT_TRUE(Run({.duration = 1s}).has_value());
  EXPECT_THAT(log_.active, IsEmpty());
}

TEST_F(RecorderTest, ReturnsTheErrorOfTheSinkAndStops) {
  sink_error_ = Refused("write epoch", "tmprof.data", ENOSPC);
  const auto result = Run({.duration = 10s});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().system_error, ENOSPC);
  EXPECT_EQ(epochs_.size(), 2u);
  EXPECT_EQ(clock_.now, kStart + 2s);
}

TEST_F(RecorderTest, ReturnsTheErrorOfTheOnlySourceAfterDeliveringTheOpenEpoch) {
  log_.target_error = Refused("follow", "target", EMFILE);
  const auto result = Run({.duration = 10s});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().system_error, EMFILE);
  EXPECT_EQ(clock_.now, kStart + 250ms);
  EXPECT_THAT(Lengths(), ElementsAre(250ms));
  ASSERT_EQ(epochs_[0].pages.size(), 1u);
  EXPECT_EQ(epochs_[0].pages.vpn[0], Vpn(0));
  ASSERT_EQ(epochs_[0].sources.size(), 1u);
  EXPECT_EQ(epochs_[0].sources[0].state, SourceState::kActive);
  EXPECT_THAT(epochs_[0].sources[0].note, testing::HasSubstr("EMFILE"));
  EXPECT_THAT(failures_, IsEmpty()) << "told once, by its return";
}

TEST_F(RecorderTest, DropsASourceThatFailsAndRecordsOnWithTheOthers) {
  SourceLog scanner;
  auto sources = OneSource();
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kReferences, scanner));
  log_.target_error = Refused("follow", "target", EMFILE);
  ASSERT_TRUE(RunIn(World(), {.duration = 3s}, std::move(sources)).has_value());
  ASSERT_EQ(epochs_.size(), 3u);
  EXPECT_EQ(log_.epochs, 1);  // never asked again
  EXPECT_EQ(scanner.epochs, 3);
  for (const EpochProfile& epoch : epochs_) {
    ASSERT_EQ(epoch.sources.size(), 2u);
    const bool open = &epoch == &epochs_.front();
    EXPECT_EQ(epoch.sources[0].role, SourceRole::kReferences);
    EXPECT_EQ(epoch.sources[0].note, "");
    EXPECT_EQ(epoch.sources[1].name, "fake");
    EXPECT_EQ(epoch.sources[1].role, SourceRole::kSamples);
    EXPECT_EQ(epoch.sources[1].state, open ? SourceState::kActive : SourceState::kUnavailable);
    EXPECT_EQ(epoch.sources[1].note, log_.target_error->Message());
  }
  // Page 0 from both sources in the open epoch, then one page of the scanner's each.
  ASSERT_EQ(epochs_[0].pages.size(), 1u);
  EXPECT_EQ(epochs_[0].pages.load_samples[0], 2u);
  EXPECT_EQ(epochs_[2].pages.load_samples[0], 1u);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].system_error, EMFILE);
}

TEST_F(RecorderTest, RecordsWithoutASourceThatCouldNotBeAttached) {
  SourceLog scanner;
  auto sources = OneSource();
  sources.push_back(std::make_unique<FakeSource>(clock_, SourceRole::kReferences, scanner));
  log_.target_error = Refused("follow", "target", EMFILE);
  log_.good_target_sets = 0;
  Recorder recorder({.duration = 1s}, World(), std::move(sources), {});
  ASSERT_TRUE(recorder.Attach().has_value());
  EXPECT_EQ(failures_.size(), 1u);
  ASSERT_TRUE(recorder
                  .Run([this](const EpochProfile& epoch) -> Status {
                    epochs_.push_back(epoch);
                    return {};
                  })
                  .has_value());
  ASSERT_EQ(epochs_.size(), 1u);
  ASSERT_EQ(epochs_[0].sources.size(), 2u);
  EXPECT_EQ(epochs_[0].sources[0].role, SourceRole::kReferences);
  EXPECT_EQ(epochs_[0].sources[1].state, SourceState::kUnavailable);
  EXPECT_THAT(epochs_[0].sources[1].note, testing::HasSubstr("EMFILE"));
}

TEST_F(RecorderTest, SaysWhyWhereNoSourceCouldBeAttached) {
  log_.target_error = Refused("follow", "target", EMFILE);
  log_.good_target_sets = 0;
  Recorder recorder({.duration = 1s}, World(), OneSource(), {});
  const Status attached = recorder.Attach();
  ASSERT_FALSE(attached.has_value());
  EXPECT_EQ(attached.error().system_error, EMFILE);
}

TEST_F(RecorderTest, ListsUnavailableSourcesInEveryEpoch) {
  unavailable_ = {{.name = "ibs", .state = SourceState::kUnavailable, .note = "ENOENT"},
                  {.name = "pebs", .state = SourceState::kUnavailable, .note = "ENOENT"}};
  ASSERT_TRUE(Run({.duration = 3s}).has_value());
  ASSERT_EQ(epochs_.size(), 3u);
  for (const EpochProfile& epoch : epochs_) {
    ASSERT_EQ(epoch.sources.size(), 3u);
    EXPECT_EQ(epoch.sources[0].name, "fake");
    EXPECT_EQ(epoch.sources[1], unavailable_[0]);
    EXPECT_EQ(epoch.sources[2], unavailable_[1]);
  }
}

TEST_F(RecorderTest, RunsWithoutAnySource) {
  EXPECT_TRUE(RunIn(World(), {.duration = 2s}, {}).has_value());
  EXPECT_THAT(Lengths(), ElementsAre(1s, 1s));
}

TEST_F(RecorderTest, ChargesEachEpochWithItsOwnCpuTime) {
  own_cpu_time_ = 8s;  // start-up is nobody's epoch
  waiter_.at_wake = [&](MonotonicTime) { own_cpu_time_ += 1ms; };
  ASSERT_TRUE(Run({.duration = 2s}).has_value());
  ASSERT_EQ(epochs_.size(), 2u);
  // Twenty waits of 50 ms each.
  EXPECT_EQ(epochs_[0].profiler_cpu_time, 20ms);
  EXPECT_EQ(epochs_[1].profiler_cpu_time, 20ms);
}

TEST_F(RecorderTest, LeavesWhatTargetsUsedBeforeTheStartOutOfTheFirstEpoch) {
  // One process named long before, one child born long before.
  tree_.Put({.pid = 11, .parent = 10});
  tree_.SetChildren(10, 10, {11});
  target_cpu_time_ += 2s;  // calibration took its time
  waiter_.at_wake = [&](MonotonicTime) { target_cpu_time_ += 10ms; };
  ASSERT_TRUE(Run({.duration = 1s}).has_value());
  ASSERT_EQ(epochs_.size(), 1u);
  ASSERT_EQ(epochs_[0].targets.size(), 2u);
  EXPECT_EQ(epochs_[0].targets[0].cpu_time, 200ms);
  EXPECT_EQ(epochs_[0].targets[1].cpu_time, 200ms);
}

TEST_F(RecorderTest, RefusesPeriodsThatWouldSpin) {
  EXPECT_DEATH(Recorder({.epoch = 0ns}, World(), {}, {}), "broken invariant");
  EXPECT_DEATH(Recorder({.refresh = 0ns}, World(), {}, {}), "broken invariant");
  EXPECT_DEATH(Recorder({.gate_period = 0ns}, World(), {}, {}), "broken invariant");
}

TEST(PollWaiter, WakesAtOnceForAFileThatIsReadable) {
  const UniqueFd event(eventfd(1, EFD_CLOEXEC));
  const UniqueFd silent(eventfd(0, EFD_CLOEXEC));
  PollWaiter().Wait({silent.get(), event.get()}, 24h);  // or the test does not end
}

TEST(PollWaiter, ReturnsAtOnceWhenTheTimeHasPassed) { PollWaiter().Wait({}, -24h); }

TEST(OwnCpuTime, NeverGoesBack) {
  const nanoseconds before = OwnCpuTime();
  EXPECT_GT(before, 0ns);
  EXPECT_GE(OwnCpuTime(), before);
}

}  // namespace recorder_test
}  // namespace tmprof
