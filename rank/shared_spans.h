// SPDX-License-Identifier: Apache-2.0
// Joins the evidence of all mappers of a page, step by step, and shares out its estimate among
// their rows. Only rank/ uses it.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/shared_pages.h"
#include "rank/ageing.h"
#include "rank/evidence.h"
#include "rank/memory_weights.h"
#include "rank/page_mappers.h"
#include "rank/parted_evidence.h"
#include "rank/rate_chances.h"
#include "rank/rate_evidence.h"
#include "rank/scores.h"
#include "rank/shared_rates.h"
#include "rank/source_view.h"
#include "rank/target_times.h"

namespace tmprof {

class RateHistory;

// Returns the table's evidence of each mapper's accesses to each piece. A page without a record is
// known to be missing from a page table only if another page of that page table was looked at,
// because blocks are visited whole. Samples cover all pages of a process that was watched.
SharedRates::SeenByPiece SeenOf(const PageMappers& mappers, const EvidenceTable& table,
                                RankSource source, const SharedPages& shared,
                                const TargetTimes& times);

class SharedSpans {
 public:
  struct Step {
    const TargetTimes* times;
    const Ages* ages;
    const PartedEvidence* evidence;
  };

  // `table`: all evidence, by mapper; `all`: the times of all steps. Both must stay.
  SharedSpans(const EvidenceTable& table, RankSource source, const SharedPages& shared,
              const TargetTimes& all, std::vector<Step> steps);

  const PageMappers& mappers() const { return mappers_; }

  // Adds a span for each piece that the source sees.
  void AddTo(RateHistory& history);

  // visit(row of the table, its score, relative deviations of it and of the page), of a span that
  // AddTo() added, in the order added: `accesses` of a base page in that step.
  template <typename Visit>
  void ShareOut(std::size_t span, std::size_t step, double accesses, double relative_sd,
                Visit visit) const {
    ShareOut(span, std::span(cpu_seconds_).subspan(step * mappers_.mappers().size()), accesses,
             relative_sd, visit);
  }
  // The same of all steps.
  template <typename Visit>
  void ShareOutAll(std::size_t span, double accesses, double relative_sd, Visit visit) const {
    ShareOut(span, all_cpu_seconds_, accesses, relative_sd, visit);
  }

  std::size_t spans() const { return piece_of_.size(); }

  // A span over all steps: its samples, and the time in which each base page could be sampled, on
  // the file's clock. The rate is left out.
  struct Sampled {
    MemoryRow row;
    double cpu_seconds;  // on the file's clock
  };
  const Sampled& SampledOf(std::size_t span) const { return sampled_[span]; }

 private:
  class MappingWalk;
  // Keys are a target and the address that the file's first page would have.
  using MappingWalks = std::map<PageKey, MappingWalk>;

  template <typename Visit>
  void ShareOut(std::size_t span, std::span<const double> cpu_seconds, double accesses,
                double relative_sd, Visit visit) const {
    const std::size_t piece = piece_of_[span];
    const double score = accesses * mappers_.pieces()[piece].pages;
    const double variance = relative_sd * relative_sd + rates_.Variance(piece);
    ForEachShare(
        mappers_, rates_, piece, [&](std::uint32_t mapper) { return cpu_seconds[mapper]; },
        [&](std::uint32_t at) { return Sees(at); },
        [&](std::uint32_t at, double share, double share_variance) {
          visit(mappers_.rows()[at].row, score * share, std::sqrt(variance + share_variance),
                std::sqrt(variance));
        });
  }
  bool Sees(std::uint32_t at) const { return view_.Sees(table_.evidence[mappers_.rows()[at].row]); }
  TargetSteps StepsOf(std::size_t file, std::vector<double>& watched) const;
  // Overwrites `steps` with the evidence of all mappers about a piece. `walks`: those of the file
  // so far.
  void Join(std::size_t piece, MappingWalks& walks, std::span<RateEvidence> steps) const;

  const EvidenceTable& table_;
  RateView view_;
  const TargetTimes& all_;
  std::vector<Step> steps_;
  PageMappers mappers_;
  SharedRates rates_;
  std::vector<std::uint32_t> piece_of_;  // one per span
  std::vector<Sampled> sampled_;         // one per span
  std::vector<double> cpu_seconds_;      // row-major: the mappers of a step together
  std::vector<double> all_cpu_seconds_;  // one per mapper
};

}  // namespace tmprof
