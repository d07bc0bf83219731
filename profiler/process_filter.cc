// SPDX-License-Identifier: Apache-2.0

#include "profiler/process_filter.h"

#include <cmath>

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

}  // namespace tmprof
