// SPDX-License-Identifier: Apache-2.0
// The only table of policies.

#include <algorithm>
#include <array>
#include <string>

#include "policy/first_touch.h"
#include "policy/history.h"
#include "policy/oracle.h"
#include "policy/policy.h"

namespace tmprof {
namespace {

template <typename T>
std::unique_ptr<const Policy> Make() {
  return std::make_unique<const T>();
}

constexpr std::array kPolicies = {
    PolicyEntry{"first_touch", "fills tier 1 in order of first appearance and never moves a page",
                false, Make<FirstTouch>},
    PolicyEntry{"history", "places the pages that scored best in the epoch before", false,
                Make<History>},
    PolicyEntry{"oracle", "places the pages that score best in the coming epoch: an upper bound",
                true, Make<Oracle>},
};

}  // namespace

std::span<const PolicyEntry> Policies() { return kPolicies; }

Result<const PolicyEntry*> FindPolicy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &PolicyEntry::name);
  if (found != kPolicies.end()) return &*found;
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    names.append(names.empty() ? "" : ", ").append(entry.name);
  }
  return Fail(BadInput("choose policy", std::string(name), "unknown name", "use one of " + names));
}

Plan MakePlan(const Policy& policy, std::span<const PageKey> keys, Ranking& ranking,
              const Residency& residency, PageCount capacity) {
  std::vector<std::uint32_t> wanted;
  policy.Choose(ranking, residency, capacity, wanted);
  const ScoredSpans& spans = ranking.spans();
  Plan plan;
  plan.wanted.reserve(wanted.size());
  for (const std::uint32_t row : wanted) {
    plan.wanted.push_back({keys[row], spans.SpanOf(row), spans.score[row]});
  }
  return plan;
}

}  // namespace tmprof
