// SPDX-License-Identifier: Apache-2.0

#include "base/text/near_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tmprof {
namespace {

// The optimal string alignment distance: a letter inserted, left out, replaced, or two neighbours
// swapped are one slip each.
std::size_t Slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> slips(a.size() + 1,
                                              std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        slips[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = a[i - 1] == b[j - 1] ? 0 : 1;
      slips[i][j] =
          std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, slips[i - 1][j - 1] + replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips[a.size()][b.size()];
}

}  // namespace

std::string Nearest(std::string_view word, std::span<const std::string> names) {
  constexpr std::size_t kFewestLetters = 3;  // that begin a name and tell it
  constexpr std::size_t kLettersPerSlip = 4;
  const auto letters = [](std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of('-'), text.size()));
    return text;
  };
  const std::string_view meant = letters(word);
  for (const std::string& name : names) {
    if (meant.size() >= kFewestLetters && letters(name).starts_with(meant)) return name;
  }
  std::string nearest;
  std::size_t fewest = std::max<std::size_t>(meant.size() / kLettersPerSlip, 1) + 1;
  for (const std::string& name : names) {
    // One slip makes another word of a short one.
    const bool is_short = meant.size() < kLettersPerSlip;
    if (is_short && !letters(name).starts_with(meant.substr(0, 1))) continue;
    const std::size_t slips = Slips(meant, letters(name));
    if (slips >= fewest) continue;
    fewest = slips;
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> names,
                       std::string_view rest) {
  const std::string nearest = Nearest(word, names);
  return nearest.empty() ? std::string(rest) : fmt::format("did you mean '{}'? {}", nearest, rest);
}

}  // namespace tmprof
