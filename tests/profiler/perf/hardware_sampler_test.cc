// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/hardware_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <utility>

#include "tests/base/fake_clock.h"
#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace hardware_sampler_test {

using ::testing::HasSubstr;

// Words as in include/uapi/linux/perf_event.h: op at bit 0, level at 5, level number at 33, remote
// at 37.
constexpr std::uint64_t Word(std::uint64_t op, std::uint64_t level, std::uint64_t number,
                             std::uint64_t remote = 0) {
  return op | level << 5 | number << 33 | remote << 37;
}
constexpr std::uint64_t kLoad = 0x02, kStore = 0x04, kPrefetch = 0x08;
constexpr std::uint64_t kNumberRam = 0x0d, kNumberL3 = 0x03;

// A made-up /sys/bus/event_source/devices.
class HardwareTest : public ::testing::Test {
 protected:
  HardwareTest() {
    std::string pattern = ::testing::TempDir() + "/hardware.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    devices_ = pattern;
  }
  ~HardwareTest() override { std::filesystem::remove_all(devices_); }

  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((devices_ / path).parent_path());
    std::ofstream(devices_ / path) << text << "\n";
  }
  void PutIbs() {
    Put("ibs_op/type", "11");
    Put("ibs_op/format/cnt_ctl", "config:19");
  }
  // A sampler of process 100 as target 9; null after a failure.
  std::unique_ptr<HardwareSampler> Attached(FakePerfApi& api, const Clock& clock,
                                            const SourceKind& kind, SampleRate rate) const {
    auto setup = FindHardware(api, kind, rate, devices_);
    if (!setup) {
      ADD_FAILURE() << setup.error().Message();
      return nullptr;
    }
    auto sampler = HardwareSampler::Create(api, clock, std::move(*setup));
    if (!sampler) {
      ADD_FAILURE() << sampler.error().Message();
      return nullptr;
    }
    TrackedProcess target;
    target.id = TargetId(9);
    target.pid = Pid(100);
    EXPECT_TRUE((*sampler)->SetTargets({target}).has_value());
    return *std::move(sampler);
  }

  std::filesystem::path devices_;
};

