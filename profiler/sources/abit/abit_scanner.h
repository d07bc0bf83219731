// SPDX-License-Identifier: Apache-2.0
// The driverless accessed-bit scanner: the source "abit-bpf".

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
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/scan_engine.h"

namespace tmprof::abit {

class AbitScanner final : public Source {
 public:
  struct Options {
    ScanOptions scan;              // `scan.cost` is replaced by the calibration
    std::optional<KernelWay> way;  // unset: the best that works
  };

  // Takes about a quarter of a second, for the calibration. Fails where doctor says so.
  static Result<std::unique_ptr<AbitScanner>> Open(const Options& options);
  // Over a kernel of the caller's; no calibration, `options.cost` counts.
  AbitScanner(std::unique_ptr<AbitKernel> kernel, const ScanOptions& options);
  ~AbitScanner() override;

  std::string_view name() const override { return "abit-bpf"; }
  SourceRole role() const override { return SourceRole::kReferences; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override;
  void SetActive(bool active) override;
  SourceEpoch TakeEpoch() override;

  // ns_per_set and ns_per_look.
  const Calibration& calibration() const { return calibration_; }
  // What a reader of the trace must know: the way that was fallen back to and why, another clearer.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  class Worker;

  ScanOptions options_;
  Calibration calibration_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Worker> worker_;
};

// What doctor says: both kernel ways tried.
Probe ProbeAbit();

}  // namespace tmprof::abit
