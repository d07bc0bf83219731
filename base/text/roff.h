// SPDX-License-Identifier: Apache-2.0
// Text for manual pages.

#pragma once

#include <string>
#include <string_view>

namespace tmprof {

// Escapes text for roff(7), which takes some characters for its own.
std::string Roff(std::string_view text);

}  // namespace tmprof
