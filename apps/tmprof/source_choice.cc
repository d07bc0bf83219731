// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/source_choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace tmprof {
namespace {

template <typename Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array kLooked{Word<AbitLooked>{"full", AbitLooked::kFull},
                             Word<AbitLooked>{"regions", AbitLooked::kRegions},
                             Word<AbitLooked>{"auto", AbitLooked::kAuto}};
constexpr std::array kModes{Word<AbitMode>{"ladder", AbitMode::kLadder},
                            Word<AbitMode>{"plain", AbitMode::kPlain}};

// Takes `word` if it is one of `words`, and no other of them was before.
template <typename Words, typename Value>
bool Take(const Words& words, std::string_view word, std::optional<Value>& value) {
  const auto found = std::ranges::find(words, word, &Word<Value>::first);
  if (found == words.end() || value) return false;
  value = found->second;
  return true;
}

template <typename Words, typename Value>
std::string_view NameIn(const Words& words, Value value) {
  return std::ranges::find(words, value, &Word<Value>::second)->first;
}

}  // namespace

Result<AbitChoice> ParseAbit(std::string_view text) {
  std::optional<AbitLooked> looked;
  std::optional<AbitMode> mode;
  std::string_view left = text;
  while (true) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const std::string_view word = left.substr(0, comma);
    if (!Take(kLooked, word, looked) && !Take(kModes, word, mode)) {
      return Fail(BadInput("choose what to read accessed bits of", std::string(text),
                           "use one of full, regions, auto, one of ladder, plain, or one of each "
                           "with a comma between"));
    }
    if (comma == left.size()) break;
    left.remove_prefix(comma + 1);
  }
  const AbitChoice by_default;
  return AbitChoice{.looked = looked.value_or(by_default.looked),
                    .mode = mode.value_or(by_default.mode)};
}

std::string AbitText(const AbitChoice& choice) {
  return fmt::format("{},{}", NameIn(kLooked, choice.looked), NameIn(kModes, choice.mode));
}

}  // namespace tmprof
