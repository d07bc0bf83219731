// SPDX-License-Identifier: Apache-2.0
// Ranks by what happened over a whole trace, or over one phase of it.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/shared_pages.h"
#include "base/units.h"
#include "rank/evidence.h"
#include "rank/memory_traffic.h"
#include "rank/parted_evidence.h"
#include "rank/rank_model.h"
#include "rank/rate_chances.h"
#include "rank/streams.h"
#include "rank/target_times.h"

namespace tmprof {

// The part that one step of a trace has of the estimates over the whole of it. A step is one epoch,
// several successive ones of a long trace, or all of them where rates last throughout.
struct StepEstimates {
  MonotonicTime start;
  MonotonicTime end;
  TargetTimes times;
  // They are by row of TotalRanker::table(). Scores of all steps add up to those over the trace.
  // They are floats because they are most of the memory that a view over time adds.
  std::vector<float> score;
  std::vector<float> relative_sd;
};

class PageMappers;
class RateHistory;

// A question about all rows: how likely is a page accessed so often, or not at all for so long?
struct RateQuestions {
  std::vector<double> rates;  // accesses of a base page in a second of its target's CPU time
  std::vector<std::chrono::nanoseconds> ages;
  // Targets that the question is about. An age ends at the time of its target.
  std::map<TargetId, MonotonicTime> ends;
};

struct RowChances {
  PageKey key;
  std::uint32_t pages = 0;
  const SpanChances* chances = nullptr;  // answers to the questions, step by step
};

struct StepChances {
  MonotonicTime start;
  MonotonicTime end;
  TargetTimes times;
};

struct ChancesOverTime {
  std::vector<StepChances> steps;  // oldest first; empty before anything was absorbed
  ChanceBounds bounds;
};

// No evidence fades. Memory grows with the footprint, however long the trace is. kRate keeps the
// evidence of successive steps apart, and lengthens steps once there are more than it needs.
class TotalRanker {
 public:
  // `llc_bytes` is that of Ranker::Options.
  explicit TotalRanker(RankModel model, std::optional<std::uint64_t> llc_bytes = std::nullopt)
      : model_(model), llc_bytes_(llc_bytes) {}

  // Oldest first. Where spans' bounds change, evidence follows its pages (PartedEvidence).
  void Absorb(const EpochProfile& profile);

  // All evidence, added up.
  const EvidenceTable& table() const { return evidence_.table(); }
  const PartedEvidence& evidence() const { return evidence_; }

  // Returns a score or an estimate for each row over all absorbed epochs; sources have the meaning
  // that they have in Ranker. kRate: estimated accesses, for each target within the epochs that
  // list it; a rate may change on the way (rate_history.h). A page that several processes map is
  // estimated once, from the evidence of all of them. Each process's row then has the part that is
  // the process's (shared_rates.h).
  Scores Score(RankSource source) const { return Estimate(source).score; }
  Estimates Estimate(RankSource source) const;
  // Returns that of Estimate(kMemory), at its cost. False without a cache to model.
  bool CacheIsRefuted() const;
  // Oldest first; empty before anything was absorbed. At most 32 steps of 8 bytes a row.
  // Precondition: kRate and no exact source. Counts are of their own epoch, which has them.
  std::vector<StepEstimates> EstimateOverTime(RankSource source) const;

  // `visit` gets the chances of each row that the source sees, ascending, of the targets asked
  // about: rows of table(), but a region is one row, however many of its pages are told apart.
  // Rates are fitted to all targets. Precondition: as above.
  ChancesOverTime EstimateChances(RankSource source, const RateQuestions& questions,
                                  const std::function<void(const RowChances&)>& visit) const;

  RankModel model() const { return model_; }
  // Returns the shared pages at the last absorbed epoch.
  const SharedPages& shared_pages() const { return shared_pages_; }

 private:
  // Successive epochs.
  struct Step {
    MonotonicTime start;
    MonotonicTime end;
    std::size_t epochs = 0;
    PartedEvidence evidence;
    TargetTimes times;
    Ages ages;
  };

  static void Append(Step& step, Step&& next);
  void DoubleSteps();
  // `over_time`: null, or an empty list to which the steps are added.
  Estimates EstimateByRate(RankSource source, std::vector<StepEstimates>* over_time) const;
  Estimates EstimateByRate(const EvidenceTable& table, RankSource source,
                           std::vector<StepEstimates>* over_time) const;
  std::vector<StepEstimates> EmptySteps(std::size_t rows) const;
  TargetTimes AllTimes() const;
  // Adds the evidence of all rows that the source sees, but for those of `shared`, unless it is
  // null. Returns these rows; `begun` gets the target of the rows that follow.
  std::vector<std::uint32_t> FillHistory(const EvidenceTable& table, RankSource source,
                                         const std::function<void(TargetId)>& begun,
                                         RateHistory& history, const PageMappers* shared) const;
  // Returns the CPU time that the target used in this part of the step, taken to be even over it.
  double CpuSecondsWithin(const Step& step, const TargetTimes& all, TargetId target,
                          MonotonicTime from, MonotonicTime to) const;

  RankModel model_;
  std::optional<std::uint64_t> llc_bytes_;
  std::optional<PageCount> most_resident_;  // at the end of an epoch
  PartedEvidence evidence_;
  PartedEvidence spare_;
  SharedPages shared_pages_;
  std::vector<Step> steps_;  // kRate
  std::size_t epochs_per_step_ = 1;
  std::optional<MonotonicTime> last_end_;
  SampleScale scale_;
  Streams streams_;  // kMemory by a model of the cache discounts them
};

}  // namespace tmprof
