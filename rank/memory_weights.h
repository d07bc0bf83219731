// SPDX-License-Identifier: Apache-2.0
// Turns access rates of pages into accesses to memory. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/units.h"
#include "rank/cache_model.h"
#include "rank/memory_traffic.h"
#include "rank/memory_worth.h"

namespace tmprof {

// One page or span, or several that are alike.
struct MemoryRow {
  TargetId target;  // or the name of a file that several processes map
  SampledPages seen;
  // False: none of their accessed bits was read, so that their rate is that of any page. Such rows
  // exist because they were sampled, and do not show what a rate is worth.
  bool looked_at = true;
  // CPU time in which the target accesses its pages at their rates. Only its ratio to that of other
  // rows matters, because their pages are in one cache. A file's is made of its mappers' CPU time
  // and must not be added to theirs.
  double speed = 1;
  // The 2 MiB block that they lie in, if they lie in one. Pages of one block are alike in more than
  // their rates (block_factors.h).
  std::optional<std::uint64_t> block = std::nullopt;
  // Share of its accesses to memory, in [0, 1], whose latency a prefetcher hides and which no
  // counter or sampler of misses sees. It is also 0 if it is unknown.
  double hidden = 0;
};

// A target that did not run while a sampler was on could not be sampled.
inline bool CouldBeSampled(const MemoryRow& row) { return row.looked_at && row.seen.seconds > 0; }

struct MemoryScale {
  double units_per_sample = 1;  // a weight is in units, such as accesses
  // Size of the last-level cache, reduced to the part that looked-at pages use. nullopt: no cache
  // is modelled if samples are too few.
  std::optional<double> llc_bytes = std::nullopt;
  SamplePairs pairs = {};  // tell how evenly the lines of pages are used
  // Misses of the looked-at pages. They also show how evenly lines are used, and how many accesses
  // reach memory at all. nullopt: they were not counted.
  std::optional<CountedMisses> counted = std::nullopt;
};

// Pages that were not looked at are assumed to use as much of the cache as those that were, which
// get their part of it. `resident`: all existing pages; nullopt: unknown, and assumed to be the
// looked-at ones. Processes that ran one after another are treated as if they had run together.
MemoryScale ScaleOf(const SampleScale& samples, std::optional<std::uint64_t> llc_bytes,
                    PageCount looked_at, std::optional<PageCount> resident);

enum class MemoryBasis : std::uint8_t {
  kSamples,     // tell what access rates are worth
  kCacheModel,  // tells which accesses reach memory, while samples are too few
  kAllCached,   // all pages have room in the modelled cache: no access reaches memory
  kProportion,  // all accesses are worth the same
};

// Learns for each target what its access rates are worth. Targets with too few samples share one
// worth. If even all samples are too few, a cache of known size is modelled. If its size is
// unknown, or if there are samples although the cache has room for all pages, all accesses are
// worth the same. With a modelled cache and with equal worths, the counted misses are shared out
// among all accesses to memory that are not hidden. Without a count of misses, the number of
// samples plus one half is shared out instead. If no sampler was on, each access counts as one.
class MemoryWeights {
 public:
  explicit MemoryWeights(std::span<const MemoryRow> rows, const MemoryScale& scale = {});

  MemoryBasis basis() const { return basis_; }

  // Precondition: a row is of this target.
  const MemoryWorth& WorthOf(TargetId target) const;

  // Accesses to memory of a base page in a second, without hidden ones, and their relative
  // deviation.
  struct Weight {
    double mean = 0;
    double relative_sd = 0;
  };
  Weight Of(const MemoryRow& row) const;

  // Draws worths that are as likely, given the samples. Without enough samples it also draws how
  // evenly the lines of pages are used. Precondition: the basis is kSamples or kCacheModel.
  MemoryWeights Draw(std::mt19937_64& random) const;

 private:
  MemoryWeights() = default;

  // Returns false, and changes nothing, if the model holds all pages in the cache although misses
  // contradict it: they were sampled, or more were counted than it takes to fill the cache once.
  bool ModelCache(std::span<const MemoryRow> rows, const MemoryScale& scale, double samples);

  double units_per_sample_ = 1;
  MemoryBasis basis_ = MemoryBasis::kProportion;
  std::vector<double> chances_;  // chances of the models of the cache, one of which is right
  std::map<TargetId, MemoryWorth> of_target_;
  std::optional<MemoryWorth> all_;  // for targets that are not in of_target_
};

}  // namespace tmprof
