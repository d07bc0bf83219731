// SPDX-License-Identifier: Apache-2.0
// Parses lists of NUMA nodes as the kernel prints them.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tmprof {

// Parses "0-2,5", ascending; white space around it is ignored. An empty text has no nodes. nullopt:
// the text is not a list.
std::optional<std::vector<NodeId>> ParseNodeList(std::string_view text);

}  // namespace tmprof
