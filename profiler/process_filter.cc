// SPDX-License-Identifier: Apache-2.0

#include "profiler/process_filter.h"

namespace tmprof {
namespace {

constexpr std::chrono::seconds kPeriod{1};

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
  last_ = reading;
  return true;
}

}  // namespace tmprof
