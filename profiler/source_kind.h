// SPDX-License-Identifier: Apache-2.0
// The sources by name: what `tmprof record --source` takes, doctor lists and a trace records.

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/epoch_profile.h"

namespace tmprof {

struct SourceKind {
  std::string_view name;
  std::string_view label;  // meaning of its numbers, for people
  SourceRole role;
  // Hardly any machine lacks it, so that its refusal is worth a warning even if nobody asked for
  // it by name.
  bool common;
  std::optional<SampleSubject> samples_of = std::nullopt;  // set if, and only if, it takes samples
};

inline constexpr SourceKind kDriverSource{"driver", "accessed bits by tmprof.ko",
                                          SourceRole::kReferences, false};
inline constexpr SourceKind kAbitBpfSource{"abit-bpf", "accessed bits by BPF",
                                           SourceRole::kReferences, true};
inline constexpr SourceKind kIbsSource{"ibs", "AMD IBS (accesses beyond the LLC)",
                                       SourceRole::kSamples, false, SampleSubject::kMemory};
inline constexpr SourceKind kPebsSource{"pebs", "Intel PEBS (accesses beyond the LLC)",
                                        SourceRole::kSamples, false, SampleSubject::kMemory};
// The source of the testbed's virtual machine.
inline constexpr SourceKind kVirtualPmuSource{"vibs", "virtual PMU (accesses beyond the LLC)",
                                              SourceRole::kSamples, false, SampleSubject::kMemory};
inline constexpr SourceKind kClockSource{"clock", "clock (memory-stall time)", SourceRole::kSamples,
                                         true, SampleSubject::kTime};
// Runs alone, on a program that it starts itself: it is no part of `auto`.
inline constexpr SourceKind kExactSource{"exact", "exact accesses under user-mode QEMU",
                                         SourceRole::kTruth, false};
// Truth of the testbed's virtual machine; never opened by a recording.
inline constexpr SourceKind kTiersimSource{"tiersim", "exact accesses in a virtual machine",
                                           SourceRole::kTruth, false};

// Returns all kinds, grouped by role, the best first.
std::span<const SourceKind> SourceKinds();

}  // namespace tmprof
