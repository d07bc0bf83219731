// SPDX-License-Identifier: Apache-2.0
// Tells which NUMA nodes served the accesses, epoch by epoch.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/whole_trace.h"

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
    std::optional<NodeId> node;  // unset: the node of the pages was not resolved
    double score = 0;            // in the unit of ScoreUnit()
    // Base pages, added up over epochs. `page_epochs` counts pages with a score by evidence of the
    // epoch itself. `estimated_page_epochs` counts pages with a part of `score`, even if they were
    // not looked at in the epoch.
    double page_epochs = 0;
    double estimated_page_epochs = 0;
  };
  struct Row {
    std::uint64_t epoch = 0;
    MonotonicTime start;
    MonotonicTime end;
    std::vector<Served> nodes;  // parallel to NodesOverTime::nodes
    double score = 0;

    // Returns the node's share of the epoch's score; nullopt if that is 0.
    std::optional<double> Share(std::size_t node) const;
  };
  TraceTotals totals;
  NodesOptions options;
  std::vector<std::optional<NodeId>> nodes;  // the nodes with a score, ascending; unset last
  std::vector<Row> rows;
  Row all;  // covers the first epoch to the last; `epoch` has no meaning
};

// A page that is not resolved in an epoch counts for the node where it was last seen, or else where
// it is first seen. Reads the trace three times.
Result<NodesOverTime> MakeNodes(const Trace& trace, const NodesOptions& options);

std::string NodesText(const NodesOverTime& nodes, TextWidth width = {});
std::string NodesJson(const NodesOverTime& nodes);
std::string NodesCsv(const NodesOverTime& nodes);

}  // namespace tmprof
