// SPDX-License-Identifier: Apache-2.0
// Records programs into a trace file, until they end, the time is up or a signal asks to stop.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/tmprof/recorded_objects.h"
#include "base/result.h"
#include "profiler/source_choice.h"
#include "profiler/source_kind.h"

namespace tmprof {

struct RecordOptions {
  std::string output;  // trace file
  // Names what was recorded in the line at the end; empty: the file does.
  std::string title;
  std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
  std::optional<std::chrono::nanoseconds> duration;
  SourceChoice sources;
  std::optional<std::uint64_t> epoch_instructions;  // only with the exact tracer
  std::optional<std::uint64_t> exact_llc_bytes;     // only with the exact tracer
  // Only with exact_llc_bytes; see exact::ExactOptions.
  std::optional<std::uint64_t> exact_l2_bytes;
  std::optional<std::uint64_t> exact_prefetch_lines;
  std::optional<std::chrono::nanoseconds> exact_stall;
  bool follow_children = true;
  bool process_filter = true;
  std::optional<std::size_t> max_targets;
  std::vector<int> pids;
  bool all = false;  // every process that runs when the recording begins
  std::vector<std::string> command;
  ObjectRecordingOptions objects;
  bool quiet = false;
  bool tells_settings = true;  // before the recording; at its end, what was seen if it was enough

  bool exact() const {
    return std::ranges::find(sources.names, kExactSource.name) != sources.names.end();
  }
};

// Refuses times, shares and numbers with which nothing can be recorded.
Status CheckRecording(const RecordOptions& options);

// A recording of running processes that ended before RecordOptions::duration.
struct EarlyEnd {
  std::chrono::nanoseconds after{0};
  bool by_signal = false;  // else all processes have ended
};

// Says on standard error what went wrong, or what was seen. Returns the exit status: that of the
// launched command, kSawLittle, or that of the error. `early`, unless null, is set if the recording
// ended early. Preconditions: CheckRecording() finds no fault, there are targets or a command to
// launch, and the options go together.
int Record(RecordOptions options, std::optional<EarlyEnd>* early = nullptr);

}  // namespace tmprof
