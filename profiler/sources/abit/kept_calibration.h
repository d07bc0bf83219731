// SPDX-License-Identifier: Apache-2.0
// The figures of a calibration as they are kept for the next start.

#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "profiler/kept_figures.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/calibration.h"
#include "profiler/sources/abit/whole_flush_trial.h"

namespace tmprof::abit {

// Unsettled figures count for a short time only: the next calibration may find better ones. A busy
// machine stays busy for some starts, and each calibration would add seconds of work to it.
inline constexpr std::chrono::minutes kUnsettledAreKeptFor{5};

// nullopt: these figures are not worth keeping, because some are too large to be true. `measured`:
// those that the calibration tried to measure.
std::optional<KeptFigures::Figures> FiguresOf(const MeasuredCost& cost, CostFigures measured);
// The inverse. nullopt: one that is wanted was not measured, or is more or less than it can be.
std::optional<MeasuredCost> CostFrom(const KeptFigures::Figures& figures, CostFigures wanted);

// nullopt: flushes are not to be relied on by this trial.
std::optional<KeptFigures::Figures> FiguresOf(const WholeFlushTrial& trial);
// The inverse. nullopt: the figures are of no trial after which flushes are to be relied on.
std::optional<WholeFlushTrial> TrialFrom(const KeptFigures::Figures& figures);

struct KeptCostOfBits {
  MeasuredCost cost;
  std::chrono::nanoseconds age{0};
};

// `kept`: nullopt, if nothing is to be kept. `source`: whose prices these are.
// MeasuredCost::unsettled is as it was kept.
std::optional<KeptCostOfBits> KeptCost(const std::optional<KeptFigures>& kept,
                                       std::string_view source, CostFigures wanted,
                                       AbitKernel& kernel);
std::optional<WholeFlushTrial> KeptTrial(const std::optional<KeptFigures>& kept,
                                         AbitKernel& kernel);

// These keep what is worth it; unsettled figures do not replace settled ones. A user who cannot
// write there measures again at the next start, without a word: nothing but time is lost.
void Keep(const std::optional<KeptFigures>& kept, std::string_view source, const MeasuredCost& cost,
          CostFigures measured, AbitKernel& kernel);
void Keep(const std::optional<KeptFigures>& kept, const WholeFlushTrial& trial, AbitKernel& kernel);

}  // namespace tmprof::abit
