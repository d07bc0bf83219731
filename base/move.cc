// SPDX-License-Identifier: Apache-2.0

#include "base/move.h"

#include "base/check.h"

namespace tmprof {

std::string_view Name(MoveReason reason) {
  switch (reason) {
    case MoveReason::kWanted:
      return "wanted";
    case MoveReason::kRoom:
      return "room";
    case MoveReason::kOverCapacity:
      return "over-capacity";
  }
  TMPROF_CHECK(false);
}

}  // namespace tmprof
