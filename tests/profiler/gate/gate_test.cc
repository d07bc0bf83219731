// SPDX-License-Identifier: Apache-2.0
#include "profiler/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace gate_test {

using ::testing::HasSubstr;

constexpr std::uint32_t kPermille = TMPROF_GATE_THRESHOLD_PERMILLE;

bool ActiveAt(std::uint64_t max, std::uint64_t count) {
  return tmprof_gate_decide({max}, true, count, kPermille).active;
}

TEST(GateDecide, IsOnStrictlyAboveAFifthOfTheMaximum) {
  EXPECT_FALSE(ActiveAt(1000, 200));
  EXPECT_TRUE(ActiveAt(1000, 201));
  EXPECT_FALSE(ActiveAt(7, 1));  // a fifth is 1.4
  EXPECT_TRUE(ActiveAt(7, 2));
  EXPECT_FALSE(ActiveAt(1000, 0));
}

TEST(GateDecide, IsOnInTheFirstPeriodThatCountsAnythingAndOffWhereNothingWasEverCounted) {
  EXPECT_TRUE(ActiveAt(0, 1));
  EXPECT_FALSE(ActiveAt(0, 0));
}

TEST(GateDecide, RaisesTheMaximumAndNeverLowersIt) {
  EXPECT_EQ(tmprof_gate_decide({10}, true, 25, kPermille).next.max_count, 25u);
  EXPECT_EQ(tmprof_gate_decide({10}, true, 3, kPermille).next.max_count, 10u);
}

TEST(GateDecide, StaysOnAndSaysSoWhereTheCountIsUnknown) {
  const auto decision = tmprof_gate_decide({1000}, false, 0, kPermille);
  EXPECT_TRUE(decision.active);
  EXPECT_FALSE(decision.known);
  EXPECT_EQ(decision.next.max_count, 1000u);
}

TEST(GateDecide, OpensByPartOfAPeriodAndTakesItForNoMaximum) {
  const tmprof_gate_state before{.max_count = 1000};
  EXPECT_TRUE(tmprof_gate_decide_part(before, true, 201, 200).active);
  EXPECT_FALSE(tmprof_gate_decide_part(before, true, 200, 200).active);
  EXPECT_TRUE(tmprof_gate_decide_part(before, false, 0, 200).active);
  EXPECT_EQ(tmprof_gate_decide_part(before, true, 5000, 200).next.max_count, 1000U);
}

TEST(GateDecide, DoesNotOverflowAtTheLargestCount) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(ActiveAt(kLargest, kLargest / 5));
  EXPECT_TRUE(ActiveAt(kLargest, kLargest / 5 + 1));
  EXPECT_TRUE(ActiveAt(0, kLargest));
}

TEST(GateDecide, AgreesWithExactArithmeticOnSmallNumbers) {
  for (std::uint64_t max = 0; max <= 60; ++max) {
    for (std::uint64_t count = 0; count <= max; ++count) {
      EXPECT_EQ(ActiveAt(max, count), count * 5 > max) << count << " of " << max;
    }
  }
}

TEST(GateModeOption, ReadsListsAndRefusesTheRest) {
  EXPECT_TRUE(ParseGateMode("auto")->best_available);
  EXPECT_TRUE(ParseGateMode("auto")->samples);
  EXPECT_FALSE(ParseGateMode("off")->samples);
  EXPECT_FALSE(ParseGateMode("off")->references);
  EXPECT_TRUE(ParseGateMode("llc")->samples);
  EXPECT_FALSE(ParseGateMode("llc")->references);
  EXPECT_TRUE(ParseGateMode("tlb,llc")->samples);
  EXPECT_TRUE(ParseGateMode("llc,tlb")->references);
  EXPECT_FALSE(ParseGateMode("llc,tlb")->best_available);
  for (const char* bad : {"", "llc,", ",", "llc,llc", "on", "auto,llc"}) {
    const auto mode = ParseGateMode(bad);
    ASSERT_FALSE(mode.has_value()) << bad;
    EXPECT_EQ(mode.error().kind, ErrorKind::kBadInput) << bad;
  }
}

// Encodes the LLC event as 1 and the dTLB event as 2.
const EventEncoder kEncode = [](const std::string& name) -> Result<perf_event_attr> {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.config = name.find("LLC") != std::string::npos ? 1 : 2;
  return attr;
};

