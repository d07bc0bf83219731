// SPDX-License-Identifier: Apache-2.0

#include "profiler/process_filter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace tmprof {
namespace {

constexpr std::chrono::seconds kPeriod{1};
constexpr std::chrono::duration<double> kHalfLife{10};

}  // namespace

bool ProcessFilter::Passes(double cpu_share, std::optional<PageCount> resident,
                           std::optional<PageCount> total_memory) const {
  if (cpu_share >= min_cpu_share) return true;
  return total_memory && resident &&
         static_cast<double>(resident->value()) >=
             min_memory_share * static_cast<double>(total_memory->value());
}

bool CpuShareMeter::Add(MonotonicTime now, std::chrono::nanoseconds used) {
  const Reading reading{.at = now, .used = used};
  if (!last_) last_ = reading;
  const auto elapsed = now - last_->at;
  if (elapsed < kPeriod) return false;
  share_ = std::chrono::duration<double>(used - last_->used) / elapsed;
  const double kept = has_ended_a_period_ ? std::exp2(-(elapsed / kHalfLife)) : 0;
  recent_ = share_ + (recent_ - share_) * kept;
  has_ended_a_period_ = true;
  last_ = reading;
  return true;
}

std::vector<bool> AreBusiest(std::span<const FamilyUse> processes, double part) {
  std::map<std::size_t, double> of_all;
  for (const FamilyUse& process : processes) of_all[process.family] += process.recent;
  std::vector<std::size_t> order(processes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) {
    return processes[i].recent * (processes[i].passes ? kTakesThePlaceOf : 1);
  });
  std::map<std::size_t, double> of_busier;
  std::vector<bool> are_busiest(processes.size());
  for (const std::size_t i : order) {
    const auto& [family, recent, passes] = processes[i];
    double& busier = of_busier[family];
    are_busiest[i] = recent > 0 && busier < part * of_all[family];
    busier += recent;
  }
  return are_busiest;
}

}  // namespace tmprof
