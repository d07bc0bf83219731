// SPDX-License-Identifier: Apache-2.0
// Spans whose access rate is no longer what older evidence tells of. docs/accuracy.md ("Rates that
// change, as they come in") derives it. Of use within rank/ only.

#pragma once

#include <vector>

#include "rank/evidence.h"
#include "rank/target_times.h"

namespace tmprof {

// Spans that may be accessed at another rate than before, and what was seen of them since.
struct SuspectedChanges {
  EvidenceTable since;
  std::vector<float> chance;  // that the rate was drawn anew; parallel to `since`
};

struct TimedEvidence {
  const EvidenceTable& table;
  const TargetTimes& times;
};

// Keeps, for each span, two accounts of it: its rate has lasted, and all evidence is of it; or it
// was drawn anew at some time, and only what was seen since is.
class RateChanges {
 public:
  // `older`: all evidence so far, which now weighs `keep` beside `newer`. `drawn_anew`: the chance,
  // before anything is seen, that a rate does not last from the one to the other.
  void Absorb(TimedEvidence older, double keep, TimedEvidence newer, double drawn_anew);

  const SuspectedChanges& suspected() const { return suspected_; }

  // Of the spans whose rate is known to have changed, replaces all evidence by what was seen since.
  void Forget(EvidenceTable& all) const;

 private:
  SuspectedChanges suspected_;
  EvidenceTable certain_;
};

}  // namespace tmprof
