// SPDX-License-Identifier: Apache-2.0
// Tells if the sources observe, and if they may rest.

#pragma once

#include "base/clock.h"
#include "base/epoch_profile.h"

namespace tmprof {

// Returns true if a source was attached in this epoch, and a target was alive.
bool IsObserved(const EpochProfile& epoch);

// Lets the reading of accessed bits rest for most of the time while no moves that pay are found. It
// rests for whole seconds, in which the ladder of exposures gets some way. Pages that become hot
// meanwhile are found some seconds later.
class Rest {
 public:
  // Accessed bits are read one second of so many.
  static constexpr int kActiveSecondOf = 4;

  // Notes a decision. `looked_at` is PlacementDecision::looked_at. `decides_moves` is false if no
  // move could be decided, so that nothing is known of their worth.
  void Note(double looked_at, bool decides_moves);
  bool may_rest() const { return may_rest_; }
  // `futile` is EpochPacer::futile().
  bool RestsAt(MonotonicTime now, bool futile) const;

 private:
  bool may_rest_ = false;  // enough was seen to know that there is nothing to gain
};

}  // namespace tmprof
