// SPDX-License-Identifier: Apache-2.0
// Details of a sampler that tell how evenly the lines of pages are used: the first two samples of
// time of each page, and counted misses.

#pragma once

#include <string_view>

namespace tmprof {

// Only a page's first two samples count: else a few hot pages, such
// as those of the stack, would tell most of what is told of a program.
inline constexpr std::string_view kPagePairs = "page_pairs";
inline constexpr std::string_view kLinePairs = "line_pairs";  // of those, the ones of one line

// Loads that missed the last-level cache, of all targets while the sampler was on. Absent: unknown.
inline constexpr std::string_view kCountedMisses = "llc_load_misses";

}  // namespace tmprof
