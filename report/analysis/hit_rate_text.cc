// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hit_rate_text.h"

#include <fmt/format.h>

#include "base/text/human_units.h"

namespace tmprof {

std::string WithInterval(const std::optional<HitRate>& rate) {
  if (!rate) return "-";
  return fmt::format("{} [{:.1f}, {:.1f}]", rate->is_told() ? Percent(rate->value) : "? %",
                     100 * rate->low, 100 * rate->high);
}

std::string ByModelOfCache(std::uint64_t llc_bytes) {
  return fmt::format(
      "too few accesses to memory were sampled; those that a last-level cache of {} has no room "
      "for are taken to reach memory",
      FormatBytes(llc_bytes));
}

std::string CacheIsRefuted(std::uint64_t llc_bytes) {
  return fmt::format(
      "all pages fit in a last-level cache of {}, but accesses to memory were counted or sampled: "
      "each access counts the same",
      FormatBytes(llc_bytes));
}

std::string NoteOfUnknown(const HitRates& rates) {
  if (rates.unknown == PageCount(0)) return "";
  return fmt::format(
      "{} of these pages were neither looked at nor sampled: they are taken to be like the others, "
      "and no ranking chooses them\n",
      Grouped(rates.unknown.value()));
}

Json HitRateJson(const std::optional<HitRate>& rate) {
  if (!rate) return nullptr;
  return {
      {"value", rate->value}, {"low", rate->low}, {"high", rate->high}, {"told", rate->is_told()}};
}

}  // namespace tmprof
