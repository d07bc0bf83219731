// SPDX-License-Identifier: Apache-2.0
// Spans whose access rate is no longer what older accessed bits tell of. docs/accuracy.md ("Rates
// that change, as they come in") derives it. Of use within rank/ only.

#pragma once

#include <vector>

#include "rank/evidence.h"

namespace tmprof {

// Spans that may be accessed at another rate than before, and what was seen of them since.
struct SuspectedChanges {
  EvidenceTable since;
  std::vector<float> chance;  // that the rate was drawn anew; parallel to `since`
};

// Keeps, for each span, two accounts of it: its rate has lasted, and all evidence is of it; or it
// was drawn anew at some time, and only what was seen since is. Accessed bits alone speak for
// either.
class RateChanges {
 public:
  // `older`: all evidence so far, which now weighs `keep` beside `newer`; `joined`: both (Join).
  // `drawn_anew`: the chance, before anything is seen, that a rate does not last from the one to
  // the other. Where the older account is of fewer bits than all, they take the place of all
  // in `joined`; spans that are not in it as they were are no suspects any more.
  void Absorb(const EvidenceTable& older, double keep, const EvidenceTable& newer,
              double drawn_anew, EvidenceTable& joined);

  const SuspectedChanges& suspected() const { return suspected_; }

 private:
  SuspectedChanges suspected_;
};

}  // namespace tmprof
