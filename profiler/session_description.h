// SPDX-License-Identifier: Apache-2.0
// Describes a recording, as the head of its trace has it.

#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/trace_info.h"
#include "profiler/session_sources.h"

namespace tmprof {

// Returns the head of a trace that begins at `start`: program, machine, time, and its tiers, none
// where the kernel does not say. To the settings it adds how much longer an access takes in each
// tier, if the firmware reports it of any. The caller adds calibration and warnings.
TraceInfo DescribeSession(std::vector<Setting> settings, std::chrono::nanoseconds epoch,
                          MonotonicTime start);

// Returns "accessed bits 1560s before, clock samples now", in whole minutes from one minute on.
// Empty: all was measured at this start.
std::string CalibratedText(std::span<const SessionSources::FiguresAge> figures);

}  // namespace tmprof
