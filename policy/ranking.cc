// SPDX-License-Identifier: Apache-2.0

#include "policy/ranking.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tmprof {
namespace {

// This many bits make a good bucket: one of 100 000 spread-out scores holds dozens, and the buckets
// stay in the L1 cache.
constexpr int kBucketBits = 11;

// Positive doubles have the order of their bits.
std::uint64_t Bits(double positive) { return std::bit_cast<std::uint64_t>(positive); }

}  // namespace

inline std::size_t Ranking::Buckets::Of(double density) const {
  return std::min<std::size_t>((most - Bits(density)) >> shift, count);
}

void Ranking::Reset(const ScoredSpans& spans, std::size_t likely_places) {
  TMPROF_CHECK((spans.span_pages.empty() || spans.span_pages.size() == spans.size()) &&
               spans.size() <= std::numeric_limits<std::uint32_t>::max());
  spans_ = spans;
  bucket_end_.clear();
  tie_end_.clear();
  placed_buckets_ = 0;
  sorted_buckets_ = 0;
  sorted_ = 0;

  density_ = spans.score;
  if (!spans.span_pages.empty()) {
    own_density_.resize(spans.size());
    for (std::size_t row = 0; row < spans.size(); ++row) {
      own_density_[row] = spans.score[row] / spans.span_pages[row];
    }
    density_ = own_density_;
  }
  CountBuckets();
  PlaceBuckets(std::min(size(), likely_places));
}

void Ranking::CountBuckets() {
  constexpr double kNoScore = std::numeric_limits<double>::infinity();
  double least = kNoScore;
  double most = 0;
  for (const double density : density_) {
    least = std::min(least, density > 0 ? density : kNoScore);
    most = std::max(most, density);
  }
  buckets_ = {};
  if (!(most > 0)) return;
  const std::uint64_t range = Bits(most) - Bits(least);
  const int shift = std::max(0, static_cast<int>(std::bit_width(range)) - kBucketBits);
  const Buckets buckets{.most = Bits(most), .shift = shift, .count = (range >> shift) + 1};
  buckets_ = buckets;  // a local copy can stay in registers

  // Neighbouring rows often tie. With two columns of counters they do not wait for each other.
  std::vector<std::uint32_t> counts(2 * (buckets.count + 1), 0);
  std::uint32_t* even = counts.data();
  std::uint32_t* odd = even + buckets.count + 1;
  std::size_t row = 0;
  for (; row + 1 < density_.size(); row += 2) {
    ++even[buckets.Of(density_[row])];
    ++odd[buckets.Of(density_[row + 1])];
  }
  if (row < density_.size()) ++even[buckets.Of(density_[row])];

  next_place_.resize(buckets.count);
  bucket_end_.resize(buckets.count);
  std::uint32_t end = 0;
  for (std::size_t bucket = 0; bucket < buckets.count; ++bucket) {
    next_place_[bucket] = end;
    end += even[bucket] + odd[bucket];
    bucket_end_[bucket] = end;
  }
}

// Places whole buckets until at least so many places are taken, by one pass over all rows.
void Ranking::PlaceBuckets(std::size_t places) {
  const std::size_t first = placed_buckets_;
  while (placed_buckets_ < bucket_end_.size() &&
         (placed_buckets_ == 0 || bucket_end_[placed_buckets_ - 1] < places)) {
    ++placed_buckets_;
  }
  if (placed_buckets_ == first) return;
  placed_.resize(bucket_end_[placed_buckets_ - 1]);
  row_.resize(placed_.size());
  const std::size_t wanted = placed_buckets_ - first;
  const Buckets buckets = buckets_;
  // This has no unpredictable branch.
  candidates_.resize(density_.size());
  std::uint32_t* candidate = candidates_.data();
  for (std::size_t row = 0; row < density_.size(); ++row) {
    *candidate = static_cast<std::uint32_t>(row);
    candidate += buckets.Of(density_[row]) - first < wanted ? 1 : 0;
  }
  for (const std::uint32_t row : std::span(candidates_.data(), candidate)) {
    placed_[next_place_[buckets.Of(density_[row])]++] = {density_[row], row};
  }
}

void Ranking::SortNextBucket() {
  if (sorted_buckets_ == placed_buckets_) PlaceBuckets(size());
  const std::size_t end = bucket_end_[sorted_buckets_++];
  const auto first = placed_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  const auto last = placed_.begin() + static_cast<std::ptrdiff_t>(end);
  // Rows ascend by key, so that their order is that of keys. A bucket of one tie is sorted already.
  const auto better = [](const Placed& a, const Placed& b) {
    return a.density != b.density ? a.density > b.density : a.row < b.row;
  };
  if (!std::is_sorted(first, last, better)) std::sort(first, last, better);
  for (std::size_t place = sorted_; place < end; ++place) {
    row_[place] = placed_[place].row;
    if (place + 1 == end || placed_[place].density != placed_[place + 1].density) {
      tie_end_.push_back(static_cast<std::uint32_t>(place + 1));
    }
  }
  sorted_ = end;
}

}  // namespace tmprof
