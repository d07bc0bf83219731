// SPDX-License-Identifier: Apache-2.0
// The accessed-bit scanner: one source or another, by the kernel it works on.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/trace_info.h"
#include "profiler/probe.h"
#include "profiler/source.h"
#include "profiler/source_kind.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/node_map.h"
#include "profiler/sources/abit/whole_flush_trial.h"

namespace tmprof::abit {

// What the profile is given of an epoch's evidence, of pages in ascending order.
std::vector<ReferenceRecord> ReferencesOf(Harvest& harvest, const NodeMap& nodes);

class AbitScanner final : public Source {
 public:
  struct Options {
    ScanOptions scan;              // `scan.cost` is replaced by the calibration
    std::optional<KernelWay> way;  // unset: the best that works
  };

  // Takes about a quarter of a second, for the calibration. Fails where doctor says so.
  static Result<std::unique_ptr<AbitScanner>> Open(const Options& options);
  // The same over a kernel of the caller's. `make_engine` is called with costs that were measured;
  // empty: by `scan.looked`.
  static Result<std::unique_ptr<AbitScanner>> Open(std::unique_ptr<AbitKernel> kernel,
                                                   const SourceKind& kind, ScanOptions scan,
                                                   const EngineMaker& make_engine = {});
  // No calibration: `options.cost` counts. `engine` is over `kernel`; null: by `options.looked`.
  AbitScanner(std::unique_ptr<AbitKernel> kernel, const ScanOptions& options,
              const SourceKind& kind = kAbitBpfSource, std::unique_ptr<Engine> engine = nullptr);
  ~AbitScanner() override;

  std::string_view name() const override { return kind_.name; }
  SourceRole role() const override { return kind_.role; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override;
  void SetActive(bool active) override;
  SourceEpoch TakeEpoch() override;
  void SeeSamples(const std::vector<SampleRecord>& samples) override;

  // As asked for; `cost` is what is charged, measured or assumed.
  const ScanOptions& options() const { return options_; }
  // But for ns_per_sample.
  const Calibration& calibration() const { return calibration_; }
  // What a reader of the trace must know: the way that was fallen back to and why, another clearer.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  class Worker;

  void TryFlushesAgain(const WholeFlushTrial& before, std::optional<KernelWay> way);

  SourceKind kind_;
  ScanOptions options_;
  Calibration calibration_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<WholeFlushRetrial> retrial_;  // null: there is no doubt, or no hope
};

// What doctor says: both kernel ways tried.
Probe ProbeAbit();

}  // namespace tmprof::abit
