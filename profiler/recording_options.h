// SPDX-License-Identifier: Apache-2.0
// The choice of what is recorded, by which sources and for how long, and its checks.

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "profiler/source_choice.h"
#include "profiler/sources/exact/exact_launch.h"

namespace tmprof {

struct RecordingOptions {
  std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
  std::optional<std::chrono::nanoseconds> duration;
  SourceChoice sources;
  exact::ExactOptions tracing;  // only with the exact tracer; `epoch` above is in force
  bool follow_children = true;
  bool process_filter = true;
  std::optional<std::size_t> max_targets;
  std::vector<int> pids;
  bool all = false;  // every process that runs when the recording begins

  // True: the exact tracer is among the sources.
  bool is_exact() const;
};

// Returns true if an option, such as "--ageing", stands on the command line.
using IsGiven = std::function<bool(const char* option)>;

// Refuses times, shares and numbers with which nothing can be recorded.
Status CheckRecording(const RecordingOptions& options);
// Refuses options of the exact tracer without it, options that it does not go with, and caches that
// need one that is not modelled.
Status CheckTracing(const RecordingOptions& options);
// Refuses options that would change nothing, because whoever gives one expects an effect.
Status CheckEffects(const RecordingOptions& options, const IsGiven& given);

}  // namespace tmprof
