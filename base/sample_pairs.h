// SPDX-License-Identifier: Apache-2.0
// Names of a sampler's details that show how often programs reach memory, and how evenly they use
// the lines of pages: pairs of the first two time samples of each page, counted misses, and stalls.

#pragma once

#include <string_view>

namespace tmprof {

// Only a page's first two samples count. Otherwise a few hot pages, such as those of the stack,
// would dominate.
inline constexpr std::string_view kPagePairs = "page_pairs";
inline constexpr std::string_view kLinePairs = "line_pairs";  // those of one line

// Loads of all targets that missed the last-level cache while the sampler was on. Absent: unknown.
inline constexpr std::string_view kCountedMisses = "llc_load_misses";

// Time samples that were compared with others of the same straight line of code, and those of them
// that are stalls: those of an instruction with a memory operand beyond what executing it explains.
// Absent: too few samples tell.
inline constexpr std::string_view kJudgedSamples = "judged_samples";
inline constexpr std::string_view kStallSamples = "stall_samples";

}  // namespace tmprof
