// SPDX-License-Identifier: Apache-2.0
// Keeps the rows that a table shows, out of rows that come one by one. Memory is bounded by the
// rows kept, however many come.

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace tmprof {

// `Before` orders the rows. Of two equal rows the one with the lower number comes first.
template <typename Row, typename Before>
class FirstRows {
 public:
  // `most` unset: all rows are kept.
  explicit FirstRows(std::optional<std::size_t> most, Before before = {})
      : most_(most), before_(std::move(before)) {}

  // Precondition: no two rows have the same number.
  void Add(Row row, std::size_t number) {
    ++all_;
    kept_.push_back({.row = std::move(row), .number = number});
    if (!most_) return;
    std::ranges::push_heap(kept_, Order{before_});  // the last row of the order is on top
    if (kept_.size() <= *most_) return;
    std::ranges::pop_heap(kept_, Order{before_});
    kept_.pop_back();
  }

  std::size_t all() const { return all_; }

  // Returns the rows in order. Precondition: it is called once.
  std::vector<Row> Take() {
    std::ranges::sort(kept_, Order{before_});
    std::vector<Row> rows;
    rows.reserve(kept_.size());
    for (Numbered& kept : kept_) rows.push_back(std::move(kept.row));
    return rows;
  }

 private:
  struct Numbered {
    Row row;
    std::size_t number;
  };
  struct Order {
    const Before& before;
    bool operator()(const Numbered& a, const Numbered& b) const {
      if (before(a.row, b.row)) return true;
      return !before(b.row, a.row) && a.number < b.number;
    }
  };

  std::optional<std::size_t> most_;
  Before before_;
  std::size_t all_ = 0;
  std::vector<Numbered> kept_;
};

}  // namespace tmprof
