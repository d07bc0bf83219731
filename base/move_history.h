// SPDX-License-Identifier: Apache-2.0
// Which spans have moved lately: for cool-down, and for telling moves that undo each other.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"

namespace tmprof {

class MoveHistory {
 public:
  // Moves are remembered for so many epochs, the current one included. Precondition: not 0.
  explicit MoveHistory(std::uint64_t epochs_remembered);

  // From now on; what was forgotten stays so. Precondition: not 0.
  void Remember(std::uint64_t epochs);

  // `epoch` never steps back from call to call. True: within what is remembered it had been moved
  // from `to`'s tier to `from`'s, and this move undoes that.
  bool Note(PageKey key, Tier from, Tier to, std::uint64_t epoch);
  // Epochs since it moved last: 0 in the epoch of its move. Nothing: not within what is remembered.
  std::optional<std::uint64_t> EpochsSince(PageKey key, std::uint64_t epoch) const;
  // Of what is over: moves too long ago as of `epoch`.
  void ForgetOld(std::uint64_t epoch);
  // Of a target that is gone.
  void Forget(TargetId target);

  std::size_t size() const { return moved_.size(); }

 private:
  struct Last {
    std::uint64_t epoch;
    Tier from;
    Tier to;
  };
  struct HashKey {
    std::size_t operator()(PageKey key) const noexcept;
  };

  std::uint64_t epochs_remembered_ = 1;
  std::unordered_map<PageKey, Last, HashKey> moved_;
};

}  // namespace tmprof
