// SPDX-License-Identifier: Apache-2.0

#include "rank/cache_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"

namespace tmprof {
namespace {

constexpr double kBytesOfLine = 64;
constexpr double kLinesOfPage = kBasePageBytes / kBytesOfLine;
// Halvings of a factor of two between the bounds of the time: enough for a part in a million.
constexpr int kHalvings = 20;
// A cache that turns over more slowly, as a multiple of the accesses that it has room for, holds
// all but lines that are used next to never.
constexpr double kLongestTurnover = 1e30;

// The extra time of an access that reaches memory, relative to one that the cache serves. It is
// assumed to be some 100 ns instead of 5; overlaps are ignored.
constexpr double kTimeOfMiss = 20;

// Returns the probability that a line is not used for so long. Its page is accessed at `rate`.
double ChanceOfRest(double rate, double seconds, double evenness) {
  return std::exp(-evenness * std::log1p(rate * seconds / (kLinesOfPage * evenness)));
}

double LinesUsedWithin(std::span<const CachedPages> pages, double seconds, double evenness) {
  double lines = 0;
  for (const CachedPages& each : pages)
    lines += each.pages * kLinesOfPage * (1 - ChanceOfRest(each.rate, seconds, evenness));
  return lines;
}

}  // namespace

std::optional<CacheModel> CacheModel::Make(std::span<const CachedPages> pages, double cache_bytes,
                                           double evenness) {
  TMPROF_CHECK(cache_bytes > 0 && evenness > 0);
  const double room = cache_bytes / kBytesOfLine;
  double lines = 0;
  double accesses = 0;  // in a second
  for (const CachedPages& each : pages) {
    if (each.rate <= 0) continue;
    lines += each.pages * kLinesOfPage;
    accesses += each.pages * each.rate;
  }
  if (lines <= room) return std::nullopt;
  // The shortest possible time is that in which each access uses another line.
  double from = room / accesses;
  double to = from;
  while (LinesUsedWithin(pages, to, evenness) < room) {
    from = to;
    to *= 2;
    if (to > kLongestTurnover * room / accesses) return std::nullopt;
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (from + to) / 2;
    (LinesUsedWithin(pages, middle, evenness) < room ? from : to) = middle;
  }
  return CacheModel(to, evenness);
}

// A line's access reaches memory if the line has rested for longer than the cache takes to turn
// over. Lines that are used more often have more of the accesses: hence the one more.
double CacheModel::PartToMemory(double rate) const {
  return ChanceOfRest(rate, turnover_seconds_, evenness_) /
         (1 + rate * turnover_seconds_ / (kLinesOfPage * evenness_));
}

double CacheModel::RelativeTime(double rate) const { return 1 + kTimeOfMiss * PartToMemory(rate); }

// A line of the rate r has r (1 + M e^(-r T)) of the time, and r has a Gamma distribution. The
// chance is that of 64 such lines, by the first two moments of that time.
double CacheModel::ChanceOfOneLine(double rate) const {
  const double turnover = rate * turnover_seconds_ / (kLinesOfPage * evenness_);
  const double mean = 1 + kTimeOfMiss * std::pow(1 + turnover, -(evenness_ + 1));
  const double square = (1 + 1 / evenness_) *
                        (1 + 2 * kTimeOfMiss * std::pow(1 + turnover, -(evenness_ + 2)) +
                         kTimeOfMiss * kTimeOfMiss * std::pow(1 + 2 * turnover, -(evenness_ + 2)));
  return square / (square + (kLinesOfPage - 1) * mean * mean);
}

}  // namespace tmprof
