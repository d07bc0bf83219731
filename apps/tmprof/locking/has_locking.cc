// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/components.h"

namespace tmprof {

bool HasLocking() { return true; }

}  // namespace tmprof
