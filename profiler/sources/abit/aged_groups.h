// SPDX-License-Identifier: Apache-2.0
// Memory cgroups that are aged: what that takes, and when each may be aged again.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/units.h"
#include "profiler/sources/abit/scan_target.h"

namespace tmprof::abit {

// The first ageing of a group goes by an assumed price: some 50 to 70 ns a page were measured in
// guests, doubled.
inline constexpr EntryPrice kAgeingPrice{.ns = 100, .least_ns = 10, .most_ns = 1'000};

// Reasons not to age a group. Each is reported once per group.
enum class AgeingTrouble : std::uint8_t {
  kFailed,
  kTookTooLong,
  kTooMuchMemory,
  kPressure,
  kForeign,
  kWithoutEffect,
};

struct AgedGroup {
  EntryPrice price = kAgeingPrice;
  MonotonicTime at{};                // when the latest ageing ended
  std::chrono::nanoseconds took{0};  // the scanner's CPU time for it and for the looks around it
  std::uint64_t number = 0;          // ageings that were asked for; those at once count as one
  MonotonicTime not_before{};        // it was refused, failed or took too long
  // Targets of the group do not plan an ageing until then, because one that did has to wait.
  MonotonicTime plan_again{};
  // An ageing did not reach these nodes, and one more at once did not either: none is repeated for
  // them until then.
  std::map<std::optional<NodeId>, MonotonicTime> no_retry_before;
  std::set<AgeingTrouble> said;

  // Ageing takes no larger a share of the time than other clears of whole processes.
  MonotonicTime RestsUntil() const { return std::max(not_before, at + kWholeClearsRest * took); }
};

class AgedGroups {
 public:
  AgedGroup& At(const std::string& path) { return groups_.at(path); }
  // Null: it is not known.
  const AgedGroup* Find(const std::string& path) const {
    const auto known = groups_.find(path);
    return known == groups_.end() ? nullptr : &known->second;
  }

  // Adds a group unless it is known. Meanwhile, groups are forgotten that are not `in_use`. One
  // that rests is kept: a new target there does not end its rest.
  AgedGroup& Add(const std::string& path, const std::set<std::string>& in_use, MonotonicTime now) {
    if (const auto known = groups_.find(path); known != groups_.end()) return known->second;
    std::erase_if(groups_, [&](const auto& each) {
      return !in_use.contains(each.first) && each.second.RestsUntil() <= now;
    });
    return groups_[path];
  }

  std::size_t size() const { return groups_.size(); }

 private:
  std::map<std::string, AgedGroup> groups_;  // key: path
};

}  // namespace tmprof::abit
