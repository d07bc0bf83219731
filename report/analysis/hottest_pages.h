// SPDX-License-Identifier: Apache-2.0
// Computes the shares of a whole trace's scores that the hottest pages hold.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"
#include "rank/evidence.h"
#include "rank/rank_model.h"
#include "report/analysis/page_spans.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

// Pages of a trace, each once, as spans.
class DistinctPages {
 public:
  // Takes the pages of those rows for which `counts` is true. Precondition: the trace outlives this
  // object.
  DistinctPages(const WholeTrace& whole, bool (*counts)(const Evidence& evidence));

  PageCount size() const;
  // Returns by span how many of its pages count.
  const std::vector<double>& pages() const { return pages_; }
  // Turns scores by row into scores by span.
  Scores Sum(const Scores& by_row) const;

 private:
  const EvidenceTable& table_;
  PageSpans all_;
  std::vector<std::size_t> spans_;
  std::vector<double> pages_;
};

// A Lorenz curve from the hottest end. Pages of one span are equally hot.
class HottestPages {
 public:
  // `by_row`: scores by row of the trace's table.
  HottestPages(const DistinctPages& pages, const Scores& by_row);

  double total_score() const { return total_score_; }
  // Returns the share of the total score that so many of the hottest pages hold, for ascending
  // numbers of pages. Precondition: the total is above 0.
  std::vector<double> SharesHeldBy(std::span<const double> numbers_of_pages) const;

 private:
  struct Span {
    double pages = 0;
    double score = 0;
  };
  std::vector<Span> spans_;  // hottest first
  double total_score_ = 0;
};

}  // namespace tmprof
