// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/auto_engine.h"

#include <utility>

#include "profiler/sources/abit/region_engine.h"

namespace tmprof::abit {

AutoEngine::AutoEngine(AbitKernel& kernel, const ScanOptions& options, EngineMaker make_regions)
    : kernel_(kernel), options_(options), make_regions_(std::move(make_regions)) {
  auto full = std::make_unique<ScanEngine>(kernel, options);
  full_ = full.get();
  engine_ = std::move(full);
}

void AutoEngine::SetTargets(const std::vector<TrackedProcess>& processes) {
  if (full_ != nullptr) tracked_ = processes;
  engine_->SetTargets(processes);
}

void AutoEngine::SetActive(bool active) {
  active_ = active;
  engine_->SetActive(active);
}

Harvest AutoEngine::TakeEpoch() {
  Harvest harvest = engine_->TakeEpoch();
  if (!refused_.empty()) harvest.note += (harvest.note.empty() ? "" : "; ") + refused_;
  if (full_ == nullptr || !choice_.GoesOver(full_->visit_cpu_time())) return harvest;
  // Exposures that are open will not be read.
  full_->SetTargets({});
  harvest.counts.lost += full_->TakeEpoch().counts.lost;
  full_ = nullptr;
  engine_ = MakeRegions();
  engine_->SetTargets(std::exchange(tracked_, {}));
  engine_->SetActive(active_);
  return harvest;
}

std::unique_ptr<Engine> AutoEngine::MakeRegions() {
  if (make_regions_) {
    auto made = make_regions_(kernel_, options_);
    if (made) return *std::move(made);
    refused_ = "regions are looked at from user space: " + made.error().Message();
  }
  return std::make_unique<RegionEngine>(kernel_, options_);
}

}  // namespace tmprof::abit
