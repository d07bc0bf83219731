// SPDX-License-Identifier: Apache-2.0

#include "policy/ranking.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

// Enough that a bucket of 100 000 spread-out scores holds dozens, few enough to stay in the L1
// cache.
constexpr int kBucketBits = 11;

// Positive doubles order as their bits do.
std::uint64_t Bits(double positive) { return std::bit_cast<std::uint64_t>(positive); }

}  // namespace

void Ranking::Reset(const ScoredSpans& spans) {
  TMPROF_CHECK(spans.key.size() == spans.span_pages.size() &&
               spans.key.size() == spans.score.size() &&
               spans.key.size() <= std::numeric_limits<std::uint32_t>::max());
  spans_ = spans;
  order_.clear();
  bucket_end_.clear();
  next_bucket_ = 0;
  sorted_ = 0;

  density_.resize(spans.size());
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = 0;
  for (std::size_t row = 0; row < spans.size(); ++row) {
    density_[row] = spans.score[row] / spans.span_pages[row];
    if (!(density_[row] > 0)) continue;
    least = std::min(least, Bits(density_[row]));
    most = std::max(most, Bits(density_[row]));
  }
  if (least > most) return;

  const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kBucketBits);
  const auto bucket_of = [&](std::size_t row) { return (most - Bits(density_[row])) >> shift; };
  bucket_end_.assign(((most - least) >> shift) + 1, 0);
  for (std::size_t row = 0; row < spans.size(); ++row) {
    if (density_[row] > 0) ++bucket_end_[bucket_of(row)];
  }
  // From counts to starts; placing a row then moves its bucket's start up to its end.
  std::size_t start = 0;
  for (std::size_t& bucket : bucket_end_) start += std::exchange(bucket, start);
  order_.resize(start);
  for (std::size_t row = 0; row < spans.size(); ++row) {
    if (density_[row] > 0) {
      order_[bucket_end_[bucket_of(row)]++] = static_cast<std::uint32_t>(row);
    }
  }
}

void Ranking::SortNextBucket() {
  const auto first = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  sorted_ = bucket_end_[next_bucket_++];
  const auto last = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  // Rows ascend by key, so the row is the key's order; ties alone are in it already.
  const auto better = [this](std::uint32_t a, std::uint32_t b) {
    return density_[a] != density_[b] ? density_[a] > density_[b] : a < b;
  };
  if (!std::is_sorted(first, last, better)) std::sort(first, last, better);
}

}  // namespace tmprof
