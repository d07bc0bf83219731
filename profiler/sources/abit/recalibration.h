// SPDX-License-Identifier: Apache-2.0
// Repeats a calibration whose figures were not settled at the start, while others record.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "base/result.h"
#include "profiler/sources/abit/calibration.h"
#include "profiler/sources/abit/engine.h"

namespace tmprof::abit {

// The pause before each repeat. A program that kept the machine busy at the start, such as by
// loading, may be at rest after the first.
inline constexpr std::array<std::chrono::nanoseconds, 3> kRecalibrationPauses{
    std::chrono::seconds(10), std::chrono::seconds(60), std::chrono::seconds(300)};

// Works in a thread of its own, which a scan does not wait for. Ends once all figures are settled,
// or after the last pause.
class Recalibration {
 public:
  // Returns figures that are as good as those before, or better (CalibrateAgain).
  using Try =
      std::function<Result<MeasuredCost>(const MeasuredCost& before, const std::stop_token&)>;

  Recalibration(const MeasuredCost& first, Try try_again,
                std::span<const std::chrono::nanoseconds> pauses = kRecalibrationPauses);

  // Returns the figures in force; nullopt: they are those of the last call, or of the start.
  std::optional<MeasuredCost> Take();

  // No more repeats follow.
  bool over() const { return over_; }

 private:
  void Run(const std::stop_token& stop, MeasuredCost cost);

  Try try_;
  std::span<const std::chrono::nanoseconds> pauses_;
  std::mutex mutex_;
  std::optional<MeasuredCost> changed_;
  std::atomic<bool> over_{false};
  std::jthread thread_;  // last: it uses the others
};

// Prices that an engine charges by these figures: assumed ones for those that were not measured.
CostModel PricesOf(const MeasuredCost& cost);

// Tells of prices that are charged from now on.
std::string ToldAgain(const MeasuredCost& cost);

}  // namespace tmprof::abit
