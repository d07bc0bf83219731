// SPDX-License-Identifier: Apache-2.0

#include "report/traced_objects.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/epoch_profile.h"
#include "base/human_units.h"
#include "report/format.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;
using Kind = TracedKind;

// One row of each type and kind instead of rows of sites.
std::vector<TracedObjects::Row> ByType(std::vector<TracedObjects::Row> sites) {
  std::map<std::pair<Kind, std::string>, TracedObjects::Row> types;
  for (const TracedObjects::Row& site : sites) {
    std::string name = TypeText(site.frames);
    TracedObjects::Row& type = types[{site.kind, name}];
    type.kind = site.kind;
    type.type = std::move(name);
    const double objects = type.objects + site.objects;
    if (objects > 0) {
      const double lived = static_cast<double>(type.lifetime.count()) * type.objects +
                           static_cast<double>(site.lifetime.count()) * site.objects;
      type.lifetime = nanoseconds(std::llround(lived / objects));
    }
    type.objects = objects;
    type.bytes += site.bytes;
    type.live_bytes += site.live_bytes;
    type.estimated = type.estimated || site.estimated;
    type.references += site.references;
    type.samples += site.samples;
  }
  std::vector<TracedObjects::Row> rows;
  for (auto& [key, type] : types) rows.push_back(std::move(type));
  return rows;
}

class Tally : public ObjectMap::Visitor {
 public:
  explicit Tally(const TracedObjectsOptions& options) : options_(options) {}

  void See(const EpochProfile& epoch) {
    const bool is_shown = options_.epochs.Contains(epoch.index);
    if (epoch.allocations) {
      result_.tracked = true;
      for (const ObjectSite& site : epoch.allocations->sites) sites_[site.id] = site.frames;
      if (is_shown) result_.lost += epoch.allocations->lost;
    }
    map_.See(epoch, is_shown);
    if (!is_shown) return;
    ++result_.epochs;
    last_ = epoch.end;
    for (const Target& target : epoch.targets) result_.pids.insert(target.pid);
    AddTotals(epoch);
  }

