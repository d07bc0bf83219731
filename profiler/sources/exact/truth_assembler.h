// SPDX-License-Identifier: Apache-2.0
// Makes the epochs of a trace from those of one or several truth streams.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/epoch_profile.h"
#include "profiler/source.h"
#include "profiler/source_kind.h"
#include "profiler/sources/exact/truth_decoder.h"

namespace tmprof::exact {

class TruthAssembler {
 public:
  explicit TruthAssembler(const SourceKind& kind) : kind_(kind) {}

  // A stream's epoch joins those of the same index from other streams. One whose index has been
  // built already joins the next one to be built: nothing is lost by coming late. `stream` tells
  // targets without a pid apart.
  void Add(const TruthOrigin& origin, std::size_t stream, TruthEpoch epoch);
  // An epoch that was never ended, as when its process was killed: joins like another, but what was
  // lost in it is unknown, and a note names `open.targets`.
  void AddUnended(const TruthOrigin& origin, std::size_t stream, TruthEpoch open);

  // The lowest index that waits.
  std::optional<std::uint64_t> Waiting() const;
  // Builds it. Precondition: one waits. Epochs do not overlap: one begins where the one before has
  // ended, at the earliest.
  EpochProfile Build(std::chrono::nanoseconds profiler_cpu_time);

 private:
  using Process = std::tuple<std::optional<Pid>, std::uint64_t, std::size_t, std::uint32_t>;
  struct Pending {
    std::optional<MonotonicTime> start;
    std::optional<MonotonicTime> end;
    SourceEpoch truth;
    std::map<TargetId, Target> targets;
    std::vector<std::string> not_followed;
    std::vector<std::string> unended;  // processes, as a note names them
    std::uint64_t processes_not_followed = 0;
    std::uint64_t instructions = 0;
    bool counts_instructions = true;
  };

  Pending& Join(const TruthOrigin& origin, std::size_t stream, TruthEpoch epoch);
  TargetId IdOf(const TruthTarget& target, std::size_t stream);

  SourceKind kind_;
  std::string models_;
  std::map<Process, TargetId> ids_;
  std::map<std::uint64_t, Pending> pending_;
  std::optional<std::uint64_t> last_built_;
  MonotonicTime last_end_;
};

}  // namespace tmprof::exact
