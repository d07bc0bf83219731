// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/driver/driver_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <tuple>

#include "tests/profiler/driver/fake_device.h"

namespace tmprof::driver {
namespace driver_sampler_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kPeriod = 262'144;

TrackedProcess Process(std::uint32_t id, std::int32_t pid) {
  return {.id = TargetId(id), .pid = Pid(pid), .start_time_ticks = 7, .mappings = {}};
}

HardwareSetup PebsWith(std::size_t events) {
  HardwareSetup setup{.kind = kPebsSource, .events = {}};
  for (std::size_t i = 0; i < events; ++i) {
    TaskEvents::Event event{.event = {.name = "event"}};
    event.event.attr.type = 4;
    event.event.attr.config = 0x1cd + i;
    event.event.attr.config1 = 3;
    event.event.attr.precise_ip = 2;
    event.event.attr.exclude_kernel = 1;
    event.event.attr.sample_period = kPeriod;
    setup.events.push_back(event);
  }
  return setup;
}

class DriverSamplerTest : public testing::Test {
 protected:
  Result<std::unique_ptr<DriverSampler>> TryOpen(HardwareSetup setup,
                                                 std::optional<DriverSampler::Gate> gate) {
    drivers_.resize(setup.events.size());
    std::size_t opened = 0;
    return DriverSampler::Open(
        [this, &opened]() -> Result<std::unique_ptr<Device>> {
          return std::make_unique<FakeDevice>(drivers_.at(opened++));
        },
        std::move(setup), std::move(gate));
  }
  Result<std::unique_ptr<DriverSampler>> TryOpen(std::size_t events = 1,
                                                 std::optional<DriverSampler::Gate> gate = {}) {
    return TryOpen(PebsWith(events), std::move(gate));
  }
  void Open(std::size_t events = 1, std::optional<DriverSampler::Gate> gate = {}) {
    sampler_ = TryOpen(events, std::move(gate)).value();
  }
  FakeDriver& driver() { return drivers_.front(); }
  std::uint32_t NumberOf(int pid) {
    for (const auto& [id, process] : driver().targets)
      if (process.first == pid) return id;
    return 0;
  }
  // Target, page, loads and stores, in order.
  static std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t>> Rows(
      const SourceEpoch& epoch) {
    std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t>> rows;
    for (const SampleRecord& sample : epoch.samples)
      rows.emplace_back(sample.key.target.value(), sample.key.vpn.value(), sample.loads,
                        sample.stores);
    std::ranges::sort(rows);
    return rows;
  }
  static std::uint64_t Detail(const SourceEpoch& epoch, const std::string& name) {
    for (const NamedCount& detail : epoch.status.details)
      if (detail.name == name) return detail.count;
    ADD_FAILURE() << "no detail " << name;
    return 0;
  }

  std::deque<FakeDriver> drivers_{1};
  std::unique_ptr<DriverSampler> sampler_;
};

tmprof_page_record Record(std::uint32_t target, std::uint64_t vpn, std::uint32_t loads,
                          std::uint32_t stores, std::uint32_t span = 1,
                          std::uint16_t node = TMPROF_NO_NODE) {
  return {.vpn = vpn,
          .target_id = target,
          .load_samples = loads,
          .store_samples = stores,
          .span_pages = span,
          .node = node};
}

TEST_F(DriverSamplerTest, TheEventIsAskedForAsPerfWouldBeAndStarted) {
  Open();
  const tmprof_event& event = driver().params.sample_event;
  EXPECT_EQ(event.type, 4U);
  EXPECT_EQ(event.config, 0x1cdU);
  EXPECT_EQ(event.config1, 3U);
  EXPECT_EQ(event.flags, TMPROF_EVENT_PRESENT | TMPROF_EVENT_EXCLUDE_KERNEL |
                             TMPROF_EVENT_DATA_SRC | 2U << TMPROF_EVENT_PRECISE_SHIFT);
  EXPECT_EQ(driver().params.sample_period, kPeriod);
  EXPECT_EQ(driver().params.gate[TMPROF_SAMPLER].mode, std::uint32_t{TMPROF_GATE_ALWAYS_ON});
  EXPECT_THAT(driver().commands, ElementsAre(TMPROF_START));
}

TEST_F(DriverSamplerTest, AnEventOfMissesAloneIsAskedForAsSuchAndSaysWhatASampleStandsFor) {
  HardwareSetup setup = PebsWith(1);
  setup.only_misses = true;
  setup.accesses_per_sample = 4093;
  sampler_ = TryOpen(std::move(setup), std::nullopt).value();
  EXPECT_EQ(driver().params.sample_event.flags & (TMPROF_EVENT_DATA_SRC | TMPROF_EVENT_ONLY_MISSES),
            TMPROF_EVENT_DATA_SRC | TMPROF_EVENT_ONLY_MISSES);
  const SourceStatus status = sampler_->TakeEpoch().status;
  EXPECT_EQ(status.samples_of, SampleSubject::kMemory);
  EXPECT_EQ(status.accesses_per_sample, 4093U);
}

TEST_F(DriverSamplerTest, EveryRecordBecomesSamplesOfItsTarget) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11), Process(2, 22)}));
  driver().counted = {Record(NumberOf(11), 100, 3, 1), Record(NumberOf(22), 100, 0, 2),
                      Record(NumberOf(22), 1024, 5, 0, 512, 1)};
  const SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(Rows(epoch), (decltype(Rows(epoch)){{1, 100, 3, 1}, {2, 100, 0, 2}, {2, 1024, 5, 0}}));
  EXPECT_EQ(epoch.status.observations, 11U);
  EXPECT_EQ(epoch.status.lost, 0U);
  EXPECT_EQ(epoch.status.name, "pebs");
  // The huge page that held samples, with its node.
  const auto huge = std::ranges::find(epoch.huge_spans, Vpn(1024),
                                      [](const ReferenceRecord& span) { return span.key.vpn; });
  ASSERT_NE(huge, epoch.huge_spans.end());
  EXPECT_EQ(huge->span, PageCount(512));
  EXPECT_EQ(huge->node, NodeId(1));
  for (const ReferenceRecord& span : epoch.huge_spans) {
    EXPECT_EQ(span.looks, 0U);
    EXPECT_EQ(span.node.has_value(), span.key.vpn == Vpn(1024));
  }
  EXPECT_TRUE(sampler_->TakeEpoch().samples.empty()) << "delivered twice";
}

