// SPDX-License-Identifier: Apache-2.0
// The first two samples of time of each page tell how evenly the lines of pages are used.

#pragma once

#include <string_view>

namespace tmprof {

// Details of a source of samples. Only a page's first two samples count: else a few hot pages, such
// as those of the stack, would tell most of what is told of a program.
inline constexpr std::string_view kPagePairs = "page_pairs";
inline constexpr std::string_view kLinePairs = "line_pairs";  // of those, the ones of one line

}  // namespace tmprof
