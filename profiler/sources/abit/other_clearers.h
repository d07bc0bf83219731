// SPDX-License-Identifier: Apache-2.0
// Finds what else in this kernel clears accessed bits: DAMON and the multi-generational LRU.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tmprof::abit {

struct OtherClearer {
  std::string text;          // what it is, and how much it clears: a clause
  std::string how_to_stop;   // a shell command; empty: not known
  bool is_harmless = false;  // it clears less than kHarmlessClears
};

// Up to this share of the pages that others watch may be cleared in a second. Several DAMONs that
// watch the same memory add up. A probe watches a page for 1 s of the program's CPU time at most,
// and so loses at most 1 % of its references to such a clearer.
inline constexpr double kHarmlessClears = 0.01;

// True if the multi-generational LRU is switched on. Its ageing clears accessed bits, and learns of
// accesses by them alone. `root` has the folder /sys.
bool MultiGenerationalLruRuns(const std::filesystem::path& root = "/");

// Returns the worst clearer: one whose pace is unknown, if there is one, or all DAMONs together.
// `root` has the folders /proc and /sys. nullopt: there is none.
std::optional<OtherClearer> OtherAccessedBitClearer(const std::filesystem::path& root = "/");

}  // namespace tmprof::abit
