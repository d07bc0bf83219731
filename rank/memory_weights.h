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
  // False: no accessed bit of them was read, so that their rate is that of any page. They are there
  // because they were sampled, and tell nothing of what a rate is worth.
  bool looked_at = true;
  // CPU time in which the target accesses its pages at their rates. Only its ratio to that of other
  // rows matters: their pages are in one cache. That of a file is made of its mappers' CPU time,
  // and is no CPU time beside theirs.
  double speed = 1;
  // Share of its accesses to memory, in [0, 1], of which a prefetcher hides the latency and which
  // no counter or sampler of misses sees. 0, too, where nothing tells it.
  double hidden = 0;
};

struct MemoryScale {
  double units_per_sample = 1;  // a weight is in units, such as accesses
  // Size of the last-level cache, as far as pages that were looked at use it. nullopt: no cache is
  // modelled where samples are too few.
  std::optional<double> llc_bytes = std::nullopt;
  SamplePairs pairs = {};  // tell how evenly the lines of pages are used
  // Misses of the pages that were looked at, which tell the same, and how many accesses reach
  // memory at all. nullopt: nobody counted them.
  std::optional<CountedMisses> counted = std::nullopt;
};

// Pages that were not looked at are taken to use as much of the cache as those that were: these
// have their part of it. `resident`: all pages that there are; nullopt: unknown, and taken to be
// those. Processes that ran one after another are taken to have run at a time.
MemoryScale ScaleOf(const SampleScale& samples, std::optional<std::uint64_t> llc_bytes,
                    PageCount looked_at, std::optional<PageCount> resident);

enum class MemoryBasis : std::uint8_t {
  kSamples,     // tell what access rates are worth
  kCacheModel,  // tells which accesses reach memory, while samples are too few
  kAllCached,   // all pages have room in the modelled cache: no access reaches memory
  kProportion,  // each access is worth the same
};

// Learns for each target what its access rates are worth. Targets with too few samples to tell have
// one worth together. If even all samples are too few, a cache of known size is modelled. Where the
// size is unknown, or there are samples although the cache has room for all pages, each access is
// taken to be worth the same. Either way the counted misses are shared out among all accesses to
// memory that are not hidden. Without a count half a sample more than there are is, or, if no
// sampler was on, each counts as one.
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

  // Draws worths that are as likely, given the samples. Without enough of them, how evenly the
  // lines of pages are used is drawn, too. Precondition: the basis is kSamples or
  // kCacheModel.
  MemoryWeights Draw(std::mt19937_64& random) const;

 private:
  MemoryWeights() = default;

  // Returns false, and changes nothing, if the cache should hold all pages, but misses were
  // sampled, or more counted than it takes to fill it with them once.
  bool ModelCache(std::span<const MemoryRow> rows, const MemoryScale& scale, double samples);

  double units_per_sample_ = 1;
  MemoryBasis basis_ = MemoryBasis::kProportion;
  std::vector<double> chances_;  // of the models of the cache, one of which is right
  std::map<TargetId, MemoryWorth> of_target_;
  std::optional<MemoryWorth> all_;  // of targets that are not in of_target_
};

}  // namespace tmprof