int FdOf(const FakePerfApi& api, std::uint64_t config, std::size_t index = 0) {
  for (const auto& opened : api.opened) {
    if (opened.attr.config == config && index-- == 0) return opened.fd;
  }
  ADD_FAILURE() << "event not opened";
  return 0;
}

constexpr std::uint64_t kMs = 1'000'000;  // ns

// Totals since opening, of a counter that had its CPU to itself.
CounterReading At(std::uint64_t ms, std::uint64_t count) {
  return {.count = count, .enabled_ns = ms * kMs, .running_ns = ms * kMs};
}

TEST(Gate, LetsEachCounterDecideItsOwnRole) {
  FakePerfApi api;
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  // Periods of 1000 and 100 LLC misses, 10 and 10 dTLB misses.
  api.readings[FdOf(api, 1)] = {At(100, 1000), At(200, 1100)};
  api.readings[FdOf(api, 2)] = {At(100, 10), At(200, 20)};
  GateDecision decision = gate->Decide(std::nullopt);
  EXPECT_TRUE(decision.samples.active);
  EXPECT_TRUE(decision.references.active);
  decision = gate->Decide(std::nullopt);
  EXPECT_FALSE(decision.samples.active);
  EXPECT_TRUE(decision.references.active);
  EXPECT_THAT(decision.samples.basis, HasSubstr("1000 LLC misses/s"));
  EXPECT_THAT(decision.samples.basis, HasSubstr("at most 10000"));
}

TEST(Gate, ComparesPeriodsOfUnequalLengthByTheirRate) {
  FakePerfApi api;
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  // 10000/s for 300 ms, then 2500/s for 100 ms: a quarter of the rate, a twelfth of the count.
  api.readings[FdOf(api, 1)] = {At(300, 3000), At(400, 3250)};
  // 1000/s for 100 ms, then 100/s for 1 s: a tenth of the rate, the same count.
  api.readings[FdOf(api, 2)] = {At(100, 100), At(1100, 200)};
  (void)gate->Decide(std::nullopt);
  const GateDecision decision = gate->Decide(std::nullopt);
  EXPECT_TRUE(decision.samples.active);
  EXPECT_FALSE(decision.references.active);
}

TEST(Gate, AddsTheCpusUpAndScalesAMultiplexedCounter) {
  FakePerfApi api;
  api.cpus = {CpuId(0), CpuId(1)};
  auto counter = SystemCounter::Open(api, kEncode, "LLC");
  ASSERT_TRUE(counter.has_value());
  api.readings[FdOf(api, 1, 0)] = {CounterReading{100, 100 * kMs, 50 * kMs}};  // half of the time
  api.readings[FdOf(api, 1, 1)] = {At(100, 7)};
  EXPECT_EQ(counter->TakeRate(), 2070u);
}

TEST(Gate, TakesACounterThatNeverRanAsUnknownNotAsZero) {
  FakePerfApi api;
  auto counter = SystemCounter::Open(api, kEncode, "LLC");
  ASSERT_TRUE(counter.has_value());
  api.readings[FdOf(api, 1)] = {CounterReading{0, 1000, 0}, std::unexpected(EIO)};
  EXPECT_EQ(counter->TakeRate(), std::nullopt);
  EXPECT_EQ(counter->TakeRate(), std::nullopt);
}

TEST(Gate, StaysOnWhileACounterCannotBeRead) {
  FakePerfApi api;
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  const GateDecision decision = gate->Decide(std::nullopt);
  EXPECT_TRUE(decision.samples.active);
  EXPECT_THAT(decision.samples.basis, HasSubstr("could not be read"));
}

TEST(Gate, LooksWithinAPeriodAtWhatIsOffAlone) {
  FakePerfApi api;
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  // The scan stays on. The sampler is off after the second period, and comes on at the second look
  // after it, in 25 ms of ten times the rate that was the most, which it is not held against.
  api.readings[FdOf(api, 1)] = {At(100, 1000), At(200, 1000), At(225, 1000),
                                At(250, 3500), At(350, 4000), At(450, 4000)};
  api.readings[FdOf(api, 2)] = {At(100, 100), At(200, 200), At(350, 300), At(450, 400)};
  (void)gate->Decide(std::nullopt);
  EXPECT_FALSE(gate->Decide(std::nullopt).samples.active);
  EXPECT_FALSE(gate->DecideWhatIsOff(std::nullopt).samples.active);
  const GateDecision opened = gate->DecideWhatIsOff(std::nullopt);
  EXPECT_TRUE(opened.samples.active);
  EXPECT_THAT(opened.references.basis, HasSubstr("1000 dTLB misses/s"));
  EXPECT_TRUE(gate->Decide(std::nullopt).samples.active) << "half of the most";
  EXPECT_FALSE(gate->Decide(std::nullopt).samples.active);
}

