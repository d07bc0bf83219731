// SPDX-License-Identifier: Apache-2.0
// Scores of pages: which evidence enters one, and by which model.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/page_key.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

enum class RankModel : std::uint8_t {
  kSum,   // references + samples, the paper's plain sum (TMP, IPDPS 2021)
  kRate,  // estimated accesses in the epoch, sources merged by their uncertainties (rate_model.h)
};

// The evidence that enters a score.
enum class RankSource : std::uint8_t {
  kReferences,
  kSamples,
  kCombined,
  // Accessed bits, weighed by what samples of accesses to memory say that a rate is worth
  // (memory_worth.h). While there are too few samples, a cache is modelled, or each access is worth
  // the same (memory_weights.h).
  kMemory,
  kTruth,   // exact accesses, whichever level of the memory hierarchy served them
  kMisses,  // those of them that missed the modelled LLC: what reached memory
  kStall,   // time in ns for which these accesses stalled the program, by the trace's model
};

constexpr bool IsExact(RankSource source) {
  return source == RankSource::kTruth || source == RankSource::kMisses ||
         source == RankSource::kStall;
}

// True if a score is an estimated rate; else it is a count.
constexpr bool IsEstimated(RankModel model, RankSource source) {
  return model == RankModel::kRate && !IsExact(source);
}

// True if scores are of accesses, each of which costs time. Else they are times, counts of
// evidence, or expected samples.
constexpr bool ScoresAreAccesses(RankModel model, RankSource source) {
  if (IsExact(source)) return source != RankSource::kStall;
  return model == RankModel::kRate && source != RankSource::kSamples;
}

std::string_view Name(RankModel model);  // "sum", "rate"
// "references", "samples", "combined", "memory", "truth", "misses", "stall"
std::string_view Name(RankSource source);
Result<RankModel> ParseRankModel(std::string_view text);
Result<RankSource> ParseRankSource(std::string_view text);
// Names what the hit rates of a ranking are shares of: "accesses", "accesses to memory", "stall
// time".
std::string_view AccessesOf(RankSource source);
// Empty text is nullopt: the caller's choice.
Result<std::optional<RankSource>> ParseRankSourceIfAny(std::string_view text);

// One score per row of the table it was made from; a span's score is its total over all its base
// pages. Never negative; 0 where the source has no evidence, and such a row is no candidate. Rank
// by score / span_pages, descending (policy/ranking.h).
using Scores = std::vector<double>;

struct Estimates {
  Scores score;
  // Standard deviation of each score, relative to it: 0.5 is +-50 %. Infinite where the score is 0.
  std::vector<double> relative_sd;
  // The same without the error of a process's share, for sums over all rows of shared pages. Empty:
  // `relative_sd` holds no such error.
  std::vector<double> relative_sd_of_page = {};
  // kMemory: the modelled cache has room for all pages, but accesses to memory were counted or
  // sampled. Each access then counts the same.
  bool cache_is_refuted = false;
};

// Estimated accesses to pages of a process that has no row for them.
struct RowlessScore {
  PageKey key;
  PageCount pages;
  double score = 0;
};

}  // namespace tmprof
