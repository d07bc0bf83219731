// SPDX-License-Identifier: Apache-2.0
// The example of a policy: its own file.

#pragma once

#include "policy/policy.h"

namespace tmprof {

// Wants the last row that has a score, if it fits.
class Example final : public Policy {
 public:
  Knowledge knowledge() const override { return Knowledge::kPast; }
  void Choose(Ranking& ranking, const Residency& /*residency*/, PageCount capacity,
              std::vector<std::uint32_t>& wanted) const override {
    wanted.clear();
    const ScoredSpans& spans = ranking.spans();
    for (auto row = static_cast<std::uint32_t>(spans.size()); row-- > 0;) {
      if (spans.score[row] <= 0) continue;
      if (spans.SpanOf(row) <= capacity) wanted.push_back(row);
      return;
    }
  }
};

}  // namespace tmprof
