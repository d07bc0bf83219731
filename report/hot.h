// SPDX-License-Identifier: Apache-2.0
// The hottest spans of a trace, best first.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/allocations.h"
#include "base/result.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "report/interval.h"
#include "report/object_map.h"
#include "report/whole_trace.h"

namespace tmprof {

struct HotOptions {
  RankModel model = RankModel::kRate;
  std::optional<RankSource> by;  // unset: the best that the trace has (KnownEvidence)
  EpochRange epochs;
  std::optional<Pid> pid;                 // unset: every target
  std::optional<std::size_t> limit = 20;  // unset: every span with a score
  // Only spans of which objects that had this address in these epochs had a part then.
  std::optional<std::uint64_t> object = std::nullopt;
};

struct HotObject {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  TracedKind kind = TracedKind::kAllocated;
  ObjectSite site;  // no frames and no name: unknown
};

// "64 KiB by make (a.c:7) < main (a.c:30)", "8 KiB variable table of program"
std::string ObjectText(const HotObject& object, std::size_t frames = 2);

struct HotList {
  struct Row {
    std::size_t rank = 0;  // from 1
    TargetTotal target;
    Vpn start;
    PageCount span{1};
    std::optional<double> references;    // unknown where no accessed bit was read
    std::optional<double> load_samples;  // unknown where no sampler was on in the whole trace
    std::optional<double> store_samples;
    double score = 0;                 // of the whole span
    double relative_sd = 0;           // standard deviation of the score, relative to it
    Interval interval;                // of the score
    std::optional<Mapping> mapping;   // that held the span when it was last seen
    std::optional<HotObject> object;  // that had most of it then; unset: unknown
  };
  TraceTotals totals;
  HotOptions options;
  bool has_objects = false;  // somebody told of allocations
  std::vector<Row> rows;
  std::size_t spans = 0;              // with a score, shown or not
  PageCount pages;                    // of those
  double total_score = 0;             // of those
  std::optional<double> shown_share;  // of the total score; unknown when that is 0
};

// The hot list and its sums are made from these: the rows that have a score and are asked for.
struct ScoredRows {
  WholeTrace whole;
  Estimates estimates;
  HotOptions options;             // with `by` set
  std::vector<std::size_t> rows;  // of the ranker's table, ascending
  double total_score = 0;
  PageCount pages;

  PageKey Key(std::size_t row) const { return whole.ranker.table().key[row]; }
  PageCount Span(std::size_t row) const { return PageCount(whole.ranker.table().span_pages[row]); }
};
Result<ScoredRows> ScoreRows(const Trace& trace, const HotOptions& options);

// Order: the lower end of the score's interval per base page descending, then ascending key. Reads
// the trace twice, of an object once more. Refuses an address that nothing had of which the trace
// tells.
Result<HotList> MakeHotList(const Trace& trace, const HotOptions& options);

std::string HotText(const HotList& list);
std::string HotJson(const HotList& list);
std::string HotCsv(const HotList& list);

}  // namespace tmprof
