// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/recalibration.h"

#include <condition_variable>
#include <utility>

#include <fmt/format.h>

#include "profiler/sources/abit/child_process.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

bool HasTheSameFigures(const MeasuredCost& a, const MeasuredCost& b) {
  return a.ns_per_set == b.ns_per_set && a.ns_per_look == b.ns_per_look &&
         a.ns_per_point == b.ns_per_point && a.clear_loss.is_measured == b.clear_loss.is_measured;
}

}  // namespace

Recalibration::Recalibration(const MeasuredCost& first, Try try_again,
                             std::span<const nanoseconds> pauses)
    : try_(std::move(try_again)),
      pauses_(pauses),
      thread_([this, first](const std::stop_token& stop) { Run(stop, first); }) {}

std::optional<MeasuredCost> Recalibration::Take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(changed_, std::nullopt);
}

void Recalibration::Run(const std::stop_token& stop, MeasuredCost cost) {
  RunLikeOthers();  // who begins this thread may be urgent
  std::mutex mutex;
  std::condition_variable_any stopped;
  for (const nanoseconds pause : pauses_) {
    if (!cost.unsettled.any()) break;
    {
      std::unique_lock lock(mutex);
      stopped.wait_for(lock, stop, pause, [] { return false; });
    }
    if (stop.stop_requested()) return;
    auto again = try_(cost, stop);
    if (!again) continue;  // the next one may have more luck
    if (!HasTheSameFigures(*again, cost)) {
      const std::scoped_lock lock(mutex_);
      changed_ = *again;
    }
    cost = *std::move(again);
  }
  over_ = true;
}

CostModel PricesOf(const MeasuredCost& cost) {
  return {.ns_per_set = cost.ns_per_set,
          .ns_per_look = cost.ns_per_look.value_or(kAssumedNsPerLook),
          .ns_per_point = cost.ns_per_point.value_or(kAssumedNsPerPoint)};
}

std::string ToldAgain(const MeasuredCost& cost) {
  const auto told = [](double ns, bool measured) {
    return fmt::format("{:.0f} ns{}", ns, measured ? "" : " (assumed)");
  };
  const CostModel prices = PricesOf(cost);
  std::string text = fmt::format(
      "what accessed bits cost the targets was measured again: from now on a bit is charged with "
      "{}, a look at a table with {}",
      told(prices.ns_per_set, true), told(prices.ns_per_look, cost.ns_per_look.has_value()));
  if (cost.ns_per_point)
    text += fmt::format(", a page cleared by itself with {}", told(prices.ns_per_point, true));
  return text;
}

}  // namespace tmprof::abit
