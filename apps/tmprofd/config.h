// SPDX-License-Identifier: Apache-2.0
// The configuration of tmprofd: that of its daemon, and its targets and sources. proto/config.proto
// is the manual.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/units.h"
#include "daemon/config/daemon_config.h"
#include "profiler/recorder.h"
#include "profiler/source_choice.h"
#include "profiler/target_tracker.h"

namespace tmprof {

struct TargetConfig {
  std::vector<std::string> commands;     // fnmatch(3) patterns of /proc/PID/comm
  std::vector<std::string> executables;  // for /proc/PID/exe; no flag, so that * matches a slash
  std::vector<std::string> cgroups;      // "/system.slice/redis.service", with those below
  std::vector<Pid> pids;
  // `observer` is not the configuration's to say.
  TargetTracker::Options tracking;

  // Every process that passes tracking.filter, which then is set.
  bool Everything() const {
    return commands.empty() && executables.empty() && cgroups.empty() && pids.empty();
  }
  friend bool operator==(const TargetConfig&, const TargetConfig&) = default;
};

struct ProfileConfig {
  std::chrono::nanoseconds epoch = Recorder::Options{}.epoch;  // the shortest
  double max_cpu_share = 0.03;  // share of one CPU, at the end of epochs
  SourceChoice sources;
};

struct Config : DaemonConfig {
  TargetConfig targets;
  ProfileConfig profile;
};

}  // namespace tmprof
