// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_list.h"

#include <cstddef>
#include <cstdint>
#include <system_error>

#include "base/parse_integer.h"

namespace tmprof {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n";

std::string_view WithoutWhiteSpace(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace

std::optional<std::vector<NodeId>> ParseNodeList(std::string_view text) {
  text = WithoutWhiteSpace(text);
  std::vector<NodeId> nodes;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = ParseInteger<std::uint16_t>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : ParseInteger<std::uint16_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (!nodes.empty() && NodeId(*first) <= nodes.back()) return std::nullopt;
    for (std::uint32_t node = *first; node <= *last; ++node) {
      nodes.emplace_back(static_cast<std::uint16_t>(node));
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  return nodes;
}

}  // namespace tmprof
