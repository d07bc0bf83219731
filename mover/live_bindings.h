// SPDX-License-Identifier: Apache-2.0
// What memory policies and cpusets say of targets, read again as often as that is worth.

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

// Thread-safe. Deciding takes what is older than moving does, which asks anew: what is moved goes
// by a reading that is at most a hundred times as old as it took to make, so that at most a
// hundredth of the time goes into it for each target, or 1 ms. Where that is long, as policies cost
// a walk of page tables, mappings are asked for in between by the same rule, and what is in none
// that was there at the reading is held back until the next.
class LiveBindings {
 public:
  // Never null but where it could not be read.
  using Shared = std::shared_ptr<const MemoryBinding>;

  // Both must outlive it.
  LiveBindings(PolicyReader& reader, const Clock& clock);

  // At most a thousandth of the time goes into it, and it is five seconds old, or as much more as
  // that takes, ten minutes at most. What could not be read is tried again likewise.
  Result<Shared> ForDeciding(TargetId target, Pid pid);
  // nullopt: Read() it first.
  std::optional<Shared> ForMoving(TargetId target) const;
  void Read(TargetId target, Pid pid);

  // Forgets all other targets.
  void KeepOnly(std::span<const TargetId> targets);

 private:
  struct Reading {
    std::vector<VpnRange> mappings;  // that it is of, where they are asked for in between
    std::shared_ptr<const MemoryBinding> full;  // null: it could not be read
    std::shared_ptr<const MemoryBinding> now;   // but for what is newer
    std::optional<Error> refusal;
    MonotonicTime good_for_moving;  // until then
    MonotonicTime good_for_deciding;
    MonotonicTime mappings_good;
  };

  // Both with reading_ held.
  Reading ReadAll(Pid pid);
  Status CheckMappings(Reading& reading, Pid pid);
  std::optional<Reading> Find(TargetId target) const;
  void Keep(TargetId target, Reading reading);

  PolicyReader& reader_;
  const Clock& clock_;
  std::mutex reading_;        // of reader_; taken first
  mutable std::mutex mutex_;  // of all below; never held while something is read
  std::map<TargetId, Reading> readings_;
};

}  // namespace tmprof