  TracedObjects Take(std::string name) {
    map_.Each([&](const TracedObject& object) {
      rows_[object.label].live_bytes += static_cast<double>(object.bytes) * object.weight;
      End(object, last_);
    });
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      TracedObjects::Row& row = rows_[i];
      if (options_.page && !at_page_[i]) continue;
      if (row.objects > 0) row.lifetime = nanoseconds(std::llround(ages_[i] / row.objects));
      const auto site = sites_.find(row_sites_[i]);
      if (site != sites_.end()) row.frames = site->second;
      result_.rows.push_back(std::move(row));
    }
    if (options_.by == ObjectsBy::kType) result_.rows = ByType(std::move(result_.rows));
    std::ranges::stable_sort(result_.rows, [](const auto& a, const auto& b) {
      return std::tuple(b.references + b.samples, b.bytes) <
             std::tuple(a.references + a.samples, a.bytes);
    });
    result_.all_rows = result_.rows.size();
    result_.trace = std::move(name);
    result_.options = options_;
    return std::move(result_);
  }

  bool Follows(const Target& target) override {
    return !options_.pid || target.pid == *options_.pid;
  }

  void Begin(const Target& target, TracedObject& object) override {
    object.label = RowOf(target, object);
    TracedObjects::Row& row = rows_[object.label];
    row.objects += object.weight;
    row.bytes += static_cast<double>(object.bytes) * object.weight;
    row.estimated = row.estimated || object.weight > 1;
  }

  void End(const TracedObject& object, MonotonicTime end) override {
    ages_[object.label] += static_cast<double>((end - object.birth).count()) * object.weight;
  }

  void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
             double share) override {
    if (!IsShown(pages, record)) return;
    if (options_.page && !Holds(object, *options_.page)) return;
    TracedObjects::Row& row = rows_[object.label];
    const double counted = share * object.weight;
    row.references += pages.references[record] * counted;
    row.samples += SamplesOf(pages, record) * counted;
    at_page_[object.label] = true;
  }

 private:
  static bool Holds(const TracedObject& object, Vpn page) {
    return object.start < (page.value() + 1) * kBasePageBytes &&
           object.end() > page.value() * kBasePageBytes;
  }

  bool IsShown(const PageColumns& pages, std::size_t record) const {
    return !options_.page ||
           (pages.vpn[record] <= *options_.page &&
            options_.page->value() < pages.vpn[record].value() + pages.span_pages[record]);
  }

  void AddTotals(const EpochProfile& epoch) {
    const PageColumns& pages = epoch.pages;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto target = std::ranges::lower_bound(epoch.targets, pages.target[i], {}, &Target::id);
      if (!Follows(*target) || !IsShown(pages, i)) continue;
      result_.references += pages.references[i];
      result_.samples += SamplesOf(pages, i);
    }
  }

  std::size_t RowOf(const Target& target, const TracedObject& object) {
    const bool by_object = options_.by == ObjectsBy::kObject;
    if (!by_object) {
      const auto [row, is_new] = row_of_.try_emplace({object.kind, object.site}, rows_.size());
      if (!is_new) return row->second;
    }
    TracedObjects::Row& row = rows_.emplace_back(TracedObjects::Row{.kind = object.kind});
    if (by_object) {
      row.start = object.start;
      row.pid = target.pid;
    }
    row_sites_.push_back(object.site);
    ages_.push_back(0);
    at_page_.push_back(false);
    return rows_.size() - 1;
  }

  TracedObjectsOptions options_;
  ObjectMap map_{*this};
  TracedObjects result_;
  MonotonicTime last_;
  std::map<std::uint32_t, std::vector<SourceFrame>> sites_;
  std::vector<TracedObjects::Row> rows_;
  std::map<std::pair<Kind, std::uint32_t>, std::size_t> row_of_;  // by site
  std::vector<std::uint32_t> row_sites_;
  std::vector<double> ages_;  // ns by row, summed
  std::vector<bool> at_page_;
};

std::string KindName(Kind kind) { return kind == Kind::kAllocated ? "allocated" : "mapped"; }

double ShareOf(double part, double all) { return all > 0 ? part / all : 0; }

std::string Rounded(const TracedObjects::Row& row, double value) {
  return (row.estimated ? "~" : "") + Grouped(static_cast<std::uint64_t>(value + 0.5));
}

}  // namespace

Result<TracedObjects> MakeTracedObjects(const Trace& trace, const TracedObjectsOptions& options) {
  Tally tally(options);
  // What lives in the epochs that are chosen may be older.
  const EpochRange until{.first = 0, .end = options.epochs.end};
  Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { tally.See(epoch); });
  if (!end) return Fail(end.error());
  TracedObjects objects = tally.Take(trace.name);
  objects.end = *std::move(end);
  return objects;
}

std::string TracedObjectsText(const TracedObjects& objects) {
  using enum TextTable::Align;
  std::string text = fmt::format(
      "objects in {} epochs, by references and samples of {}\n", Grouped(objects.epochs),
      objects.options.page ? fmt::format("page {}", Address(*objects.options.page))
                           : "their pages");
  TextTable table({{"references"},
                   {"share"},
                   {"samples"},
                   {"share"},
                   {"bytes"},
                   {"objects"},
                   {"live bytes"},
                   {"lifetime"},
                   {"kind", kLeft},
                   {std::string(NameOf(objects.options.by)), kLeft}});
  for (const TracedObjects::Row& row : objects.rows) {
    std::string what = row.type.empty() ? FramesText(row.frames) : Printable(row.type);
    if (row.start) what = fmt::format("{:#x} {}", *row.start, what);
    table.AddRow({Significant(row.references), Percent(ShareOf(row.references, objects.references)),
                  Significant(row.samples), Percent(ShareOf(row.samples, objects.samples)),
                  FormatBytes(static_cast<std::uint64_t>(row.bytes)), Rounded(row, row.objects),
                  FormatBytes(static_cast<std::uint64_t>(row.live_bytes)),
                  fmt::format("{:.3f} s", Seconds(row.lifetime)), KindName(row.kind),
                  std::move(what)});
  }
  text += table.Text();
  if (objects.rows.size() < objects.all_rows) {
    text += fmt::format("{} of {} rows; --limit 0 shows all\n", Grouped(objects.rows.size()),
                        Grouped(objects.all_rows));
  }
  if (!objects.tracked) {
    text += "note: nobody tracked allocations in this trace; record it with --objects\n";
  }
  if (objects.lost > 0) {
    text += fmt::format(
        "note: {} allocations and frees were lost: what they began or ended is "
        "missing, or lives too long\n",
        Grouped(objects.lost));
  }
  return text;
}

