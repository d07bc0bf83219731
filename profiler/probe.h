// SPDX-License-Identifier: Apache-2.0
// The line of `tmprof doctor` about one way of doing one job.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "profiler/source_kind.h"

namespace tmprof {

enum class ProbeJob : std::uint8_t { kAccessedBits, kAddressSamples, kGate, kTruth, kMoves };

constexpr const char* Name(ProbeJob job) {
  switch (job) {
    case ProbeJob::kAccessedBits:
      return "accessed bits";
    case ProbeJob::kAddressSamples:
      return "address samples";
    case ProbeJob::kGate:
      return "gate";
    case ProbeJob::kTruth:
      return "truth";
    case ProbeJob::kMoves:
      return "moves";
  }
  return "unknown job";
}

struct Probe {
  std::string name;  // a source's (profiler/source_kind.h) or a counter's: "llc", "dtlb"
  ProbeJob job = ProbeJob::kAddressSamples;
  bool usable = false;
  std::string label;                // meaning of its numbers, or the source in its place
  std::optional<int> system_error;  // errno, where the kernel gave one
  std::string detail;               // the attempt and the kernel's answer
  std::string fix;                  // a way to make it usable or better; may be empty
  std::string impossible;           // why nothing on this machine makes it usable; empty: unknown
};

constexpr ProbeJob JobOf(SourceRole role) {
  switch (role) {
    case SourceRole::kReferences:
      return ProbeJob::kAccessedBits;
    case SourceRole::kSamples:
      return ProbeJob::kAddressSamples;
    case SourceRole::kTruth:
      return ProbeJob::kTruth;
  }
  return ProbeJob::kAddressSamples;
}

inline Probe Usable(const SourceKind& kind, std::string detail) {
  return {.name = std::string(kind.name),
          .job = JobOf(kind.role),
          .usable = true,
          .label = std::string(kind.label),
          .system_error = std::nullopt,
          .detail = std::move(detail),
          .fix = {},
          .impossible = {}};
}

inline Probe Unusable(const SourceKind& kind, const Error& refusal) {
  return {.name = std::string(kind.name),
          .job = JobOf(kind.role),
          .usable = false,
          .label = std::string(kind.label),
          .system_error = refusal.system_error,
          .detail = refusal.Fact(),
          .fix = refusal.advice,
          .impossible = {}};
}

}  // namespace tmprof
