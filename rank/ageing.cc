// SPDX-License-Identifier: Apache-2.0

#include "rank/ageing.h"

#include <cmath>

namespace tmprof {

Ages AgesAfter(const EpochProfile& profile, std::optional<MonotonicTime> end_of_last) {
  const double length = Seconds(profile.length());
  const double between =
      end_of_last ? std::max(0.0, Seconds(profile.end - *end_of_last) - length) : 0;
  Ages ages(between + length);
  for (const Target& target : profile.targets) {
    const double used = target.cpu_time ? Seconds(*target.cpu_time) : length;
    ages.Append(target.id, between + std::min(used, length));
  }
  return ages;
}

Ages Sum(const Ages& first, const Ages& second) {
  Ages sum(first.of_others() + second.of_others());
  const auto append = [&](TargetId target) {
    sum.Append(target, first.Of(target) + second.Of(target));
  };
  auto one = first.listed().begin();
  auto other = second.listed().begin();
  while (one != first.listed().end() || other != second.listed().end()) {
    const bool take_one = other == second.listed().end() ||
                          (one != first.listed().end() && one->first <= other->first);
    const TargetId target = take_one ? one->first : other->first;
    append(target);
    if (one != first.listed().end() && one->first == target) ++one;
    if (other != second.listed().end() && other->first == target) ++other;
  }
  return sum;
}

Keeps KeepsAfter(const Ages& ages, double half_life_seconds) {
  const auto keep = [half_life_seconds](double age) {
    return Keep{.evidence = std::exp2(-age / half_life_seconds), .accesses = 0};
  };
  Keeps keeps(keep(ages.of_others()));
  for (const auto& [target, age] : ages.listed()) keeps.Append(target, keep(age));
  return keeps;
}

}  // namespace tmprof
