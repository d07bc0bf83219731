// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/hardware_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "driver/core/sample_decode.h"
#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace {

using ::testing::HasSubstr;

// Words as in include/uapi/linux/perf_event.h: op at bit 0, level at 5, level number at 33, remote
// at 37.
constexpr std::uint64_t Word(std::uint64_t op, std::uint64_t level, std::uint64_t number,
                             std::uint64_t remote = 0) {
  return op | level << 5 | number << 33 | remote << 37;
}
constexpr std::uint64_t kLoad = 0x02, kStore = 0x04, kPrefetch = 0x08, kExec = 0x10, kNoOp = 0x01;
constexpr std::uint64_t kNumberNa = 0x0f, kNumberRam = 0x0d, kNumberL3 = 0x03, kNumberPmem = 0x0e;
constexpr std::uint64_t kHit = 0x02, kMiss = 0x04, kL1 = 0x08, kL3 = 0x40, kLocalRam = 0x80,
                        kRemoteRam = 0x100, kRemoteCache = 0x400, kUncached = 0x2000;

TEST(DataSource, CountsOnlyWhatMemoryServed) {
  struct Case {
    const char* name;
    std::uint64_t word;
    tmprof_data_source expected;
  };
  const Case cases[] = {
      {"load, local memory", Word(kLoad, 0, kNumberRam), TMPROF_SOURCE_LOCAL_MEMORY},
      {"load, another node's memory", Word(kLoad, 0, kNumberRam, 1), TMPROF_SOURCE_REMOTE_MEMORY},
      {"store, persistent memory", Word(kStore, 0, kNumberPmem), TMPROF_SOURCE_REMOTE_MEMORY},
      {"load, CXL memory", Word(kLoad, 0, 0x09), TMPROF_SOURCE_REMOTE_MEMORY},
      {"load, L3", Word(kLoad, kHit | kL3, kNumberL3), TMPROF_SOURCE_CACHE},
      {"load, line fill buffer", Word(kLoad, 0, 0x0c), TMPROF_SOURCE_CACHE},
      {"level number beats old bits", Word(kLoad, kHit | kLocalRam, kNumberL3),
       TMPROF_SOURCE_CACHE},
      {"old bits, local memory", Word(kLoad, kHit | kLocalRam, 0), TMPROF_SOURCE_LOCAL_MEMORY},
      {"old bits, level number n/a", Word(kLoad, kHit | kRemoteRam, kNumberNa),
       TMPROF_SOURCE_REMOTE_MEMORY},
      {"old bits, another socket's cache", Word(kLoad, kHit | kRemoteCache, kNumberNa),
       TMPROF_SOURCE_CACHE},
      {"old bits, L1 hit", Word(kStore, kHit | kL1, 0), TMPROF_SOURCE_CACHE},
      {"a store that missed L1 was served by nobody known", Word(kStore, kMiss | kL1, 0),
       TMPROF_SOURCE_UNKNOWN},
      {"uncached", Word(kLoad, kHit | kUncached, kNumberNa), TMPROF_SOURCE_UNCACHED},
      {"I/O", Word(kLoad, 0, 0x0a), TMPROF_SOURCE_UNCACHED},
      {"prefetch from memory", Word(kLoad | kPrefetch, 0, kNumberRam), TMPROF_SOURCE_NOT_DEMAND},
      {"instruction fetch", Word(kExec, 0, kNumberRam), TMPROF_SOURCE_NOT_DEMAND},
      {"no memory operation", Word(kNoOp, 0, kNumberNa), TMPROF_SOURCE_NOT_DEMAND},
      {"nothing known", Word(kLoad, 0x01, kNumberNa), TMPROF_SOURCE_UNKNOWN},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(tmprof_decode_data_source(test.word), test.expected) << test.name;
    const bool memory =
        test.expected == TMPROF_SOURCE_LOCAL_MEMORY || test.expected == TMPROF_SOURCE_REMOTE_MEMORY;
    EXPECT_EQ(tmprof_beyond_llc(tmprof_decode_data_source(test.word)) != 0, memory) << test.name;
  }
}

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

  std::filesystem::path devices_;
};

