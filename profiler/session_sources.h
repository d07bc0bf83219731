// SPDX-License-Identifier: Apache-2.0
// Which sources a recording uses, how the overhead budget is shared among them, and what was
// refused.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/trace_info.h"
#include "profiler/probe.h"
#include "profiler/recorder.h"
#include "profiler/source.h"
#include "profiler/source_choice.h"
#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

struct SessionSources {
  // The sources use these, which are declared first to outlive them.
  std::unique_ptr<PerfApi> perf;
  std::unique_ptr<Clock> clock;
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<SourceStatus> unavailable;  // asked for, or the better rung, and refused
  GateCheck gate;                         // empty: always on
  Calibration calibration;
  // Says of each kind of figures in `calibration` how long ago an earlier start measured them;
  // nullopt: this one did.
  struct FiguresAge {
    std::string_view of;
    std::optional<std::chrono::nanoseconds> age;
    bool is_settled = true;
  };
  std::vector<FiguresAge> figures_ages;
  AbitChoice abit;                            // the choice made, if there is a scanner
  std::optional<double> assumed_ns_per_look;  // charged where `calibration` has none
  std::vector<std::string> warnings;
};

// Fails when no source at all could be had, with every refusal and its fix in the message.
Result<SessionSources> OpenSources(const SourceChoice& choice);

// Every rung of the source ladder on this machine: accessed bits, address samples, gate.
std::vector<Probe> ProbeSources();

}  // namespace tmprof
