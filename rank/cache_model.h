// SPDX-License-Identifier: Apache-2.0
// Tells without a single sample which accesses reach memory: those that a last-level cache of a
// known size has no room for. docs/design/memory-model.md describes it.

#pragma once

#include <optional>
#include <span>

namespace tmprof {

// Pages that compete for the cache.
struct CachedPages {
  double rate = 0;   // accesses of a page in a second
  double pages = 0;  // pages of this rate
};

// A line is still cached if, and only if, it is used again within the time in which the cache turns
// over (Che et al., IEEE JSAC 20, 2002). The lines of a page have Gamma-distributed access rates.
// The shape of the distribution is how evenly the lines are used, and accessed bits do not show it.
class CacheModel {
 public:
  // nullopt: the cache has room for all lines of the pages, or for all but some that are hardly
  // ever used, so that none of them is fetched twice. Precondition: cache_bytes > 0, evenness > 0.
  static std::optional<CacheModel> Make(std::span<const CachedPages> pages, double cache_bytes,
                                        double evenness);

  // Returns the part of a page's accesses that reach memory, in [0, 1].
  double PartToMemory(double rate) const;

  // Returns the probability that two samples of time in a page are of one line. An access that
  // reaches memory takes longer than one that does not, and has more of the samples.
  double ChanceOfOneLine(double rate) const;
  // Returns the time that a page's accesses take, relative to accesses that the cache serves.
  double RelativeTime(double rate) const;

  // Returns the time in which as many lines are used as the cache has.
  double turnover_seconds() const { return turnover_seconds_; }

 private:
  CacheModel(double turnover_seconds, double evenness)
      : turnover_seconds_(turnover_seconds), evenness_(evenness) {}

  double turnover_seconds_;
  double evenness_;
};

}  // namespace tmprof
