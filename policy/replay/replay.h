// SPDX-License-Identifier: Apache-2.0
// What tier-1 hit rate each policy would have got on a recorded trace.

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

// Hit rates that are judged by fewer references and samples are not told: one sample would say
// 100 %. As many as MemoryWorth::kFewestSamples.
inline constexpr std::uint64_t kFewestObservations = 30;

struct ReplayOptions {
  std::vector<const PolicyEntry*> policies;
  // Ranks and judge count this, unless they are chosen below. It is not kStall.
  RankWeight weight = RankWeight::kMemory;
  std::vector<RankSource> ranks;  // a policy goes by these; empty: by the weight
  std::vector<Ratio> ratios;      // capacities
  RatioOf ratio_of = RatioOf::kFootprint;
  std::vector<PageCount> sizes;     // capacities; if there are some, there are no ratios
  std::optional<RankSource> judge;  // decides what a hit is worth; nullopt: the weight does
  Ranker::Options ranker = Ranker::DefaultOptions(RankModel::kRate);  // of ranks and judge
};

// One per policy x rank x capacity, in this nesting.
struct ReplayResult {
  std::string policy;
  RankSource rank = RankSource::kCombined;
  RankSource judge = RankSource::kCombined;
  std::optional<Ratio> ratio;  // that the capacity came from
  PageCount capacity;
  std::uint64_t epochs = 0;
  std::optional<double> hit_rate;  // nullopt: the judge saw nothing at all
  double weight_hit = 0;
  double weight_total = 0;
  // Base pages that changed tier, in both directions. Where a page is put when it first appears is
  // no move.
  PageCount moved_pages;
};

struct ReplayOutcome {
  RankSource judge = RankSource::kCombined;  // that the results go by
  RankBasis basis;                           // of the judge: what the hit rates are of
  PageCount whole;                           // that ratios are of
  // References and samples that the judge goes by. nullopt: it counted all accesses.
  std::optional<std::uint64_t> observations;
  std::optional<MemoryTraffic::Told> memory;  // nullopt: no sample of it tells
  // Accesses to memory are told by a model of the cache: too few of them were sampled.
  bool models_memory = false;
  // Then, if the judge goes by them: the model's accesses to memory in a second of CPU time,
  // without those that a prefetcher hides (rank/streams.h).
  std::optional<double> modelled_per_second;
  std::vector<ReplayResult> results;
  StreamEnd end;  // of the trace; the results stand for the epochs before

  // False: too little was seen to tell the hit rates.
  bool is_told() const { return !observations || *observations >= kFewestObservations; }
};

// Opens the trace at its beginning; called twice.
using OpenTrace = std::function<Result<std::unique_ptr<EpochStream>>()>;

// Reads the trace twice, whatever the number of results: once for the footprint, which decides the
// capacities before the first epoch can be placed, and once to replay all of them side by side.
// Keeping the profiles of the first pass instead would cost memory in proportion to the trace.
// Memory: the footprint's runs, per footprint page 8 bytes and one bit for each result, and a few
// columns of two epochs.
//
// An epoch is played in this order: each policy's plan is carried out; pages that appear for the
// first time (in ascending order of keys) are put in tier 1 while there is room; the judge weighs
// what is in tier 1. The judge kMemory counts the epoch's samples, which a policy that knows the
// past alone was not ranked by; of others, and where a cache is modelled, it counts what all
// evidence expects. Records of pages outside the footprint, looked at but never seen accessed, are
// left out.
//
// Fails where no epoch can be read, no page was observed, or a rank or the judge goes by misses
// or accesses to memory that are unknown, or ratios are of resident memory that no epoch tells.
Result<ReplayOutcome> Replay(const OpenTrace& open, const ReplayOptions& options);

}  // namespace tmprof
