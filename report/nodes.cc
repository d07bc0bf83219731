// SPDX-License-Identifier: Apache-2.0

#include "report/nodes.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "rank/epoch_estimates.h"
#include "report/format.h"

namespace tmprof {
namespace {

// Nodes ascend, and what is nowhere comes last.
struct UnknownLast {
  bool operator()(const std::optional<NodeId>& a, const std::optional<NodeId>& b) const {
    return a && (!b || *a < *b);
  }
};

struct NodeSum {
  double score = 0;
  double pages = 0;
};
using SumsByNode = std::map<std::optional<NodeId>, NodeSum, UnknownLast>;

// The node of each row of a table: where it was last resolved, before that where it first was.
class NodesOfRows {
 public:
  explicit NodesOfRows(const EvidenceTable& table) : table_(table), node_(table.size()) {}

  // Of rows whose node is not known yet.
  void LearnFirst(const PageColumns& pages) {
    EachRow(pages, [](std::optional<NodeId>& known, NodeId node) {
      if (!known) known = node;
    });
  }
  void Learn(const PageColumns& pages) {
    EachRow(pages, [](std::optional<NodeId>& known, NodeId node) { known = node; });
  }

  // visit(row of `rows`, its node). `rows` are those of the table, or of single epochs of it.
  template <typename Visit>
  void Each(const EvidenceTable& rows, Visit visit) const {
    std::size_t at = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      while (EndOf(at) <= rows.key[row]) ++at;
      visit(row, node_[at]);
    }
  }

 private:
  PageKey EndOf(std::size_t row) const {
    return {table_.key[row].target, table_.key[row].vpn + PageCount(table_.span_pages[row])};
  }

  template <typename Take>
  void EachRow(const PageColumns& pages, Take take) {
    std::size_t row = 0;  // both ascend by key
    for (std::size_t record = 0; record < pages.size(); ++record) {
      if (!pages.node[record]) continue;
      const PageKey start = pages.key(record);
      const PageKey end{start.target, start.vpn + PageCount(pages.span_pages[record])};
      while (row < table_.size() && EndOf(row) <= start) ++row;
      for (std::size_t at = row; at < table_.size() && table_.key[at] < end; ++at) {
        take(node_[at], *pages.node[record]);
      }
    }
  }

  const EvidenceTable& table_;
  std::vector<std::optional<NodeId>> node_;
};

SumsByNode SumEpoch(const EpochEstimates& estimates, const NodesOfRows& nodes,
                    const TraceTotals& totals, const NodesOptions& options) {
  const EvidenceTable& table = estimates.table();
  const Scores& scores = estimates.estimates().score;
  SumsByNode sums;
  nodes.Each(table, [&](std::size_t row, std::optional<NodeId> node) {
    if (scores[row] <= 0 || !totals.IsOf(table.key[row].target, options.pid)) return;
    NodeSum& sum = sums[node];
    sum.score += scores[row];
    sum.pages += table.span_pages[row];
  });
  return sums;
}

NodesOverTime::Row Empty(const std::vector<std::optional<NodeId>>& nodes) {
  NodesOverTime::Row row;
  for (const std::optional<NodeId>& node : nodes) row.nodes.push_back({.node = node});
  return row;
}

void Add(NodesOverTime::Row& row, const SumsByNode& sums) {
  for (NodesOverTime::Served& served : row.nodes) {
    const auto found = sums.find(served.node);
    if (found == sums.end()) continue;
    served.score += found->second.score;
    served.page_epochs += found->second.pages;
    row.score += found->second.score;
  }
}

std::string OfProcess(std::optional<Pid> pid) {
  return pid ? fmt::format(", of PID {}", pid->value()) : "";
}

std::string Title(const std::optional<NodeId>& node) {
  return node ? fmt::format("node {}", node->value()) : "node unknown";
}

Json ServedJson(const NodesOverTime::Row& row) {
  Json nodes = Json::array();
  for (std::size_t i = 0; i < row.nodes.size(); ++i) {
    const auto& node = row.nodes[i].node;
    nodes.push_back({{"node", node ? Json(node->value()) : Json(nullptr)},
                     {"score", row.nodes[i].score},
                     {"share", OrNull(row.Share(i))},
                     {"page_epochs", row.nodes[i].page_epochs}});
  }
  return nodes;
}

}  // namespace

std::optional<double> NodesOverTime::Row::Share(std::size_t node) const {
  return score > 0 ? std::optional(nodes[node].score / score) : std::nullopt;
}