FakePerfApi WithoutPmu() {
  FakePerfApi api;
  api.refuse = [](const perf_event_attr&, std::optional<Tid>) { return ENOENT; };
  return api;
}

TEST(Gate, GatesTheScanByStallShareWithoutAPmuButNeverTheSamplerThatMeasuresIt) {
  FakePerfApi api = WithoutPmu();
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  GateDecision decision = gate->Decide(0.80);
  EXPECT_TRUE(decision.references.active);
  EXPECT_THAT(decision.references.basis, HasSubstr("memory-stall share 80.0 %"));
  EXPECT_EQ(decision.references.refused->system_error, ENOENT);
  decision = gate->Decide(0.10);  // below a fifth of 0.80
  EXPECT_FALSE(decision.references.active);
  EXPECT_TRUE(decision.samples.active);
  EXPECT_THAT(decision.samples.basis, HasSubstr("always on"));
  EXPECT_EQ(decision.samples.refused->system_error, ENOENT);
  EXPECT_TRUE(gate->DecideWhatIsOff(0.17).references.active);
}

TEST(Gate, IsAlwaysOnAndSaysSoWithNothingToGoBy) {
  FakePerfApi api = WithoutPmu();
  auto gate = Gate::Create(api, kEncode, GateMode{});
  ASSERT_TRUE(gate.has_value());
  const GateDecision decision = gate->Decide(std::nullopt);
  EXPECT_TRUE(decision.references.active);
  EXPECT_THAT(decision.references.basis, HasSubstr("always on"));
}

TEST(Gate, RefusesToStartWhereExactlyTheCounterWasAskedFor) {
  FakePerfApi api = WithoutPmu();
  const auto gate = Gate::Create(api, kEncode, *ParseGateMode("llc"));
  ASSERT_FALSE(gate.has_value());
  EXPECT_EQ(gate.error().system_error, ENOENT);
}

TEST(Gate, OpensNoCounterWhenOff) {
  FakePerfApi api;
  auto gate = Gate::Create(api, kEncode, *ParseGateMode("off"));
  ASSERT_TRUE(gate.has_value());
  EXPECT_TRUE(api.opened.empty());
  EXPECT_TRUE(gate->Decide(0.0).references.active);
}

TEST(Gate, EncodesItsEventsForEveryCpuModel) {
  EXPECT_TRUE(EncodeWithPfm("perf::LLC-LOAD-MISSES").has_value());
  EXPECT_TRUE(EncodeWithPfm("perf::DTLB-LOAD-MISSES").has_value());
  EXPECT_FALSE(EncodeWithPfm("NO_SUCH_EVENT").has_value());
}

TEST(GateProbe, CarriesTheKernelsRefusal) {
  FakePerfApi api = WithoutPmu();
  const auto probes = ProbeGate(api, kEncode);
  ASSERT_EQ(probes.size(), 2u);
  for (const Probe& probe : probes) {
    EXPECT_FALSE(probe.usable);
    EXPECT_EQ(probe.job, ProbeJob::kGate);
    EXPECT_EQ(probe.system_error, ENOENT);
    EXPECT_FALSE(probe.fix.empty());
  }
}

TEST(SampleGateEventTest, IsThatOfLlcMissesAndRefusedWhereItCannotBeCounted) {
  FakePerfApi api;
  const EventEncoder encode = [](const std::string& name) -> Result<perf_event_attr> {
    EXPECT_EQ(name, "perf::LLC-LOAD-MISSES");
    perf_event_attr attr{};
    attr.config = 0x77;
    return attr;
  };
  const auto event = SampleGateEvent(api, encode);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->attr.config, 0x77u);
  api.refuse = [](const perf_event_attr&, std::optional<Tid>) { return ENOENT; };
  EXPECT_EQ(SampleGateEvent(api, encode).error().system_error, ENOENT);
}

}  // namespace gate_test
}  // namespace tmprof
