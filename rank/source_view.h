// SPDX-License-Identifier: Apache-2.0
// Evidence as one choice of sources sees it. Only rank/ uses it.

#pragma once

#include <cstddef>

#include "rank/evidence.h"
#include "rank/parted_evidence.h"
#include "rank/rate_evidence.h"
#include "rank/scores.h"

namespace tmprof {

// Plain counts as scores: RankModel::kSum, and exact sources under any model.
void ScoreByCounts(const EvidenceTable& table, RankSource source, Scores& scores);
Estimates EstimateByCounts(const EvidenceTable& table, RankSource source);

// Chooses what tells the pages of a region apart. Precondition: no exact source.
constexpr PartedEvidence::By SharedBy(RankSource source) {
  return source == RankSource::kReferences ? PartedEvidence::By::kPages
                                           : PartedEvidence::By::kPagesAndSamples;
}

// No row is a candidate.
Estimates NoEstimates(std::size_t rows);

// Preconditions: RankModel::kRate, and no exact source.
class RateView {
 public:
  // Without a CPU clock no time was kept in all of `table`: then every look counts one second.
  RateView(const EvidenceTable& table, RankSource source);

  // A row that this source alone would not have made is not estimated by it.
  bool Sees(const Evidence& evidence) const {
    return (use_bits_ && evidence.looks > 0) || (sees_samples_ && evidence.samples() > 0);
  }
  // Reads that came late keep no time, and are no evidence.
  bool TellsOfBits(const Evidence& evidence) const {
    return (timed_ ? evidence.all_page_seconds_at_risk() : evidence.looks) > 0;
  }
  // Bits were found set, but all reads that found them came late.
  bool FoundUntimed(const Evidence& evidence) const {
    return use_bits_ && evidence.references > 0 && !TellsOfBits(evidence);
  }
  bool uses_bits() const { return use_bits_; }
  RateEvidence Of(const Evidence& evidence, double pages, double watched_seconds) const {
    RateEvidence rate{.pages = pages};
    if (use_bits_) {
      rate.first_accesses = timed_ ? evidence.first_accesses : evidence.references;
      rate.seconds_at_risk = (timed_ ? evidence.page_seconds_at_risk : evidence.looks) / pages;
      if (timed_) {
        rate.seconds_to_read = evidence.page_seconds_to_read / pages;
        rate.square_seconds_to_read = evidence.page_square_seconds_to_read / (pages * pages);
        rate.first_read_finds = evidence.first_read_finds;
        rate.first_read_seconds = evidence.first_read_page_seconds / pages;
        rate.fast_looks = evidence.fast_looks;
        rate.fast_found = evidence.fast_found;
        rate.fast_seconds = evidence.fast_seconds;
        rate.fast_earlier = evidence.fast_earlier;
        rate.fast_earlier_seconds = evidence.fast_earlier_seconds;
      }
    }
    if (rates_by_samples_) {
      rate.samples = evidence.samples();
      rate.seconds_watched = watched_seconds;
    }
    return rate;
  }

 private:
  bool use_bits_;
  bool sees_samples_;
  // False of kMemory, too: what its samples tell is what a rate is worth (memory_weights.h).
  bool rates_by_samples_;
  bool timed_;
};

}  // namespace tmprof
