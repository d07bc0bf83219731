// SPDX-License-Identifier: Apache-2.0
// The hottest spans of a trace, best first.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/annotator.h"
#include "report/analysis/interval.h"
#include "report/analysis/page_spans.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

struct HotOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  EpochRange epochs;
  std::optional<Pid> pid;                 // unset: every target
  std::optional<std::size_t> limit = 20;  // unset: every span with a score
  // If set: only spans in which an object that had this address in these epochs had a part at that
  // time.
  std::optional<std::uint64_t> object = std::nullopt;
  const Annotator* annotator = nullptr;  // names the objects of rows; null: nobody does
};

struct HotList {
  // A process that maps a shared span.
  struct Mapper {
    TargetTotal target;
    Vpn start;
    double score = 0;  // the process's part of the row's score
  };
  // Counts and scores of a shared span are those of all its mappers.
  struct Row {
    std::size_t rank = 0;  // counts from 1
    TargetTotal target;    // for a shared span: the mapper with the highest score
    Vpn start;
    PageCount span{1};
    std::vector<Mapper> mappers;         // highest score first; empty unless several were observed
    std::optional<double> references;    // unknown if no accessed bit was read
    std::optional<double> load_samples;  // unknown if no sampler was on in the whole trace
    std::optional<double> store_samples;
    double score = 0;                 // score of the whole span
    double relative_sd = 0;           // standard deviation of the score, relative to it
    Interval interval;                // interval of the score
    std::optional<Mapping> mapping;   // it held the span when that was last seen
    std::optional<RowObject> object;  // it had most of the span then; unset: unknown
  };
  TraceTotals totals;
  HotOptions options;
  bool has_objects = false;          // the trace tells of objects, and the annotator names them
  bool has_unnamed_objects = false;  // the trace tells of objects, and there is no annotator
  std::vector<Row> rows;
  std::size_t spans = 0;              // spans with a score, shown or not; a shared span is one
  PageCount pages;                    // sum over those spans
  double total_score = 0;             // sum over those spans
  std::optional<double> shown_share;  // share of the total score; unset: that is 0
};

// The hot list and its sums are made of these rows: those that have a score and that the options
// choose.
struct ScoredRows {
  WholeTrace whole;
  Estimates estimates;
  HotOptions options;             // with `by` set
  std::vector<std::size_t> rows;  // rows of the ranker's table, ascending
  PageSpans page_spans;
  std::vector<std::size_t> spans{};  // those of page_spans that have such a row
  double total_score = 0;
  PageCount pages;  // pages of the spans

  const EvidenceTable& table() const { return whole.ranker.table(); }
  PageKey Key(std::size_t row) const { return table().key[row]; }
  PageCount Span(std::size_t row) const { return PageCount(table().span_pages[row]); }
  PageCount PagesOf(std::size_t span) const { return page_spans.PagesOf(table(), span); }
  bool IsShared(std::size_t span) const { return span >= table().size(); }
  // Returns the relative deviation of a row's score within the sum over a span.
  double RelativeSdWithin(std::size_t span, std::size_t row) const {
    const bool is_all = IsShared(span) && !options.pid && !options.object;
    const bool has_pages = !estimates.relative_sd_of_page.empty();
    return is_all && has_pages ? estimates.relative_sd_of_page[row] : estimates.relative_sd[row];
  }
  // Calls visit(row, part of its score, start of the span in its process) for each chosen row that
  // holds the span.
  template <typename Visit>
  void ForEachRow(std::size_t span, Visit visit) const {
    page_spans.ForEachRow(table(), span, [&](std::size_t row, double part, Vpn start) {
      if (!IsShared(span) || std::ranges::binary_search(rows, row)) visit(row, part, start);
    });
  }
};

// Sums up scores with their errors. Errors of estimated rates do not average out, because the rates
// share a fitted distribution and a limit. Errors of plain counts do.
class ScoreSum {
 public:
  explicit ScoreSum(const HotOptions& options)
      : together_(IsEstimated(options.model, *options.by)) {}

  void Add(double score, double relative_sd) {
    const double sd = score * relative_sd;
    score_ += score;
    errors_ += together_ ? sd : sd * sd;
  }
  double score() const { return score_; }
  // Precondition: the score is not 0.
  double RelativeSd() const { return (together_ ? errors_ : std::sqrt(errors_)) / score_; }

 private:
  bool together_;
  double score_ = 0;
  double errors_ = 0;
};

Result<ScoredRows> ScoreRows(const Trace& trace, const HotOptions& options);

// Rows are ordered by the lower end of the score's interval per base page, descending, then by
// ascending key; the key of a shared page is that of its first mapper. Reads the trace twice, and
// once more if `object` is set. Refuses an `object` address at which no object is known.
Result<HotList> MakeHotList(const Trace& trace, const HotOptions& options);

std::string HotText(const HotList& list, TextWidth width = {});
std::string HotJson(const HotList& list);
std::string HotCsv(const HotList& list);

}  // namespace tmprof
