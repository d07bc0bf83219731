// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_advice_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/ratio.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "objects/format/arena_advice.h"

namespace tmprof {
namespace {

constexpr Ratio kDefaultRoom{.numerator = 1, .denominator = 8};  // the largest --ratio

// "200MiB" or "1/8".
Result<std::variant<std::uint64_t, Ratio>> ParseRoom(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text); bytes && *bytes > 0) return *bytes;
  if (const Result<Ratio> ratio = ParseRatio(text)) return *ratio;
  return Fail(BadInput("use option", fmt::format("--room {}", text),
                       "it is a size, such as 200MiB, or a part of the accessed pages, such as "
                       "1/8"));
}

}  // namespace

Result<ObjectAdviceOptions> OptionsOf(const ObjectAdviceRequest& request, const RankWords& rank) {
  if (request.hot_share <= 0) {
    return Fail(BadInput("use option", "--hot 0",
                         "it is a share of the accesses, above 0 and up to 100 %"));
  }
  ObjectAdviceOptions advise{.hot_share = request.hot_share, .cold_nodes = request.cold_nodes};
  for (const std::string& text : request.ratios) {
    const Result<Ratio> ratio = ParseRatio(text);
    if (!ratio) return Fail(OfOption("--ratio", text, ratio.error()));
    advise.ratios.push_back(*ratio);
  }
  const Result<ParsedRank> choice = ParseRank(rank);
  if (!choice) return Fail(choice.error());
  advise.model = choice->model;
  advise.by = choice->by;
  advise.weight = choice->weight.value_or(advise.weight);
  if (!request.placed_under.empty()) {
    Result<ArenaAdvice> before = ReadAdvice(request.placed_under);
    if (!before) return Fail(before.error());
    advise.placed_under = *std::move(before);
  }
  // Packed, a program accesses fewer pages: a part of those would shrink from one turn to the next.
  if (!request.room.empty()) {
    const auto parsed = ParseRoom(request.room);
    if (!parsed) return Fail(parsed.error());
    advise.hot_room = *parsed;
  } else if (advise.placed_under && advise.placed_under->room_bytes.contains(kHotArena)) {
    advise.hot_room = advise.placed_under->room_bytes.at(kHotArena);
  } else {
    advise.hot_room = kDefaultRoom;
  }
  return advise;
}

std::optional<std::string> WarningOfPlacing(const TraceInfo& info, const std::string& trace,
                                            const std::string& placed_under) {
  const auto recorded = std::ranges::find(info.settings, "advice", &Setting::name);
  const bool is_recorded = recorded != info.settings.end();
  if (is_recorded == !placed_under.empty()) return std::nullopt;
  if (is_recorded) {
    return fmt::format("'{}' was recorded with record --advice '{}': give that file with --advice",
                       trace, recorded->value);
  }
  return fmt::format(
      "'{}' does not say that it was recorded with record --advice; what '{}' set apart is taken "
      "to lie apart",
      trace, placed_under);
}

}  // namespace tmprof
