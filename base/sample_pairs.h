// SPDX-License-Identifier: Apache-2.0
// Names of a sampler's details that show how evenly the lines of pages are used: pairs of the first
// two time samples of each page, and counted misses.

#pragma once

#include <string_view>

namespace tmprof {

// Only a page's first two samples count. Otherwise a few hot pages, such as those of the stack,
// would dominate.
inline constexpr std::string_view kPagePairs = "page_pairs";
inline constexpr std::string_view kLinePairs = "line_pairs";  // those of one line

// Loads of all targets that missed the last-level cache while the sampler was on. Absent: unknown.
inline constexpr std::string_view kCountedMisses = "llc_load_misses";

}  // namespace tmprof