Result<NodesOverTime> MakeNodes(const Trace& trace, const NodesOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
  if (!whole) return Fail(std::move(whole.error()));
  const RankSource by = options.by.value_or(whole->known.Best());
  if (auto known = whole->known.Require(by, "share out misses among nodes", trace.name); !known) {
    return Fail(std::move(known.error()));
  }
  NodesOverTime nodes{.totals = std::move(whole->totals), .options = options};
  nodes.options.by = by;
  NodesOfRows node_of(whole->ranker.table());
  const Result<StreamEnd> first = ReadEpochs(
      trace, options.epochs, [&](const EpochProfile& epoch) { node_of.LearnFirst(epoch.pages); });
  if (!first) return Fail(first.error());
  EpochEstimates estimates(whole->ranker, by);
  std::vector<SumsByNode> sums;
  SumsByNode found;
  const Result<StreamEnd> end = ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) {
    node_of.Learn(epoch.pages);
    estimates.See(epoch);
    sums.push_back(SumEpoch(estimates, node_of, nodes.totals, options));
    found.insert(sums.back().begin(), sums.back().end());
    nodes.rows.push_back({.epoch = epoch.index, .start = epoch.start, .end = epoch.end});
  });
  if (!end) return Fail(end.error());
  for (const auto& [node, sum] : found) nodes.nodes.push_back(node);
  nodes.all = Empty(nodes.nodes);
  nodes.all.start = nodes.totals.start;
  nodes.all.end = nodes.totals.stop;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    nodes.rows[i].nodes = Empty(nodes.nodes).nodes;
    Add(nodes.rows[i], sums[i]);
    Add(nodes.all, sums[i]);
  }
  return nodes;
}

std::string NodesText(const NodesOverTime& nodes) {
  const std::string unit = ScoreUnit(nodes.totals, nodes.options.model, *nodes.options.by);
  std::string text = fmt::format("share of the {} by the NUMA node that held the page, by {}{}\n",
                                 unit, Name(*nodes.options.by), OfProcess(nodes.options.pid));
  const ColumnScale scale(std::vector{nodes.all.score});
  std::vector<TextTable::Column> columns = {{"epoch"}, {"seconds"}, {scale.Title(unit)}};
  for (const auto& node : nodes.nodes) columns.push_back({Title(node)});
  TextTable table(columns);
  const auto add = [&](std::string epoch, const NodesOverTime::Row& row) {
    std::vector<std::string> cells = {
        std::move(epoch), fmt::format("{:.3f}", Seconds(row.end - row.start)), scale(row.score)};
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      cells.push_back(OrUnknown(row.Share(i), Percent));
    }
    table.AddRow(std::move(cells));
  };
  for (const NodesOverTime::Row& row : nodes.rows) add(fmt::format("{}", row.epoch), row);
  add("all", nodes.all);
  text += table.Text();
  for (const std::string& caveat : Caveats(nodes.totals, *nodes.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string NodesJson(const NodesOverTime& nodes) {
  Json epochs = Json::array();
  for (const NodesOverTime::Row& row : nodes.rows) {
    epochs.push_back({{"epoch", row.epoch},
                      {"start_s", Seconds(row.start - nodes.totals.start)},
                      {"end_s", Seconds(row.end - nodes.totals.start)},
                      {"nodes", ServedJson(row)}});
  }
  return JsonText(
      WithEnd({{"view", "nodes"},
               {"trace", nodes.totals.trace},
               {"model", Name(nodes.options.model)},
               {"by", Name(*nodes.options.by)},
               {"pid", nodes.options.pid ? Json(nodes.options.pid->value()) : Json(nullptr)},
               {"unit", ScoreUnit(nodes.totals, nodes.options.model, *nodes.options.by)},
               {"start_monotonic_s", Seconds(nodes.totals.start.time_since_epoch())},
               {"notes", Caveats(nodes.totals, *nodes.options.by)},
               {"all", ServedJson(nodes.all)},
               {"epochs", std::move(epochs)}},
              nodes.totals.end, nodes.totals.lost_epochs));
}

std::string NodesCsv(const NodesOverTime& nodes) {
  std::string csv = CsvLine({"epoch", "start_s", "end_s", "node", "score", "share", "page_epochs"});
  for (const NodesOverTime::Row& row : nodes.rows) {
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      const auto& served = row.nodes[i];
      csv +=
          CsvLine({fmt::format("{}", row.epoch), Exact(Seconds(row.start - nodes.totals.start)),
                   Exact(Seconds(row.end - nodes.totals.start)),
                   served.node ? fmt::format("{}", served.node->value()) : "", Exact(served.score),
                   OrEmpty(row.Share(i), Exact), Exact(served.page_epochs)});
    }
  }
  return csv;
}

}  // namespace tmprof
