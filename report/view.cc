// SPDX-License-Identifier: Apache-2.0

#include "report/view.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "proto/replaced_file.h"
#include "report/analysis/capacity_curve.h"
#include "report/analysis/cdf.h"
#include "report/analysis/coverage.h"
#include "report/analysis/heatmap.h"
#include "report/analysis/hot.h"
#include "report/analysis/moves.h"
#include "report/analysis/nodes.h"
#include "report/analysis/summary.h"
#include "report/analysis/working_set.h"
#include "report/view_parts.h"

namespace tmprof {
namespace {

constexpr std::size_t kPictureColumns = 240;
constexpr std::size_t kPictureRows = 200;

// Refuses chosen epochs and processes that the trace does not have.
Status RequireChosen(const TraceTotals& totals, const ViewOptions& options) {
  if (Status epochs = RequireEpochs(totals.epochs, options.epochs, "trace"); !epochs) return epochs;
  std::set<Pid> pids;
  for (const TargetTotal& target : totals.targets) pids.insert(target.pid);
  return RequireProcess(options.pid, pids);
}

Result<Rendered> RenderSummary(const Trace& trace, const ViewOptions& options, Format format,
                               bool /*with_png*/) {
  const Result<Summary> summary = MakeSummary(trace, options.epochs);
  if (!summary) return Fail(summary.error());
  if (auto chosen = RequireChosen(summary->coverage.totals, options); !chosen) {
    return Fail(chosen.error());
  }
  return Rendered{.output = Spell(*summary, options.table_columns, format, SummaryText, SummaryJson,
                                  SummaryCsv),
                  .png = std::nullopt,
                  .end = summary->coverage.totals.end};
}

Result<Rendered> RenderHot(const Trace& trace, const ViewOptions& options, Format format,
                           bool /*with_png*/) {
  const Result<Trace> with_objects =
      options.annotator != nullptr ? options.annotator->Join(trace) : trace;
  if (!with_objects) return Fail(with_objects.error());
  const HotOptions wanted{.model = options.model,
                          .weight = options.weight,
                          .by = options.by,
                          .epochs = options.epochs,
                          .pid = options.pid,
                          .limit = options.limit,
                          .object = options.object,
                          .annotator = options.annotator};
  if (options.hot_group) {
    const Result<HotGroups> groups = MakeHotGroups(*with_objects, wanted, *options.hot_group);
    if (!groups) return Fail(groups.error());
    if (auto chosen = RequireChosen(groups->totals, options); !chosen) return Fail(chosen.error());
    return Rendered{.output = Spell(*groups, options.table_columns, format, HotGroupsText,
                                    HotGroupsJson, HotGroupsCsv),
                    .png = std::nullopt,
                    .end = groups->totals.end};
  }
  const Result<HotList> list = MakeHotList(*with_objects, wanted);
  if (!list) return Fail(list.error());
  if (auto chosen = RequireChosen(list->totals, options); !chosen) return Fail(chosen.error());
  return Rendered{.output = Spell(*list, options.table_columns, format, HotText, HotJson, HotCsv),
                  .png = std::nullopt,
                  .end = list->totals.end};
}

Result<Rendered> RenderCoverage(const Trace& trace, const ViewOptions& options, Format format,
                                bool /*with_png*/) {
  const Result<Coverage> coverage = MakeCoverage(trace, options.epochs);
  if (!coverage) return Fail(coverage.error());
  if (auto chosen = RequireChosen(coverage->totals, options); !chosen) return Fail(chosen.error());
  return Rendered{.output = Spell(*coverage, options.table_columns, format, CoverageText,
                                  CoverageJson, CoverageCsv),
                  .png = std::nullopt,
                  .end = coverage->totals.end};
}

Result<Rendered> RenderHeatmap(const Trace& trace, const ViewOptions& options, Format format,
                               bool with_png) {
  // Text and picture have different numbers of cells, and each is made with its own.
  const auto make = [&](std::size_t columns, std::size_t rows) {
    return MakeHeatmap(trace, {.model = options.model,
                               .weight = options.weight,
                               .by = options.by,
                               .epochs = options.epochs,
                               .pid = options.pid,
                               .addresses = options.addresses,
                               .style = options.heatmap_style,
                               .max_columns = options.heatmap_columns.value_or(columns),
                               .max_rows = options.heatmap_rows.value_or(rows),
                               .raw = options.heatmap_raw});
  };
  Rendered rendered;
  const bool text = format == Format::kText;
  const std::size_t text_columns = HeatmapTextColumns(options.text_columns);
  const Result<Heatmap> heatmap =
      make(text ? text_columns : kPictureColumns, text ? options.text_rows : kPictureRows);
  if (!heatmap) return Fail(heatmap.error());
  if (auto chosen = RequireChosen(heatmap->totals, options); !chosen) return Fail(chosen.error());
  if (options.addresses && heatmap->addresses.rows == 0) {
    return Fail(BadInput("show addresses",
                         Address(options.addresses->start) + "-" + Address(options.addresses->end),
                         "no page there was observed"));
  }
  const auto to_text = [&](const Heatmap& map, TextWidth /*tables*/) {
    return HeatmapText(map, options.text_columns);
  };
  rendered.output =
      Spell(*heatmap, options.table_columns, format, to_text, HeatmapJson, HeatmapCsv);
  rendered.end = heatmap->totals.end;
  if (with_png) {
    const Result<Heatmap> picture = make(kPictureColumns, kPictureRows);
    if (!picture) return Fail(picture.error());
    Result<std::string> png = HeatmapPng(*picture);
    if (!png) return Fail(std::move(png.error()));
    rendered.png = std::move(*png);
  }
  return rendered;
}

Result<Rendered> RenderCdf(const Trace& trace, const ViewOptions& options, Format format,
                           bool with_png) {
  const Result<Cdf> cdf = MakeCdf(trace, {.model = options.model,
                                          .weight = options.weight,
                                          .by = options.by,
                                          .epochs = options.epochs});
  if (!cdf) return Fail(cdf.error());
  if (auto chosen = RequireChosen(cdf->totals, options); !chosen) return Fail(chosen.error());
  Rendered rendered{.png = std::nullopt, .end = cdf->totals.end};
  const auto to_text = [&](const Cdf& data, TextWidth tables) {
    return CdfText(data, options.text_columns, tables);
  };
  rendered.output = Spell(*cdf, options.table_columns, format, to_text, CdfJson, CdfCsv);
  if (with_png) {
    Result<std::string> png = CdfPng(*cdf);
    if (!png) return Fail(std::move(png.error()));
    rendered.png = std::move(*png);
  }
  return rendered;
}

Result<Rendered> RenderCapacityCurve(const Trace& trace, const ViewOptions& options, Format format,
                                     bool with_png) {
  const Result<CapacityCurve> curve = MakeCapacityCurve(
      trace, {.weight = options.weight, .by = options.by, .epochs = options.epochs});
  if (!curve) return Fail(curve.error());
  if (auto chosen = RequireChosen(curve->totals, options); !chosen) return Fail(chosen.error());
  Rendered rendered{.png = std::nullopt, .end = curve->totals.end};
  rendered.output = Spell(*curve, options.table_columns, format, CapacityCurveText,
                          CapacityCurveJson, CapacityCurveCsv);
  if (with_png) {
    Result<std::string> png = CapacityCurvePng(*curve);
    if (!png) return Fail(std::move(png.error()));
    rendered.png = std::move(*png);
  }
  return rendered;
}

Result<Rendered> RenderWorkingSet(const Trace& trace, const ViewOptions& options, Format format,
                                  bool with_png) {
  const Result<WorkingSet> set = MakeWorkingSet(
      trace,
      {.by = options.by, .epochs = options.epochs, .pid = options.pid, .rates = options.wss_rates});
  if (!set) return Fail(set.error());
  if (auto chosen = RequireChosen(set->totals, options); !chosen) return Fail(chosen.error());
  Rendered rendered{.png = std::nullopt, .end = set->totals.end};
  rendered.output =
      Spell(*set, options.table_columns, format, WorkingSetText, WorkingSetJson, WorkingSetCsv);
  if (with_png) {
    Result<std::string> png = WorkingSetPng(*set);
    if (!png) return Fail(std::move(png.error()));
    rendered.png = std::move(*png);
  }
  return rendered;
}

Result<Rendered> RenderNodes(const Trace& trace, const ViewOptions& options, Format format,
                             bool /*with_png*/) {
  const Result<NodesOverTime> nodes = MakeNodes(trace, {.model = options.model,
                                                        .weight = options.weight,
                                                        .by = options.by,
                                                        .epochs = options.epochs,
                                                        .pid = options.pid});
  if (!nodes) return Fail(nodes.error());
  if (auto chosen = RequireChosen(nodes->totals, options); !chosen) return Fail(chosen.error());
  return Rendered{
      .output = Spell(*nodes, options.table_columns, format, NodesText, NodesJson, NodesCsv),
      .png = std::nullopt,
      .end = nodes->totals.end};
}

Result<Rendered> RenderMoves(LedgerReader& ledger, const ViewOptions& options, Format format) {
  const MovesSummary summary = SummarizeMoves(
      ledger, {.epochs = options.epochs, .ping_pong_epochs = options.ping_pong_epochs});
  if (Status epochs = RequireEpochs(summary.epochs, options.epochs, "ledger"); !epochs) {
    return Fail(epochs.error());
  }
  return Rendered{
      .output = Spell(summary, options.table_columns, format, MovesText, MovesJson, MovesCsv),
      .png = std::nullopt,
      .end = summary.end};
}

constexpr std::string_view kEpochsReads[] = {"epochs"};
constexpr std::string_view kHotReads[] = {"by",     "rank-weight", "rank-model", "limit", "pid",
                                          "object", "epochs",      "counts",     "group", "llc"};
constexpr std::string_view kHeatmapReads[] = {
    "by", "rank-weight", "rank-model", "pid", "addresses", "style", "epochs", "raw", "llc"};
constexpr std::string_view kCdfReads[] = {"by", "rank-weight", "rank-model", "epochs", "llc"};
constexpr std::string_view kCurveReads[] = {"by", "rank-weight", "epochs", "llc"};
constexpr std::string_view kWorkingSetReads[] = {"by", "rates", "pid", "epochs"};
constexpr std::string_view kNodesReads[] = {"by",  "rank-weight", "rank-model",
                                            "pid", "epochs",      "llc"};
constexpr std::string_view kMovesReads[] = {"ping-pong", "epochs"};

const std::array kViews = {
    View{.name = "summary",
         .description = "what the trace holds, which sources made it, what it cost",
         .reads = kEpochsReads,
         .has_png = false,
         .render = RenderSummary},
    View{.name = "hot",
         .description = "the hottest pages, with the mapping that holds each",
         .reads = kHotReads,
         .has_png = false,
         .by_memory = true,
         .render = RenderHot},
    View{.name = "coverage",
         .description = "pages detected by references, by samples and by both",
         .reads = kEpochsReads,
         .has_png = false,
         .render = RenderCoverage},
    View{.name = "heatmap",
         .description = "heat over time and address",
         .reads = kHeatmapReads,
         .has_png = true,
         .by_memory = true,
         .render = RenderHeatmap},
    View{.name = "cdf",
         .description = "share of the accesses that the hottest pages hold",
         .reads = kCdfReads,
         .has_png = true,
         .by_memory = true,
         .render = RenderCdf},
    View{.name = "curve",
         .description = "hit rate of tier 1 by its capacity: how much fast memory is enough",
         .reads = kCurveReads,
         .has_png = true,
         .by_memory = true,
         .render = RenderCapacityCurve},
    View{.name = "wss",
         .description = "working set: memory in use over time, and memory idle for how long",
         .reads = kWorkingSetReads,
         .has_png = true,
         .render = RenderWorkingSet},
    View{.name = "nodes",
         .description = "share of the accesses by the NUMA node that served them, over time",
         .reads = kNodesReads,
         .has_png = false,
         .by_memory = true,
         .render = RenderNodes},
    View{.name = "moves",
         .description = "of a ledger: what was moved, what was refused, whether it paid back",
         .reads = kMovesReads,
         .has_png = false,
         .render_ledger = RenderMoves},
};

}  // namespace

std::span<const View> Views() { return kViews; }

namespace {

// "hot, heatmap, cdf"
template <typename Is>
std::string NamesOfViews(Is is, std::span<const View> views = kViews) {
  std::string names;
  for (const View& view : views) {
    if (!is(view)) continue;
    if (!names.empty()) names += ", ";
    names += view.name;
  }
  return names;
}

}  // namespace

std::vector<std::string_view> OptionsOfViews(std::span<const View> views) {
  std::vector<std::string_view> names;
  for (const View& view : views) {
    for (const std::string_view name : view.reads) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string ViewsThatRead(std::string_view option, std::span<const View> views) {
  const auto reads = [option](const View& view) {
    return std::ranges::find(view.reads, option) != view.reads.end();
  };
  return NamesOfViews(reads, views);
}

Result<const View*> FindView(std::string_view name, std::span<const View> views) {
  const auto found = std::ranges::find(views, name, &View::name);
  if (found != views.end()) return &*found;
  return Fail(BadInput("choose a view", std::string(name), "no such view",
                       "use one of " + NamesOfViews([](const View&) { return true; }, views)));
}

Status RequirePicture(const View& view) {
  if (view.has_png) return {};
  return Fail(BadInput("draw a picture", std::string(view.name), "this view has none",
                       "these have one: " + NamesOfViews(std::mem_fn(&View::has_png))));
}

namespace {

// Refuses accesses to memory for a view that shows none of them.
Status RequireOf(const View& view, std::optional<RankSource> by, RankModel model) {
  if (by != RankSource::kMemory) return {};
  if (model == RankModel::kSum) {
    return Fail(BadInput("choose evidence", std::string(Name(*by)),
                         "rank model sum estimates no rates", "choose '--rank-model rate'"));
  }
  if (view.by_memory) return {};
  return Fail(BadInput("choose evidence", std::string(Name(*by)),
                       fmt::format("the {} view does not go by it", view.name),
                       "these do: " + NamesOfViews(std::mem_fn(&View::by_memory))));
}

Error OfAnotherFile(const View& view, std::string_view file) {
  const std::string_view its_own = view.render != nullptr ? "a trace" : "a ledger";
  return BadInput("show view", std::string(view.name),
                  fmt::format("it is of {}, not of {}", its_own, file));
}

}  // namespace

Result<Rendered> RenderView(const View& view, const Trace& trace, const ViewOptions& options,
                            Format format, bool with_png) {
  if (view.render == nullptr) return Fail(OfAnotherFile(view, "a trace"));
  if (with_png) {
    if (Status picture = RequirePicture(view); !picture) return Fail(picture.error());
  }
  if (Status known = RequireOf(view, options.by, options.model); !known) return Fail(known.error());
  return view.render(trace, options, format, with_png);
}

Result<Rendered> RenderView(std::string_view name, const Trace& trace, const ViewOptions& options,
                            Format format, bool with_png) {
  const Result<const View*> view = FindView(name);
  if (!view) return Fail(view.error());
  return RenderView(**view, trace, options, format, with_png);
}

Result<Rendered> RenderLedgerView(std::string_view name, LedgerReader& ledger,
                                  const ViewOptions& options, Format format) {
  const Result<const View*> view = FindView(name);
  if (!view) return Fail(view.error());
  if ((*view)->render_ledger == nullptr) {
    return Fail(OfAnotherFile(**view, "a ledger"));
  }
  return (*view)->render_ledger(ledger, options, format);
}

Status WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  Result<ReplacedFile> file = ReplacedFile::Create(path, 0666);
  if (!file) return Fail(std::move(file.error()));
  if (Status written = file->Write(bytes); !written) return written;
  return file->Commit();
}

}  // namespace tmprof
