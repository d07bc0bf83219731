// SPDX-License-Identifier: Apache-2.0
// The pages that a policy wants. A mover or a replay carries the plan out.

#pragma once

#include <vector>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

struct PlannedSpan {
  PageKey key;
  PageCount span{1};
  double score = 0;
  friend bool operator==(const PlannedSpan&, const PlannedSpan&) = default;
};

// The spans wanted in tier 1, best first: higher score per base page, then already in tier 1, then
// ascending key. Together they fit into the capacity that the plan was made for. A span that is in
// tier 1 and not in the plan stays there until its room is needed.
struct Plan {
  std::vector<PlannedSpan> wanted;
};

}  // namespace tmprof