TEST_F(DriverSamplerTest, MoreRecordsThanOneReadTakesAreAllDelivered) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  for (std::uint64_t page = 0; page < 5000; ++page)
    driver().counted.push_back(Record(NumberOf(11), page, 1, 0));
  EXPECT_EQ(sampler_->TakeEpoch().samples.size(), 5000U);
}

TEST_F(DriverSamplerTest, TheEvidenceOfATargetThatLeavesIsStillDelivered) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11), Process(2, 22)}));
  const std::uint32_t leaves = NumberOf(11);
  driver().counted = {Record(leaves, 100, 3, 0)};
  ASSERT_TRUE(sampler_->SetTargets({Process(2, 22)}));
  EXPECT_THAT(driver().removed, IsEmpty()) << "the driver forgets what it has counted with it";
  const SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(Rows(epoch), (decltype(Rows(epoch)){{1, 100, 3, 0}}));
  EXPECT_THAT(driver().removed, ElementsAre(leaves));
}

TEST_F(DriverSamplerTest, ATargetThatComesBackWithinTheEpochStaysWatched) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  ASSERT_TRUE(sampler_->SetTargets({}));
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  (void)sampler_->TakeEpoch();
  EXPECT_THAT(driver().removed, IsEmpty());
  driver().counted = {Record(NumberOf(11), 7, 1, 0)};
  EXPECT_EQ(sampler_->TakeEpoch().samples.size(), 1U);
}

TEST_F(DriverSamplerTest, LossesAndDiscardsAreThoseOfTheEpoch) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  driver().stats.samples_near = 10;
  driver().stats.samples_foreign = 4;
  driver().stats.pages_refused = 2;
  driver().epoch.samples_lost = 5;
  SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.status.lost, 7U);
  EXPECT_EQ(Detail(epoch, "served_by_cache"), 10U);
  driver().stats.samples_near = 13;
  driver().epoch.samples_lost = 0;
  driver().counted = {Record(99, 7, 2, 1)};  // nobody's
  epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.status.lost, 3U);
  EXPECT_TRUE(epoch.samples.empty());
  EXPECT_EQ(Detail(epoch, "served_by_cache"), 3U);
  EXPECT_EQ(Detail(epoch, "other_processes"), 0U);
}

TEST_F(DriverSamplerTest, ThrottlingIsTold) {
  Open();
  SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_THAT(epoch.status.note, Not(HasSubstr("held samples back")));
  driver().stats.samples_throttled = 3;
  epoch = sampler_->TakeEpoch();
  EXPECT_EQ(Detail(epoch, "throttled"), 3U);
  EXPECT_THAT(epoch.status.note, HasSubstr("held samples back 3 times"));
}

TEST_F(DriverSamplerTest, TheGateIsTheDriversAndItsDutyCycleIsReported) {
  NamedEvent misses{.name = "LLC misses"};
  misses.attr.type = PERF_TYPE_HW_CACHE;
  misses.attr.config = 0x10002;
  Open(1, DriverSampler::Gate{.event = misses});
  const tmprof_gate& gate = driver().params.gate[TMPROF_SAMPLER];
  EXPECT_EQ(gate.mode, std::uint32_t{TMPROF_GATE_COUNTED});
  EXPECT_EQ(gate.threshold_permille, 200U);
  EXPECT_EQ(gate.event.type, std::uint32_t{PERF_TYPE_HW_CACHE});
  EXPECT_EQ(gate.event.config, 0x10002U);
  EXPECT_EQ(driver().params.gate_period_ns, 100'000'000U);
  EXPECT_EQ(driver().params.gate[TMPROF_ABIT].mode, std::uint32_t{TMPROF_GATE_ALWAYS_ON});

  driver().epoch.start_ns = 1'000;
  driver().epoch.end_ns = 5'000;
  driver().epoch.active_ns[TMPROF_SAMPLER] = 1'000;
  SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.status.state, SourceState::kActive);
  EXPECT_EQ(epoch.status.duty_cycle, 0.25);
  EXPECT_EQ(epoch.status.note, "gate: LLC misses could not be read: on");
  driver().stats.gate_count[TMPROF_SAMPLER] = 310;
  driver().stats.gate_max[TMPROF_SAMPLER] = 9'000;
  driver().epoch.active_ns[TMPROF_SAMPLER] = 0;
  epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.status.state, SourceState::kGated);
  EXPECT_EQ(epoch.status.duty_cycle, 0.0);
  EXPECT_EQ(epoch.status.note,
            "gate: 310 LLC misses in the last period, on above 20 % of at most 9000");
}

