// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/nodes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "rank/epoch_estimates.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// Orders nodes ascending, the unknown node last.
struct UnknownLast {
  bool operator()(const std::optional<NodeId>& a, const std::optional<NodeId>& b) const {
    return a && (!b || *a < *b);
  }
};

struct NodeSum {
  double score = 0;
  double pages = 0;       // with a score
  double seen_pages = 0;  // with evidence of the epoch itself
};
using SumsByNode = std::map<std::optional<NodeId>, NodeSum, UnknownLast>;

// Knows the node of each row of a table: where its page was last resolved, and before that where it
// was first resolved.
class NodesOfRows {
 public:
  explicit NodesOfRows(const EvidenceTable& table) : table_(table), node_(table.size()) {}

  // Learns the nodes of rows whose node is not known yet.
  void LearnFirst(const PageColumns& pages) {
    EachRow(pages, [this](std::size_t row, NodeId node) {
      if (!node_[row]) node_[row] = node;
    });
  }
  // Returns the targets that have a row whose node changed, ascending.
  std::vector<TargetId> Learn(const PageColumns& pages) {
    std::vector<TargetId> changed;
    EachRow(pages, [&](std::size_t row, NodeId node) {
      if (node_[row] == node) return;
      node_[row] = node;
      const TargetId target = table_.key[row].target;
      if (changed.empty() || changed.back() != target) changed.push_back(target);
    });
    return changed;
  }

  // Calls visit(row of `rows`, its node) for the rows [first, end). `rows` is the table itself, or
  // a table of single epochs of it.
  template <typename Visit>
  void Each(const EvidenceTable& rows, std::size_t first, std::size_t end, Visit visit) const {
    if (first == end) return;
    const auto after = std::ranges::upper_bound(table_.key, rows.key[first]);
    auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, after - table_.key.begin()) - 1);
    for (std::size_t row = first; row < end; ++row) {
      while (EndOf(table_, at) <= rows.key[row]) ++at;
      visit(row, node_[at]);
    }
  }

 private:
  template <typename Take>
  void EachRow(const PageColumns& pages, Take take) {
    std::size_t row = 0;  // both ascend by key
    for (std::size_t record = 0; record < pages.size(); ++record) {
      if (!pages.node[record]) continue;
      const PageKey start = pages.key(record);
      const PageKey end{start.target, start.vpn + PageCount(pages.span_pages[record])};
      while (row < table_.size() && EndOf(table_, row) <= start) ++row;
      for (std::size_t at = row; at < table_.size() && table_.key[at] < end; ++at) {
        take(at, *pages.node[record]);
      }
    }
  }

  const EvidenceTable& table_;
  std::vector<std::optional<NodeId>> node_;
};

// Adds up the scores that each node served. An epoch visits all rows of a target only if one of its
// pages moved to another node, or if a step begins.
class NodeSums {
 public:
  NodeSums(const TotalRanker& ranker, const TraceTotals& totals, const NodesOptions& options)
      : totals_(totals),
        options_(options),
        by_rate_(IsEstimated(options.model, *options.by)),
        nodes_(ranker.table()),
        estimates_(ranker, *options.by) {}

  void LearnFirst(const PageColumns& pages) { nodes_.LearnFirst(pages); }

  // The caller passes each epoch, oldest first, after LearnFirst() had all of them.
  SumsByNode Add(const EpochProfile& epoch) {
    const std::vector<TargetId> moved = nodes_.Learn(epoch.pages);
    estimates_.See(epoch);
    const bool is_new = step_ != estimates_.step();
    step_ = estimates_.step();
    const auto& targets = estimates_.targets();
    of_targets_.resize(targets.size());
    SumsByNode sums;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (!totals_.IsOf(targets[t].target, options_.pid)) continue;
      if (is_new || std::ranges::binary_search(moved, targets[t].target)) {
        of_targets_[t] = SumStep(targets[t]);
      }
      if (targets[t].share <= 0) continue;
      for (const auto& [node, sum] : of_targets_[t]) {
        sums[node].score += sum.score * targets[t].share;
        sums[node].pages += sum.pages;
      }
    }
    AddSeen(epoch, sums);
    return sums;
  }

 private:
  SumsByNode SumStep(const EpochEstimates::TargetRows& rows) const {
    const EvidenceTable& table = estimates_.table();
    SumsByNode sums;
    nodes_.Each(table, rows.first, rows.end, [&](std::size_t row, std::optional<NodeId> node) {
      const double score = estimates_.StepScore(row);
      if (score <= 0) return;
      NodeSum& sum = sums[node];
      sum.score += score;
      sum.pages += table.span_pages[row];
    });
    return sums;
  }

  // Adds pages that were seen in the epoch. Such a page has a score in the epoch, unless its target
  // did not run.
  void AddSeen(const EpochProfile& epoch, SumsByNode& sums) {
    if (by_rate_) TakeEvidence(epoch, seen_);
    const EvidenceTable& table = by_rate_ ? seen_ : estimates_.table();
    const RateView view(table, *options_.by);
    TargetTimes times;
    if (by_rate_) times.Add(epoch);
    std::optional<TargetId> target;
    bool counts = false;
    nodes_.Each(table, 0, table.size(), [&](std::size_t row, std::optional<NodeId> node) {
      if (target != table.key[row].target) {
        target = table.key[row].target;
        counts =
            totals_.IsOf(*target, options_.pid) && (!by_rate_ || times.Of(*target).cpu_seconds > 0);
      }
      if (!counts) return;
      if (by_rate_ ? !view.Sees(table.evidence[row]) : estimates_.StepScore(row) <= 0) return;
      sums[node].seen_pages += table.span_pages[row];
    });
  }

  const TraceTotals& totals_;
  const NodesOptions& options_;
  bool by_rate_;
  NodesOfRows nodes_;
  EpochEstimates estimates_;
  std::optional<std::size_t> step_;
  std::vector<SumsByNode> of_targets_;  // within the step, by index in EpochEstimates::targets()
  EvidenceTable seen_;
};

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
    served.page_epochs += found->second.seen_pages;
    served.estimated_page_epochs += found->second.pages;
    row.score += found->second.score;
  }
}

