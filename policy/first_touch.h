// SPDX-License-Identifier: Apache-2.0
// Fills tier 1 in order of first appearance, as the kernel allocates, and moves nothing (TMP's
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
