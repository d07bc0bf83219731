// SPDX-License-Identifier: Apache-2.0
// Spans whose access rate may have changed since older accessed bits were read. It is derived in
// docs/design/changing-rates.md. Only rank/ uses it.

#pragma once

#include <map>
#include <vector>

#include "base/page_key.h"
#include "rank/ageing.h"
#include "rank/evidence.h"
#include "rank/persistence.h"

namespace tmprof {

// Spans that may be accessed at another rate than before, and what was seen of them since.
struct SuspectedChanges {
  EvidenceTable since;
  std::vector<float> chance;  // probability that the rate was drawn anew; parallel to `since`
};

// Keeps two hypotheses for each span. The older one is that its rate has lasted, and all evidence
// belongs to it. The newer one is that the rate was drawn anew at some time, and only later
// evidence belongs to it. Accessed bits alone decide between the two. They also teach how long the
// rates of a target last.
class RateChanges {
 public:
  // Evidence weighs as much as the chance that its target's rates have lasted since. That of a
  // target that `ages` does not list fades soon: the target is gone. `lists_targets` is false if no
  // source reports which targets are there.
  Keeps KeepsAfter(const Ages& ages, bool lists_targets) const;

  // Weighs the two hypotheses of each span anew by the epoch's evidence `newer`. `older` is the
  // evidence before it, and `keeps` the part of `older` that still counts. `joined` holds their sum
  // (Join), and is `older` in the next call. `ages`: by how much each target has aged since
  // `older`. The longer a span was not probed, the less likely its rate has lasted. A span may drop
  // the hypothesis that its rate has always lasted. The older one that is left has only the bits
  // since a change: they then replace the span's bits in `joined`. A span that is not in `joined`
  // with the same bounds is no longer suspected. If `forgets_gone`, evidence is removed for spans
  // that were unseen for much longer than others of their target wait for a probe.
  void Absorb(const EvidenceTable& older, const Keeps& keeps, const EvidenceTable& newer,
              const Ages& ages, EvidenceTable& joined, bool forgets_gone = false);

  // Carries the times since each span's last probe over to other spans. `before` was the last
  // `joined`; `now` is the next `older`.
  void Follow(const EvidenceTable& before, const EvidenceTable& now);

  const SuspectedChanges& suspected() const { return suspected_; }
  const Persistence& PersistenceOf(TargetId target) const;

 private:
  SuspectedChanges suspected_;
  std::map<TargetId, Persistence> persistence_;
  // Both by row of the last `joined`.
  std::vector<float> unprobed_seconds_;  // since a span's last probe
  std::vector<float> unseen_seconds_;    // since it had evidence, while its target was probed
};

}  // namespace tmprof
