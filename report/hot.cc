// SPDX-License-Identifier: Apache-2.0

#include "report/hot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/human_units.h"
#include "report/format.h"
#include "report/object_map.h"
#include "report/objects.h"

namespace tmprof {
namespace {

// Gives each row the mapping and the object that held it in the latest epoch that has one.
class Holders : public ObjectMap::Visitor {
 public:
  explicit Holders(HotList& list) : list_(list) {}

  void See(const EpochProfile& epoch) {
    if (epoch.allocations) {
      list_.has_objects = true;
      for (const ObjectSite& site : epoch.allocations->sites) sites_[site.id] = site;
    }
    map_.See(epoch, false);
  }

  bool Follows(const Target& target) override {
    return std::ranges::any_of(list_.rows,
                               [&](const HotList::Row& row) { return row.target.id == target.id; });
  }
  void Begin(const Target& /*target*/, TracedObject& /*object*/) override {}
  void End(const TracedObject& /*object*/, MonotonicTime /*end*/) override {}
  void Share(const PageColumns& /*pages*/, std::size_t /*record*/, const TracedObject& /*object*/,
             double /*share*/) override {}
  void EndEpoch(const EpochProfile& epoch) override {
    if (!list_.options.epochs.Contains(epoch.index)) return;
    for (HotList::Row& row : list_.rows) {
      const auto target = std::ranges::lower_bound(epoch.targets, row.target.id, {}, &Target::id);
      if (target == epoch.targets.end() || target->id != row.target.id) continue;
      if (const Mapping* mapping = FindMapping(*target, row.start)) row.mapping = *mapping;
      const std::uint64_t start = row.start.value() * kBasePageBytes;
      const TracedObject* object =
          map_.Largest(target->id, start, start + row.span.value() * kBasePageBytes);
      if (object == nullptr) continue;
      row.object = HotObject{
          .start = object->start, .bytes = object->bytes, .kind = object->kind, .site = {}};
      if (const auto site = sites_.find(object->site); site != sites_.end()) {
        row.object->site = site->second;
      }
    }
  }

 private:
  HotList& list_;
  ObjectMap map_{*this};
  std::map<std::uint32_t, ObjectSite> sites_;
};

// Where the pages are of which objects that have an address had a part.
class PagesOfObject : public ObjectMap::Visitor {
 public:
  PagesOfObject(const TraceTotals& totals, const HotOptions& options)
      : totals_(totals), options_(options) {}

  void See(const EpochProfile& epoch) { map_.See(epoch, options_.epochs.Contains(epoch.index)); }

  bool Has(const PageKey& key, PageCount span) const {
    return std::ranges::any_of(ranges_, [&](const Range& range) {
      return range.target == key.target &&
             range.start < (key.vpn + span).value() * kBasePageBytes &&
             range.end > key.vpn.value() * kBasePageBytes;
    });
  }
  bool has_any() const { return !ranges_.empty(); }

  bool Follows(const Target& target) override { return totals_.IsOf(target.id, options_.pid); }
  void Begin(const Target& /*target*/, TracedObject& /*object*/) override {}
  void End(const TracedObject& /*object*/, MonotonicTime /*end*/) override {}
  void Share(const PageColumns& /*pages*/, std::size_t /*record*/, const TracedObject& object,
             double /*share*/) override {
    if (object.start <= *options_.object && *options_.object < object.end()) {
      ranges_.insert({.target = object.target, .start = object.start, .end = object.end()});
    }
  }

 private:
  struct Range {
    TargetId target;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    auto operator<=>(const Range&) const = default;
  };

  const TraceTotals& totals_;
  const HotOptions& options_;
  std::set<Range> ranges_;
  ObjectMap map_{*this};
};

Status FindPages(const Trace& trace, PagesOfObject& pages, const HotOptions& options) {
  // What has the address in the epochs that are chosen may be older.
  const EpochRange until{.first = 0, .end = options.epochs.end};
  const Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { pages.See(epoch); });
  if (!end) return Fail(end.error());
  if (pages.has_any()) return {};
  return Fail(
      BadInput("show object", fmt::format("{:#x}", *options.object),
               "nothing is known to have been allocated there that had pages in these epochs",
               "'--view objects --by object' lists what was"));
}

Status FindHolders(const Trace& trace, HotList& list) {
  Holders holders(list);
  // What holds a page in the epochs that are chosen may be older.
  const EpochRange until{.first = 0, .end = list.options.epochs.end};
  const Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { holders.See(epoch); });
  if (!end) return Fail(end.error());
  return {};
}

