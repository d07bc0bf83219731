// SPDX-License-Identifier: Apache-2.0
// Makes tests/golden/v2.tmprof.data. It is part of no test: run it once for each version of the
// format, commit the file, and never make that version's file again.
//   ninja -C build/release make_golden
//   build/release/make_golden tests/golden/v2.tmprof.data
// v1.tmprof.data has the same content, but for what version 2 added (GoldenTrace of
// golden_test.cc).

#include <cstdio>

#include "base/epoch_profile.h"
#include "base/trace_info.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TraceInfo GoldenInfo() {
  TraceInfo info;
  info.tool_version = "tmprof 0.1.0";
  info.kernel_release = "6.12.9";
  info.cpu_model = "Golden CPU @ 2.50GHz";
  info.cpus = 4;
  info.wall_start = std::chrono::system_clock::time_point(seconds(1'767'225'600));
  info.start = MonotonicTime(seconds(500));
  info.epoch_length = seconds(1);
  info.calibration.ns_per_set = 170;
  info.calibration.ns_per_look = 11000.5;
  info.settings = {{"max-overhead", "1%"}, {"abit", "ladder"}};
  info.warnings = {"numa_balancing is on"};
  return info;
}

// One block read by the ladder, page by page and uneven enough to need every column coding; one
// huge page; samples on either side; a child that exits.
EpochProfile FirstEpoch() {
  EpochProfile epoch;
  epoch.start = MonotonicTime(seconds(500));
  epoch.end = MonotonicTime(milliseconds(501'001));
  epoch.profiler_cpu_time = microseconds(2500);
  epoch.sources = {{.name = "abit-bpf",
                    .label = "accessed bits (ladder)",
                    .role = SourceRole::kReferences,
                    .state = SourceState::kActive,
                    .duty_cycle = 1.0,
                    .observations = 3591,
                    .lost = 0,
                    .details = {{"clears", 2}, {"tlb_stale", 1}},
                    .note = ""},
                   {.name = "clock",
                    .label = "clock (memory-stall time)",
                    .role = SourceRole::kSamples,
                    .state = SourceState::kGated,
                    .duty_cycle = 0.0,
                    .observations = std::nullopt,
                    .lost = std::nullopt,
                    .details = {},
                    .note = ""},
                   {.name = "exact",
                    .label = "truth",
                    .role = SourceRole::kTruth,
                    .state = SourceState::kUnavailable,
                    .duty_cycle = std::nullopt,
                    .observations = std::nullopt,
                    .lost = std::nullopt,
                    .details = {},
                    .note = "not asked for"}};

  Target server;
  server.id = TargetId(0);
  server.pid = Pid(1234);
  server.start_time_ticks = 49'000;
  server.name = "server";
  server.command = "server --port 1";
  server.cpu_time = milliseconds(950);
  server.resident_pages = PageCount(4321);
  server.mappings = {
      {.range = {Vpn(0x55555), Vpn(0x55600)},
       .kind = MappingKind::kFile,
       .path = "/bin/server",
       .file = FilePlace{.device = 0x800001, .inode = 131, .offset = PageCount(0)}},
      {.range = {Vpn(0x55600), Vpn(0x55700)}, .kind = MappingKind::kHeap, .path = ""},
      {.range = {Vpn(0x7f0000000), Vpn(0x7f0000800)}, .kind = MappingKind::kAnonymous, .path = ""},
      {.range = {Vpn(0x7f0001000), Vpn(0x7f0001100)},
       .kind = MappingKind::kShared,
       .path = "/shm",
       .file = FilePlace{.device = 1, .inode = 7, .offset = PageCount(0x80)}},
      {.range = {Vpn(0x7ffff0000), Vpn(0x7ffff0020)}, .kind = MappingKind::kStack, .path = ""},
      {.range = {Vpn(0x7ffff0030), Vpn(0x7ffff0032)},
       .kind = MappingKind::kSpecial,
       .path = "[vdso]"}};
  Target child;
  child.id = TargetId(1);
  child.pid = Pid(1235);
  child.start_time_ticks = 49'500;
  child.name = "caf\xe9";  // Latin-1: text is bytes
  child.exited = true;
  epoch.targets = {server, child};

  Append(epoch.pages,
         {.key = {TargetId(0), Vpn(0x55600)}, .load_samples = 300, .node = std::nullopt});
  for (std::uint32_t page = 0; page < 512; ++page) {
    const std::uint32_t references = page % 8;
    PageRecord record{.key = {TargetId(0), Vpn(0x7f0000000 + page)},
                      .looks = 7,
                      .references = references,
                      .first_accesses = references > 0,
                      .node = NodeId(0)};
    record.time_at_risk = LogDuration::FromCode(static_cast<std::uint16_t>(479 - 32 * references));
    if (page == 100) record.store_samples = 2;
    if (references == 7) {
      record.fast_looks = 3;
      record.fast_found = page % 3;
      record.fast_time = LogDuration::FromNanoseconds(microseconds(12));
    }
    Append(epoch.pages, record);
  }
  Append(epoch.pages, {.key = {TargetId(0), Vpn(0x7f0000200)},
                       .span = PageCount(512),
                       .looks = 7,
                       .references = 6,
                       .first_accesses = 1,
                       .time_at_risk = LogDuration::FromNanoseconds(milliseconds(1)),
                       .node = NodeId(1)});
  Append(epoch.pages, {.key = {TargetId(1), Vpn(0x55600)}, .load_samples = 1});
  return epoch;
}

// The mappings stay, the child is gone.
EpochProfile SecondEpoch() {
  EpochProfile epoch = FirstEpoch();
  epoch.index = 2;
  epoch.start = MonotonicTime(seconds(502));
  epoch.end = MonotonicTime(seconds(503));
  epoch.targets.pop_back();
  epoch.targets[0].cpu_time = std::nullopt;
  epoch.targets[0].resident_pages = std::nullopt;
  epoch.pages = PageColumns();
  Append(epoch.pages, {.key = {TargetId(0), Vpn(0x7f0001000)}, .looks = 1, .references = 1});
  return epoch;
}

Status Make(const char* path) {
  Result<TraceWriter> writer = TraceWriter::Create(path, GoldenInfo());
  if (!writer) return Fail(writer.error());
  if (Status status = writer->Write(FirstEpoch()); !status) return status;
  if (Status status = writer->Write(SecondEpoch()); !status) return status;
  return writer->Finish();
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden FILE\n");
    return 2;
  }
  const tmprof::Status status = tmprof::Make(argv[1]);
  if (status) return 0;
  std::fprintf(stderr, "make_golden: %s\n", status.error().Message().c_str());
  return status.error().ExitStatus();
}