std::string OfProcess(std::optional<Pid> pid) {
  return pid ? fmt::format(", of PID {}", pid->value()) : "";
}

// Spells all rows to the same decimal.
std::string ShareText(double share) { return fmt::format("{:.1f} %", share * 100); }

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
                     {"page_epochs", row.nodes[i].page_epochs},
                     {"estimated_page_epochs", row.nodes[i].estimated_page_epochs}});
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
  if (Status chosen =
          ChooseBasis(*whole, {options.weight, options.by}, "share accesses out among nodes");
      !chosen) {
    return Fail(std::move(chosen.error()));
  }
  NodesOverTime nodes{.totals = std::move(whole->totals), .options = options};
  nodes.options.by = nodes.totals.basis.source;
  NodeSums adder(whole->ranker, nodes.totals, nodes.options);
  const Result<StreamEnd> first = ReadEpochs(
      trace, options.epochs, [&](const EpochProfile& epoch) { adder.LearnFirst(epoch.pages); });
  if (!first) return Fail(first.error());
  std::vector<SumsByNode> sums;
  SumsByNode found;
  const Result<StreamEnd> end = ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) {
    sums.push_back(adder.Add(epoch));
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

std::string NodesText(const NodesOverTime& nodes, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  const std::string unit = ScoreUnit(nodes.totals, nodes.options.model, *nodes.options.by);
  std::string text = fmt::format("share of the {} by the NUMA node that held the page, by {}{}\n",
                                 unit, TextOf(nodes.totals.basis), OfProcess(nodes.options.pid));
  const ColumnScale scale(std::vector{nodes.all.score});
  std::vector<TextTable::Column> columns = {
      {"epoch", kRight, kKey}, {"seconds", kRight, kThird}, {scale.Title(unit), kRight, kThird}};
  for (const auto& node : nodes.nodes) columns.push_back({Title(node)});
  TextTable table(columns);
  const auto add = [&](std::string epoch, const NodesOverTime::Row& row) {
    std::vector<std::string> cells = {
        std::move(epoch), fmt::format("{:.1f}", Seconds(row.end - row.start)), scale(row.score)};
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      cells.push_back(OrUnknown(row.Share(i), ShareText));
    }
    table.AddRow(std::move(cells));
  };
  for (const NodesOverTime::Row& row : nodes.rows) add(fmt::format("{}", row.epoch), row);
  add("all", nodes.all);
  text += table.Text(width);
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
               {"rank_weight", Name(nodes.totals.basis.weight)},
               {"pid", nodes.options.pid ? Json(nodes.options.pid->value()) : Json(nullptr)},
               {"unit", ScoreUnit(nodes.totals, nodes.options.model, *nodes.options.by)},
               {"start_monotonic_s", Seconds(nodes.totals.start.time_since_epoch())},
               {"notes", Caveats(nodes.totals, *nodes.options.by)},
               {"all", ServedJson(nodes.all)},
               {"epochs", std::move(epochs)}},
              nodes.totals.end, nodes.totals.lost_epochs));
}

std::string NodesCsv(const NodesOverTime& nodes) {
  std::string csv = CsvLine({"epoch", "start_s", "end_s", "node", "score", "share", "page_epochs",
                             "estimated_page_epochs"});
  for (const NodesOverTime::Row& row : nodes.rows) {
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      const auto& served = row.nodes[i];
      csv += CsvLine({fmt::format("{}", row.epoch), Exact(Seconds(row.start - nodes.totals.start)),
                      Exact(Seconds(row.end - nodes.totals.start)),
                      served.node ? fmt::format("{}", served.node->value()) : "",
                      Exact(served.score), OrEmpty(row.Share(i), Exact), Exact(served.page_epochs),
                      Exact(served.estimated_page_epochs)});
    }
  }
  return csv;
}

}  // namespace tmprof