TEST_F(DriverSamplerTest, PausesForAGateOfTheRecorders) {
  Open();
  sampler_->SetActive(false);
  sampler_->SetActive(true);
  EXPECT_THAT(driver().commands, ElementsAre(TMPROF_START, TMPROF_PAUSE, TMPROF_RESUME));
}

TEST_F(DriverSamplerTest, TwoEventsTakeASessionEachAndAddUp) {
  Open(2);
  EXPECT_EQ(drivers_[1].params.sample_event.config, 0x1ceU);
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  drivers_[0].counted = {Record(1, 100, 3, 0)};
  drivers_[1].counted = {Record(1, 100, 0, 4)};
  for (FakeDriver& driver : drivers_) {
    driver.epoch.end_ns = 4'000;
    driver.epoch.active_ns[TMPROF_SAMPLER] = 3'000;
    driver.epoch.samples_lost = 2;
  }
  const SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(Rows(epoch), (decltype(Rows(epoch)){{1, 100, 0, 4}, {1, 100, 3, 0}}));
  EXPECT_EQ(epoch.status.observations, 7U);
  EXPECT_EQ(epoch.status.lost, 4U);
  EXPECT_EQ(epoch.status.duty_cycle, 0.75);
}

TEST_F(DriverSamplerTest, ATargetThatIsRefusedIsNotedAndTheOthersAreSampled) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  driver().add_error = ENOSPC;
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11), Process(2, 22)}));
  driver().counted = {Record(NumberOf(11), 7, 1, 0)};
  SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.samples.size(), 1U);
  EXPECT_THAT(epoch.status.note, AllOf(HasSubstr("1 target is not sampled"), HasSubstr("PID 22")));
  driver().add_error = ESRCH;  // exited: nothing to complain of
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11), Process(3, 33)}));
  (void)sampler_->TakeEpoch();
  EXPECT_EQ(sampler_->TakeEpoch().status.note, "");
}

TEST_F(DriverSamplerTest, ADriverThatGoesAwayIsUnavailableAndNotZero) {
  Open();
  ASSERT_TRUE(sampler_->SetTargets({Process(1, 11)}));
  driver().counted = {Record(NumberOf(11), 7, 1, 0)};
  driver().epoch_error = ENODEV;
  const SourceEpoch epoch = sampler_->TakeEpoch();
  EXPECT_EQ(epoch.status.state, SourceState::kUnavailable);
  EXPECT_EQ(epoch.status.observations, std::nullopt);
  EXPECT_EQ(epoch.status.lost, std::nullopt);
  EXPECT_EQ(epoch.status.duty_cycle, std::nullopt);
  EXPECT_TRUE(epoch.samples.empty());
  EXPECT_THAT(epoch.status.note, HasSubstr("ENODEV"));
  const Status status = sampler_->SetTargets({Process(1, 11)});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().system_error, ENODEV);
}

TEST_F(DriverSamplerTest, RefusalsNameTheEventAndTheReason) {
  driver().control_error = ENOENT;
  auto refused = TryOpen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().system_error, ENOENT);
  EXPECT_EQ(refused.error().object, "event");
  EXPECT_FALSE(drivers_.front().open);

  driver() = FakeDriver();
  driver().info.features &= ~std::uint64_t{TMPROF_FEATURE_SAMPLER};
  refused = TryOpen();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(), HasSubstr("cannot sample"));

  driver() = FakeDriver();
  driver().params_error = EDQUOT;
  EXPECT_EQ(TryOpen().error().system_error, EDQUOT);
}

TEST_F(DriverSamplerTest, DoctorTriesTheEventAndLeavesNothingRunning) {
  const Places places{.open_device = [this]() -> Result<std::unique_ptr<Device>> {
    return std::make_unique<FakeDevice>(driver());
  }};
  Probe probe = ProbeDriverSampler(places, PebsWith(1));
  EXPECT_TRUE(probe.usable);
  EXPECT_EQ(probe.job, ProbeJob::kAddressSamples);
  EXPECT_FALSE(driver().open);
  driver().control_error = EBUSY;
  probe = ProbeDriverSampler(places, PebsWith(1));
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.system_error, EBUSY);
  probe = ProbeDriverSampler(places, Fail(Refused("find", "a PMU", ENOENT, "buy one")));
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.fix, "buy one");
}

}  // namespace driver_sampler_test
}  // namespace tmprof::driver
