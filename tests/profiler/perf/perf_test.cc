// SPDX-License-Identifier: Apache-2.0
// Rings, records and refusals, on hand-made bytes.

#include <asm/perf_regs.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>

#include "profiler/sources/perf/perf_record.h"
#include "profiler/sources/perf/perf_ring.h"
#include "profiler/sources/perf/sample_table.h"
#include "tests/base/host/headless_process.h"
#include "tests/profiler/perf/fake_perf_api.h"

namespace tmprof {
namespace perf_test {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kBaseType = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;

// A ring of `size` bytes whose reader and writer stand at `position`.
struct TestRing {
  explicit TestRing(std::size_t size, std::uint64_t position = 0) : data(size) {
    control.data_head = control.data_tail = position;
  }
  void Write(const Bytes& bytes) {
    for (const std::byte byte : bytes) data[control.data_head++ % data.size()] = byte;
  }
  std::vector<Bytes> Drain() {
    std::vector<Bytes> records;
    dropped = DrainRing({&control, data}, scratch, [&](std::span<const std::byte> record) {
      records.emplace_back(record.begin(), record.end());
    });
    return records;
  }
  perf_event_mmap_page control{};
  Bytes data;
  Bytes scratch;
  std::uint64_t dropped = 0;
};

TEST(PerfRing, DeliversRecordsInOrderAndGivesTheSpaceBack) {
  TestRing ring(4096);
  const Bytes first = RecordBytes(PERF_RECORD_LOST).Word(1).Word(2).Build();
  const Bytes second = RecordBytes(PERF_RECORD_THROTTLE).Word(3).Build();
  ring.Write(first);
  ring.Write(second);
  EXPECT_EQ(ring.Drain(), (std::vector{first, second}));
  EXPECT_EQ(ring.control.data_tail, ring.control.data_head);
  EXPECT_EQ(ring.dropped, 0u);
  EXPECT_TRUE(ring.Drain().empty());
}

TEST(PerfRing, PutsARecordThatWrapsBackTogetherAtEveryOffset) {
  for (std::uint64_t position = 0; position < 64; position += 8) {
    TestRing ring(64, 64 * 5 + position);
    const Bytes record = RecordBytes(PERF_RECORD_FORK).Word(11).Word(22).Word(33).Word(44).Build();
    ring.Write(record);
    EXPECT_EQ(ring.Drain(), std::vector<Bytes>{record}) << "at offset " << position;
  }
}

TEST(PerfRing, DropsWhatFollowsAHeaderShorterThanAHeader) {
  TestRing ring(4096);
  ring.Write(RecordBytes(PERF_RECORD_LOST).Word(1).Word(2).Build());
  ring.Write(Bytes(16));  // a header of size 0
  EXPECT_EQ(ring.Drain().size(), 1u);
  EXPECT_EQ(ring.dropped, 16u);
  EXPECT_EQ(ring.control.data_tail, ring.control.data_head);
}

TEST(PerfRing, DropsARecordThatRunsPastTheHead) {
  TestRing ring(4096);
  Bytes record = RecordBytes(PERF_RECORD_LOST).Word(1).Word(2).Build();
  reinterpret_cast<perf_event_header*>(record.data())->size = 4000;
  ring.Write(record);
  EXPECT_TRUE(ring.Drain().empty());
  EXPECT_EQ(ring.dropped, record.size());
}

TEST(PerfRing, DropsEverythingIfTheHeadIsFurtherAheadThanTheRingIsLong) {
  TestRing ring(64);
  ring.control.data_head = 1000;
  EXPECT_TRUE(ring.Drain().empty());
  EXPECT_EQ(ring.dropped, 1000u);
  EXPECT_EQ(ring.control.data_tail, 1000u);
}

template <typename T>
T ParseAs(const Bytes& bytes, std::uint64_t sample_type) {
  const auto record = ParsePerfRecord(bytes, sample_type);
  EXPECT_TRUE(record.has_value());
  EXPECT_TRUE(std::holds_alternative<T>(*record));
  return std::get<T>(*record);
}

TEST(PerfRecord, ReadsAHardwareSampleInTheOrderOfTheManual) {
  const std::uint64_t type = kBaseType | PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;
  const auto sample = ParseAs<PerfSample>(RecordBytes(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER)
                                              .Word(0x401000)        // ip
                                              .Pair(100, 101)        // pid, tid
                                              .Word(5'000)           // time
                                              .Word(0x7f0000001234)  // addr
                                              .Word(0xdead)          // data_src
                                              .Build(),
                                          type);
  EXPECT_FALSE(sample.kernel_mode);
  EXPECT_EQ(sample.ip, 0x401000u);
  EXPECT_EQ(sample.process, Pid(100));
  EXPECT_EQ(sample.thread, Tid(101));
  EXPECT_EQ(sample.time.time_since_epoch().count(), 5'000);
  EXPECT_EQ(sample.address, 0x7f0000001234u);
  EXPECT_EQ(sample.data_source, 0xdeadu);
  EXPECT_FALSE(sample.registers.has_value());
}

// Each register holds 1000 + its number in perf's register file, so a mix-up of orders shows.
RecordBytes SampleWithRegisters(std::uint64_t abi) {
  RecordBytes record(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
  record.Word(0x401000).Pair(1, 1).Word(0).Word(abi);
  for (std::uint64_t number = 0; number < 64; ++number) {
    if (kUserRegisterMask >> number & 1) record.Word(1000 + number);
  }
  return record;
}

TEST(PerfRecord, PutsRegistersIntoEncodingOrder) {
  const auto sample = ParseAs<PerfSample>(SampleWithRegisters(PERF_SAMPLE_REGS_ABI_64).Build(),
                                          kBaseType | PERF_SAMPLE_REGS_USER);
  ASSERT_TRUE(sample.registers.has_value());
  const GeneralRegisters& general = sample.registers->general;
  EXPECT_EQ(general[0], 1000u + PERF_REG_X86_AX);
  EXPECT_EQ(general[1], 1000u + PERF_REG_X86_CX);
  EXPECT_EQ(general[2], 1000u + PERF_REG_X86_DX);
  EXPECT_EQ(general[3], 1000u + PERF_REG_X86_BX);
  EXPECT_EQ(general[4], 1000u + PERF_REG_X86_SP);
  EXPECT_EQ(general[5], 1000u + PERF_REG_X86_BP);
  EXPECT_EQ(general[6], 1000u + PERF_REG_X86_SI);
  EXPECT_EQ(general[7], 1000u + PERF_REG_X86_DI);
  EXPECT_EQ(general[8], 1000u + PERF_REG_X86_R8);
  EXPECT_EQ(general[15], 1000u + PERF_REG_X86_R15);
  EXPECT_EQ(sample.registers->ip, 1000u + PERF_REG_X86_IP);
}

TEST(PerfRecord, RefusesTheRegistersOf32BitTasksAndKernelThreads) {
  EXPECT_FALSE(ParseAs<PerfSample>(SampleWithRegisters(PERF_SAMPLE_REGS_ABI_32).Build(),
                                   kBaseType | PERF_SAMPLE_REGS_USER)
                   .registers.has_value());
  EXPECT_FALSE(ParseAs<PerfSample>(RecordBytes(PERF_RECORD_SAMPLE)
                                       .Word(0)
                                       .Pair(1, 1)
                                       .Word(0)
                                       .Word(PERF_SAMPLE_REGS_ABI_NONE)
                                       .Build(),
                                   kBaseType | PERF_SAMPLE_REGS_USER)
                   .registers.has_value());
}

TEST(PerfRecord, TellsKernelModeFromTheHeader) {
  EXPECT_TRUE(ParseAs<PerfSample>(RecordBytes(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL)
                                      .Word(0)
                                      .Pair(1, 1)
                                      .Word(0)
                                      .Build(),
                                  kBaseType)
                  .kernel_mode);
}

TEST(PerfRecord, ReadsBothKindsOfLoss) {
  EXPECT_EQ(
      ParseAs<PerfLost>(RecordBytes(PERF_RECORD_LOST).Word(77).Word(5).Build(), kBaseType).count,
      5u);
  EXPECT_EQ(
      ParseAs<PerfLost>(RecordBytes(PERF_RECORD_LOST_SAMPLES).Word(6).Build(), kBaseType).count,
      6u);
}

TEST(PerfRecord, ReadsForkExitAndThrottle) {
  const auto fork = ParseAs<PerfFork>(ForkRecord(20, 10, 21, 11), kBaseType);
  EXPECT_EQ(fork.process, Pid(20));
  EXPECT_EQ(fork.parent, Pid(10));
  EXPECT_EQ(fork.thread, Tid(21));
  EXPECT_EQ(fork.parent_thread, Tid(11));
  const auto exit = ParseAs<PerfExit>(
      RecordBytes(PERF_RECORD_EXIT).Pair(20, 10).Pair(21, 11).Word(0).Build(), kBaseType);
  EXPECT_EQ(exit.process, Pid(20));
  EXPECT_EQ(exit.thread, Tid(21));
  ParseAs<PerfThrottle>(RecordBytes(PERF_RECORD_THROTTLE).Word(0).Word(0).Word(0).Build(),
                        kBaseType);
}

TEST(PerfRecord, TakesAnExecAndANewExecutableMappingAsAChangeOfCode) {
  const auto exec =
      ParseAs<PerfCodeChange>(RecordBytes(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC)
                                  .Pair(20, 20)
                                  .Word(0x6873)  // "sh"
                                  .Pair(20, 20)  // sample_id
                                  .Word(123)
                                  .Build(),
                              kBaseType);
  EXPECT_EQ(exec.process, Pid(20));
  EXPECT_EQ(exec.time.time_since_epoch().count(), 123);
  const auto mapping = ParseAs<PerfCodeChange>(RecordBytes(PERF_RECORD_MMAP2)
                                                   .Pair(30, 31)
                                                   .Word(0x1000)
                                                   .Word(0x1000)
                                                   .Word(0)
                                                   .Word(0)
                                                   .Word(0)
                                                   .Word(0)
                                                   .Pair(5, 2)
                                                   .Word(0)
                                                   .Pair(30, 31)
                                                   .Word(456)
                                                   .Build(),
                                               kBaseType);
  EXPECT_EQ(mapping.process, Pid(30));
  EXPECT_EQ(mapping.time.time_since_epoch().count(), 456);
  // A thread that renames itself keeps its code.
  ParseAs<PerfOther>(
      RecordBytes(PERF_RECORD_COMM).Pair(20, 20).Word(0x6873).Pair(20, 20).Word(1).Build(),
      kBaseType);
}

// Every cut of every kind is refused or read without touching a byte behind it (sanitizers watch).
TEST(PerfRecord, RefusesEveryTruncation) {
  const std::uint64_t type = kBaseType | PERF_SAMPLE_REGS_USER;
  const Bytes whole = SampleWithRegisters(PERF_SAMPLE_REGS_ABI_64).Build();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(ParsePerfRecord(cut, type).has_value()) << "header of another size, " << size;
    if (size < sizeof(perf_event_header)) continue;
    reinterpret_cast<perf_event_header*>(cut.data())->size = static_cast<std::uint16_t>(size);
    EXPECT_FALSE(ParsePerfRecord(cut, type).has_value()) << "cut at " << size;
  }
  for (const std::uint32_t kind : {PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_FORK,
                                   PERF_RECORD_EXIT, PERF_RECORD_MMAP2}) {
    EXPECT_FALSE(ParsePerfRecord(RecordBytes(kind).Build(), type).has_value()) << kind;
  }
}

NamedEvent AnyEvent() {
  NamedEvent event{.name = "cpu-clock", .attr = {}};
  return event;
}

Error OpenRefusedWith(FakePerfApi& api, int error) {
  api.refuse = [=](const perf_event_attr&, std::optional<Tid>) { return error; };
  return OpenEvent(api, AnyEvent(), Tid(4711), CpuId(3)).error();
}

TEST(PerfOpen, SaysThatDescriptorsRanOutAndHowManyThereAre) {
  FakePerfApi api;
  api.open_file_limit = 256;
  const Error error = OpenRefusedWith(api, EMFILE);
  EXPECT_EQ(error.system_error, EMFILE);
  EXPECT_THAT(error.object, HasSubstr("cpu-clock of TID 4711 on CPU 3"));
  EXPECT_THAT(error.advice, HasSubstr("256 (RLIMIT_NOFILE)"));
}

TEST(PerfOpen, SaysWhichParanoiaRefusedAndWhichCapabilityHelps) {
  FakePerfApi api;
  api.paranoid = 3;
  const Error error = OpenRefusedWith(api, EACCES);
  EXPECT_THAT(error.advice, HasSubstr("perf_event_paranoid is 3"));
  EXPECT_THAT(error.advice, HasSubstr("CAP_PERFMON"));
  api.paranoid = std::nullopt;
  EXPECT_THAT(OpenRefusedWith(api, EACCES).advice, HasSubstr("unreadable"));
}

TEST(PerfOpen, SaysThatTheMachineHasNoSuchEvent) {
  FakePerfApi api;
  EXPECT_THAT(OpenRefusedWith(api, ENOENT).advice, HasSubstr("no such event"));
  EXPECT_THAT(OpenRefusedWith(api, ENOSYS).advice, HasSubstr("CONFIG_PERF_EVENTS"));
}

TEST(KernelPerfApi, ListsTheThreadsAndTheParentOfThisProcess) {
  KernelPerfApi api;
  const std::vector<Tid> threads = api.Threads(Pid(getpid()));
  EXPECT_NE(std::ranges::find(threads, Tid(gettid())), threads.end());
  const auto origin = api.Origin(Pid(getpid()));
  ASSERT_TRUE(origin.has_value());
  EXPECT_EQ(origin->parent, Pid(getppid()));
  EXPECT_GT(origin->start_time_ticks, 0u);
  EXPECT_LE(origin->start_time_ticks, api.NowTicks());
  EXPECT_FALSE(api.Origin(Pid(std::numeric_limits<std::int32_t>::max())).has_value());
  EXPECT_TRUE(api.Threads(Pid(std::numeric_limits<std::int32_t>::max())).empty());
  EXPECT_FALSE(api.OnlineCpus().empty());
}

TEST(KernelPerfApi, ReadsTheCodeOfAProcessWhoseMainThreadHasExited) {
  static const std::array<std::uint8_t, 4> kCode{0x48, 0x8b, 0x03, 0x90};
  const HeadlessProcess child;
  std::array<std::uint8_t, 4> copy{};
  KernelPerfApi api;
  EXPECT_EQ(api.ReadMemory(child.pid(), reinterpret_cast<std::uint64_t>(kCode.data()), copy), 4u);
  EXPECT_EQ(copy, kCode);
}

perf_event_attr DummyEvent() {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.exclude_kernel = 1;
  return attr;
}

TEST(KernelPerfApi, OpensMoreFilesThanTheSoftLimitAllows) {
  constexpr rlim_t kSoft = 32;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 2 * kSoft) GTEST_SKIP() << "the hard limit is " << before.rlim_max;
  const perf_event_attr attr = DummyEvent();
  KernelPerfApi api;
  std::vector<UniqueFd> fds;
  const auto first = api.Open(attr, Tid(gettid()), std::nullopt);
  if (!first) GTEST_SKIP() << "perf_event_open refused: " << ErrnoText(first.error());

  const rlimit low{.rlim_cur = kSoft, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (rlim_t i = 0; i < kSoft; ++i) {
    auto fd = api.Open(attr, Tid(gettid()), std::nullopt);
    EXPECT_TRUE(fd.has_value()) << ErrnoText(fd.error());
    if (fd) fds.push_back(*std::move(fd));
  }
  EXPECT_EQ(api.OpenFileLimit(), before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(KernelPerfApi, LeavesDescriptorsForTheRestOfTheProcess) {
  constexpr rlim_t kLimit = 64;
  KernelPerfApi api;
  const perf_event_attr attr = DummyEvent();
  std::vector<UniqueFd> fds;
  const pid_t child = fork();  // it may lower its hard limit for good
  if (child == 0) {
    const rlimit low{.rlim_cur = kLimit, .rlim_max = kLimit};
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) _exit(10);
    for (rlim_t i = 0; i < kLimit; ++i) {
      auto fd = api.Open(attr, Tid(gettid()), std::nullopt);
      if (!fd && i == 0) _exit(11);
      // Refused as if there were none left, while a file can still be opened.
      if (!fd) _exit(fd.error() == EMFILE && open("/proc/self/stat", O_RDONLY) >= 0 ? 0 : 12);
      fds.push_back(*std::move(fd));
    }
    _exit(13);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 11) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TrackedProcess Named(std::uint32_t id, std::int32_t pid) {
  TrackedProcess process;
  process.id = TargetId(id);
  process.pid = Pid(pid);
  return process;
}

MATCHER_P4(IsRecord, id, page, loads, stores, "") {
  return arg.key.target == TargetId(id) && arg.key.vpn == Vpn(page) &&
         arg.loads == static_cast<std::uint32_t>(loads) &&
         arg.stores == static_cast<std::uint32_t>(stores);
}

TEST(SampleTable, CountsLoadsApartFromStoresPerPage) {
  SampleTable table;
  table.SetTargets({Named(7, 100)});
  table.Add(Pid(100), Vpn(1), AccessKind::kLoad);
  table.Add(Pid(100), Vpn(1), AccessKind::kStore);
  table.Add(Pid(100), Vpn(1), AccessKind::kLoad);
  table.Add(Pid(100), Vpn(2), AccessKind::kStore);
  EXPECT_THAT(table.Take().samples,
              UnorderedElementsAre(IsRecord(7, 1, 2, 1), IsRecord(7, 2, 0, 1)));
  EXPECT_TRUE(table.Take().samples.empty());
}

TEST(SampleTable, GivesAChildItsEarlySamplesOnceItIsNamed) {
  SampleTable table;
  table.Add(Pid(200), Vpn(5), AccessKind::kLoad);
  EXPECT_TRUE(table.Take().samples.empty());
  table.SetTargets({Named(3, 200)});
  const auto taken = table.Take();
  EXPECT_THAT(taken.samples, UnorderedElementsAre(IsRecord(3, 5, 1, 0)));
  EXPECT_EQ(taken.unknown_process, 0u);
}

TEST(SampleTable, CountsSamplesOfAProcessThatNobodyNamedWithinAnEpochAsUnknown) {
  SampleTable table;
  table.Add(Pid(200), Vpn(5), AccessKind::kLoad);
  table.Add(Pid(200), Vpn(5), AccessKind::kStore);
  EXPECT_EQ(table.Take().unknown_process, 0u);
  EXPECT_EQ(table.Take().unknown_process, 2u);
  table.SetTargets({Named(3, 200)});
  EXPECT_TRUE(table.Take().samples.empty());
}

TEST(SampleTable, DeliversADroppedTargetOnceMoreAndKeepsItApartFromTheNextOwnerOfItsPid) {
  SampleTable table;
  table.SetTargets({Named(1, 100)});
  table.Add(Pid(100), Vpn(1), AccessKind::kLoad);
  table.SetTargets({Named(2, 100)});
  table.Add(Pid(100), Vpn(1), AccessKind::kStore);
  EXPECT_THAT(table.Take().samples,
              UnorderedElementsAre(IsRecord(1, 1, 1, 0), IsRecord(2, 1, 0, 1)));
}

}  // namespace perf_test
}  // namespace tmprof
