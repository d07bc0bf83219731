// SPDX-License-Identifier: Apache-2.0
// Remembers spans that moved lately: for the cool-down, and to find moves that undo each other.

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
  // Remembers moves for so many epochs, including the current one. Precondition: not 0.
  explicit MoveHistory(std::uint64_t epochs_remembered);

  // Sets the number of epochs from now on; forgotten moves stay forgotten. Precondition: not 0.
  void Remember(std::uint64_t epochs);

  // Precondition: `epoch` never descends from call to call. True: this move undoes a remembered one
  // from `to`'s tier to `from`'s.
  bool Note(PageKey key, Tier from, Tier to, std::uint64_t epoch);
  // Returns the epochs since its last move: 0 in the epoch of the move. nullopt: no move is
  // remembered.
  std::optional<std::uint64_t> EpochsSince(PageKey key, std::uint64_t epoch) const;
  // Forgets moves that are too old at `epoch`.
  void ForgetOld(std::uint64_t epoch);
  // Forgets moves of a target that is gone.
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
