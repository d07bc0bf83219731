// SPDX-License-Identifier: Apache-2.0
// Turns sources on and off by cheap counters (TMP, IPDPS 2021): misses of the last-level cache gate
// the sampler, misses of the data TLB gate the accessed-bit scan.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "driver/core/gate.h"
#include "profiler/probe.h"
#include "profiler/sources/perf/hardware_events.h"
#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

// --gate.
struct GateMode {
  bool samples = true;         // gate the sampler
  bool references = true;      // gate the accessed-bit scan
  bool best_available = true;  // without a counter, use what else there is; false: refuse to start
};
// "auto", "off", or "llc", "tlb", "llc,tlb": exactly these counters.
Result<GateMode> ParseGateMode(std::string_view text);

// Loads that miss the last-level cache; fails where the CPU's model has no such event.
Result<NamedEvent> MissEvent(const EventEncoder& encode);
// The same, which gates the sampler; fails where it cannot be counted on every CPU.
Result<NamedEvent> SampleGateEvent(PerfApi& api, const EventEncoder& encode);

struct RoleDecision {
  bool active = true;
  std::string basis;             // the reason, for people: "310 LLC misses/s, …"
  std::optional<Error> refused;  // why it does not rest on the counter
};

struct GateDecision {
  RoleDecision samples;
  RoleDecision references;
};

// One event, counted on every CPU for every process.
class SystemCounter {
 public:
  static Result<SystemCounter> Open(PerfApi& api, const EventEncoder& encode,
                                    const std::string& event);
  // Events per second since the last call, all CPUs together, so that periods of unequal length
  // compare; nullopt where some CPU could not be read or its counter never ran.
  std::optional<std::uint64_t> TakeRate();

 private:
  struct PerCpu {
    UniqueFd fd;
    CounterReading last;
  };
  explicit SystemCounter(PerfApi& api) : api_(&api) {}

  PerfApi* api_;
  std::vector<PerCpu> cpus_;
};

class Gate {
 public:
  // Fails only where `mode` asks for exactly the counters and one is refused.
  static Result<Gate> Create(PerfApi& api, const EventEncoder& encode, const GateMode& mode);

  // Once per period: after 100 ms, or up to 200 ms if the recorder does not wake for the gate
  // (GateVerdict::holds_until_samples). `memory_stall_share` is Source::MemoryStallShare(): without
  // a dTLB counter it gates the scan. It never gates the sampler, which measures it: once off, that
  // could not know when to come back.
  GateDecision Decide(std::optional<double> memory_stall_share);
  // Within a period: whether what is off comes on.
  GateDecision DecideWhatIsOff(std::optional<double> memory_stall_share);

  // False: a decision follows from the memory-stall share alone.
  bool has_counters() const { return samples_.counter || references_.counter; }

 private:
  struct Role {
    bool gated = false;
    std::string unit;  // "LLC misses"
    std::optional<SystemCounter> counter;
    std::optional<Error> refused;
    tmprof_gate_state state{};
    RoleDecision last;
  };

  static RoleDecision DecideByRate(Role& role, std::optional<std::uint64_t> rate);
  RoleDecision DecideReferencesByStall(std::optional<double> memory_stall_share);
  void DecideSamples();
  void DecideReferences(std::optional<double> memory_stall_share);

  Role samples_;
  Role references_;
};

// Probes for doctor: one entry for the LLC counter, one for the dTLB counter.
std::vector<Probe> ProbeGate(PerfApi& api, const EventEncoder& encode = EncodeWithPfm);

}  // namespace tmprof
