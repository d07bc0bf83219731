// SPDX-License-Identifier: Apache-2.0
// Wants the hottest pages of the previous epoch (TMP, IPDPS 2021).

#pragma once

#include "policy/policy.h"

namespace tmprof {

class History final : public Policy {
 public:
  Knowledge knowledge() const override { return Knowledge::kPast; }
  void Choose(Ranking& ranking, const Residency& residency, PageCount capacity,
              std::vector<std::uint32_t>& wanted) const override;
};

}  // namespace tmprof
