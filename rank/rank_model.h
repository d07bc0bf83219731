// SPDX-License-Identifier: Apache-2.0
// Turns evidence into scores. docs/design/estimator.md derives the rate model.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "rank/evidence.h"
#include "rank/hit_rates.h"
#include "rank/joined_pages.h"
#include "rank/memory_traffic.h"
#include "rank/parted_evidence.h"
#include "rank/rate_change.h"
#include "rank/scores.h"
#include "rank/streams.h"
#include "rank/target_times.h"
#include "rank/unknown_pages.h"

namespace tmprof {

class RateKinds;
class RateView;
struct MemoryScale;
struct RatedRows;

// Gives the scores of a Ranker of kSum without memory, directly from one profile.
void ScoreByCounts(const EpochProfile& profile, RankSource source, Scores& scores);

// Ranks by the last profile and by remembered evidence of earlier ones. TotalRanker
// (total_ranker.h) ranks by a whole trace.
class Ranker {
 public:
  enum class Memory : std::uint8_t {
    kThisEpoch,  // each Absorb() forgets what came before
    kHalfLife,   // evidence h old weighs 2^(-h/half_life), by its target's own time (ageing.h)
    // Evidence weighs as much as the chance that its target's rates have lasted since. kLearned
    // needs the model kRate, and changes that are followed.
    kLearned,
  };

  struct Options {
    RankModel model = RankModel::kRate;
    Memory memory = Memory::kThisEpoch;
    std::chrono::nanoseconds half_life{0};  // kHalfLife: > 0; of a target's own time
    bool follow_changes = true;             // kRate that remembers: suspect that rates change
    // kMemory: size of the last-level cache. If too few accesses to memory were sampled, a model of
    // this cache estimates which accesses reach memory. nullopt: there is no such model.
    std::optional<std::uint64_t> llc_bytes = std::nullopt;
  };

  // Returns the options if the user sets none: `rate` remembers for as long as it learns that rates
  // last; `sum` forgets each epoch, as in the paper.
  static Options DefaultOptions(RankModel model);

  explicit Ranker(const Options& options);

  // Sets the options. Earlier evidence is ranked and forgotten by them, too.
  void Configure(const Options& options);

  // Oldest first. Where spans' bounds change, evidence follows its pages (PartedEvidence).
  void Absorb(const EpochProfile& profile);

  // Stays where it is, untouched, until the call of Absorb() after the next one.
  const EvidenceTable& table() const { return evidence_.table(); }

  // Returns a score for each row. A page that several processes map is estimated once, from the
  // evidence of all of them. Each process's row then has the part that is the process's
  // (shared_rates.h).
  // - kRate: estimated accesses within the last absorbed epoch, or expected samples if no bit was
  //   ever read.
  // - kMemory: estimated accesses to memory within that epoch, or expected samples if it is unknown
  //   how many accesses a sample stands for.
  // - kSum: plain counts; for kMemory those of samples.
  // - Exact sources: their counts, which a half-life does not carry over.
  Scores Score(RankSource source) const;
  // The same, into memory of the caller's. A page may have rows of processes alone that have
  // exited; `rowless`, unless null, gets it under the address of a process that still maps it.
  void Score(RankSource source, Scores& scores, std::vector<RowlessScore>* rowless = nullptr) const;
  Estimates Estimate(RankSource source) const;

  // Returns the number of 2 MiB blocks for which it is remembered if they are streamed through.
  std::size_t stream_blocks() const { return streams_.blocks(); }

  // True if the remembered evidence shows what access rates are worth: accessed bits, and enough
  // samples of accesses to memory by their pages, or a cache to model.
  bool TellsMemory() const;
  // True if all that is remembered is samples of accesses to memory.
  bool MemorySamplesAlone() const;
  // False if some samples show where time was spent: kMemory goes by none of them then.
  bool SamplesAreOfMemory() const { return !scale_.has_samples_of_time(); }

  // Rows of one page joined, as far as the last epoch absorbed shows it: `evidence` gets one row
  // for each page, and `times` the clocks of files. Keys of shared pages are their names.
  EvidenceTable ByPage(EvidenceTable evidence, TargetTimes& times) const {
    return pages_.ByPage(std::move(evidence), times_, times);
  }
  // Scores of such rows, from scores by row of table().
  struct PageScores {
    std::vector<PageKey> key;  // ascending
    std::vector<std::uint32_t> span_pages;
    Scores score;
  };
  PageScores ScoreByPage(RankSource source) const;

  // The known pages that HitRatesAt() speaks for.
  PageCount PagesOfHitRates(RankSource source) const;
  // Returns the unknown resident pages, by target. Empty if there is no rate model: for kSum, and
  // for exact sources.
  std::vector<UnknownPages> PagesUnknown(RankSource source) const;
  // Returns the hit rates that follow from the evidence so far, one for each capacity, without
  // history (judged_history.h). They speak for the known pages and for these unknown ones. Empty
  // where there is no rate model.
  std::vector<HitRates> HitRatesAt(RankSource source, std::span<const PageCount> capacities,
                                   std::vector<UnknownPages> unknown) const;

 private:
  struct PageEstimate {
    double score = 0;
    double relative_sd = 0;
  };
  using PageEstimates = std::vector<PageEstimate>;  // one per row of pages_.pages()

  bool FollowsChanges() const;
  bool KnowsBits() const;              // some accessed bit was read
  bool IsLive(TargetId target) const;  // true of all where none is listed
  MemoryScale ScaleOfMemory() const;
  Keeps KeepsAfter(const Ages& ages, bool lists_targets) const;
  RatedRows Rate(const EvidenceTable& table, RankSource source) const;
  std::vector<UnknownPages> UnknownBeside(const EvidenceTable& table, RankSource source) const;
  void RateShared(const RateView& view, RateKinds& sorter, RatedRows& rated) const;
  bool JoinsRowsOf(const EvidenceTable& table) const;
  // Scores and, unless they are null, what else is asked for.
  struct Asked {
    Scores& scores;
    std::vector<double>* relative_sd = nullptr;
    std::vector<RowlessScore>* rowless = nullptr;
  };
  void ShareOut(const EvidenceTable& table, RankSource source, const PageEstimates& shared,
                Asked asked) const;
  std::vector<bool> LiveMappers() const;
  // Gives the places of pages_ with their scores addresses of live processes.
  using PlaceScore = std::pair<JoinedPages::Place, double>;
  void FindAddresses(const std::vector<PlaceScore>& places, const std::vector<bool>& is_live,
                     std::vector<RowlessScore>& rowless) const;
  void EstimateByRate(RankSource source, Asked asked) const;
  void EstimateByRate(const EvidenceTable& table, RankSource source, Asked asked) const;

  Options options_;
  PartedEvidence evidence_;
  PartedEvidence spare_;   // the evidence before; the next one is built in its memory
  PartedEvidence latest_;  // evidence of the last profile alone, if more is remembered
  JoinedPages pages_;      // kRate
  TargetTimes times_;      // CPU time within the last epoch; watched time remembered like evidence
  RateChanges changes_;    // kRate that remembers and follows changes
  std::vector<TargetId> live_;  // ascending: those that the last profile lists as not exited
  std::optional<MonotonicTime> last_end_;
  SampleScale scale_;
  // kMemory by a model of the cache discounts them. They are forgotten with the evidence of their
  // pages.
  Streams streams_;
  std::optional<PageCount> resident_;          // pages of live targets, as last reported
  std::map<TargetId, PageCount> resident_of_;  // pages of each target, as last reported
};

}  // namespace tmprof
