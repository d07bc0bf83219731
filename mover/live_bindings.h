// SPDX-License-Identifier: Apache-2.0
// Keeps the memory policies and cpusets of targets, and reads them again as often as the cost
// allows.

#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "mover/memory_binding.h"
#include "mover/policy_reader.h"

namespace tmprof {

// Thread-safe. Decisions may use older readings than moves, because moves ask again. A reading that
// took *t* is good for moves for 100 *t*, at least 1 ms: at most 1 % of the time goes into it for
// each target. If reading policies is slow because the kernel walks page tables, mappings are read
// in between by the same rule. Pages in mappings that are newer than the reading are held back
// until the next one.
class LiveBindings {
 public:
  // Null only if the bindings could not be read.
  using Shared = std::shared_ptr<const MemoryBinding>;

  // Both arguments must outlive this object.
  LiveBindings(PolicyReader& reader, const Clock& clock);

  // Returns a reading for decisions. It is renewed after a thousand times the time that it took,
  // but after at least five seconds and at most ten minutes. A failed reading is tried again by the
  // same rule.
  Result<Shared> ForDeciding(TargetId target, Pid pid);
  // nullopt: the caller has to call Read() first.
  std::optional<Shared> ForMoving(TargetId target) const;
  void Read(TargetId target, Pid pid);

  // Forgets all other targets.
  void KeepOnly(std::span<const TargetId> targets);

 private:
  struct Reading {
    // Mappings at the time of `full`, if mappings are read in between.
    std::vector<VpnRange> mappings;
    std::shared_ptr<const MemoryBinding> full;  // null: the reading failed
    std::shared_ptr<const MemoryBinding> now;   // `full` without newer mappings
    std::optional<Error> refusal;
    MonotonicTime good_for_moving;  // end of its use
    MonotonicTime good_for_deciding;
    MonotonicTime mappings_good;
  };

  // Precondition of both functions: reading_ is held.
  Reading ReadAll(Pid pid);
  Status CheckMappings(Reading& reading, Pid pid);
  std::optional<Reading> Find(TargetId target) const;
  void Keep(TargetId target, Reading reading);

  PolicyReader& reader_;
  const Clock& clock_;
  std::mutex reading_;        // guards reader_; taken first
  mutable std::mutex mutex_;  // guards all below; never held during a reading
  std::map<TargetId, Reading> readings_;
};

}  // namespace tmprof
