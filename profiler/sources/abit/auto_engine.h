// SPDX-License-Identifier: Apache-2.0
// The engine that looks at every page, while the budget lets each have its turn soon enough, and at
// regions from then on.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/auto_choice.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/scan_engine.h"

namespace tmprof::abit {

// Goes over at the end of an epoch, for good: it is not known then how long a visit to every page
// would take.
class AutoEngine final : public Engine {
 public:
  // `make_regions`: over the kernel, what it goes over to; where that fails, or if it is empty, to
  // a RegionEngine.
  AutoEngine(AbitKernel& kernel, const ScanOptions& options, EngineMaker make_regions = {});

  void SetTargets(const std::vector<TrackedProcess>& processes) override;
  void SetActive(bool active) override;
  std::optional<Error> Failure() const override { return engine_->Failure(); }
  MonotonicTime Step() override { return engine_->Step(); }
  void SeeSamples(const std::vector<SampleRecord>& samples) override {
    engine_->SeeSamples(samples);
  }
  void TrustFlushes() override {
    options_.can_flush = true;
    engine_->TrustFlushes();
  }
  void Reprice(const CostModel& cost, const ClearLoss& clear_loss) override {
    options_.cost = cost;
    options_.clear_loss = clear_loss;
    engine_->Reprice(cost, clear_loss);
  }
  Harvest TakeEpoch() override;

 private:
  std::unique_ptr<Engine> MakeRegions();

  AbitKernel& kernel_;
  ScanOptions options_;
  EngineMaker make_regions_;
  std::string refused_;  // why the engine is not that of `make_regions_`
  std::unique_ptr<Engine> engine_;
  ScanEngine* full_;  // the engine; null: it looks at regions
  std::vector<TrackedProcess> tracked_;
  bool active_ = true;
  AutoChoice choice_;
};

}  // namespace tmprof::abit
