// SPDX-License-Identifier: Apache-2.0
// Shared parts of the synthetic workloads: options, memory, the access loop, reports and the truth.
// Each program adds its own options and the pattern that they stand for.

#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>

#include "testbed/workloads/pattern.h"
#include "testbed/workloads/program.h"

namespace tmprof::workload {

class Workload {
 public:
  virtual ~Workload() = default;

  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  virtual void AddOptions(CLI::App& app) = 0;

  // The pattern over a footprint of `spans`, or why the options do not fit it.
  virtual std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const = 0;

  // How long a phase lasts in a run of `duration`; above zero.
  virtual std::chrono::nanoseconds Shift(std::chrono::nanoseconds duration) const = 0;
};

// The whole program. Exit status: 0 done (also when SIGINT or SIGTERM ended it early), 2 bad input,
// 1 the system refused something.
int RunWorkload(Workload& workload, int argc, char** argv);

}  // namespace tmprof::workload
