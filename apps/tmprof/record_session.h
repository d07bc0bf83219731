// SPDX-License-Identifier: Apache-2.0
// Records programs into a trace file, until they end, the time is up or a signal asks to stop.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "apps/tmprof/recorded_objects.h"
#include "profiler/recording_options.h"

namespace tmprof {

struct RecordOptions : RecordingOptions {
  std::string output;  // trace file
  // Names what was recorded in the line at the end; empty: the file does.
  std::string title;
  std::vector<std::string> command;  // to launch; empty: `pids` or `all` names targets
  ObjectRecordingOptions objects;
  bool quiet = false;
  bool tells_settings = true;  // before the recording; at its end, what was seen if it was enough
};

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
