// SPDX-License-Identifier: Apache-2.0
// Says in a sentence if tmprof works on this machine, and what would make it better.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host/cpu_identity.h"
#include "base/units.h"
#include "profiler/probe.h"

namespace tmprof {

// The sources that `tmprof record` takes on this machine if the user names none.
struct ChosenSources {
  std::vector<std::string> names;    // of `kSourceKinds`; empty: none works
  std::string refusal;               // set if none works: why, and what helps
  std::optional<double> ns_per_set;  // the program's CPU time when a cleared bit is set again
};

struct MachineVerdict {
  bool is_fine = false;  // accessed bits and samples
  std::string text;      // one sentence without a period
  // Memory of a busy program that is looked at once in kReachSeconds at the default overhead.
  // nullopt: there are no accessed bits, or their price is unknown.
  std::optional<PageCount> reach;
  struct Gain {
    std::string what;
    std::string how;  // or why it is not possible here
  };
  std::vector<Gain> gains;
};

inline constexpr double kReachSeconds = 30;
inline constexpr double kReachOverhead = 0.01;

// Returns why nothing makes the probed thing work on this machine: "no AMD CPU". Empty:
// something may.
std::string WhyImpossible(const Probe& probe, const CpuIdentity& cpu);

// A pure function. `probes` are those of ProbeSources().
MachineVerdict VerdictOf(std::span<const Probe> probes, const ChosenSources& chosen,
                         const CpuIdentity& cpu);

}  // namespace tmprof
