// SPDX-License-Identifier: Apache-2.0
// Computes the tier-1 hit rate that each policy would have had on a recorded trace.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_stream.h"
#include "base/ratio.h"
#include "base/result.h"
#include "base/units.h"
#include "policy/policy.h"
#include "rank/memory_traffic.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"

namespace tmprof {

// A ratio is a part of this.
enum class RatioOf : std::uint8_t {
  kFootprint,  // pages that were seen accessed
  kResident,   // FootprintScan::resident
};

std::string_view Name(RatioOf of);  // "footprint", "resident"
Result<RatioOf> ParseRatioOf(std::string_view text);

// Hit rates that are judged by fewer references and samples are not shown, because a single sample
// would say 100 %. The number is that of MemoryWorth::kFewestSamples.
inline constexpr std::uint64_t kFewestObservations = 30;

struct ReplayOptions {
  std::vector<const PolicyEntry*> policies;
  // Ranks and judge count this, unless they are chosen below.
  RankWeight weight = RankWeight::kMemory;
  std::vector<RankSource> ranks;  // a policy goes by these; empty: by the weight
  std::vector<Ratio> ratios;      // capacities
  RatioOf ratio_of = RatioOf::kFootprint;
  std::vector<PageCount> sizes;     // capacities; if not empty, there are no ratios
  std::optional<RankSource> judge;  // decides what a hit is worth; nullopt: the weight does
  Ranker::Options ranker = Ranker::DefaultOptions(RankModel::kRate);  // options of ranks and judge
};

// One per policy x rank x capacity, in this nesting.
struct ReplayResult {
  std::string policy;
  RankSource rank = RankSource::kCombined;
  RankSource judge = RankSource::kCombined;
  std::optional<Ratio> ratio;  // the ratio that gave the capacity
  PageCount capacity;
  std::uint64_t epochs = 0;
  std::optional<double> hit_rate;  // nullopt: the judge saw nothing at all
  double weight_hit = 0;
  double weight_total = 0;
  // Base pages that changed tier, in both directions. The first placement of a page is no move.
  PageCount moved_pages;
};

struct ReplayOutcome {
  RankSource judge = RankSource::kCombined;  // the judge of the results
  RankBasis basis;                           // the judge's basis: the unit of the hit rates
  PageCount whole;                           // pages that ratios are parts of
  // References and samples that the judge uses. nullopt: it counted all accesses.
  std::optional<std::uint64_t> observations;
  std::optional<MemoryTraffic::Rate> memory;  // nullopt: no sample shows accesses to memory
  // A model of the cache estimates accesses to memory, because too few of them were sampled.
  bool models_memory = false;
  // Set if that is so and the judge uses these accesses: the model's accesses to memory in a second
  // of CPU time, without those that a prefetcher hides (rank/streams.h).
  std::optional<double> modelled_per_second;
  std::vector<ReplayResult> results;
  StreamEnd end;  // how the trace ended; the results stand for the epochs before

  // False: too little was seen to know the hit rates.
  bool is_told() const { return !observations || *observations >= kFewestObservations; }
};

// Opens the trace at its beginning; called twice.
using OpenTrace = std::function<Result<std::unique_ptr<EpochStream>>()>;

// Reads the trace twice, whatever the number of results. The first pass finds the footprint, which
// decides the capacities before the first epoch can be placed. The second one replays all of them
// side by side. To keep the profiles of the first pass instead would cost memory in proportion to
// the trace. Memory: the footprint's runs, per footprint page 8 bytes and one bit for each result,
// and a few columns of two epochs.
//
// An epoch is played in this order. Each policy's plan is carried out. Pages that appear for the
// first time are put in tier 1 while there is room, in ascending order of keys. Then the judge
// weighs the pages in tier 1.
//
// The judge kMemory counts the epoch's samples for policies that know the past alone, because they
// were not ranked by these samples. For other policies, and if a cache is modelled, it counts the
// expectation from all evidence. Records of pages outside the footprint, which were looked at but
// never seen accessed, are left out.
//
// Fails if no epoch can be read, if no page was observed, if a rank or the judge needs misses or
// accesses to memory that are unknown, or if ratios are of resident memory that no epoch has.
Result<ReplayOutcome> Replay(const OpenTrace& open, const ReplayOptions& options);

}  // namespace tmprof
