// SPDX-License-Identifier: Apache-2.0
// Recordings whose views have to show the same accesses, made by hand.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/text/format.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace recordings {

inline constexpr std::uint64_t kPages = 384;
inline constexpr std::uint64_t kEpochs = 12;

struct Recording {
  std::string name;
  bool bits = true;
  bool samples = true;
  bool exact = false;
  bool changes = false;         // the hot pages, in the middle
  bool rests = false;           // two epochs of three
  std::uint64_t region = 1;     // pages of a record
  std::uint32_t targets = 1;    // each like the others
  std::uint64_t exits_at = 99;  // the last target
  // All map one file. The second target accesses its pages a tenth as often as the first, and the
  // third was never observed.
  bool shares = false;
};

inline SourceStatus ExactSource() {
  return {.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive};
}

// A sixteenth of the pages is accessed 100 times as often as the others. A fourth of the pages is
// looked at in an epoch.
inline Trace Record(const Recording& recording) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < kEpochs; ++e) {
    const auto cpu = std::chrono::milliseconds(recording.rests && e % 3 != 0 ? 50 : 1000);
    std::vector<Target> targets;
    for (std::uint32_t t = 0; t < recording.targets; ++t) {
      if (t + 1 == recording.targets && e >= recording.exits_at) continue;
      targets.push_back(MakeTarget(t, static_cast<std::int32_t>(10 + t), "t"));
      targets.back().cpu_time = cpu;
      targets.back().mappings = {
          {.range = {Vpn(0), Vpn(128)}, .kind = MappingKind::kHeap},
          {.range = {Vpn(128), Vpn(300)}, .kind = MappingKind::kFile, .path = "/lib/x"}};
      if (recording.shares) {
        targets.back().mappings[1].kind = MappingKind::kShared;
        targets.back().mappings[1].file = FilePlace{.device = 1, .inode = 2};
      }
    }
    EpochProfile epoch = MakeEpoch(e, targets);
    epoch.sources.clear();
    if (recording.bits) epoch.sources.push_back(ReferenceSource(1));
    if (recording.samples) epoch.sources.push_back(SampleSource(1));
    if (recording.exact) epoch.sources.push_back(ExactSource());
    if (recording.region > 1) epoch.sources[0].details = {{"regions", kPages / recording.region}};
    for (const Target& target : targets) {
      const bool is_idle = recording.shares && target.id == TargetId(1);
      if (recording.shares && target.id == TargetId(2)) continue;
      for (std::uint64_t page = 0; page < kPages; page += recording.region) {
        const bool moved = recording.changes && e >= kEpochs / 2;
        const bool hot = page / (kPages / 16) == (moved ? 9 : 0);
        const double rate = (hot ? 2000 : 20) * (is_idle ? 0.1 : 1);
        PageRecord record{.key = {target.id, Vpn(page)}, .span = PageCount(recording.region)};
        if (recording.bits && (page / recording.region + e) % 4 == 0) {
          record.looks = 7;
          record.references = hot ? 6 : 2;
          record.first_accesses = 3;
          record.time_at_risk = LogDuration::FromNanoseconds(
              std::chrono::nanoseconds(static_cast<std::int64_t>(3e9 / rate)));
        }
        if (recording.samples && (hot ? (page + e) % 2 == 0 : (page + 7 * e) % 97 == 0)) {
          record.load_samples = 1;
        }
        if (recording.exact) {
          record.accesses =
              AccessCounts{.loads = static_cast<std::uint64_t>(rate * Seconds(cpu)), .stores = 1};
        }
        if (page % 3 != 0) record.node = NodeId(page % 2 == 0 ? 0 : 1);
        if (record.looks > 0 || record.load_samples > 0 || record.accesses) {
          Append(epoch.pages, record);
        }
      }
    }
    epochs.push_back(std::move(epoch));
  }
  return TraceOf(std::move(epochs));
}

inline const Recording kRecordings[] = {
    {.name = "steady"},
    {.name = "bits", .samples = false},
    {.name = "samples", .bits = false},
    {.name = "changing", .changes = true},
    {.name = "resting", .rests = true},
    {.name = "resting and changing", .changes = true, .rests = true},
    {.name = "regions", .region = 16},
    {.name = "several", .targets = 3},
    {.name = "exited", .changes = true, .targets = 2, .exits_at = 5},
    {.name = "shared", .targets = 4, .shares = true},
    {.name = "shared, exited", .changes = true, .targets = 4, .exits_at = 5, .shares = true},
    {.name = "shared regions", .region = 16, .targets = 4, .shares = true},
    {.name = "shared, exact",
     .bits = false,
     .samples = false,
     .exact = true,
     .targets = 4,
     .shares = true},
    {.name = "exact", .bits = false, .samples = false, .exact = true},
    {.name = "beside exact", .exact = true},
};

}  // namespace recordings
}  // namespace tmprof
