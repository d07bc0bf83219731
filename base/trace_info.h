// SPDX-License-Identifier: Apache-2.0
// Facts that hold for a whole trace: how and where it was made.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace tmprof {

// Cost constants measured on the recording host at start-up. Absent: not measured there.
struct Calibration {
  std::optional<double> ns_per_set;     // target CPU: hardware sets a cleared accessed bit again
  std::optional<double> ns_per_look;    // target CPU: disturbance per 2 MiB block read
  std::optional<double> ns_per_sample;  // target CPU: one clock interrupt
  std::optional<double> ns_per_point;   // target CPU: the bit of one page cleared by itself
  // The cost per point that was assumed because it could not be measured. Both absent: no page was
  // cleared by itself.
  std::optional<double> assumed_ns_per_point;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// One setting in force, in the user's spelling.
struct Setting {
  std::string name;   // "max-overhead"
  std::string value;  // "1%"
  friend bool operator==(const Setting&, const Setting&) = default;
};

struct TraceInfo {
  std::string tool_version;    // "tmprof 0.1.0"
  std::string kernel_release;  // uname -r
  std::string cpu_model;
  std::uint32_t cpus = 0;
  std::chrono::system_clock::time_point wall_start;  // at `start`
  MonotonicTime start;
  std::chrono::nanoseconds epoch_length{0};
  Calibration calibration;
  std::vector<Setting> settings;
  // NUMA nodes with memory by tier, fastest first; one tier if all memory is of one class. Empty:
  // unknown.
  std::vector<std::vector<NodeId>> tiers;
  // Facts that a reader of the numbers must know: "another scanner …"
  std::vector<std::string> warnings;
  friend bool operator==(const TraceInfo&, const TraceInfo&) = default;
};

}  // namespace tmprof
