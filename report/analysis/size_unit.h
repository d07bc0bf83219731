// SPDX-License-Identifier: Apache-2.0
// The unit of all sizes of a table or an axis.

#pragma once

#include <string_view>

namespace tmprof {

struct SizeUnit {
  double pages = 0.25;  // base pages
  std::string_view name = "KiB";
};

// Returns the largest unit of which that many base pages are at least one.
inline SizeUnit SizeUnitOf(double pages) {
  constexpr double kOfMiB = 256;
  constexpr double kOfGiB = 256 * 1024;
  if (pages >= kOfGiB) return {kOfGiB, "GiB"};
  if (pages >= kOfMiB) return {kOfMiB, "MiB"};
  return {};
}

}  // namespace tmprof
