// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/coverage.h"

#include <map>
#include <ranges>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/page_spans.h"

namespace tmprof {
namespace {

struct Counts {
  PageCount looked_at;
  PageCount references_only;
  PageCount samples_only;
  PageCount both;
  PageCount footprint;
  PageCount most_looked_at;
  PageCount sampled_in_regions;
  bool by_regions = false;
  bool samples_of_regions = false;  // their pages within the regions are unknown

  void Add(const Evidence& evidence, PageCount span, bool truth_alone) {
    const bool referenced = evidence.references > 0;
    const bool sampled = evidence.samples() > 0 || (truth_alone && evidence.accesses > 0);
    if (evidence.looks > 0) most_looked_at += span;
    if (!IsOneEntry(span.value()) && evidence.looks > 0) {
      samples_of_regions |= sampled;
      return;
    }
    if (evidence.looks > 0) looked_at += span;
    if (referenced && sampled) {
      both += span;
    } else if (referenced) {
      references_only += span;
    } else if (sampled) {
      samples_only += span;
    }
  }
};

// Calls add(counts, evidence, span) for each record, with the counts of its target.
template <typename Add>
void ForEachRecord(const EvidenceTable& table, Add add, std::map<TargetId, Counts>& by_target) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    add(by_target[table.key[i].target], table.evidence[i], PageCount(table.span_pages[i]));
  }
}

// Calls add(all, evidence, span) once for each span of pages, with the evidence of all its mappers.
template <typename Add>
void ForEachPage(const EvidenceTable& table, const SharedPages& shared, Add add, Counts& all) {
  const PageSpans spans(table, shared);
  spans.ForEach(std::views::iota(std::size_t{0}, table.size()), [&](std::size_t span) {
    Evidence sum;
    spans.ForEachRow(table, span, [&](std::size_t row, double part, Vpn) {
      sum.Add(table.evidence[row], part, part);
    });
    add(all, sum, spans.PagesOf(table, span));
  });
}

PagesSeen Seen(const Counts& counts, bool references_known, bool samples_known) {
  PagesSeen seen;
  if (references_known || samples_known) seen.footprint = counts.footprint;
  if (samples_known && !counts.samples_of_regions) {
    seen.samples = counts.samples_only + counts.both + counts.sampled_in_regions;
  }
  if (counts.by_regions) {
    seen.most_looked_at = counts.most_looked_at;
    return seen;
  }
  if (references_known) {
    seen.looked_at = counts.looked_at;
    seen.references = counts.references_only + counts.both;
  }
  if (references_known && samples_known) {
    seen.references_only = counts.references_only;
    seen.samples_only = counts.samples_only;
    seen.both = counts.both;
  }
  if (references_known || samples_known) {
    seen.either = counts.references_only + counts.samples_only + counts.both;
  }
  return seen;
}

Json SeenJson(const PagesSeen& seen) {
  return {{"looked_at", OrNull(seen.looked_at)},
          {"references", OrNull(seen.references)},
          {"samples", OrNull(seen.samples)},
          {"references_only", OrNull(seen.references_only)},
          {"samples_only", OrNull(seen.samples_only)},
          {"both", OrNull(seen.both)},
          {"either", OrNull(seen.either)},
          {"footprint", OrNull(seen.footprint)},
          {"most_looked_at", OrNull(seen.most_looked_at)}};
}

}  // namespace

