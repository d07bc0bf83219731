// SPDX-License-Identifier: Apache-2.0
// What accessed bits cost a program on this host.

#pragma once

#include <chrono>

#include "base/result.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/scan_engine.h"

namespace tmprof::abit {

// Runs a child process that sweeps a buffer of its own in random order, and takes the difference
// with and without clears, and with and without looks, in pairs; medians. Takes about
// `time_limit`. The child is gone on return.
Result<CostModel> Calibrate(AbitKernel& kernel,
                            std::chrono::milliseconds time_limit = std::chrono::milliseconds(250));

}  // namespace tmprof::abit