std::string Count(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

std::string Samples(const HotList::Row& row) {
  return fmt::format("{}+{}", Count(row.load_samples), Count(row.store_samples));
}

// "64 KiB by make (a.c:7) < main (a.c:30)", "8 KiB variable table of program"
std::string ObjectText(const HotList::Row& row, std::size_t frames = 2) {
  if (!row.object) return "unknown";
  const TracedKind kind = row.object->kind;
  const bool was_allocated = kind == TracedKind::kAllocated || kind == TracedKind::kMapped;
  return fmt::format("{} {} {}", FormatBytes(row.object->bytes),
                     was_allocated ? "by" : NameOf(kind), SiteText(kind, row.object->site, frames));
}

Json ObjectJson(const HotList::Row& row) {
  if (!row.object) return nullptr;
  return {{"start", row.object->start},
          {"bytes", row.object->bytes},
          {"kind", NameOf(row.object->kind)},
          {"name", row.object->site.name.empty() ? Json(nullptr) : Json(row.object->site.name)},
          {"frames", FramesJson(row.object->site.frames)}};
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

  PagesOfObject pages(list.totals, list.options);
  if (options.object) {
    if (Status found = FindPages(trace, pages, list.options); !found) return Fail(found.error());
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!list.totals.IsOf(table.key[i].target, options.pid)) continue;
    if (scores[i] <= 0) continue;
    if (options.object && !pages.Has(table.key[i], PageCount(table.span_pages[i]))) continue;
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
  if (const Status found = FindHolders(trace, list); !found) return Fail(found.error());
  return list;
}

std::string HotText(const HotList& list) {
  using enum TextTable::Align;
  std::vector<TextTable::Column> columns{{"rank"}, {"pid"},           {"target", kLeft}, {"start"},
                                         {"span"}, {"references"},    {"loads+stores"},  {"score"},
                                         {"+-"},   {"mapping", kLeft}};
  if (list.has_objects) columns.push_back({"object", kLeft});
  TextTable table(std::move(columns));
  for (const HotList::Row& row : list.rows) {
    std::vector<std::string> cells{fmt::format("{}", row.rank),
                                   fmt::format("{}", row.target.pid.value()),
                                   Printable(row.target.name),
                                   Address(row.start),
                                   HumanSize(row.span),
                                   OrUnknown(row.references, Count),
                                   Samples(row),
                                   Significant(row.score),
                                   Percent(row.relative_sd),
                                   row.mapping ? Printable(Describe(*row.mapping)) : "unknown"};
    if (list.has_objects) cells.push_back(ObjectText(row));
    table.AddRow(std::move(cells));
  }
  std::string text = fmt::format(
      "hottest spans{} by {}; score: {} over {} epochs\n",
      list.options.object ? fmt::format(" of the object at {:#x}", *list.options.object) : "",
      Name(list.options.by), ScoreUnit(list.totals, list.options.model, list.options.by),
      Grouped(list.totals.epochs));
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
                    {"mapping", std::move(mapping)},
                    {"object", ObjectJson(row)}});
  }
  return JsonText(
      WithEnd({{"view", "hot"},
               {"trace", list.totals.trace},
               {"epochs", list.totals.epochs},
               {"by", Name(list.options.by)},
               {"model", Name(list.options.model)},
               {"score_unit", ScoreUnit(list.totals, list.options.model, list.options.by)},
               {"spans", list.spans},
               {"total_score", list.total_score},
               {"shown_share", OrNull(list.shown_share)},
               {"notes", Caveats(list.totals, list.options.by)},
               {"rows", std::move(rows)}},
              list.totals.end, list.totals.lost_epochs));
}

std::string HotCsv(const HotList& list) {
  std::string csv = CsvLine({"rank", "target", "pid", "name", "start", "span", "references",
                             "samples", "load_samples", "store_samples", "score", "relative_sd",
                             "mapping", "mapping_kind", "mapping_path", "object"});
  for (const HotList::Row& row : list.rows) {
    csv += CsvLine({fmt::format("{}", row.rank), fmt::format("{}", row.target.id.value()),
                    fmt::format("{}", row.target.pid.value()), row.target.name, Address(row.start),
                    fmt::format("{}", row.span.value()), OrEmpty(row.references, Exact),
                    Exact(row.load_samples + row.store_samples), Exact(row.load_samples),
                    Exact(row.store_samples), Exact(row.score), Exact(row.relative_sd),
                    row.mapping ? Describe(*row.mapping) : "",
                    row.mapping ? std::string(Name(row.mapping->kind)) : "",
                    row.mapping ? row.mapping->path : "",
                    row.object ? ObjectText(row, row.object->site.frames.size()) : ""});
  }
  return csv;
}

}  // namespace tmprof
