// SPDX-License-Identifier: Apache-2.0

#include "report/hot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "report/format.h"

namespace tmprof {
namespace {

// Gives each row the mapping that held it in the latest epoch that has one.
Status FindMappings(const Trace& trace, HotList& list) {
  const Result<StreamEnd> end =
      ReadEpochs(trace, list.options.epochs, [&list](const EpochProfile& epoch) {
        for (HotList::Row& row : list.rows) {
          const auto target =
              std::ranges::lower_bound(epoch.targets, row.target.id, {}, &Target::id);
          if (target == epoch.targets.end() || target->id != row.target.id) continue;
          if (const Mapping* mapping = FindMapping(*target, row.start)) row.mapping = *mapping;
        }
      });
  if (!end) return Fail(end.error());
  return {};
}

std::string Count(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

std::string Samples(const HotList::Row& row) {
  return fmt::format("{}+{}", Count(row.load_samples), Count(row.store_samples));
}

}  // namespace

Result<HotList> MakeHotList(const Trace& trace, const HotOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
  if (!whole) return Fail(std::move(whole.error()));
  if (auto known = whole->known.Require(options.by, "list hot pages by misses", trace.name);
      !known) {
    return Fail(std::move(known.error()));
  }
  const EvidenceTable& table = whole->ranker.table();
  const Estimates estimates = whole->ranker.Estimate(options.by);
  const Scores& scores = estimates.score;
  HotList list{.totals = whole->totals, .options = options};

  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TargetTotal* target = list.totals.FindTarget(table.key[i].target);
    if (options.pid && (target == nullptr || target->pid != *options.pid)) continue;
    if (scores[i] <= 0) continue;
    order.push_back(i);
    list.total_score += scores[i];
  }
  list.spans = order.size();
  const std::size_t shown = std::min(order.size(), options.limit.value_or(order.size()));
  const auto hotter = [&](std::size_t a, std::size_t b) {
    const double heat_a = scores[a] / table.span_pages[a];
    const double heat_b = scores[b] / table.span_pages[b];
    return heat_a != heat_b ? heat_a > heat_b : table.key[a] < table.key[b];
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown), hotter);

  double shown_score = 0;
  for (std::size_t n = 0; n < shown; ++n) {
    const std::size_t i = order[n];
    const Evidence& evidence = table.evidence[i];
    const TargetTotal* target = list.totals.FindTarget(table.key[i].target);
    HotList::Row row{.rank = n + 1,
                     .target = target != nullptr ? *target : TargetTotal{},
                     .start = table.key[i].vpn,
                     .span = PageCount(table.span_pages[i]),
                     .references = std::nullopt,
                     .load_samples = evidence.load_samples,
                     .store_samples = evidence.store_samples,
                     .score = scores[i],
                     .relative_sd = estimates.relative_sd[i],
                     .mapping = std::nullopt};
    if (evidence.looks > 0) row.references = evidence.references;
    shown_score += scores[i];
    list.rows.push_back(std::move(row));
  }
  if (list.total_score > 0) list.shown_share = shown_score / list.total_score;
  if (const Status found = FindMappings(trace, list); !found) return Fail(found.error());
  return list;
}

std::string HotText(const HotList& list) {
  using enum TextTable::Align;
  TextTable table({{"rank"},
                   {"pid"},
                   {"target", kLeft},
                   {"start"},
                   {"span"},
                   {"references"},
                   {"loads+stores"},
                   {"score"},
                   {"+-"},
                   {"mapping", kLeft}});
  for (const HotList::Row& row : list.rows) {
    table.AddRow({fmt::format("{}", row.rank), fmt::format("{}", row.target.pid.value()),
                  Printable(row.target.name), Address(row.start), HumanSize(row.span),
                  OrUnknown(row.references, Count), Samples(row), Significant(row.score),
                  Percent(row.relative_sd),
                  row.mapping ? Printable(Describe(*row.mapping)) : "unknown"});
  }
  std::string text = fmt::format(
      "hottest spans by {}; score: {} over {} epochs\n", Name(list.options.by),
      ScoreUnit(list.totals, list.options.model, list.options.by), Grouped(list.totals.epochs));
  text += table.Text();
  text += fmt::format("{} of {} spans shown, holding {} of the score\n", Grouped(list.rows.size()),
                      Grouped(list.spans), OrUnknown(list.shown_share, Percent));
  for (const std::string& caveat : Caveats(list.totals, list.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string HotJson(const HotList& list) {
  Json rows = Json::array();
  for (const HotList::Row& row : list.rows) {
    Json mapping = nullptr;
    if (row.mapping) {
      mapping = {{"kind", Name(row.mapping->kind)},
                 {"path", row.mapping->path.empty() ? Json(nullptr) : Json(row.mapping->path)}};
    }
    rows.push_back({{"rank", row.rank},
                    {"target", row.target.id.value()},
                    {"pid", row.target.pid.value()},
                    {"name", row.target.name},
                    {"start", Address(row.start)},
                    {"span", row.span.value()},
                    {"references", OrNull(row.references)},
                    {"samples", row.load_samples + row.store_samples},
                    {"load_samples", row.load_samples},
                    {"store_samples", row.store_samples},
                    {"score", row.score},
                    {"relative_sd", row.relative_sd},
                    {"mapping", std::move(mapping)}});
  }
  return JsonText({{"view", "hot"},
                   {"trace", list.totals.trace},
                   {"epochs", list.totals.epochs},
                   {"by", Name(list.options.by)},
                   {"model", Name(list.options.model)},
                   {"score_unit", ScoreUnit(list.totals, list.options.model, list.options.by)},
                   {"spans", list.spans},
                   {"total_score", list.total_score},
                   {"shown_share", OrNull(list.shown_share)},
                   {"notes", Caveats(list.totals, list.options.by)},
                   {"rows", std::move(rows)}});
}

std::string HotCsv(const HotList& list) {
  std::string csv = CsvLine({"rank", "target", "pid", "name", "start", "span", "references",
                             "samples", "load_samples", "store_samples", "score", "relative_sd",
                             "mapping", "mapping_kind", "mapping_path"});
  for (const HotList::Row& row : list.rows) {
    csv += CsvLine({fmt::format("{}", row.rank), fmt::format("{}", row.target.id.value()),
                    fmt::format("{}", row.target.pid.value()), row.target.name, Address(row.start),
                    fmt::format("{}", row.span.value()), OrEmpty(row.references, Exact),
                    Exact(row.load_samples + row.store_samples), Exact(row.load_samples),
                    Exact(row.store_samples), Exact(row.score), Exact(row.relative_sd),
                    row.mapping ? Describe(*row.mapping) : "",
                    row.mapping ? std::string(Name(row.mapping->kind)) : "",
                    row.mapping ? row.mapping->path : ""});
  }
  return csv;
}

}  // namespace tmprof
