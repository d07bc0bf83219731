// SPDX-License-Identifier: Apache-2.0
// Of rows that come one by one, those that a table shows: memory is bounded by them, however many
// there are.

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace tmprof {

// `Before` orders rows; of those that it finds alike, the one with the lower number comes first.
template <typename Row, typename Before>
class FirstRows {
 public:
  // `most` unset: all of them.
  explicit FirstRows(std::optional<std::size_t> most, Before before = {})
      : most_(most), before_(std::move(before)) {}

  // Numbers differ.
  void Add(Row row, std::size_t number) {
    ++all_;
    kept_.push_back({.row = std::move(row), .number = number});
    if (!most_) return;
    std::ranges::push_heap(kept_, Order{before_});  // the last of them on top
    if (kept_.size() <= *most_) return;
    std::ranges::pop_heap(kept_, Order{before_});
    kept_.pop_back();
  }

  std::size_t all() const { return all_; }

  // In order. Once.
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
