// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_views.h"

#include <string_view>
#include <utility>

#include "objects/analysis/traced_objects.h"
#include "report/view_parts.h"

namespace tmprof {
namespace {

// Refuses a page of which nothing is known. A page that was not observed is accepted if something
// is known to have been there.
Status RequirePage(const TracedObjects& objects) {
  const std::optional<Vpn>& page = objects.options.page;
  if (!page || objects.page_observed || !objects.rows.empty()) return {};
  return Fail(BadInput("show page", Address(*page),
                       "it was not observed in these epochs, and nothing is known to have been "
                       "allocated there",
                       "'--view hot' lists pages that were, '--view objects --by object' what was "
                       "allocated"));
}

Result<Rendered> RenderTracedObjects(const Trace& trace, const ObjectViewOptions& its_own,
                                     const ViewOptions& options, Format format) {
  if (Status known = its_own.counts.RequireProcesses(trace); !known) return Fail(known.error());
  const bool is_counted = !its_own.counts.empty();
  Result<TracedObjects> objects =
      MakeTracedObjects(is_counted ? its_own.counts.Beside(trace) : trace,
                        {.by = its_own.by,
                         .weight = options.weight,
                         .epochs = options.epochs,
                         .pid = options.pid,
                         .page = its_own.page,
                         .limit = is_counted ? std::nullopt : options.limit,
                         .tier2 = its_own.tier2});
  if (!objects) return Fail(objects.error());
  if (is_counted) {
    its_own.counts.Count(*objects);
    if (options.limit && *options.limit < objects->rows.size())
      objects->rows.resize(*options.limit);
  }
  if (Status epochs = RequireEpochs(objects->epochs, options.epochs, "trace"); !epochs) {
    return Fail(epochs.error());
  }
  if (Status found = RequireProcess(options.pid, objects->seen); !found) {
    return Fail(found.error());
  }
  if (Status known = RequirePage(*objects); !known) return Fail(known.error());
  Rendered rendered{.png = std::nullopt, .end = objects->end};
  if (its_own.folded) rendered.folded = TracedObjectsFolded(*objects);
  rendered.output = Spell(*objects, options.table_columns, format, TracedObjectsText,
                          TracedObjectsJson, TracedObjectsCsv);
  return rendered;
}

constexpr std::string_view kReads[] = {"by",  "rank-weight", "limit",  "folded", "page",
                                       "pid", "epochs",      "counts", "tier2",  "llc"};

}  // namespace

View ObjectsView(std::shared_ptr<const ObjectViewOptions> options) {
  return {.name = "objects",
          .description =
              "by what was allocated: of a trace, estimated accesses; of an object "
              "profile, counted ones",
          .reads = kReads,
          .by_evidence = false,
          .render = [options = std::move(options)](const Trace& trace, const ViewOptions& view,
                                                   Format format, bool /*with_png*/) {
            return RenderTracedObjects(trace, *options, view, format);
          }};
}

Result<Rendered> RenderObjectProfile(ObjectsReader& profile, std::string file,
                                     const ObjectViewOptions& options, const ViewOptions& view,
                                     Format format) {
  ObjectsReport report = MakeObjects(profile, std::move(file), options.by, view.limit);
  Rendered rendered{.png = std::nullopt, .end = report.end};
  if (options.folded) rendered.folded = ObjectsFolded(report);
  if (view.limit) LimitRows(report, *view.limit);
  rendered.output = Spell(report, view.table_columns, format, ObjectsText, ObjectsJson, ObjectsCsv);
  return rendered;
}

}  // namespace tmprof
