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

Keeps KeepsAfter(const Ages& ages, double half_life_seconds) {
  const auto keep = [half_life_seconds](double age) {
    return Keep{.evidence = std::exp2(-age / half_life_seconds), .accesses = 0};
  };
  Keeps keeps(keep(ages.of_others()));
  for (const auto& [target, age] : ages.listed()) keeps.Append(target, keep(age));
  return keeps;
}

}  // namespace tmprof
