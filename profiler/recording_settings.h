// SPDX-License-Identifier: Apache-2.0
// The settings of a recording that are in force, as its trace and its first line have them.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/trace_info.h"
#include "profiler/recording_options.h"
#include "profiler/session_sources.h"

namespace tmprof {

// `objects` are the settings of what tracks or places allocations; they stand among the others.
std::vector<Setting> SettingsInForce(const RecordingOptions& options, const SessionSources& opened,
                                     const std::vector<Setting>& objects);
// The settings of an exact recording.
std::vector<Setting> TracingSettingsInForce(const RecordingOptions& options,
                                            const std::vector<Setting>& objects);

// "recording: source=auto epoch=1s ... chosen=abit,ibs ns-per-set=120" and a line feed: the
// settings, the sources that were opened, and the costs that were measured.
std::string SettingsLine(std::span<const Setting> settings, const SessionSources& sources);

}  // namespace tmprof
