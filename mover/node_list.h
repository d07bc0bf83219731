// SPDX-License-Identifier: Apache-2.0
// Lists of NUMA nodes as the kernel prints them.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tmprof {

// "0-2,5", ascending; white space around it is ignored. No node for an empty text, nothing for one
// that is no such list.
std::optional<std::vector<NodeId>> ParseNodeList(std::string_view text);

}  // namespace tmprof
