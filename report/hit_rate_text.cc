// SPDX-License-Identifier: Apache-2.0

#include "report/hit_rate_text.h"

#include <fmt/format.h>

#include "base/human_units.h"

namespace tmprof {

std::string WithInterval(const std::optional<HitRate>& rate) {
  if (!rate) return "-";
  return fmt::format("{} [{:.1f}, {:.1f}]", rate->is_told() ? Percent(rate->value) : "?",
                     100 * rate->low, 100 * rate->high);
}

std::string ByModelOfCache(std::uint64_t llc_bytes) {
  return fmt::format(
      "too few accesses to memory were sampled; those that a last-level cache of {} has no room "
      "for are taken to reach memory",
      FormatBytes(llc_bytes));
}

Json HitRateJson(const std::optional<HitRate>& rate) {
  if (!rate) return nullptr;
  return {
      {"value", rate->value}, {"low", rate->low}, {"high", rate->high}, {"told", rate->is_told()}};
}

}  // namespace tmprof