TEST_F(HardwareTest, AsksIbsToCountOperationsWithThePapersPeriod) {
  PutIbs();
  const auto setup = FindIbs(devices_, SampleRate::k1x);
  ASSERT_TRUE(setup.has_value());
  ASSERT_EQ(setup->events.size(), 1u);
  const perf_event_attr& attr = setup->events[0].event.attr;
  EXPECT_EQ(attr.type, 11u);
  EXPECT_EQ(attr.config, 1u << 19);
  EXPECT_EQ(attr.sample_period, 262'144u);
  EXPECT_EQ(FindIbs(devices_, SampleRate::k4x)->events[0].event.attr.sample_period, 65'536u);
  EXPECT_EQ(FindIbs(devices_, SampleRate::k8x)->events[0].event.attr.sample_period, 32'768u);
}

TEST_F(HardwareTest, TakesTheListedPmuAsEvidenceNotAnEventThatOpens) {
  FakePerfApi accepts_everything;
  EXPECT_FALSE(FindHardware(accepts_everything, SampleRate::k1x, devices_).has_value());
  for (const Probe& probe : ProbeHardware(accepts_everything, devices_)) {
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

TEST_F(HardwareTest, SamplesLoadsAndStoresByTheNamesThatThisCpuKnows) {
  Put("cpu/caps/max_precise", "3");
  const EventEncoder old_cpu = [](const std::string& name) -> Result<perf_event_attr> {
    perf_event_attr attr{};
    attr.type = PERF_TYPE_RAW;
    if (name == "MEM_TRANS_RETIRED:LATENCY_ABOVE_THRESHOLD:ldlat=3") attr.config = 0x1cd;
    if (name == "MEM_TRANS_RETIRED:PRECISE_STORE") attr.config = 0x2cd;
    if (attr.config == 0) return Fail(BadInput("encode performance event", name, "unknown"));
    return attr;
  };
  const auto setup = FindPebs(devices_, old_cpu, SampleRate::k4x);
  ASSERT_TRUE(setup.has_value());
  ASSERT_EQ(setup->events.size(), 2u);
  EXPECT_EQ(setup->events[0].event.attr.config, 0x1cdu);
  EXPECT_EQ(setup->events[1].event.attr.config, 0x2cdu);
  EXPECT_EQ(setup->events[0].event.attr.sample_period, 65'536u);
  EXPECT_EQ(setup->events[0].event.attr.precise_ip, 2u);
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

class StoppedClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now; }
  MonotonicTime now;
};

std::vector<std::byte> HardwareSample(std::uint32_t pid, std::uint64_t address,
                                      std::uint64_t data_source) {
  return RecordBytes(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER)
      .Word(0x401000)
      .Pair(pid, pid)
      .Word(0)
      .Word(address)
      .Word(0)
      .Word(data_source)
      .Word(0)
      .Build();
}

std::uint64_t Detail(const SourceStatus& status, const std::string& name) {
  for (const NamedCount& detail : status.details) {
    if (detail.name == name) return detail.count;
  }
  ADD_FAILURE() << "no detail " << name;
  return 0;
}

TEST_F(HardwareTest, CountsDemandAccessesToMemoryAndNamesWhatItLeavesOut) {
  PutIbs();
  FakePerfApi api;
  api.threads[Pid(100)] = {Tid(100)};
  StoppedClock clock;
  auto setup = FindHardware(api, SampleRate::k1x, devices_);
  ASSERT_TRUE(setup.has_value());
  auto sampler = HardwareSampler::Create(api, clock, std::move(*setup));
  ASSERT_TRUE(sampler.has_value());
  TrackedProcess target;
  target.id = TargetId(9);
  target.pid = Pid(100);
  ASSERT_TRUE((*sampler)->SetTargets({target}).has_value());

  const std::uint64_t memory_load = Word(kLoad, 0, kNumberRam);
  api.Write(0, HardwareSample(100, 0x7000, memory_load));
  api.Write(0, HardwareSample(100, 0x7fff, Word(kStore, 0, kNumberRam, 1)));
  api.Write(0, HardwareSample(100, 0x8000, Word(kLoad, 0, kNumberL3)));
  api.Write(0, HardwareSample(100, 0x8000, Word(kLoad | kPrefetch, 0, kNumberRam)));
  api.Write(0, HardwareSample(100, 0, memory_load));
  api.Write(0, HardwareSample(100, 0xffff'8880'0000'0000, memory_load));
  api.Write(0, RecordBytes(PERF_RECORD_LOST).Word(1).Word(40).Build());
  clock.now += std::chrono::seconds(1);
  (*sampler)->SetActive(false);
  clock.now += std::chrono::seconds(3);
  const SourceEpoch epoch = (*sampler)->TakeEpoch();
  ASSERT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(epoch.samples[0].key, (PageKey{TargetId(9), Vpn(7)}));
  EXPECT_EQ(epoch.samples[0].loads, 1u);
  EXPECT_EQ(epoch.samples[0].stores, 1u);
  EXPECT_EQ(epoch.status.name, "ibs");
  EXPECT_EQ(epoch.status.observations, 2u);
  EXPECT_EQ(epoch.status.lost, 40u);
  EXPECT_EQ(Detail(epoch.status, "served_by_cache"), 1u);
  EXPECT_EQ(Detail(epoch.status, "not_demand"), 1u);
  EXPECT_EQ(Detail(epoch.status, "no_address"), 2u);
  EXPECT_DOUBLE_EQ(epoch.status.duty_cycle.value(), 0.25);
}

}  // namespace
}  // namespace tmprof
