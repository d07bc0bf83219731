// SPDX-License-Identifier: Apache-2.0

#include "profiler/source_choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text/human_units.h"

namespace tmprof {
namespace {

using Mode = abit::ScanOptions::Mode;
template <typename Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array kLooked{Word<abit::Looked>{"full", abit::Looked::kFull},
                             Word<abit::Looked>{"regions", abit::Looked::kRegions},
                             Word<abit::Looked>{"auto", abit::Looked::kAuto}};
constexpr std::array kModes{Word<Mode>{"ladder", Mode::kLadder}, Word<Mode>{"plain", Mode::kPlain}};

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
  std::optional<abit::Looked> looked;
  std::optional<Mode> mode;
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
  AbitChoice choice;
  choice.looked = looked.value_or(choice.looked);
  if (mode || choice.looked == abit::Looked::kRegions) choice.mode = mode;
  return choice;
}

std::string AbitText(const AbitChoice& choice) {
  const std::string_view looked = NameIn(kLooked, choice.looked);
  if (!choice.mode) return std::string(looked);
  return fmt::format("{},{}", looked, NameIn(kModes, *choice.mode));
}

RegionBounds::RegionBounds() {
  const tmprof_region_params published = tmprof_region_params_default();
  monitoring = std::chrono::nanoseconds(published.monitoring_ns);
  aggregation = std::chrono::nanoseconds(published.aggregation_ns);
  update = std::chrono::nanoseconds(published.update_ns);
  min_regions = published.min_regions;
  max_regions = published.max_regions;
}

Result<tmprof_region_params> RegionParams(const RegionBounds& bounds) {
  // The published 1000 regions are then just in time for the published 1 ms. Where more are dearer,
  // the budget makes steps rarer.
  constexpr std::uint64_t kCheckNs = 1'000;
  const tmprof_region_params params{
      .monitoring_ns = static_cast<std::uint64_t>(bounds.monitoring.count()),
      .aggregation_ns = static_cast<std::uint64_t>(bounds.aggregation.count()),
      .update_ns = static_cast<std::uint64_t>(bounds.update.count()),
      .min_regions = bounds.min_regions,
      .max_regions = bounds.max_regions};
  const tmprof_params_verdict verdict = tmprof_region_params_check(&params, kCheckNs);
  if (verdict.error == 0) return params;
  struct Option {
    std::string_view field;
    std::string_view name;
    std::string value;
  };
  const Option options[] = {
      {"monitoring_ns", "--region-monitoring", FormatDuration(bounds.monitoring)},
      {"aggregation_ns", "--region-aggregation", FormatDuration(bounds.aggregation)},
      {"update_ns", "--region-update", FormatDuration(bounds.update)},
      {"min_regions", "--min-regions", std::to_string(bounds.min_regions)},
      {"max_regions", "--max-regions", std::to_string(bounds.max_regions)}};
  std::string given = verdict.field;
  std::string reason = verdict.reason;
  for (const Option& option : options) {
    if (option.field == verdict.field) given = fmt::format("{} {}", option.name, option.value);
    if (const auto at = reason.find(option.field); at != std::string::npos)
      reason.replace(at, option.field.size(), fmt::format("{} {}", option.name, option.value));
  }
  return Fail(BadInput("use option", given, reason));
}

std::optional<std::string> WarnOfUnusedAgeing(const SourceChoice& choice,
                                              const SourceKind& scanner) {
  if (choice.ageing == abit::AgeingUse::kOff) return std::nullopt;
  if (scanner.name != kAbitBpfSource.name)
    return fmt::format(
        "no memory cgroup is aged: the source {} clears no whole process; only {} does",
        scanner.name, kAbitBpfSource.name);
  if (choice.abit.looked == abit::Looked::kRegions)
    return fmt::format(
        "no memory cgroup is aged: a scan by '{}' clears no whole process; 'full' and 'auto' do",
        AbitText(choice.abit));
  return std::nullopt;
}

std::string FaultOfOnlineSource(const std::string& name) {
  std::vector<std::string_view> online{"auto"};
  for (const SourceKind& kind : SourceKinds()) {
    if (kind.name != kExactSource.name) online.push_back(kind.name);
  }
  if (std::ranges::find(online, name) != online.end()) return {};
  return fmt::format("'{}': {}; use some of {}", name,
                     name == kExactSource.name
                         ? "it runs a program itself, with 'tmprof record --source exact'"
                         : "unknown name",
                     fmt::join(online, ", "));
}

}  // namespace tmprof
