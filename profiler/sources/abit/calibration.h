// SPDX-License-Identifier: Apache-2.0
// Measures how much CPU time accessed bits cost a program on this host.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/clear_loss.h"

namespace tmprof::abit {

// Figures of a calibration.
struct CostFigures {
  bool set = false;
  bool look = false;
  bool point = false;
  bool loss = false;
  bool any() const { return set || look || point || loss; }
  friend bool operator==(const CostFigures&, const CostFigures&) = default;
};

struct MeasuredCost {
  double ns_per_set = 0;
  // Absent where the child was hardly ever on a CPU at the same time as a look: one CPU, or a busy
  // machine.
  std::optional<double> ns_per_look;
  // Beside that of the bit that is set again. Absent where it was not asked for, and where the
  // child was hardly ever on a CPU for seconds.
  std::optional<double> ns_per_point;
  ClearLoss clear_loss;  // measured with points if the kernel reports running times
  // Names each figure that is too large to be true, and the one charged instead; empty: none is.
  std::string doubt;
  // These may be wrong or were not measured, and could be measured on a less busy machine.
  CostFigures unsettled;
};

// The most that a figure can be, whatever a busy machine gives for it. A price that is too high
// would have the budget allow no clear at all for the whole recording.
//
// A look takes the 64 lines of a table away from the CPU that writes to them, and each of these is
// fetched again: 300 ns from another socket.
inline constexpr double kMostNsPerLook = 64 * 300;
// A bit is set by a walk of the page tables, of up to 24 references to memory in a virtual machine
// (Bhargava et al., ASPLOS 2008), and the CPU finishes what it had begun before: 200 ns each.
inline constexpr double kMostNsPerSet = 25 * 200;
// An interrupt to another CPU and its flush: eight times what was measured on a busy guest.
inline constexpr double kMostNsPerPoint = 100'000;

// The least that a figure can be. Less than some ten lines taken from a cache cannot be
// distinguished from noise, and a flush of the CPU's own takes 500 ns.
inline constexpr double kLeastNsPerSet = 1;
inline constexpr double kLeastNsPerLook = 1'000;
inline constexpr double kLeastNsPerPoint = 500;

// CPU times of the child, each of one pass over the buffer: left alone; with all bits cleared; with
// all bits cleared and tables looked at.
struct Passes {
  double quiet_ns = 0;
  double cleared_ns = 0;
  double looked_at_ns = 0;
  std::uint64_t looks = 0;  // in the last one
};

// The cost of `pages` pages by those passes, of which there is at least one; no ns_per_point.
// Medians of the differences, where enough of them agree. Else the machine was busy, which only
// adds to the time of a pass: the least times count. No figure is above these bounds.
MeasuredCost CostOf(std::span<const Passes> passes, std::uint64_t pages);

// The cost of a look that could not be measured: between the 3 to 6.5 us that the calibration gives
// on an idle two-CPU guest of an Intel Xeon and the 11 us that were fitted on a busy one of an AMD
// EPYC.
inline constexpr double kAssumedNsPerLook = 6'000;

// A flush by an interrupt to another CPU: 8 us were measured on a guest of an AMD EPYC for a
// shootdown, and 12 to 15 us on a busy one for a clear of one page.
inline constexpr double kAssumedNsPerPoint = 12'000;

// Tries at one rung of pages that a child accesses at a known rate. The child was on a CPU in all
// of them.
struct KnownTries {
  // Each page is accessed so often in the child's CPU time while nobody disturbs it, at equal
  // intervals.
  double accesses_per_ns = 0;
  std::uint64_t tries = 0;
  std::uint64_t found = 0;
  double exposure_ns = 0;  // sum, from the middle of each clear
  std::chrono::nanoseconds least_clear =
      std::chrono::nanoseconds::max();  // one page's, on the clock
};

// Even the shortest clear takes too long for a try at this rung to count, so the loss cannot be
// measured there. False, too, if the batches are too few to decide.
bool ClearsAreTooSlow(std::span<const KnownTries> batches, std::size_t rung);

// Returns the median of what these batches' exposures lost by their clears. nullopt: they are too
// few or do not agree.
std::optional<std::chrono::nanoseconds> LossOf(std::span<const KnownTries> batches);

enum class MeasurePoints : bool { kNo, kYes };

// Returns the figures that a calibration by this kernel measures.
CostFigures FiguresToMeasure(const AbitKernel& kernel, MeasurePoints points);

// Runs a child process that sweeps a buffer of its own out of order, and takes the difference that
// clears make, and that looks make to a cleared buffer (CostOf). Takes about `time_limit`, less
// where the figures are settled before, and up to three times that where they are not; with points
// as long again, and up to nine times on a busy machine. The child is gone on return.
Result<MeasuredCost> Calibrate(
    AbitKernel& kernel, MeasurePoints points = MeasurePoints::kNo,
    std::chrono::milliseconds time_limit = std::chrono::milliseconds(250));

// Measures again the figures that `before` left unsettled, and returns the better of both
// (BetterOf). The child runs only on a CPU that would be idle. Fails if it gets none within 2 s, if
// memory is short, or if it is told to stop.
Result<MeasuredCost> CalibrateAgain(AbitKernel& kernel, const MeasuredCost& before,
                                    const std::stop_token& stop);

// Chooses each figure: a settled one, else the least of both. A figure of `again` counts only if
// `before` left it unsettled.
MeasuredCost BetterOf(const MeasuredCost& before, const MeasuredCost& again);

}  // namespace tmprof::abit