TEST_F(HardwareTest, AsksAnIbsThatCannotFilterForOperationsWithThePapersPeriod) {
  PutIbs();
  for (const char* format : {"", "config:64", "config2:0"}) {
    if (*format != 0) Put("ibs_op/format/l3missonly", format);
    const auto setup = FindIbs(devices_, SampleRate::k1x);
    ASSERT_TRUE(setup.has_value());
    ASSERT_EQ(setup->events.size(), 1u);
    const perf_event_attr& attr = setup->events[0].event.attr;
    EXPECT_EQ(attr.type, 11u);
    EXPECT_EQ(attr.config, 1u << 19) << format;
    EXPECT_EQ(attr.sample_period, 262'144u);
    // perf_event_open(2): the kernel gives physical addresses to the privileged only.
    EXPECT_EQ(attr.sample_type & PERF_SAMPLE_PHYS_ADDR, 0u);
    EXPECT_FALSE(setup->only_misses);
    EXPECT_EQ(setup->accesses_per_sample, 262'144u);
  }
  EXPECT_EQ(FindIbs(devices_, SampleRate::k4x)->events[0].event.attr.sample_period, 65'536u);
  EXPECT_EQ(FindIbs(devices_, SampleRate::k8x)->events[0].event.attr.sample_period, 32'768u);
}

TEST_F(HardwareTest, AsksAnIbsThatFiltersForOperationsThatMissedTheL3) {
  PutIbs();
  Put("ibs_op/format/l3missonly", "config:16");
  const auto setup = FindIbs(devices_, SampleRate::k1x);
  ASSERT_TRUE(setup.has_value());
  ASSERT_EQ(setup->events.size(), 1u);
  const perf_event_attr& attr = setup->events[0].event.attr;
  EXPECT_EQ(attr.config, 1u << 19 | 1u << 16);
  EXPECT_EQ(attr.sample_period, 16'384u);
  EXPECT_EQ(attr.freq, 0u);
  EXPECT_TRUE(setup->only_misses);
  EXPECT_EQ(setup->accesses_per_sample, 16'384u);
  EXPECT_EQ(FindIbs(devices_, SampleRate::k4x)->events[0].event.attr.sample_period, 4'096u);
  EXPECT_EQ(FindIbs(devices_, SampleRate::k8x)->events[0].event.attr.sample_period, 2'048u);
}

TEST_F(HardwareTest, TakesTheListedPmuAsEvidenceNotAnEventThatOpens) {
  FakePerfApi accepts_everything;
  for (const SourceKind& kind : {kIbsSource, kPebsSource})
    EXPECT_FALSE(FindHardware(accepts_everything, kind, SampleRate::k1x, devices_)) << kind.name;
  const std::vector<Probe> probes = ProbeHardware(accepts_everything, devices_);
  ASSERT_EQ(probes.size(), 2u);
  EXPECT_EQ(probes[0].name, "ibs");
  EXPECT_EQ(probes[1].name, "pebs");
  for (const Probe& probe : probes) {
    EXPECT_FALSE(probe.usable) << probe.name;
    EXPECT_EQ(probe.system_error, ENOENT) << probe.name;
    EXPECT_FALSE(probe.fix.empty()) << probe.name;
  }
}

TEST_F(HardwareTest, RefusesAnIbsThatCannotCountOperations) {
  Put("ibs_op/type", "11");
  const auto setup = FindIbs(devices_, SampleRate::k1x);
  ASSERT_FALSE(setup.has_value());
  EXPECT_THAT(setup.error().object, HasSubstr("cnt_ctl"));
}

// Knows these events, by the second of each pair as config.
EventEncoder Cpu(std::map<std::string, std::uint64_t> events) {
  return [events = std::move(events)](const std::string& name) -> Result<perf_event_attr> {
    const auto known = events.find(name);
    if (known == events.end()) return Fail(BadInput("encode performance event", name, "unknown"));
    perf_event_attr attr{};
    attr.type = PERF_TYPE_RAW;
    attr.config = known->second;
    return attr;
  };
}

TEST_F(HardwareTest, SamplesLoadsThatMissedByTheNameThatThisCpuKnows) {
  Put("cpu/caps/max_precise", "3");
  // libpfm4 4.13 knows them by these names.
  const EventEncoder haswell = Cpu({{"MEM_LOAD_UOPS_RETIRED:L3_MISS", 0x20d1},
                                    {"MEM_UOPS_RETIRED:ALL_STORES", 0x82d0},
                                    {"MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=3", 0x1cd}});
  const EventEncoder ice_lake = Cpu({{"MEM_LOAD_RETIRED:L3_MISS", 0x20d1},
                                     {"MEM_INST_RETIRED:ALL_STORES", 0x82d0},
                                     {"MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=3", 0x1cd}});
  for (const EventEncoder& cpu : {haswell, ice_lake}) {
    const auto setup = FindPebs(devices_, cpu, SampleRate::k1x);
    ASSERT_TRUE(setup.has_value());
    ASSERT_EQ(setup->events.size(), 1u) << "of stores the kernel does not tell who served them";
    EXPECT_EQ(setup->events[0].event.attr.config, 0x20d1u);
    EXPECT_EQ(setup->events[0].event.attr.sample_period, 16'381u);
    EXPECT_EQ(setup->events[0].event.attr.precise_ip, 2u);
    EXPECT_TRUE(setup->only_misses);
    EXPECT_EQ(setup->accesses_per_sample, 16'381u);
    EXPECT_EQ(FindPebs(devices_, cpu, SampleRate::k4x)->accesses_per_sample, 4'093u);
    EXPECT_EQ(FindPebs(devices_, cpu, SampleRate::k8x)->accesses_per_sample, 2'039u);
  }
}

TEST(PrimeMissPeriod, IsTheLargestPrimeBelowTheMissPeriod) {
  const auto is_prime = [](std::uint64_t number) {
    for (std::uint64_t factor = 2; factor * factor <= number; ++factor)
      if (number % factor == 0) return false;
    return true;
  };
  for (const SampleRate rate : {SampleRate::k1x, SampleRate::k4x, SampleRate::k8x}) {
    std::uint64_t prime = MissPeriod(rate) - 1;
    while (!is_prime(prime)) --prime;
    EXPECT_EQ(PrimeMissPeriod(rate), prime);
  }
}

TEST_F(HardwareTest, SamplesLoadsAndStoresWhereMissesHaveNoAddress) {
  Put("cpu/caps/max_precise", "3");
  const EventEncoder ivy_bridge = Cpu({{"MEM_LOAD_RETIRED:L3_MISS", 0x20d1},
                                       {"MEM_LOAD_UOPS_RETIRED:L3_MISS", 0x20d1},
                                       {"MEM_TRANS_RETIRED:LATENCY_ABOVE_THRESHOLD:ldlat=3", 0x1cd},
                                       {"MEM_TRANS_RETIRED:PRECISE_STORE", 0x2cd}});
  const EventEncoder without_misses = Cpu({{"MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=3", 0x1cd},
                                           {"MEM_TRANS_RETIRED:PRECISE_STORE", 0x2cd}});
  for (const EventEncoder& cpu : {ivy_bridge, without_misses}) {
    const auto setup = FindPebs(devices_, cpu, SampleRate::k4x);
    ASSERT_TRUE(setup.has_value());
    ASSERT_EQ(setup->events.size(), 2u);
    EXPECT_EQ(setup->events[0].event.attr.config, 0x1cdu);
    EXPECT_EQ(setup->events[1].event.attr.config, 0x2cdu);
    EXPECT_EQ(setup->events[0].event.attr.sample_period, 65'536u);
    EXPECT_EQ(setup->events[0].event.attr.precise_ip, 2u);
    EXPECT_FALSE(setup->only_misses);
    EXPECT_EQ(setup->accesses_per_sample, std::nullopt);
  }
}

TEST_F(HardwareTest, ReportsAPmuWithoutPreciseEvents) {
  Put("cpu/caps/max_precise", "0");
  EXPECT_FALSE(FindPebs(devices_, EncodeWithPfm, SampleRate::k1x).has_value());
}

TEST(SampleRateOption, AcceptsThePapersThreeRatesOnly) {
  EXPECT_EQ(ParseSampleRate("1x"), SampleRate::k1x);
  EXPECT_EQ(ParseSampleRate("4x"), SampleRate::k4x);
  EXPECT_EQ(ParseSampleRate("8x"), SampleRate::k8x);
  for (const char* bad : {"", "2x", "4", "x", "16x"}) EXPECT_FALSE(ParseSampleRate(bad)) << bad;
}

std::vector<std::byte> HardwareSample(std::uint32_t pid, std::uint64_t address,
                                      std::uint64_t data_source) {
  return RecordBytes(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER)
      .Word(0x401000)
      .Pair(pid, pid)
      .Word(0)
      .Word(address)
      .Word(data_source)
      .Build();
}

std::uint64_t Detail(const SourceStatus& status, const std::string& name) {
  for (const NamedCount& detail : status.details) {
    if (detail.name == name) return detail.count;
  }
  ADD_FAILURE() << "no detail " << name;
  return 0;
}

TEST_F(HardwareTest, AnEventIsReadAsItsPmuDescribesIt) {
  Put("some_pmu/type", "17");
  Put("some_pmu/events/one", "config=0x1a,config1=3,config2=0xff");
  const auto attr = ReadPmuEvent(devices_, "some_pmu", "one");
  ASSERT_TRUE(attr.has_value()) << attr.error().Message();
  EXPECT_EQ(attr->type, 17u);
  EXPECT_EQ(attr->config, 0x1au);
  EXPECT_EQ(attr->config1, 3u);
  EXPECT_EQ(attr->config2, 0xffu);
  EXPECT_EQ(ReadPmuEvent(devices_, "some_pmu", "two").error().system_error, ENOENT);
  for (const char* terms :
       {"event=0x2", "config", "config=", "config=0x", "config=1x", "config=1,x"}) {
    Put("some_pmu/events/bad", terms);
    EXPECT_FALSE(ReadPmuEvent(devices_, "some_pmu", "bad").has_value()) << terms;
  }
}

TEST_F(HardwareTest, AVirtualPmuIsTakenAfterIbsAndBeforePebs) {
  const auto refuse = [](const std::string& name) -> Result<perf_event_attr> {
    return Fail(Refused("encode", name, ENOTSUP));
  };
  EXPECT_FALSE(FindSamplingHardware(devices_, refuse, SampleRate::k1x).has_value());
  Put("vibs_op/type", "23");
  Put("vibs_op/events/mem-samples", "config=0x5");
  Put("cpu/caps/max_precise", "3");
  auto setup = FindSamplingHardware(devices_, refuse, SampleRate::k4x);
  ASSERT_TRUE(setup.has_value()) << setup.error().Message();
  EXPECT_EQ(setup->kind.name, "vibs");
  ASSERT_EQ(setup->events.size(), 1u);
  EXPECT_EQ(setup->events[0].event.attr.type, 23u);
  EXPECT_EQ(setup->events[0].event.attr.config, 5u);
  EXPECT_EQ(setup->events[0].event.attr.sample_period, 65'536u);
  EXPECT_FALSE(setup->only_misses);
  Put("ibs_op/type", "11");
  Put("ibs_op/format/cnt_ctl", "config:19");
  EXPECT_EQ(FindSamplingHardware(devices_, refuse, SampleRate::k1x)->kind.name, "ibs");
}

TEST_F(HardwareTest, AVirtualPmuSamplesMissesWhereItHasSuchAnEvent) {
  Put("vibs_op/type", "23");
  Put("vibs_op/events/mem-samples", "config=0x5");
  EXPECT_EQ(FindVirtual(devices_, SampleRate::k1x)->accesses_per_sample, 262'144u);
  Put("vibs_op/events/llc-misses", "config=0x6");
  const auto setup = FindVirtual(devices_, SampleRate::k8x);
  ASSERT_TRUE(setup.has_value());
  ASSERT_EQ(setup->events.size(), 1u);
  EXPECT_EQ(setup->events[0].event.attr.config, 6u);
  EXPECT_EQ(setup->events[0].event.attr.sample_period, 2'048u);
  EXPECT_TRUE(setup->only_misses);
  EXPECT_EQ(setup->accesses_per_sample, 2'048u);
  Put("vibs_op/events/llc-misses", "event=6");
  EXPECT_FALSE(FindVirtual(devices_, SampleRate::k1x).has_value()) << "it cannot be read";
}

TEST_F(HardwareTest, AProbeTellsWhatIsSampled) {
  PutIbs();
  Put("vibs_op/type", "23");
  Put("vibs_op/events/llc-misses", "config=0x1");
  FakePerfApi api;
  const std::vector<Probe> probes = ProbeHardware(api, devices_);
  ASSERT_EQ(probes.size(), 3u);
  EXPECT_EQ(probes[0].name, "ibs");
  EXPECT_EQ(probes[0].detail, "opened on own thread: 1 of 262144 operations, if memory served it");
  EXPECT_EQ(probes[1].name, "vibs");
  EXPECT_EQ(probes[1].detail, "opened on own thread: 1 of 16384 accesses to memory");
}

TEST_F(HardwareTest, AVirtualPmuThatIsNotThereIsRefusedByTheMachineThatHasOne) {
  const auto setup = FindVirtual(devices_, SampleRate::k1x);
  ASSERT_FALSE(setup.has_value());
  EXPECT_EQ(setup.error().system_error, ENOENT);
  EXPECT_THAT(setup.error().Message(), testing::HasSubstr("testbed/vm --tiersim"));
}

TEST_F(HardwareTest, AVirtualPmuCountsWhatItHasAndLeavesTheRest) {
  const auto other = [](const std::string& name) -> Result<perf_event_attr> {
    return Fail(Refused("encode", name, ENOTSUP));
  };
  Put("vibs_op/type", "23");
  Put("vibs_op/events/llc-load-misses", "config=0x1");
  const EventEncoder encode = WithVirtualPmu(devices_, other);
  const auto misses = encode("perf::LLC-LOAD-MISSES");
  ASSERT_TRUE(misses.has_value());
  EXPECT_EQ(misses->type, 23u);
  EXPECT_EQ(misses->config, 1u);
  EXPECT_EQ(encode("perf::DTLB-LOAD-MISSES").error().system_error, ENOTSUP);
  EXPECT_EQ(encode("LLC-LOAD-MISSES").error().object, "LLC-LOAD-MISSES");
}

TEST_F(HardwareTest, CountsDemandAccessesToMemoryAndNamesWhatItLeavesOut) {
  PutIbs();
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  FakeClock clock;
  const auto sampler = Attached(api, clock, kIbsSource, SampleRate::k1x);
  ASSERT_NE(sampler, nullptr);

  const std::uint64_t memory_load = Word(kLoad, 0, kNumberRam);
  api.Write(0, HardwareSample(100, 0x7000, memory_load));
  api.Write(0, HardwareSample(100, 0x7fff, Word(kStore, 0, kNumberRam, 1)));
  api.Write(0, HardwareSample(100, 0x8000, Word(kLoad, 0, kNumberL3)));
  api.Write(0, HardwareSample(100, 0x8000, Word(kLoad | kPrefetch, 0, kNumberRam)));
  api.Write(0, HardwareSample(100, 0, memory_load));
  api.Write(0, HardwareSample(100, 0xffff'8880'0000'0000, memory_load));
  api.Write(0, RecordBytes(PERF_RECORD_LOST).Word(1).Word(40).Build());
  clock.now += std::chrono::seconds(1);
  sampler->SetActive(false);
  clock.now += std::chrono::seconds(3);
  const SourceEpoch epoch = sampler->TakeEpoch();
  ASSERT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(epoch.samples[0].key, (PageKey{TargetId(9), Vpn(7)}));
  EXPECT_EQ(epoch.samples[0].loads, 1u);
  EXPECT_EQ(epoch.samples[0].stores, 1u);
  EXPECT_EQ(epoch.status.name, "ibs");
  EXPECT_EQ(epoch.status.samples_of, SampleSubject::kMemory);
  EXPECT_EQ(epoch.status.accesses_per_sample, 262'144u);
  EXPECT_EQ(epoch.status.observations, 2u);
  EXPECT_EQ(epoch.status.lost, 40u);
  EXPECT_EQ(Detail(epoch.status, "served_by_cache"), 1u);
  EXPECT_EQ(Detail(epoch.status, "not_demand"), 1u);
  EXPECT_EQ(Detail(epoch.status, "no_address"), 2u);
  EXPECT_DOUBLE_EQ(epoch.status.duty_cycle.value(), 0.25);
}

TEST_F(HardwareTest, CountsASampleOfUnknownSourceOnlyIfItsEventTakesNothingButMisses) {
  PutIbs();
  for (const bool filters : {false, true}) {
    if (filters) Put("ibs_op/format/l3missonly", "config:16");
    FakePerfApi api;
    api.threads[Pid(100)] = {Tid(100)};
    FakeClock clock;
    const auto sampler = Attached(api, clock, kIbsSource, SampleRate::k8x);
    ASSERT_NE(sampler, nullptr);
    constexpr std::uint64_t kLevelNa = 0x01, kNumberNa = 0x0f;
    api.Write(0, HardwareSample(100, 0x7000, Word(kLoad, kLevelNa, kNumberNa)));
    api.Write(0, HardwareSample(100, 0x7000, Word(kStore, kLevelNa, kNumberNa)));
    api.Write(0, HardwareSample(100, 0x7000, Word(kLoad, 0, kNumberL3)));
    const SourceEpoch epoch = sampler->TakeEpoch();
    EXPECT_EQ(epoch.status.observations, filters ? 2u : 0u);
    EXPECT_EQ(Detail(epoch.status, "unknown_source"), filters ? 0u : 2u);
    EXPECT_EQ(Detail(epoch.status, "served_by_cache"), 1u);
    EXPECT_EQ(epoch.status.accesses_per_sample, filters ? 2'048u : 32'768u);
  }
}

// The PMU's own losses stand in the events' counts, with those of the ring, which records report.
TEST_F(HardwareTest, TellsOnceOfEachSampleThatAVirtualPmuLostAlsoOfEventsThatAreClosed) {
  Put("vibs_op/type", "23");
  Put("vibs_op/events/mem-samples", "config=0x5");
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  FakeClock clock;
  const auto sampler = Attached(api, clock, kVirtualPmuSource, SampleRate::k1x);
  ASSERT_NE(sampler, nullptr);
  ASSERT_EQ(api.EventsOf(Tid(100)).size(), 1u);
  const FakePerfApi::Opened event = api.EventsOf(Tid(100)).front();
  EXPECT_EQ(event.attr.read_format, PERF_FORMAT_LOST);

  api.lost_samples[event.fd] = 47;
  api.Write(0, RecordBytes(PERF_RECORD_LOST).Word(1).Word(40).Build());
  EXPECT_EQ(sampler->TakeEpoch().status.lost, 47u);
  EXPECT_EQ(sampler->TakeEpoch().status.lost, 0u);
  api.lost_samples.erase(event.fd);
  EXPECT_EQ(sampler->TakeEpoch().status.lost, 0u) << "not to be read now";
  api.lost_samples[event.fd] = 50;
  ASSERT_TRUE(sampler->SetTargets({}).has_value());
  api.lost_samples.erase(event.fd);
  EXPECT_EQ(sampler->TakeEpoch().status.lost, 3u);
}

}  // namespace hardware_sampler_test
}  // namespace tmprof