Coverage CoverageOf(const WholeTrace& whole) {
  const bool references_known = whole.totals.Delivered(SourceRole::kReferences);
  // Exact counts take the place of samples if there is nothing else to compare.
  const bool truth_alone = whole.totals.Delivered(SourceRole::kTruth) && !references_known &&
                           !whole.totals.Delivered(SourceRole::kSamples);
  const bool samples_known = whole.totals.Delivered(SourceRole::kSamples) || truth_alone;
  std::map<TargetId, Counts> by_target;
  Counts all;
  const auto add_spans = [&](const EvidenceTable& table, auto add) {
    ForEachRecord(table, add, by_target);
    ForEachPage(table, whole.ranker.shared_pages(), add, all);
  };
  add_spans(whole.ranker.evidence().spans(),
            [truth_alone](Counts& counts, const Evidence& evidence, PageCount span) {
              counts.Add(evidence, span, truth_alone);
            });
  add_spans(whole.ranker.evidence().pages(),
            [](Counts& counts, const Evidence& evidence, PageCount) {
              if (evidence.samples() > 0) counts.sampled_in_regions += PageCount(1);
            });
  add_spans(whole.ranker.table(),
            [truth_alone](Counts& counts, const Evidence& evidence, PageCount span) {
              if (evidence.references > 0 || evidence.samples() > 0 ||
                  (truth_alone && evidence.accesses > 0)) {
                counts.footprint += span;
              }
            });
  Coverage coverage{.totals = whole.totals, .rows = {}, .all = {}};
  for (const TargetTotal& target : whole.totals.targets) {
    Counts& counts = by_target[target.id];
    counts.by_regions = target.by_regions;
    coverage.rows.push_back(
        {.target = target, .seen = Seen(counts, references_known, samples_known)});
    all.by_regions |= target.by_regions;
  }
  coverage.all = Seen(all, references_known, samples_known);
  return coverage;
}

Result<Coverage> MakeCoverage(const Trace& trace, EpochRange epochs) {
  const Result<WholeTrace> whole = ReadWholeTrace(trace, RankModel::kSum, epochs);
  if (!whole) return Fail(whole.error());
  return CoverageOf(*whole);
}

std::string CoverageText(const Coverage& coverage, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  TextTable table({{"pid"},
                   {"target", kLeft, kKey},
                   {"pages by references only"},
                   {"samples only"},
                   {"both"},
                   {"either", kRight, kKey}});
  const auto add = [&](std::string pid, std::string name, const PagesSeen& seen) {
    table.AddRow({std::move(pid), std::move(name), OrUnknown(seen.references_only, kGrouped),
                  OrUnknown(seen.samples_only, kGrouped), OrUnknown(seen.both, kGrouped),
                  OrUnknown(seen.either, kGrouped)});
  };
  for (const Coverage::Row& row : coverage.rows) {
    add(fmt::format("{}", row.target.pid.value()), Printable(row.target.name), row.seen);
  }
  add("", "all targets", coverage.all);
  std::string text = "pages detected (distinct 4 KiB pages over the trace)\n" + table.Text(width);
  if (coverage.all.most_looked_at) {
    text += fmt::format(
        "note: of {} those that were looked at are unknown, one at a time of each region; pages "
        "sampled: {}\n",
        CountText(*coverage.all.most_looked_at), OrUnknown(coverage.all.samples, kGrouped));
  }
  return text;
}

std::string CoverageJson(const Coverage& coverage) {
  Json targets = Json::array();
  for (const Coverage::Row& row : coverage.rows) {
    targets.push_back({{"target", row.target.id.value()},
                       {"pid", row.target.pid.value()},
                       {"name", row.target.name},
                       {"pages", SeenJson(row.seen)}});
  }
  return JsonText(WithEnd({{"view", "coverage"},
                           {"trace", coverage.totals.trace},
                           {"epochs", coverage.totals.epochs},
                           {"all", SeenJson(coverage.all)},
                           {"targets", std::move(targets)}},
                          coverage.totals.end, coverage.totals.lost_epochs));
}

std::string CoverageCsv(const Coverage& coverage) {
  std::string csv =
      CsvLine({"target", "pid", "name", "looked_at", "references", "samples", "references_only",
               "samples_only", "both", "either", "footprint", "most_looked_at"});
  const auto add = [&](std::string id, std::string pid, const std::string& name,
                       const PagesSeen& seen) {
    csv += CsvLine({std::move(id), std::move(pid), name, OrEmpty(seen.looked_at, kPlain),
                    OrEmpty(seen.references, kPlain), OrEmpty(seen.samples, kPlain),
                    OrEmpty(seen.references_only, kPlain), OrEmpty(seen.samples_only, kPlain),
                    OrEmpty(seen.both, kPlain), OrEmpty(seen.either, kPlain),
                    OrEmpty(seen.footprint, kPlain), OrEmpty(seen.most_looked_at, kPlain)});
  };
  for (const Coverage::Row& row : coverage.rows) {
    add(fmt::format("{}", row.target.id.value()), fmt::format("{}", row.target.pid.value()),
        row.target.name, row.seen);
  }
  add("", "", "all targets", coverage.all);
  return csv;
}

}  // namespace tmprof
