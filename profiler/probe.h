// SPDX-License-Identifier: Apache-2.0
// What `tmprof doctor` says about one way of doing one job.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tmprof {

enum class ProbeJob : std::uint8_t { kAccessedBits, kAddressSamples, kGate };

constexpr const char* Name(ProbeJob job) {
  switch (job) {
    case ProbeJob::kAccessedBits:
      return "accessed bits";
    case ProbeJob::kAddressSamples:
      return "address samples";
    case ProbeJob::kGate:
      return "gate";
  }
  return "unknown job";
}

struct Probe {
  std::string name;  // "clock", "ibs", "pebs", "abit-bpf", "llc", "dtlb"
  ProbeJob job = ProbeJob::kAddressSamples;
  bool usable = false;
  std::string label;                // what its numbers mean: "clock (memory-stall time)"
  std::optional<int> system_error;  // errno, where the kernel gave one
  std::string detail;               // what was tried and what the kernel said
  std::string fix;                  // what would make it usable or better; may be empty
};

}  // namespace tmprof
