// SPDX-License-Identifier: Apache-2.0
// Hand-made traces for the tests of report/.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "proto/trace.h"
#include "tests/base/hand_made.h"

namespace tmprof {

constexpr MonotonicTime kTraceStart{std::chrono::seconds(100)};

inline Trace TraceOf(std::vector<EpochProfile> epochs, std::optional<Error> damage = {},
                     std::optional<bool> finished = {}) {
  Trace trace;
  trace.name = "test.data";
  trace.info.tool_version = "tmprof 0.1.0";
  trace.info.kernel_release = "6.18.0";
  trace.info.cpu_model = "Test CPU";
  trace.info.cpus = 2;
  trace.info.start = kTraceStart;
  trace.info.epoch_length = std::chrono::seconds(1);
  trace.open = [epochs = std::move(epochs), damage = std::move(damage),
                finished]() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<FaultyStream>(epochs, damage, finished);
  };
  return trace;
}

inline SourceStatus ReferenceSource(std::uint64_t looks) {
  return {.name = "abit-bpf",
          .label = "accessed bits",
          .role = SourceRole::kReferences,
          .state = SourceState::kActive,
          .duty_cycle = 1.0,
          .observations = looks,
          .lost = 0,
          .details = {},
          .note = ""};
}

inline SourceStatus SampleSource(std::uint64_t samples) {
  return {.name = "clock",
          .label = "clock (memory-stall time)",
          .role = SourceRole::kSamples,
          .state = SourceState::kActive,
          .samples_of = SampleSubject::kTime,
          .duty_cycle = 1.0,
          .observations = samples,
          .lost = 0,
          .details = {},
          .note = ""};
}

inline Target MakeTarget(std::uint32_t id, std::int32_t pid, std::string name) {
  Target target;
  target.id = TargetId(id);
  target.pid = Pid(pid);
  target.name = std::move(name);
  target.command = "/usr/bin/" + target.name;
  target.cpu_time = std::chrono::seconds(1);
  return target;
}

// One second long, the `index`-th of its trace, with both kinds of source active and no page.
inline EpochProfile MakeEpoch(std::uint64_t index, std::vector<Target> targets) {
  EpochProfile epoch;
  epoch.index = index;
  epoch.start = kTraceStart + std::chrono::seconds(index);
  epoch.end = epoch.start + std::chrono::seconds(1);
  epoch.targets = std::move(targets);
  epoch.sources = {ReferenceSource(0), SampleSource(0)};
  epoch.profiler_cpu_time = std::chrono::milliseconds(5);
  return epoch;
}

struct Seen {
  std::uint64_t vpn = 0;
  std::uint32_t looks = 0;
  std::uint32_t references = 0;
  std::uint32_t loads = 0;
  std::uint32_t stores = 0;
  std::uint64_t span = 1;
};

// Pages in ascending order, after those already there.
inline void See(EpochProfile& epoch, std::uint32_t target, const std::vector<Seen>& pages) {
  for (const Seen& page : pages) {
    Append(epoch.pages, {.key = {TargetId(target), Vpn(page.vpn)},
                         .span = PageCount(page.span),
                         .looks = page.looks,
                         .references = page.references,
                         .first_accesses = page.references > 0 ? 1u : 0u,
                         .time_at_risk = LogDuration::FromNanoseconds(std::chrono::seconds(1)),
                         .load_samples = page.loads,
                         .store_samples = page.stores,
                         .node = std::nullopt});
  }
}

}  // namespace tmprof
