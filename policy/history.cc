// SPDX-License-Identifier: Apache-2.0

#include "policy/history.h"

#include "policy/fill.h"

namespace tmprof {

void History::Choose(Ranking& ranking, const Residency& residency, PageCount capacity,
                     std::vector<std::uint32_t>& wanted) const {
  FillBest(ranking, residency, capacity, wanted);
}

}  // namespace tmprof
