// SPDX-License-Identifier: Apache-2.0
// Spells probes, and the verdict on a machine, as text and JSON.

#pragma once

#include <span>
#include <string>

#include "base/host/cpu_identity.h"
#include "base/text/format.h"
#include "profiler/machine_verdict.h"
#include "profiler/probe.h"

namespace tmprof {

// An object for each probe.
Json ProbesJson(std::span<const Probe> probes, const CpuIdentity& cpu);
// A paragraph for each job, each after an empty line. What nothing makes work here is summed up, a
// line for each reason, unless `shows_all`. Precondition: probes of one job follow one another.
std::string ProbesText(std::span<const Probe> probes, const CpuIdentity& cpu, bool shows_all);

Json VerdictJson(const MachineVerdict& verdict, const ChosenSources& chosen);
std::string VerdictText(const MachineVerdict& verdict);

}  // namespace tmprof
