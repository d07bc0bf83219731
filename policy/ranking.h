// SPDX-License-Identifier: Apache-2.0
// Spans in the order of their scores, sorted only as far as somebody asks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/page_key.h"

namespace tmprof {

// Columns of one profile's spans, ascending by key; held by whoever made them.
struct ScoredSpans {
  std::span<const PageKey> key;
  std::span<const std::uint32_t> span_pages;
  std::span<const double> score;  // total of the span; 0: no candidate

  std::size_t size() const { return key.size(); }
};

// Rows with a positive score by higher score per base page, then ascending key. The tie-break
// between these two, pages already in tier 1 first, differs by policy and capacity and is made
// where it is known (policy.h): one Ranking serves them all.
//
// Scores fall into buckets of the leading bits of a double by one counting pass that keeps the
// rows' order, and a bucket is sorted when first asked for: a small tier 1 sorts little, and
// counts, which are mostly ties, next to nothing.
class Ranking {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // Keeps its memory from call to call. The columns must stay until the next call.
  void Reset(const ScoredSpans& spans);

  const ScoredSpans& spans() const { return spans_; }
  double Density(std::size_t row) const { return density_[row]; }  // score per base page
  std::size_t size() const { return order_.size(); }
  // The row in the given place, 0 being the best; kNone past the last.
  std::size_t Row(std::size_t place) {
    while (place >= sorted_ && sorted_ < order_.size()) SortNextBucket();
    return place < order_.size() ? order_[place] : kNone;
  }

 private:
  void SortNextBucket();

  ScoredSpans spans_;
  std::vector<double> density_;
  std::vector<std::uint32_t> order_;
  std::vector<std::size_t> bucket_end_;  // places; best bucket first
  std::size_t next_bucket_ = 0;
  std::size_t sorted_ = 0;  // the first so many places are final
};

}  // namespace tmprof