std::string TracedObjectsJson(const TracedObjects& objects) {
  Json rows = Json::array();
  for (const TracedObjects::Row& row : objects.rows) {
    rows.push_back({{"kind", KindName(row.kind)},
                    {"type", row.type.empty() ? Json(nullptr) : Json(row.type)},
                    {"pid", row.pid ? Json(row.pid->value()) : Json(nullptr)},
                    {"start", row.start ? Json(*row.start) : Json(nullptr)},
                    {"references", row.references},
                    {"references_share", ShareOf(row.references, objects.references)},
                    {"samples", row.samples},
                    {"samples_share", ShareOf(row.samples, objects.samples)},
                    {"objects", row.objects},
                    {"bytes", row.bytes},
                    {"live_bytes", row.live_bytes},
                    {"estimated", row.estimated},
                    {"lifetime_s", Seconds(row.lifetime)},
                    {"frames", FramesJson(row.frames)}});
  }
  return JsonText({{"view", "objects"},
                   {"trace", objects.trace},
                   {"by", NameOf(objects.options.by)},
                   {"epochs", objects.epochs},
                   {"tracked", objects.tracked},
                   {"references", objects.references},
                   {"samples", objects.samples},
                   {"lost", objects.lost},
                   {"all_rows", objects.all_rows},
                   {"rows", std::move(rows)}});
}

std::string TracedObjectsCsv(const TracedObjects& objects) {
  std::string csv =
      CsvLine({"kind", "pid", "start", "references", "references_share", "samples", "samples_share",
               "objects", "bytes", "live_bytes", "estimated", "lifetime_s", "what"});
  for (const TracedObjects::Row& row : objects.rows) {
    csv += CsvLine({KindName(row.kind), row.pid ? fmt::format("{}", row.pid->value()) : "",
                    row.start ? fmt::format("{:#x}", *row.start) : "", Exact(row.references),
                    Exact(ShareOf(row.references, objects.references)), Exact(row.samples),
                    Exact(ShareOf(row.samples, objects.samples)), Exact(row.objects),
                    Exact(row.bytes), Exact(row.live_bytes), row.estimated ? "true" : "false",
                    Exact(Seconds(row.lifetime)),
                    row.type.empty() ? FramesText(row.frames, row.frames.size()) : row.type});
  }
  return csv;
}

std::string TracedObjectsFolded(const TracedObjects& objects) {
  // Stacks that differ in lines alone are one.
  std::map<std::string, double> stacks;
  for (const TracedObjects::Row& row : objects.rows) {
    const std::string what = row.type.empty() ? FoldedFrames(row.frames) : Printable(row.type);
    stacks[KindName(row.kind) + ";" + what] += row.references + row.samples;
  }
  std::string text;
  for (const auto& [stack, heat] : stacks) {
    if (heat >= 0.5) text += fmt::format("{} {}\n", stack, std::llround(heat));
  }
  return text;
}

void LimitRows(TracedObjects& objects, std::size_t rows) {
  if (rows < objects.rows.size()) objects.rows.resize(rows);
}

}  // namespace tmprof
