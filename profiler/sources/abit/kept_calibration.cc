// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/kept_calibration.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;
using Figures = KeptFigures::Figures;

constexpr std::string_view kSet = "ns-per-set";
constexpr std::string_view kLook = "ns-per-look";
constexpr std::string_view kPoint = "ns-per-point";
constexpr std::string_view kLossOfOthers = "loss-ns-by-other-clears";
// 1: the calibration tried to measure the loss by clears. Its figures are absent where all clears
// take too long for it.
constexpr std::string_view kLossWasTried = "loss-was-tried";

// The value 1 stands for figures that were not settled.
struct Unsettled {
  std::string_view name;
  bool CostFigures::* figure;
};

constexpr Unsettled kUnsettled[] = {{"unsettled-set", &CostFigures::set},
                                    {"unsettled-look", &CostFigures::look},
                                    {"unsettled-point", &CostFigures::point},
                                    {"unsettled-loss", &CostFigures::loss}};

std::string LossOfRung(std::size_t rung) { return fmt::format("loss-ns-at-rung-{}", rung); }

std::optional<double> Find(const Figures& figures, std::string_view name) {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> FindFrom(const Figures& figures, std::string_view name, double least,
                               double most) {
  const auto value = Find(figures, name);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

std::optional<nanoseconds> FindTime(const Figures& figures, std::string_view name) {
  constexpr double kMost = 1e9;
  const auto ns = Find(figures, name);
  if (!ns || std::abs(*ns) > kMost) return std::nullopt;
  return nanoseconds(std::llround(*ns));
}

struct Count {
  std::string_view name;
  std::uint32_t WholeFlushTrial::* value;
};

constexpr Count kCounts[] = {{"tries", &WholeFlushTrial::tries},
                             {"flushes", &WholeFlushTrial::flushes},
                             {"complete", &WholeFlushTrial::complete},
                             {"controls", &WholeFlushTrial::controls},
                             {"hidden", &WholeFlushTrial::hidden}};

constexpr std::string_view kTrialSet = "whole-flush";

}  // namespace

std::optional<Figures> FiguresOf(const MeasuredCost& cost, CostFigures measured) {
  if (!cost.doubt.empty()) return std::nullopt;
  Figures figures{{std::string(kSet), cost.ns_per_set}};
  for (const auto& [name, figure] : kUnsettled)
    if (cost.unsettled.*figure) figures.emplace(name, 1);
  if (cost.ns_per_look) figures.emplace(kLook, *cost.ns_per_look);  // absent with one CPU
  if (!measured.point) return figures;
  if (!cost.ns_per_point && !cost.unsettled.point) return std::nullopt;
  if (cost.ns_per_point) figures.emplace(kPoint, *cost.ns_per_point);
  figures.emplace(kLossOfOthers, cost.clear_loss.others.count());
  if (!measured.loss) return figures;
  figures.emplace(kLossWasTried, 1);
  if (!cost.clear_loss.is_measured) return figures;
  for (std::size_t rung = 0; rung < cost.clear_loss.own.size(); ++rung)
    figures.emplace(LossOfRung(rung), cost.clear_loss.own[rung].count());
  return figures;
}

std::optional<MeasuredCost> CostFrom(const Figures& figures, CostFigures wanted) {
  const auto set = FindFrom(figures, kSet, kLeastNsPerSet, kMostNsPerSet);
  const auto look = FindFrom(figures, kLook, kLeastNsPerLook, kMostNsPerLook);
  if (!set || (!look && figures.contains(kLook))) return std::nullopt;
  MeasuredCost cost{.ns_per_set = *set,
                    .ns_per_look = look,
                    .ns_per_point = {},
                    .clear_loss = {},
                    .doubt = {},
                    .unsettled = {}};
  for (const auto& [name, figure] : kUnsettled)
    cost.unsettled.*figure = wanted.*figure && figures.contains(name);
  if (!wanted.point) return cost;
  cost.ns_per_point = FindFrom(figures, kPoint, kLeastNsPerPoint, kMostNsPerPoint);
  const auto others = FindTime(figures, kLossOfOthers);
  const bool lacks_point = cost.unsettled.point && !figures.contains(kPoint);
  if ((!cost.ns_per_point && !lacks_point) || !others) return std::nullopt;
  cost.clear_loss.others = *others;
  if (!wanted.loss) return cost;
  if (!figures.contains(kLossWasTried)) return std::nullopt;
  if (!figures.contains(LossOfRung(0))) return cost;
  for (std::size_t rung = 0; rung < cost.clear_loss.own.size(); ++rung) {
    const auto own = FindTime(figures, LossOfRung(rung));
    if (!own) return std::nullopt;
    cost.clear_loss.own[rung] = *own;
  }
  cost.clear_loss.is_measured = true;
  return cost;
}

std::optional<Figures> FiguresOf(const WholeFlushTrial& trial) {
  if (DoubtOf(trial)) return std::nullopt;  // the next start may have more luck
  Figures figures;
  for (const Count& count : kCounts) figures.emplace(count.name, trial.*count.value);
  return figures;
}

std::optional<WholeFlushTrial> TrialFrom(const Figures& figures) {
  WholeFlushTrial trial;
  for (const Count& count : kCounts) {
    const auto value = FindFrom(figures, count.name, 0, std::numeric_limits<std::uint32_t>::max());
    if (!value || std::floor(*value) != *value) return std::nullopt;
    trial.*count.value = static_cast<std::uint32_t>(*value);
  }
  return DoubtOf(trial) ? std::nullopt : std::optional(trial);
}

std::optional<KeptCostOfBits> KeptCost(const std::optional<KeptFigures>& kept,
                                       std::string_view source, CostFigures wanted,
                                       AbitKernel& kernel) {
  const auto found = kept ? kept->Load(source, kernel.Now()) : std::nullopt;
  if (!found) return std::nullopt;
  auto cost = CostFrom(found->figures, wanted);
  if (!cost || (cost->unsettled.any() && found->age > kUnsettledAreKeptFor)) return std::nullopt;
  return KeptCostOfBits{.cost = *std::move(cost), .age = found->age};
}

std::optional<WholeFlushTrial> KeptTrial(const std::optional<KeptFigures>& kept,
                                         AbitKernel& kernel) {
  const auto found = kept ? kept->Load(kTrialSet, kernel.Now()) : std::nullopt;
  return found ? TrialFrom(found->figures) : std::nullopt;
}

void Keep(const std::optional<KeptFigures>& kept, std::string_view source, const MeasuredCost& cost,
          CostFigures measured, AbitKernel& kernel) {
  if (!kept) return;
  if (cost.unsettled.any()) {
    const auto before = KeptCost(kept, source, measured, kernel);
    if (before && !before->cost.unsettled.any()) return;
  }
  if (const auto figures = FiguresOf(cost, measured))
    (void)kept->Keep(source, *figures, kernel.Now());
}

void Keep(const std::optional<KeptFigures>& kept, const WholeFlushTrial& trial,
          AbitKernel& kernel) {
  if (!kept) return;
  if (const auto figures = FiguresOf(trial)) (void)kept->Keep(kTrialSet, *figures, kernel.Now());
}

}  // namespace tmprof::abit
