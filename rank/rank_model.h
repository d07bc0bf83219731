// SPDX-License-Identifier: Apache-2.0
// From evidence to scores. docs/accuracy.md derives the rate model.

#pragma once

#include <array>
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
  kRate,  // estimated accesses in the epoch, sources merged by their uncertainties
};

// Which evidence enters a score.
enum class RankSource : std::uint8_t { kReferences, kSamples, kCombined, kTruth };

std::string_view Name(RankModel model);    // "sum", "rate"
std::string_view Name(RankSource source);  // "references", "samples", "combined", "truth"
Result<RankModel> ParseRankModel(std::string_view text);
Result<RankSource> ParseRankSource(std::string_view text);

// All that is known of one span, possibly summed over epochs with weights below one.
struct Evidence {
  double looks = 0;
  double references = 0;
  double first_accesses = 0;
  double seconds_at_risk = 0;  // target CPU time
  double load_samples = 0;
  double store_samples = 0;
  double watched_cpu_seconds = 0;  // target CPU time during which the sampler was on

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
// pages. Never negative. Rank by score ÷ span_pages, descending (see policy/).
using Scores = std::vector<double>;

// Accumulates profiles, oldest first. With a half-life, evidence h old weighs 2^(-h/half_life);
// without one, each Absorb() forgets what came before. With `keep_everything`, nothing decays
// (used to sum the epochs of one phase).
class Ranker {
 public:
  enum class Memory : std::uint8_t { kThisEpoch, kHalfLife, kEverything };

  struct Options {
    RankModel model = RankModel::kRate;
    Memory memory = Memory::kThisEpoch;
    std::chrono::nanoseconds half_life{0};  // only for Memory::kHalfLife, > 0
  };

  explicit Ranker(const Options& options);

  // Where a new record's span overlaps older spans of other bounds (a huge page split or
  // collapsed), the old evidence is spread evenly over its pages and follows them.
  void Absorb(const EpochProfile& profile);
  void Forget();  // as if new

  const EvidenceTable& table() const { return table_; }
  // Estimated accesses over the last absorbed epoch (kRate), or plain counts (kSum).
  Scores Score(RankSource source) const;

 private:
  Options options_;
  EvidenceTable table_;
  // Per target, by TargetId: CPU time within the last absorbed epoch, seconds; the epoch's length
  // where CPU time is unknown.
  std::vector<double> cpu_seconds_;
};

}  // namespace tmprof
