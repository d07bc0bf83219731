// SPDX-License-Identifier: Apache-2.0
// A set of footprint pages, one bit each.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tmprof {

class PageBits {
 public:
  explicit PageBits(PageCount pages) : words_((pages.value() + 63) / 64, 0) {}

  bool Holds(std::uint64_t page) const { return (words_[page / 64] >> (page % 64) & 1) != 0; }
  void Put(std::uint64_t page) { words_[page / 64] |= std::uint64_t{1} << (page % 64); }
  void Remove(std::uint64_t page) { words_[page / 64] &= ~(std::uint64_t{1} << (page % 64)); }
  void Clear() { std::ranges::fill(words_, 0); }

  // Calls visit(page), ascending.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace tmprof
