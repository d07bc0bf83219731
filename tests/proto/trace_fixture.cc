// SPDX-License-Identifier: Apache-2.0

#include "tests/proto/trace_fixture.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "proto/frame.h"

namespace tmprof {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TraceTest::TraceTest() {
  std::string name = (std::filesystem::temp_directory_path() / "tmprof-trace-XXXXXX").string();
  TMPROF_CHECK(::mkdtemp(name.data()) != nullptr);
  folder_ = name;
}

TraceTest::~TraceTest() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

FileSizeLimit::FileSizeLimit(std::uint64_t bytes) {
  old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
  EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit_), 0);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = old_limit_.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

FileSizeLimit::~FileSizeLimit() {
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit_), 0);
  std::signal(SIGXFSZ, old_handler_);
}

TraceInfo SmallInfo() {
  TraceInfo info;
  info.tool_version = "tmprof 0.1.0";
  info.kernel_release = "6.1.0-18-amd64";
  info.cpu_model = "A CPU";
  info.cpus = 2;
  info.wall_start = std::chrono::system_clock::time_point(seconds(1'700'000'000));
  info.start = MonotonicTime(seconds(100));
  info.epoch_length = seconds(1);
  info.calibration.ns_per_set = 170.5;
  info.calibration.ns_per_look = 0;  // measured as free, which is not "not measured"
  info.settings = {{"max-overhead", "1%"}, {"epoch", "1s"}};
  info.tiers = {{NodeId(0)}, {NodeId(1), NodeId(65535)}};
  info.warnings = {"NUMA balancing is on"};
  return info;
}

std::vector<EpochProfile> SmallEpochs() {
  Target server;
  server.id = TargetId(0);
  server.pid = Pid(4711);
  server.start_time_ticks = 987654;
  server.name = "redis-server";
  server.command = "redis-server *:6379";
  server.cpu_time = milliseconds(900);
  server.resident_pages = PageCount(0);  // known to have none
  server.ipc_namespace = 4'026'531'839;
  server.mappings = {
      {.range = {Vpn(0x400), Vpn(0x500)},
       .kind = MappingKind::kFile,
       .path = "/usr/bin/r\xff",
       .file = FilePlace{.device = 0, .inode = 1, .offset = PageCount(0)}},
      {.range = {Vpn(0x500), Vpn(0x600)}, .kind = MappingKind::kHeap, .path = ""},
      {.range = {Vpn(0x7f0000000), Vpn(0x7f0000400)}, .kind = MappingKind::kAnonymous, .path = ""},
      {.range = {Vpn(0xfffffffffffff), Vpn(0x10000000000000)},
       .kind = MappingKind::kSpecial,
       .path = "[vsyscall]"}};
  Target child;
  child.id = TargetId(3);
  child.pid = Pid(4712);
  child.name = "bgsave";
  child.exited = true;
  child.cpu_time = nanoseconds(0);  // known to have been idle
  child.mappings = {{.range = {Vpn(0x100), Vpn(0x200)}, .kind = MappingKind::kStack, .path = ""},
                    {.range = {Vpn(0x200), Vpn(0x300)},
                     .kind = MappingKind::kShared,
                     .path = "/SYSV00000000 (deleted)",
                     .file = FilePlace{.device = 0xfff'fffff,
                                       .inode = 0xffff'ffff'ffff'ffff,
                                       .offset = PageCount(0xfffff'ffffff00)}}};

  SourceStatus abit;
  abit.name = "abit-bpf";
  abit.label = "accessed bits (ladder)";
  abit.role = SourceRole::kReferences;
  abit.state = SourceState::kActive;
  abit.duty_cycle = 1.0;
  abit.observations = 25000;
  abit.lost = 0;
  abit.details = {{"clears", 50}, {"tlb_stale", 0}};
  SourceStatus clock;
  clock.name = "clock";
  clock.label = "clock (memory-stall time)";
  clock.role = SourceRole::kSamples;
  clock.samples_of = SampleSubject::kTime;
  clock.state = SourceState::kGated;
  clock.duty_cycle = 0.0;
  SourceStatus ibs;
  ibs.name = "ibs";
  ibs.role = SourceRole::kSamples;
  ibs.samples_of = SampleSubject::kMemory;
  ibs.accesses_per_sample = 16'384;
  ibs.state = SourceState::kUnavailable;
  ibs.note = "perf_event_open: ENOENT";

  EpochProfile first;
  first.index = 0;
  first.start = MonotonicTime(seconds(100));
  first.end = MonotonicTime(seconds(101));
  first.profiler_cpu_time = milliseconds(3);
  first.sources = {abit, clock, ibs};
  first.targets = {server, child};
  Append(first.pages, {.key = {TargetId(0), Vpn(0)},
                       .span = PageCount(1),
                       .load_samples = 1,
                       .node = std::nullopt});
  Append(first.pages, {.key = {TargetId(0), Vpn(0x400)},
                       .span = PageCount(512),
                       .looks = 7,
                       .references = 7,
                       .first_accesses = 1,
                       .time_at_risk = LogDuration::FromNanoseconds(nanoseconds(250'000)),
                       .first_read_finds = 1,
                       .first_read_time = LogDuration::FromNanoseconds(nanoseconds(500'000)),
                       .load_samples = 0xffffffff,
                       .store_samples = 300,
                       .node = NodeId(0)});
  Append(first.pages, {.key = {TargetId(0), Vpn(0x600)},
                       .span = PageCount(1),
                       .looks = 255,
                       .references = 254,
                       .time_at_risk = LogDuration::FromCode(1025),
                       .node = NodeId(0xffff),
                       .fast_looks = 300,
                       .fast_found = 299,
                       .fast_time = LogDuration::FromNanoseconds(nanoseconds(1'200'000)),
                       .fast_earlier = 600,
                       .fast_earlier_time = LogDuration::FromNanoseconds(nanoseconds(9'600'000))});
  Append(
      first.pages,
      {.key = {TargetId(3), Vpn(0x100)}, .span = PageCount(262144), .looks = 1, .node = NodeId(1)});
  Append(first.pages, {.key = {TargetId(3), Vpn(0xfffffffffffff)}, .store_samples = 2});

  first.pages.same_as = {0, 1, 2, 3, 2};

  EpochProfile second = first;  // the mappings of both targets stay
  second.index = 1;
  second.start = first.end;
  second.end = MonotonicTime(seconds(102));
  second.pages = PageColumns();
  Append(second.pages, {.key = {TargetId(3), Vpn(0x101)}, .looks = 3, .references = 1});

  EpochProfile third;  // epoch 2 was lost; the child is gone, a newcomer has no pages yet
  third.index = 3;
  third.start = MonotonicTime(seconds(103));
  third.end = MonotonicTime(seconds(104));
  server.mappings.pop_back();
  server.cpu_time = std::nullopt;
  server.resident_pages = PageCount(112'123);
  Target newcomer;
  newcomer.id = TargetId(4);
  newcomer.pid = Pid(5000);
  third.targets = {server, newcomer};
  return {first, second, third};
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  TMPROF_CHECK(in.good());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  TMPROF_CHECK(out.good());
}

void WriteTrace(const std::filesystem::path& path, const TraceInfo& info,
                const std::vector<EpochProfile>& epochs) {
  Result<TraceWriter> writer = TraceWriter::Create(path, info);
  ASSERT_TRUE(writer) << writer.error().Message();
  for (const EpochProfile& epoch : epochs) {
    const Status status = writer->Write(epoch);
    ASSERT_TRUE(status) << status.error().Message();
  }
  const Status status = writer->Finish();
  ASSERT_TRUE(status) << status.error().Message();
}

std::string TraceBytes(const std::filesystem::path& path, const std::vector<EpochProfile>& epochs) {
  WriteTrace(path, SmallInfo(), epochs);
  return ReadFile(path);
}

ReadBack ReadTrace(const std::filesystem::path& path, const ExtensionCodec* codec) {
  ReadBack back;
  Result<TraceReader> reader = TraceReader::Open(path, codec);
  if (!reader) {
    back.error = reader.error().Message();
    return back;
  }
  back.info = reader->info();
  EpochProfile epoch;
  while (true) {
    const Result<bool> more = reader->Next(epoch);
    if (!more) back.error = more.error().Message();
    if (!more || !*more) break;
    back.epochs.push_back(epoch);
  }
  back.finished = reader->finished();
  back.end = reader->End();
  return back;
}

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value /= 128) bytes.push_back(static_cast<char>(128 + value % 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Number(int field, std::uint64_t value) {
  return Varint(static_cast<std::uint64_t>(field) * 8) + Varint(value);
}

std::string Bytes(int field, std::string_view contents) {
  return Varint(static_cast<std::uint64_t>(field) * 8 + 2) + Varint(contents.size()) +
         std::string(contents);
}

std::string Packed(int field, std::initializer_list<std::uint64_t> values) {
  std::string contents;
  for (const std::uint64_t value : values) contents += Varint(value);
  return Bytes(field, contents);
}

std::string EmptyTrace() {
  return EncodePreamble(kTraceFormat.magic, kTraceFormat.version) + FrameOf(1, "");
}

std::string FrameOf(std::uint32_t kind, std::string_view message) {
  return std::string(FrameEncoder().Encode(static_cast<FrameKind>(kind), message));
}

}  // namespace tmprof
