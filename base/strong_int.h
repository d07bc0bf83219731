// SPDX-License-Identifier: Apache-2.0
// Defines a distinct integer type per quantity, so that a page number cannot be passed for a page
// count.

#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>

namespace tmprof {

// Construction is explicit and comparison is total. There is no arithmetic unless the unit defines
// it (units.h). The default value is zero.
template <typename Tag, std::integral Rep>
class StrongInt {
 public:
  using rep = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  friend constexpr bool operator==(StrongInt, StrongInt) = default;

 private:
  Rep value_ = 0;
};

}  // namespace tmprof

template <typename Tag, std::integral Rep>
struct std::hash<tmprof::StrongInt<Tag, Rep>> {
  std::size_t operator()(tmprof::StrongInt<Tag, Rep> v) const noexcept {
    return std::hash<Rep>{}(v.value());
  }
};
