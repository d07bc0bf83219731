// SPDX-License-Identifier: Apache-2.0
// Address samples without performance counters: where the targets' time goes.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "profiler/probe.h"
#include "profiler/source.h"
#include "profiler/sources/clock/clock_events.h"
#include "profiler/sources/clock/culprit_cache.h"
#include "profiler/sources/clock/line_pairs.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/perf_sampler.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// Interrupts the targets at a fixed rate of their CPU time and works out which address the
// interrupted instruction was waiting for. A sample means time, not an access: cached pages are
// under-represented, and kernel time has no address. Never rules a page out.
class ClockSampler final : public PerfSampler {
 public:
  // A period near the cost of an interrupt stops the target, and the kernel's own guards do not act
  // on clock events in period mode: 98 % loss at 100 kHz, 13 % at 10 kHz on a KVM guest
  // (bench/clock_loops).
  static constexpr double kMaxRateHz = 20'000;
  // A smaller share gets this rate; a period must fit into 63 bits of nanoseconds.
  static constexpr double kMinRateHz = 1e-6;

  // Window of the stall share. The gate decides every 100 ms and needs less noise than 100 ms give.
  // With few samples the window reaches further back: 16 samples give a share to 12 % at worst.
  static constexpr std::chrono::seconds kStallWindow{1};
  static constexpr double kEnoughForStall = 16;

  struct Options {
    OverheadShare max_overhead = 0.01;    // (0, 1]
    std::optional<double> ns_per_sample;  // nullopt: measured by Create()
    // Loads that miss the last-level cache, counted of the same threads; the detail
    // "llc_load_misses" has them. nullopt, or refused by the kernel: they are not counted.
    std::optional<NamedEvent> misses = std::nullopt;
  };

  // `api` and `clock` outlive the sampler.
  static Result<std::unique_ptr<ClockSampler>> Create(PerfApi& api, const Clock& clock,
                                                      const Options& options);

  double ns_per_sample() const { return ns_per_sample_; }
  double rate_hz() const { return rate_hz_; }  // per second of target CPU time

  // Share of the user-mode samples of the last kStallWindow, or so, whose instruction has a memory
  // operand, address known or not. An upper bound of the stall share: an instruction may have an
  // operand and not wait for it. nullopt until some samples are in.
  std::optional<double> MemoryStallShare() const override;

 private:
  struct Counts {
    std::uint64_t loads = 0;
    std::uint64_t stores = 0;
    std::uint64_t kernel_mode = 0;
    std::uint64_t no_registers = 0;
    std::array<std::uint64_t, kOperandOutcomes> outcomes{};
  };

  ClockSampler(PerfApi& api, const Clock& clock, ClockSetup setup, TaskEvents events,
               double ns_per_sample, double rate_hz);

  void HandleSample(const PerfSample& sample) override;
  void HandleCodeChange(const PerfCodeChange& change) override;
  void HandleExit(const PerfExit& exit) override;
  void HandleGap() override { cache_.Clear(); }
  void TakeCounts(SourceStatus& status) override;
  void Age(MonotonicTime now);
  void CountOperand(const PerfSample& sample, const MemoryOperand& operand);

  ClockSetup setup_;
  CulpritCache cache_;
  double ns_per_sample_;
  double rate_hz_;

  // Samples older than this were taken in code that no longer exists.
  std::unordered_map<Pid, MonotonicTime> code_since_;
  Counts counts_;
  LinePairs line_pairs_;
  std::uint64_t decoded_before_ = 0;
  // In an exponential window.
  MonotonicTime newest_sample_;
  double recent_samples_ = 0;
  double recent_waits_ = 0;
};

// Probe for doctor: clock sampling on this machine.
Probe ProbeClock(PerfApi& api);

}  // namespace tmprof
