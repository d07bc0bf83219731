// SPDX-License-Identifier: Apache-2.0
// Tells without a single sample which accesses reach memory: those that a last-level cache of a
// known size has no room for. docs/accuracy.md ("Without samples of misses") describes it.

#pragma once

#include <optional>
#include <span>

namespace tmprof {

// Pages that compete for the cache.
struct CachedPages {
  double rate = 0;   // accesses of a page in a second
  double pages = 0;  // that have this rate
};

// A line that is used again within the time in which the cache turns over is still there, an older
// one is not (Che et al., IEEE JSAC 20, 2002). The lines of a page have access rates of a Gamma
// distribution: how evenly they are used is its shape, which accessed bits do not tell.
class CacheModel {
 public:
  // nullopt: all lines of the pages, or all but some that are used next to never, have room in the
  // cache, so that none of them comes to memory twice. Precondition: cache_bytes > 0, evenness > 0.
  static std::optional<CacheModel> Make(std::span<const CachedPages> pages, double cache_bytes,
                                        double evenness);

  // The part of the accesses of a page that reach memory, in [0, 1].
  double PartToMemory(double rate) const;

  // Returns the probability that two samples of time in a page are of one line. An access that
  // reaches memory takes longer than one that does not, and has more of the samples.
  double ChanceOfOneLine(double rate) const;
  // Returns the time that a page's accesses take, relative to accesses that the cache serves.
  double RelativeTime(double rate) const;

  // In this time as many lines are used as the cache has.
  double turnover_seconds() const { return turnover_seconds_; }

 private:
  CacheModel(double turnover_seconds, double evenness)
      : turnover_seconds_(turnover_seconds), evenness_(evenness) {}

  double turnover_seconds_;
  double evenness_;
};

}  // namespace tmprof
