// SPDX-License-Identifier: Apache-2.0
// Which NUMA nodes served the accesses, epoch by epoch.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/whole_trace.h"

namespace tmprof {

struct NodesOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  EpochRange epochs;
  std::optional<Pid> pid;  // unset: every target
};

struct NodesOverTime {
  struct Served {
    std::optional<NodeId> node;  // unset: nobody resolved where the pages were
    double score = 0;            // in the unit of ScoreUnit()
    // Base pages, added up over epochs: those with a score by what was seen in the epoch itself,
    // and those with a part of `score`, whether they were looked at in the epoch or not.
    double page_epochs = 0;
    double estimated_page_epochs = 0;
  };
  struct Row {
    std::uint64_t epoch = 0;
    MonotonicTime start;
    MonotonicTime end;
    std::vector<Served> nodes;  // as `nodes` below, the same in each row
    double score = 0;

    // Of the epoch's score; unknown where that is 0.
    std::optional<double> Share(std::size_t node) const;
  };
  TraceTotals totals;
  NodesOptions options;
  std::vector<std::optional<NodeId>> nodes;  // ascending, unset last; those with a score
  std::vector<Row> rows;
  Row all;  // from the first epoch to the last; `epoch` means nothing
};

// A page that is not resolved in an epoch counts for the node where it last was, or else first is.
// Reads the trace three times.
Result<NodesOverTime> MakeNodes(const Trace& trace, const NodesOptions& options);

std::string NodesText(const NodesOverTime& nodes);
std::string NodesJson(const NodesOverTime& nodes);
std::string NodesCsv(const NodesOverTime& nodes);

}  // namespace tmprof
