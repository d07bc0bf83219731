// SPDX-License-Identifier: Apache-2.0

#include "base/latency_gap.h"

#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "base/duration_text.h"

namespace tmprof {
namespace {

constexpr std::string_view kGap = "latency-gap";
constexpr std::string_view kBasis = "latency-gap-basis";
constexpr std::array kBases = {LatencyBasis::kGiven, LatencyBasis::kFirmware,
                               LatencyBasis::kAssumed};

std::vector<std::string> ItemsOf(const std::vector<Setting>& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  std::vector<std::string> items;
  if (found == settings.end()) return items;
  std::string_view rest = found->value;
  while (true) {
    const std::size_t comma = rest.find(',');
    items.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string_view Name(LatencyBasis basis) {
  switch (basis) {
    case LatencyBasis::kGiven:
      return "given";
    case LatencyBasis::kFirmware:
      return "firmware";
    case LatencyBasis::kAssumed:
      return "assumed";
  }
  return "invalid";
}

LatencyGaps GapsOf(const std::vector<std::optional<double>>& latencies,
                   std::optional<double> given) {
  std::vector<LatencyGap> gaps;
  for (std::size_t i = 1; i < latencies.size(); ++i) {
    LatencyGap& gap = gaps.emplace_back();
    if (given) {
      gap = {.ns = *given, .basis = LatencyBasis::kGiven};
    } else if (latencies[0] && latencies[i] && *latencies[i] > *latencies[0]) {
      gap = {.ns = *latencies[i] - *latencies[0], .basis = LatencyBasis::kFirmware};
    }
  }
  if (gaps.empty() && given) gaps.push_back({.ns = *given, .basis = LatencyBasis::kGiven});
  return LatencyGaps(std::move(gaps));
}

std::vector<Setting> SettingsOf(const LatencyGaps& gaps, std::size_t tiers) {
  Setting of_gap{.name = std::string(kGap), .value = {}};
  Setting of_basis{.name = std::string(kBasis), .value = {}};
  for (std::size_t tier = 2; tier <= tiers; ++tier) {
    const LatencyGap gap = gaps.Of(Tier(static_cast<Tier::rep>(tier)));
    const char* comma = tier == 2 ? "" : ",";
    of_gap.value += fmt::format("{}{:.0f}ns", comma, std::max(1.0, std::round(gap.ns)));
    of_basis.value += fmt::format("{}{}", comma, Name(gap.basis));
  }
  if (of_gap.value.empty()) return {};
  return {std::move(of_gap), std::move(of_basis)};
}

LatencyGaps GapsOf(const std::vector<Setting>& settings) {
  const std::vector<std::string> texts = ItemsOf(settings, kGap);
  const std::vector<std::string> names = ItemsOf(settings, kBasis);
  if (texts.size() != names.size()) return {};
  std::vector<LatencyGap> gaps;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Result<std::chrono::nanoseconds> ns = ParseDuration(texts[i]);
    const auto basis =
        std::ranges::find(kBases, names[i], static_cast<std::string_view (*)(LatencyBasis)>(Name));
    if (!ns || ns->count() <= 0 || basis == kBases.end()) return {};
    gaps.push_back({.ns = static_cast<double>(ns->count()), .basis = *basis});
  }
  return LatencyGaps(std::move(gaps));
}

}  // namespace tmprof
