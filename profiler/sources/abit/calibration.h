// SPDX-License-Identifier: Apache-2.0
// What accessed bits cost a program on this host.

#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"
#include "profiler/sources/abit/abit_kernel.h"

namespace tmprof::abit {

struct MeasuredCost {
  double ns_per_set = 0;
  // Absent where the child was hardly ever on a CPU at the same time as a look: one CPU, or a busy
  // machine.
  std::optional<double> ns_per_look;
  // Beside that of the bit that is set again. Absent where it was not asked for, and where the
  // child was hardly ever on a CPU for seconds.
  std::optional<double> ns_per_point;
};

// Where it could not be measured: between the 3 to 6.5 us that the calibration gives on an idle
// two-CPU guest of an Intel Xeon and the 11 us that were fitted on a busy one of an AMD EPYC.
inline constexpr double kAssumedNsPerLook = 6'000;

// A flush by an interrupt to another CPU: 8 us were measured on a guest of an AMD EPYC for a
// shootdown, and 12 to 15 us on a busy one for a clear of one page.
inline constexpr double kAssumedNsPerPoint = 12'000;

enum class MeasurePoints : bool { kNo, kYes };

// Runs a child process that sweeps a buffer of its own out of order, and takes the difference that
// clears make, and that looks make to a cleared buffer; medians of many passes. Takes about
// `time_limit`, less where the figures are settled before; with points as long again, and up to
// nine times on a busy machine. The child is gone on return.
Result<MeasuredCost> Calibrate(
    AbitKernel& kernel, MeasurePoints points = MeasurePoints::kNo,
    std::chrono::milliseconds time_limit = std::chrono::milliseconds(250));

}  // namespace tmprof::abit
