// SPDX-License-Identifier: Apache-2.0
// Counts address samples per page by process, until the process gets its TargetId.

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "profiler/source.h"

namespace tmprof {

enum class AccessKind : std::uint8_t { kLoad, kStore };

// A child is sampled before anyone has named it as a target. Its samples are kept until the end of
// the epoch after the one they were taken in, and belong to it if SetTargets() names it by then.
class SampleTable {
 public:
  struct Taken {
    std::vector<SampleRecord> samples;
    std::uint64_t unknown_process = 0;  // samples of processes that nobody named in time
  };

  void SetTargets(const std::vector<TrackedProcess>& targets);
  void Add(Pid process, Vpn page, AccessKind kind);
  Taken Take();

 private:
  struct Counts {
    std::uint32_t loads = 0;
    std::uint32_t stores = 0;
  };
  using Pages = std::unordered_map<Vpn, Counts>;
  struct Process {
    std::optional<TargetId> id;
    bool waited_an_epoch = false;
    Pages pages;
  };

  static void Deliver(TargetId id, const Pages& pages, Taken& taken);

  std::unordered_map<Pid, Process> processes_;
  Taken leaving_;  // evidence of targets dropped since the last Take()
};

}  // namespace tmprof
