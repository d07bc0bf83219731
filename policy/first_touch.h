// SPDX-License-Identifier: Apache-2.0
// Tier 1 fills in order of first appearance, as the kernel allocates; nothing moves (TMP's
// baseline).

#pragma once

#include "policy/policy.h"

namespace tmprof {

class FirstTouch final : public Policy {
 public:
  Knowledge knowledge() const override { return Knowledge::kNothing; }
  void Choose(Ranking& ranking, const Residency& residency, PageCount capacity,
              std::vector<std::uint32_t>& wanted) const override;
};

}  // namespace tmprof
