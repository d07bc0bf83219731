// SPDX-License-Identifier: Apache-2.0
// Orders spans by their scores, and sorts only as far as somebody asks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"

namespace tmprof {

// Columns of one profile's spans, ascending by key. The caller keeps their memory. A span is known
// by its row.
struct ScoredSpans {
  std::span<const std::uint32_t> span_pages;  // empty: each is one base page
  std::span<const double> score;              // total of the span; 0: not a candidate

  std::size_t size() const { return score.size(); }
  PageCount SpanOf(std::size_t row) const {
    return PageCount(span_pages.empty() ? 1 : span_pages[row]);
  }
};

// Rows with a positive score, by higher score per base page, then ascending key. A policy prefers
// pages in tier 1 among equal scores (policy.h). That differs by policy and capacity and is not
// done here: one Ranking serves them all and shows which rows tie.
//
// A counting pass puts scores into buckets by the leading bits of a double. Rows are placed in
// their buckets, best buckets first, and a bucket is sorted, only as far as somebody asks. A small
// tier 1 therefore places and sorts little. Counts are mostly ties and need next to no sorting.
class Ranking {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // Keeps its memory from call to call. Precondition: the columns stay until the next call.
  // `likely_places` is a hint: so many places are likely to be asked for.
  void Reset(const ScoredSpans& spans,
             std::size_t likely_places = std::numeric_limits<std::size_t>::max());

  const ScoredSpans& spans() const { return spans_; }
  std::size_t size() const { return bucket_end_.empty() ? 0 : bucket_end_.back(); }
  // Returns the row in the given place, 0 being the best; kNone past the last.
  std::size_t Row(std::size_t place) {
    while (place >= sorted_ && sorted_ < size()) SortNextBucket();
    return place < size() ? row_[place] : kNone;
  }
  // Returns the rows with the n-th best score per base page, ascending; empty past the last.
  std::span<const std::uint32_t> Tie(std::size_t n) {
    while (n >= tie_end_.size() && sorted_ < size()) SortNextBucket();
    if (n >= tie_end_.size()) return {};
    const std::size_t first = n == 0 ? 0 : tie_end_[n - 1];
    return std::span(row_).subspan(first, tie_end_[n] - first);
  }

 private:
  struct Placed {
    double density;
    std::uint32_t row;
  };
  // Maps a density to its bucket's number. The density 0 is past the last bucket.
  struct Buckets {
    std::uint64_t most = 0;  // bits of the best density
    int shift = 0;
    std::size_t count = 0;
    std::size_t Of(double density) const;
  };

  void CountBuckets();
  void PlaceBuckets(std::size_t places);
  void SortNextBucket();

  ScoredSpans spans_;
  std::span<const double> density_;  // score per base page
  std::vector<double> own_density_;  // set if it is not the score itself
  Buckets buckets_;
  std::vector<std::uint32_t> bucket_end_;  // places; a bucket begins at the end of the one before
  // The entries are by place, up to the last placed bucket.
  std::vector<Placed> placed_;
  std::vector<std::uint32_t> row_;         // final up to sorted_
  std::vector<std::uint32_t> next_place_;  // one per bucket, while rows are placed
  std::vector<std::uint32_t> candidates_;  // rows of the buckets being placed
  std::size_t placed_buckets_ = 0;
  std::size_t sorted_buckets_ = 0;
  std::size_t sorted_ = 0;
  std::vector<std::uint32_t> tie_end_;  // places
};

}  // namespace tmprof
