// SPDX-License-Identifier: Apache-2.0
// Keeps PageColumns::same_as while records are copied to other columns.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/epoch_profile.h"

namespace tmprof {

// The value of PageColumns::same_as for a record that was not compared with any other one: nothing
// is known of it.
inline constexpr std::uint32_t kNotCompared = 0xffff'ffff;

// The first kept record of each group becomes the first one of its group in the new columns. Both
// columns must outlive the object.
class KeptGroups {
 public:
  // Precondition: `to` is empty. It has a column same_as from then on, if `from` has one.
  KeptGroups(const PageColumns& from, PageColumns& to) : from_(from), to_(to) {
    if (!from.same_as) return;
    to.same_as.emplace();
    first_kept_.assign(from.size(), kNone);
  }

  // The latest record of the new columns is this one of the old ones.
  void Keep(std::size_t record) {
    if (!from_.same_as) return;
    const std::uint32_t group = (*from_.same_as)[record];
    if (group == kNotCompared) {
      to_.same_as->back() = group;
      return;
    }
    std::uint32_t& first = first_kept_[group];
    if (first == kNone) first = static_cast<std::uint32_t>(to_.size() - 1);
    to_.same_as->back() = first;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  const PageColumns& from_;
  PageColumns& to_;
  std::vector<std::uint32_t> first_kept_;  // per group, by its first record in the old columns
};

}  // namespace tmprof
