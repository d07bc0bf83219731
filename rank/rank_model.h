// SPDX-License-Identifier: Apache-2.0
// From evidence to scores. docs/accuracy.md derives the rate model.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/result.h"

namespace tmprof {

enum class RankModel : std::uint8_t {
  kSum,   // references + samples, the paper's plain sum (TMP, IPDPS 2021)
  kRate,  // estimated accesses in the epoch, sources merged by their uncertainties (rate_model.h)
};

// Which evidence enters a score.
enum class RankSource : std::uint8_t { kReferences, kSamples, kCombined, kTruth };

std::string_view Name(RankModel model);    // "sum", "rate"
std::string_view Name(RankSource source);  // "references", "samples", "combined", "truth"
Result<RankModel> ParseRankModel(std::string_view text);
Result<RankSource> ParseRankSource(std::string_view text);

// All that is known of one span, possibly summed over epochs with weights below one. Every field is
// a total over the span's base pages, so that evidence can be split and joined with them.
struct Evidence {
  double looks = 0;  // A-bit reads of each base page, added up
  double references = 0;
  double first_accesses = 0;
  double page_seconds_at_risk = 0;  // target CPU time of each base page, added up
  double load_samples = 0;
  double store_samples = 0;
  double accesses = 0;  // exact, from a truth source

  double samples() const { return load_samples + store_samples; }
};

// Spans with evidence, strictly ascending by key, not overlapping.
struct EvidenceTable {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> span_pages;
  std::vector<Evidence> evidence;

  std::size_t size() const { return key.size(); }
};

// One score per row of the table it was made from; a span's score is its total over all its base
// pages. Never negative; 0 where the source has no evidence, and such a row is no candidate. Rank
// by score / span_pages, descending (policy/ranking.h).
using Scores = std::vector<double>;

struct Estimates {
  Scores score;
  // Standard deviation of each score, relative to it: 0.5 is +-50 %. Infinite where the score is 0.
  std::vector<double> relative_sd;
};

// Accumulates profiles, oldest first.
class Ranker {
 public:
  enum class Memory : std::uint8_t {
    kThisEpoch,   // each Absorb() forgets what came before
    kHalfLife,    // evidence h old weighs 2^(-h/half_life)
    kEverything,  // nothing decays: sums the epochs of one phase
  };

  struct Options {
    RankModel model = RankModel::kRate;
    Memory memory = Memory::kThisEpoch;
    std::chrono::nanoseconds half_life{0};  // kHalfLife: > 0
  };

  // Without being told: `rate` remembers with the half-life that docs/accuracy.md ("Half-life")
  // finds best for a scanner that needs several epochs to visit everything; `sum` has none, as in
  // the paper.
  static Options DefaultOptions(RankModel model);

  explicit Ranker(const Options& options);

  // Where a record's span overlaps older spans of other bounds (a huge page split or collapsed),
  // the old evidence is spread evenly over its pages and follows them.
  void Absorb(const EpochProfile& profile);
  void Forget();  // as if new

  // Stays where it is, untouched, until the call of Absorb() after the next one.
  const EvidenceTable& table() const { return table_; }

  // kRate: estimated accesses within the last absorbed epoch, or expected samples where no bit was
  // ever read. kSum: plain counts. kTruth: exact accesses, which a half-life does not carry over.
  Scores Score(RankSource source) const;
  void Score(RankSource source, Scores& scores) const;  // the same, into memory of the caller's
  Estimates Estimate(RankSource source) const;

 private:
  struct TargetTime {
    TargetId target;
    double cpu_seconds = 0;      // used within the last absorbed epoch
    double watched_seconds = 0;  // of those, with the sampler on; remembered like evidence
  };

  void AbsorbTimes(const EpochProfile& profile, double keep);
  TargetTime TimeOf(TargetId target) const;
  Estimates EstimateByRate(RankSource source) const;

  Options options_;
  EvidenceTable table_;
  EvidenceTable spare_;            // the table before; the next one is built in its memory
  std::vector<TargetTime> times_;  // ascending by target
  TargetTime unlisted_;            // for targets that no profile lists
  std::optional<MonotonicTime> last_end_;
};

}  // namespace tmprof
