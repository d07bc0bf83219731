// SPDX-License-Identifier: Apache-2.0
// The accessed-bit scanner: one source or another, by the kernel it works on.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/trace_info.h"
#include "profiler/kept_figures.h"
#include "profiler/probe.h"
#include "profiler/source.h"
#include "profiler/source_kind.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/node_map.h"
#include "profiler/sources/abit/recalibration.h"
#include "profiler/sources/abit/whole_flush_trial.h"

namespace tmprof::abit {

// Turns an epoch's evidence into records for the profile, with pages in ascending order.
std::vector<ReferenceRecord> ReferencesOf(Harvest& harvest, const NodeMap& nodes);

class AbitScanner final : public Source {
 public:
  struct Options {
    ScanOptions scan;              // `scan.cost` is replaced by the calibration
    std::optional<KernelWay> way;  // unset: the best that works
    // Has figures of the calibration of an earlier start, and gets those of this one. nullopt:
    // all is measured.
    std::optional<KeptFigures> kept = std::nullopt;
  };

  // Takes about a second for the calibration, next to nothing where its figures were kept. Fails
  // where doctor says so.
  static Result<std::unique_ptr<AbitScanner>> Open(const Options& options);
  // The same over a kernel of the caller's. `make_engine` is called with costs that were measured;
  // empty: by `scan.looked`. `make_kernel` makes another one, for costs to be measured again in
  // another thread; empty: those of the start are kept, however doubtful.
  using KernelMaker = std::function<Result<std::unique_ptr<AbitKernel>>()>;
  static Result<std::unique_ptr<AbitScanner>> Open(std::unique_ptr<AbitKernel> kernel,
                                                   const SourceKind& kind, ScanOptions scan,
                                                   const EngineMaker& make_engine = {},
                                                   const KernelMaker& make_kernel = {},
                                                   std::optional<KeptFigures> kept = {});
  // No calibration: `options.cost` counts. `engine` is over `kernel`; null: by `options.looked`.
  AbitScanner(std::unique_ptr<AbitKernel> kernel, const ScanOptions& options,
              const SourceKind& kind = kAbitBpfSource, std::unique_ptr<Engine> engine = nullptr);
  ~AbitScanner() override;

  // Charges by those figures as they come, and says so in the note of the epoch.
  void Follow(std::unique_ptr<Recalibration> recalibration);

  std::string_view name() const override { return kind_.name; }
  SourceRole role() const override { return kind_.role; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override;
  void SetActive(bool active) override;
  SourceEpoch TakeEpoch() override;
  void SeeSamples(const std::vector<SampleRecord>& samples) override;

  // The caller's; `cost` is charged at the start, measured or assumed.
  const ScanOptions& options() const { return options_; }
  // Measured at the start; it has no ns_per_sample.
  const Calibration& calibration() const { return calibration_; }
  // Since `calibration` was measured by an earlier start; nullopt: it was measured at this one.
  std::optional<std::chrono::nanoseconds> calibration_age() const { return calibration_age_; }
  // False: some figures of `calibration` are measured again while it scans.
  bool calibration_is_settled() const { return calibration_is_settled_; }
  // Facts that a reader of the trace must know: a fallback to another kernel way and its reason,
  // and another program that clears accessed bits.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  class Worker;

  void TryFlushesAgain(const WholeFlushTrial& before, std::optional<KernelWay> way,
                       const std::optional<KeptFigures>& kept);
  void UseNewPrices();

  SourceKind kind_;
  ScanOptions options_;
  Calibration calibration_;
  std::optional<std::chrono::nanoseconds> calibration_age_;
  bool calibration_is_settled_ = true;
  std::vector<std::string> warnings_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<WholeFlushRetrial> retrial_;    // null: there is no doubt, or no hope
  std::unique_ptr<Recalibration> recalibration_;  // null: all is settled, or it is over
  std::string repriced_;                          // said in the next epoch; empty: nothing is new
};

// Tries both kernel ways, for tmprof doctor.
Probe ProbeAbit();

}  // namespace tmprof::abit
