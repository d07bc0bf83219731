// SPDX-License-Identifier: Apache-2.0
// The sampler on a kernel made of fixtures.

#include "profiler/sources/clock/clock_sampler.h"

#include <asm/perf_regs.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/base/fake_clock.h"
#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace clock_sampler_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kCodeStart = 0x401000;
constexpr std::uint64_t kIp = kCodeStart + 100;
constexpr std::uint32_t kPid = 100;

class ClockSamplerTest : public ::testing::Test {
 protected:
  ClockSamplerTest() {
    api_.threads[Pid(kPid)] = {Tid(kPid)};
    api_.code_start = kCodeStart;
    PutCodeBeforeIp({0x48, 0x8b, 0x03});  // mov rax, [rbx]
  }

  void PutCodeBeforeIp(const std::vector<std::uint8_t>& code) {
    api_.code.assign(4096, 0x90);
    std::ranges::copy(
        code, api_.code.begin() + static_cast<std::ptrdiff_t>(kIp - kCodeStart - code.size()));
  }

  ClockSampler& Sampler(const ClockSampler::Options& options = {.max_overhead = 0.01,
                                                                .ns_per_sample = 10'000.0}) {
    auto sampler = ClockSampler::Create(api_, clock_, options);
    EXPECT_TRUE(sampler.has_value());
    sampler_ = std::move(*sampler);
    TrackedProcess target;
    target.id = TargetId(1);
    target.pid = Pid(kPid);
    EXPECT_TRUE(sampler_->SetTargets({target}).has_value());
    return *sampler_;
  }

  // rbx is the address that the code before kIp loads from.
  static std::vector<std::byte> Sample(std::uint64_t rbx, std::uint64_t time = 0,
                                       std::uint16_t mode = PERF_RECORD_MISC_USER) {
    RecordBytes record(PERF_RECORD_SAMPLE, mode);
    record.Word(kIp).Pair(kPid, kPid).Word(time).Word(PERF_SAMPLE_REGS_ABI_64);
    for (int number = 0; number < 64; ++number) {
      if (!(kUserRegisterMask >> number & 1)) continue;
      record.Word(number == PERF_REG_X86_BX ? rbx : number == PERF_REG_X86_IP ? kIp : 0);
    }
    return record.Build();
  }

  static std::vector<std::byte> Exec(std::uint64_t time) {
    return RecordBytes(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC)
        .Pair(kPid, kPid)
        .Word(0x6873)
        .Pair(kPid, kPid)
        .Word(time)
        .Build();
  }

  static std::uint64_t Detail(const SourceEpoch& epoch, const std::string& name) {
    for (const NamedCount& detail : epoch.status.details) {
      if (detail.name == name) return detail.count;
    }
    return 0;
  }

  FakePerfApi api_;
  FakeClock clock_;
  std::unique_ptr<ClockSampler> sampler_;
};

TEST_F(ClockSamplerTest, CreditsThePageThatThePrecedingInstructionRead) {
  ClockSampler& sampler = Sampler();
  api_.Write(0, Sample(0x7000'1234));
  api_.Write(0, Sample(0x7000'1fff));
  const SourceEpoch epoch = sampler.TakeEpoch();
  ASSERT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(epoch.samples[0].key, (PageKey{TargetId(1), Vpn(0x70001)}));
  EXPECT_EQ(epoch.samples[0].loads, 2u);
  EXPECT_EQ(epoch.samples[0].stores, 0u);
  EXPECT_EQ(epoch.status.name, "clock");
  EXPECT_EQ(epoch.status.label, "clock (memory-stall time)");
  EXPECT_EQ(epoch.status.samples_of, SampleSubject::kTime);
  EXPECT_EQ(epoch.status.accesses_per_sample, std::nullopt);
  EXPECT_EQ(epoch.status.observations, 2u);
}

TEST_F(ClockSamplerTest, CountsPagesWhoseFirstTwoSamplesAreOfOneLine) {
  ClockSampler& sampler = Sampler();
  for (const std::uint64_t address : {0x7000'1234, 0x7000'2000, 0x7000'1230, 0x7000'2040})
    api_.Write(0, Sample(address));
  const SourceEpoch epoch = sampler.TakeEpoch();
  EXPECT_EQ(Detail(epoch, "page_pairs"), 2u);
  EXPECT_EQ(Detail(epoch, "line_pairs"), 1u);
  PutCodeBeforeIp({0xa4});  // movsb: one sample is no pair, although it has two operands
  api_.Write(0, Exec(10));
  api_.Write(0, Sample(0, 11));
  EXPECT_EQ(Detail(sampler.TakeEpoch(), "page_pairs"), 0u);
}

class CountingClock : public ClockSamplerTest {
 protected:
  static constexpr std::uint64_t kMissConfig = 77;

  ClockSampler& CountingSampler() {
    NamedEvent misses{.name = "LLC misses", .attr = {}};
    misses.attr.type = PERF_TYPE_RAW;
    misses.attr.config = kMissConfig;
    return Sampler({.max_overhead = 0.01, .ns_per_sample = 10'000.0, .misses = misses});
  }
  // The thread's counter; 0: it has none.
  int Counter() const {
    for (const FakePerfApi::Opened& event : api_.EventsOf(Tid(kPid)))
      if (event.attr.config == kMissConfig) return event.fd;
    return 0;
  }
  void Reads(CounterReading reading) { api_.readings[Counter()].push_back(reading); }
  static std::optional<std::uint64_t> Misses(const SourceEpoch& epoch) {
    for (const NamedCount& detail : epoch.status.details)
      if (detail.name == "llc_load_misses") return detail.count;
    return std::nullopt;
  }
};

TEST_F(CountingClock, TellsTheMissesOfEachEpochBesideItsSamples) {
  ClockSampler& sampler = CountingSampler();
  Reads({.count = 1'000, .enabled_ns = 100, .running_ns = 100});
  EXPECT_EQ(Misses(sampler.TakeEpoch()), 1'000u);
  Reads({.count = 1'500, .enabled_ns = 300, .running_ns = 200});
  EXPECT_EQ(Misses(sampler.TakeEpoch()), 1'000u) << "others had the counter half of the time";
  Reads({.count = 1'500, .enabled_ns = 400, .running_ns = 300});
  EXPECT_EQ(Misses(sampler.TakeEpoch()), 0u) << "counted, and none";
}

TEST_F(CountingClock, AnUnknownCountIsNotZero) {
  ClockSampler& sampler = CountingSampler();
  EXPECT_EQ(Misses(sampler.TakeEpoch()), std::nullopt) << "not readable";
  Reads({.count = 0, .enabled_ns = 100, .running_ns = 0});
  EXPECT_EQ(Misses(sampler.TakeEpoch()), std::nullopt) << "others had the counter all the time";
}

TEST_F(CountingClock, SamplesWithoutACounter) {
  api_.refuse = [](const perf_event_attr& attr, std::optional<Tid>) {
    return attr.config == kMissConfig ? std::optional(ENOENT) : std::nullopt;
  };
  ClockSampler& sampler = CountingSampler();
  EXPECT_EQ(Counter(), 0);
  api_.Write(0, Sample(0x7000'1234));
  const SourceEpoch epoch = sampler.TakeEpoch();
  EXPECT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(Misses(epoch), std::nullopt);
}

TEST_F(CountingClock, DoesNotCountWhileItIsOff) {
  ClockSampler& sampler = CountingSampler();
  EXPECT_TRUE(api_.enabled.contains(Counter()));
  sampler.SetActive(false);
  EXPECT_FALSE(api_.enabled.contains(Counter()));
  sampler.SetActive(true);
  EXPECT_TRUE(api_.enabled.contains(Counter()));
}

TEST_F(ClockSamplerTest, ReadsTheCodeOfAnInstructionOnce) {
  ClockSampler& sampler = Sampler();
  for (int i = 0; i < 10; ++i) api_.Write(0, Sample(0x7000'0000));
  sampler.Service();
  const int reads = api_.memory_reads;
  for (int i = 0; i < 10; ++i) api_.Write(0, Sample(0x7000'0000));
  EXPECT_EQ(sampler.TakeEpoch().status.observations, 20u);
  EXPECT_EQ(api_.memory_reads, reads);
}

TEST_F(ClockSamplerTest, DecodesAnewAfterExecAndRefusesSamplesOfTheCodeBefore) {
  ClockSampler& sampler = Sampler();
  api_.Write(0, Sample(0x7000'0000, 10));
  sampler.Service();
  PutCodeBeforeIp({0x48, 0x89, 0x03});  // mov [rbx], rax
  api_.Write(0, Exec(20));
  api_.Write(0, Sample(0x7000'0000, 19));
  api_.Write(0, Sample(0x7000'0000, 21));
  const SourceEpoch epoch = sampler.TakeEpoch();
  ASSERT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(epoch.samples[0].loads, 1u);
  EXPECT_EQ(epoch.samples[0].stores, 1u);
  EXPECT_EQ(Detail(epoch, "no_address_undecodable"), 1u);
  EXPECT_EQ(Detail(epoch, "decoded"), 2u);
}

TEST_F(ClockSamplerTest, AccountsForEverySample) {
  ClockSampler& sampler = Sampler();
  api_.Write(0, Sample(0x7000'0000));
  api_.Write(0, Sample(0, 0, PERF_RECORD_MISC_KERNEL));
  api_.Write(0, Sample(0, 0, PERF_RECORD_MISC_KERNEL));
  api_.Write(0, RecordBytes(PERF_RECORD_LOST).Word(1).Word(30).Build());
  api_.Write(0, RecordBytes(PERF_RECORD_THROTTLE).Word(0).Word(0).Word(0).Build());
  sampler.Service();
  PutCodeBeforeIp({0x48, 0x8b, 0x1b});  // mov rbx, [rbx]
  api_.Write(0, Exec(1));
  api_.Write(0, Sample(0x7000'0000, 2));
  const SourceEpoch epoch = sampler.TakeEpoch();
  EXPECT_EQ(epoch.status.observations, 1u);
  EXPECT_EQ(epoch.status.lost, 30u);
  EXPECT_EQ(Detail(epoch, "kernel_mode"), 2u);
  EXPECT_EQ(Detail(epoch, "no_address"), 1u);
  EXPECT_EQ(Detail(epoch, "no_address_clobbered"), 1u);
  EXPECT_EQ(Detail(epoch, "throttled"), 1u);
  EXPECT_EQ(sampler.TakeEpoch().status.observations, 0u);
}

TEST_F(ClockSamplerTest, ReportsTheShareOfTheEpochItWasOn) {
  ClockSampler& sampler = Sampler();
  clock_.now += std::chrono::milliseconds(300);
  sampler.SetActive(false);
  clock_.now += std::chrono::milliseconds(700);
  SourceEpoch epoch = sampler.TakeEpoch();
  EXPECT_DOUBLE_EQ(epoch.status.duty_cycle.value(), 0.3);
  EXPECT_EQ(epoch.status.state, SourceState::kActive);
  clock_.now += std::chrono::seconds(1);
  epoch = sampler.TakeEpoch();
  EXPECT_DOUBLE_EQ(epoch.status.duty_cycle.value(), 0.0);
  EXPECT_EQ(epoch.status.state, SourceState::kGated);
  EXPECT_TRUE(api_.enabled.empty());
}

TEST_F(ClockSamplerTest, ForgetsCodeThatMayHaveChangedWhileItWasOff) {
  ClockSampler& sampler = Sampler();
  api_.Write(0, Sample(0x7000'0000));
  sampler.SetActive(false);
  PutCodeBeforeIp({0x48, 0x89, 0x03});  // mov [rbx], rax
  sampler.SetActive(true);
  api_.Write(0, Sample(0x7000'0000));
  EXPECT_EQ(sampler.TakeEpoch().samples.at(0).stores, 1u);
}

TEST_F(ClockSamplerTest, SetsTheRateFromCostAndBudgetUpToTheCap) {
  EXPECT_DOUBLE_EQ(Sampler().rate_hz(), 1'000);  // 1 % of a second, 10 us each
  EXPECT_DOUBLE_EQ(Sampler({.max_overhead = 1, .ns_per_sample = 1'000.0}).rate_hz(), 20'000);
  for (const FakePerfApi::Opened& event : api_.EventsOf(Tid(kPid))) {
    EXPECT_GE(event.attr.sample_period, 50'000u);
  }
}

TEST_F(ClockSamplerTest, RefusesABudgetOutsideOfZeroToOne) {
  for (const double bad : {0.0, -0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    const auto sampler =
        ClockSampler::Create(api_, clock_, {.max_overhead = bad, .ns_per_sample = 1e4});
    ASSERT_FALSE(sampler.has_value()) << bad;
    EXPECT_EQ(sampler.error().kind, ErrorKind::kBadInput);
  }
}

TEST_F(ClockSamplerTest, TellsTheStallShareOnceItHasEnoughSamples) {
  ClockSampler& sampler = Sampler();
  for (int i = 0; i < 10; ++i) api_.Write(0, Sample(0x7000'0000, 1));
  sampler.Service();
  EXPECT_EQ(sampler.MemoryStallShare(), std::nullopt);
  for (int i = 0; i < 3'000; ++i) {
    api_.Write(0, Sample(0x7000'0000, 1));
    if (i % 1'000 == 0) sampler.Service();
  }
  sampler.Service();
  EXPECT_DOUBLE_EQ(sampler.MemoryStallShare().value(), 1.0);
  PutCodeBeforeIp({0x48, 0x89, 0xd8});  // mov rax, rbx
  api_.Write(0, Exec(2));
  for (int i = 0; i < 3'000; ++i) {
    api_.Write(0, Sample(0, 3 + static_cast<std::uint64_t>(i) * 10'000'000));
    if (i % 1'000 == 0) sampler.Service();
  }
  sampler.Service();
  EXPECT_LT(sampler.MemoryStallShare().value(), 0.01);
}

TEST_F(ClockSamplerTest, TheStallShareFollowsTheLastSecondThoughSamplesAreRare) {
  constexpr std::uint64_t kRate = 24;  // samples a second, of the default budget beside a scanner
  constexpr std::uint64_t kPeriod = 1'000'000'000 / kRate;
  ClockSampler& sampler = Sampler();
  std::uint64_t time = 1;
  for (std::uint64_t i = 0; i < 10 * kRate; ++i)
    api_.Write(0, Sample(0x7000'0000, time += kPeriod));
  sampler.Service();
  EXPECT_DOUBLE_EQ(sampler.MemoryStallShare().value(), 1.0);
  PutCodeBeforeIp({0x48, 0x89, 0xd8});  // mov rax, rbx
  api_.Write(0, Exec(++time));
  for (std::uint64_t i = 0; i < 3 * kRate; ++i) api_.Write(0, Sample(0, time += kPeriod));
  sampler.Service();
  EXPECT_LT(sampler.MemoryStallShare().value(), 0.1);  // e^-3 is 5 %
}

TEST_F(ClockSamplerTest, TheStallShareOfVeryRareSamplesIsOfEnoughOfThem) {
  ClockSampler& sampler = Sampler();
  for (std::uint64_t i = 0; i < 40; ++i) {
    if (i == 32) PutCodeBeforeIp({0x48, 0x89, 0xd8});  // mov rax, rbx
    if (i == 32) api_.Write(0, Exec(32'000'000'000));
    api_.Write(0, Sample(0x7000'0000, i * 1'000'000'000 + 1));
    sampler.Service();
  }
  EXPECT_NEAR(sampler.MemoryStallShare().value(), std::pow(16.0 / 17, 8), 0.05);
}

TEST_F(ClockSamplerTest, SamplesAtSomeRateHoweverLittleItMayCost) {
  ClockSampler& sampler = Sampler({.max_overhead = 1e-15, .ns_per_sample = 40'000.0});
  EXPECT_EQ(sampler.rate_hz(), ClockSampler::kMinRateHz);
}

TEST_F(ClockSamplerTest, SamplesUserModeAloneWhereTheKernelMayNotBeSeenAndSaysSo) {
  api_.refuse = [](const perf_event_attr& attr, std::optional<Tid>) -> std::optional<int> {
    if (!attr.exclude_kernel) return EACCES;
    return std::nullopt;
  };
  ClockSampler& sampler = Sampler();
  api_.Write(0, Sample(0x7000'0000));
  const SourceEpoch epoch = sampler.TakeEpoch();
  EXPECT_EQ(epoch.status.observations, 1u);
  EXPECT_THAT(epoch.status.note, HasSubstr("kernel time not seen"));
  for (const NamedCount& detail : epoch.status.details) EXPECT_NE(detail.name, "kernel_mode");
}

TEST_F(ClockSamplerTest, SaysWhyItCannotStart) {
  api_.refuse = [](const perf_event_attr&, std::optional<Tid>) { return ENOSYS; };
  const auto sampler = ClockSampler::Create(api_, clock_, {});
  ASSERT_FALSE(sampler.has_value());
  EXPECT_EQ(sampler.error().system_error, ENOSYS);
  const Probe probe = ProbeClock(api_);
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.system_error, ENOSYS);
  EXPECT_THAT(probe.fix, HasSubstr("CONFIG_PERF_EVENTS"));
}

TEST_F(ClockSamplerTest, KeepsWorkingWithTheTargetsItGotWhenDescriptorsRunOut) {
  ClockSampler& sampler = Sampler();
  api_.threads[Pid(200)] = {Tid(200)};
  api_.refuse = [](const perf_event_attr&, std::optional<Tid>) { return EMFILE; };
  TrackedProcess first;
  first.pid = Pid(kPid);
  TrackedProcess second;
  second.id = TargetId(2);
  second.pid = Pid(200);
  EXPECT_TRUE(sampler.SetTargets({first, second}).has_value());
  EXPECT_THAT(sampler.TakeEpoch().status.note, HasSubstr("EMFILE"));
  EXPECT_THAT(sampler.TakeEpoch().status.note, HasSubstr("EMFILE")) << "it still is so";
  api_.refuse = nullptr;
  EXPECT_TRUE(sampler.SetTargets({first, second}).has_value());
  EXPECT_THAT(sampler.TakeEpoch().status.note, HasSubstr("EMFILE")) << "it was so at the start";
  EXPECT_THAT(sampler.TakeEpoch().status.note, Not(HasSubstr("EMFILE")));
}

TEST_F(ClockSamplerTest, IsNoSourceWhereItsFirstTargetsAreRefused) {
  const auto sampler = ClockSampler::Create(api_, clock_, {.ns_per_sample = 10'000.0});
  api_.refuse = [](const perf_event_attr&, std::optional<Tid>) { return EACCES; };
  EXPECT_EQ((*sampler)->SetTargets({{.pid = Pid(kPid)}}).error().system_error, EACCES);
}

TEST_F(ClockSamplerTest, StaysASourceWhereATargetIsRefusedAfterATimeWithoutAny) {
  const auto sampler = ClockSampler::Create(api_, clock_, {.ns_per_sample = 10'000.0});
  ASSERT_TRUE((*sampler)->SetTargets({}).has_value());
  api_.refuse = [](const perf_event_attr&, std::optional<Tid>) { return EACCES; };
  EXPECT_TRUE((*sampler)->SetTargets({{.pid = Pid(kPid)}}).has_value());
  EXPECT_THAT((*sampler)->TakeEpoch().status.note, HasSubstr("EACCES"));
  api_.refuse = nullptr;
  EXPECT_TRUE((*sampler)->SetTargets({{.pid = Pid(kPid)}}).has_value());
  EXPECT_FALSE(api_.EventsOf(Tid(kPid)).empty());
}

TEST(ClockProbe, SaysWhetherKernelTimeIsSeen) {
  FakePerfApi api;
  const Probe all = ProbeClock(api);
  EXPECT_TRUE(all.usable);
  EXPECT_THAT(all.detail, Not(HasSubstr("user mode only")));
  api.refuse = [](const perf_event_attr& attr, std::optional<Tid>) -> std::optional<int> {
    if (!attr.exclude_kernel) return EACCES;
    return std::nullopt;
  };
  const Probe user = ProbeClock(api);
  EXPECT_TRUE(user.usable);
  EXPECT_THAT(user.detail, HasSubstr("user mode only"));
}

TEST(PrimePeriod, IsTheNextPrime) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(PrimePeriod(nanoseconds(2)), nanoseconds(2));
  EXPECT_EQ(PrimePeriod(nanoseconds(90)), nanoseconds(97));
  EXPECT_EQ(PrimePeriod(nanoseconds(1'000'000)), nanoseconds(1'000'003));
  EXPECT_EQ(PrimePeriod(nanoseconds(0)), nanoseconds(2));
}

TEST(CulpritCache, IsBoundedAndForgetsOneProcessAlone) {
  FakePerfApi api;
  CulpritCache cache(api);
  cache.Find(Pid(1), 0x1000);
  cache.Find(Pid(2), 0x1000);
  cache.Forget(Pid(1));
  EXPECT_EQ(cache.size(), 1u);
  cache.Find(Pid(2), 0x1000);
  EXPECT_EQ(cache.decoded(), 2u);
  for (std::uint64_t ip = 0; ip < CulpritCache::kMaxEntries + 10; ++ip) cache.Find(Pid(3), ip);
  EXPECT_LE(cache.size(), CulpritCache::kMaxEntries);
}

TEST(CulpritCache, DecodesAtTheStartOfAMappingWhereTheBytesBeforeAreUnreadable) {
  FakePerfApi api;
  api.code_start = 0x401000;
  api.code.assign(4096, 0x90);
  api.code[7] = 0x48;  // mov rax, [rbx], ending at 0x40100a
  api.code[8] = 0x8b;
  api.code[9] = 0x03;
  CulpritCache cache(api);
  EXPECT_EQ(cache.Find(Pid(1), 0x40100a).outcome, OperandOutcome::kAddress);
}

}  // namespace clock_sampler_test
}  // namespace tmprof
