// SPDX-License-Identifier: Apache-2.0

#include "policy/first_touch.h"

namespace tmprof {

void FirstTouch::Choose(Ranking& /*ranking*/, const Residency& /*residency*/,
                        PageCount /*capacity*/, std::vector<std::uint32_t>& wanted) const {
  wanted.clear();
}

}  // namespace tmprof
