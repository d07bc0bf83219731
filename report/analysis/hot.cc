// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hot.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/text/human_units.h"

namespace tmprof {
namespace {

// Gives each row the mapping and the object that held it in the latest epoch that has one. An epoch
// lists only what is new in it.
class Holders {
 public:
  explicit Holders(HotList& list) : list_(list), object_of_(list.rows.size()) {
    for (std::size_t i = 0; i < list.rows.size(); ++i) {
      rows_of_[list.rows[i].target.id].push_back(i);
    }
    for (auto& [target, rows] : rows_of_) {
      std::ranges::sort(rows, {}, [&list](std::size_t row) { return list.rows[row].start; });
    }
    if (list.options.annotator == nullptr) return;
    reading_ = list.options.annotator->Read(
        [this](const Target& target) { return rows_of_.contains(target.id); },
        [this](const EpochProfile& epoch) { EndEpoch(epoch); });
  }

  void See(const EpochProfile& epoch) {
    if (reading_ == nullptr) {
      list_.has_unnamed_objects = list_.has_unnamed_objects || epoch.extension;
      return EndEpoch(epoch);
    }
    reading_->See(epoch);
    list_.has_objects = reading_->tracked();
  }

  // Precondition: all epochs were seen.
  void NameObjects() {
    for (std::size_t i = 0; i < object_of_.size(); ++i) {
      if (object_of_[i]) list_.rows[i].object = reading_->Describe(*object_of_[i]);
    }
  }

 private:
  void EndEpoch(const EpochProfile& epoch) {
    if (!list_.options.epochs.Contains(epoch.index)) return;
    for (const Target& target : epoch.targets) {
      const auto rows = rows_of_.find(target.id);
      if (rows == rows_of_.end()) continue;
      for (const std::size_t row : rows->second) FindHolder(target, row);
    }
  }

  void FindHolder(const Target& target, std::size_t at) {
    HotList::Row& row = list_.rows[at];
    const Mapping* mapping = FindMapping(target, row.start);
    if (mapping != nullptr && row.mapping != *mapping) row.mapping = *mapping;
    if (reading_ == nullptr) return;
    const std::uint64_t start = AddressOf(row.start);
    const auto object =
        reading_->Largest(target.id, start, start + row.span.value() * kBasePageBytes);
    if (object) object_of_[at] = object;
  }

  HotList& list_;
  std::unique_ptr<ObjectReading> reading_;  // null: nobody names objects
  std::map<TargetId, std::vector<std::size_t>> rows_of_;
  std::vector<std::optional<AnnotatedObject>> object_of_;  // one per row
};

// Returns the addresses of the objects that HotOptions::object chooses.
Result<std::set<ObjectRange>> ChosenRanges(const Trace& trace, const TraceTotals& totals,
                                           const HotOptions& options) {
  const std::string address = fmt::format("{:#x}", *options.object);
  if (options.annotator == nullptr) {
    return Fail(BadInput("show object", address, "nobody names the objects of this trace"));
  }
  Result<std::set<ObjectRange>> ranges = options.annotator->RangesAt(
      *options.object, trace, options.epochs,
      [&](const Target& target) { return totals.IsOf(target.id, options.pid); });
  if (ranges && ranges->empty()) {
    return Fail(
        BadInput("show object", address,
                 "nothing is known to have been allocated there that had pages in these epochs",
                 "'--view objects --by object' lists what was"));
  }
  return ranges;
}

bool HasAny(const std::set<ObjectRange>& ranges, const PageKey& key, PageCount span) {
  return std::ranges::any_of(ranges, [&](const ObjectRange& range) {
    return range.target == key.target && range.start < (key.vpn + span).value() * kBasePageBytes &&
           range.end > key.vpn.value() * kBasePageBytes;
  });
}

Status FindHolders(const Trace& trace, HotList& list) {
  Holders holders(list);
  // The holder of a page in the chosen epochs may be older.
  const EpochRange until{.first = 0, .end = list.options.epochs.end};
  const Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { holders.See(epoch); });
  if (!end) return Fail(end.error());
  holders.NameObjects();
  return {};
}

HotList::Row RowOf(const ScoredRows& scored, std::size_t span, const HotList& list) {
  const bool has_samples = list.totals.Delivered(SourceRole::kSamples);
  HotList::Row row{.target = {}, .start = {}, .span = scored.PagesOf(span)};
  ScoreSum sum(list.options);
  scored.ForEachRow(span, [&](std::size_t at, double part, Vpn start) {
    const Evidence& evidence = scored.table().evidence[at];
    const double score = part * scored.estimates.score[at];
    sum.Add(score, scored.RelativeSdWithin(span, at));
    row.mappers.push_back(
        {.target = list.totals.TargetOf(scored.Key(at).target), .start = start, .score = score});
    if (evidence.looks > 0)
      row.references = row.references.value_or(0) + part * evidence.references;
    if (has_samples || evidence.samples() > 0) {
      row.load_samples = row.load_samples.value_or(0) + part * evidence.load_samples;
      row.store_samples = row.store_samples.value_or(0) + part * evidence.store_samples;
    }
  });
  std::ranges::stable_sort(row.mappers, std::greater{}, &HotList::Mapper::score);
  row.target = row.mappers.front().target;
  row.start = row.mappers.front().start;
  if (row.mappers.size() == 1) row.mappers.clear();
  row.score = sum.score();
  row.relative_sd = sum.RelativeSd();
  row.interval = IntervalOf(row.score, row.relative_sd);
  return row;
}

std::vector<std::string> NotesOf(const HotList& list) {
  std::vector<std::string> notes = Caveats(list.totals, *list.options.by);
  if (list.has_unnamed_objects) {
    notes.emplace_back(
        "the trace tells of objects, which only a build with component objects shows");
  }
  return notes;
}

std::string Count(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

std::string Samples(const HotList::Row& row) {
  if (!row.load_samples || !row.store_samples) return "unknown";
  return fmt::format("{}+{}", Count(*row.load_samples), Count(*row.store_samples));
}

std::optional<double> SamplesSum(const HotList::Row& row) {
  if (!row.load_samples || !row.store_samples) return std::nullopt;
  return *row.load_samples + *row.store_samples;
}

// Counts processes, because a process may map a span several times.
std::size_t ProcessesOf(const HotList::Row& row) {
  std::set<TargetId> processes{row.target.id};
  for (const HotList::Mapper& mapper : row.mappers) processes.insert(mapper.target.id);
  return processes.size();
}

// Returns "12", or "12 +3" for a span that three more processes map.
std::string PidText(const HotList::Row& row) {
  const std::size_t others = ProcessesOf(row) - 1;
  return others == 0 ? fmt::format("{}", row.target.pid.value())
                     : fmt::format("{} +{}", row.target.pid.value(), others);
}

Json MappersJson(const HotList::Row& row) {
  Json mappers = Json::array();
  for (const HotList::Mapper& mapper : row.mappers) {
    mappers.push_back({{"target", mapper.target.id.value()},
                       {"pid", mapper.target.pid.value()},
                       {"name", mapper.target.name},
                       {"start", Address(mapper.start)},
                       {"score", mapper.score}});
  }
  return mappers;
}

}  // namespace

Result<ScoredRows> ScoreRows(const Trace& trace, const HotOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
  if (!whole) return Fail(std::move(whole.error()));
  if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "list hot pages");
      !chosen) {
    return Fail(std::move(chosen.error()));
  }
  const RankSource by = whole->totals.basis.source;
  Estimates estimates = whole->ranker.Estimate(by);
  PageSpans page_spans(whole->ranker.table(), whole->ranker.shared_pages());
  ScoredRows scored{.whole = std::move(*whole),
                    .estimates = std::move(estimates),
                    .options = options,
                    .rows = {},
                    .page_spans = std::move(page_spans)};
  scored.options.by = by;
  std::set<ObjectRange> ranges;
  if (options.object) {
    auto chosen = ChosenRanges(trace, scored.whole.totals, scored.options);
    if (!chosen) return Fail(std::move(chosen.error()));
    ranges = *std::move(chosen);
  }
  for (std::size_t i = 0; i < scored.estimates.score.size(); ++i) {
    if (!scored.whole.totals.IsOf(scored.Key(i).target, options.pid)) continue;
    if (scored.estimates.score[i] <= 0) continue;
    if (options.object && !HasAny(ranges, scored.Key(i), scored.Span(i))) continue;
    scored.rows.push_back(i);
    scored.total_score += scored.estimates.score[i];
  }
  scored.page_spans.ForEach(scored.rows, [&scored](std::size_t span) {
    scored.spans.push_back(span);
    scored.pages += scored.PagesOf(span);
  });
  return scored;
}

Result<HotList> MakeHotList(const Trace& trace, const HotOptions& options) {
  Result<ScoredRows> scored = ScoreRows(trace, options);
  if (!scored) return Fail(std::move(scored.error()));
  HotList list{.totals = scored->whole.totals,
               .options = scored->options,
               .spans = scored->spans.size(),
               .pages = scored->pages,
               .total_score = scored->total_score};
  struct Span {
    std::size_t number;
    PageKey first;
    double low_of_page;
  };
  std::vector<Span> order;
  order.reserve(scored->spans.size());
  for (const std::size_t number : scored->spans) {
    Span& span = order.emplace_back(Span{.number = number, .first = {}, .low_of_page = 0});
    ScoreSum sum(list.options);
    scored->ForEachRow(number, [&](std::size_t row, double part, Vpn start) {
      if (sum.score() == 0) span.first = {scored->Key(row).target, start};
      sum.Add(part * scored->estimates.score[row], scored->RelativeSdWithin(number, row));
    });
    span.low_of_page = IntervalOf(sum.score(), sum.RelativeSd()).low /
                       static_cast<double>(scored->PagesOf(number).value());
  }
  const std::size_t shown = std::min(order.size(), options.limit.value_or(order.size()));
  const auto hotter = [](const Span& a, const Span& b) {
    return a.low_of_page != b.low_of_page ? a.low_of_page > b.low_of_page : a.first < b.first;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown), hotter);

  double shown_score = 0;
  for (std::size_t n = 0; n < shown; ++n) {
    HotList::Row row = RowOf(*scored, order[n].number, list);
    row.rank = n + 1;
    shown_score += row.score;
    list.rows.push_back(std::move(row));
  }
  if (list.total_score > 0) list.shown_share = shown_score / list.total_score;
  if (const Status found = FindHolders(trace, list); !found) return Fail(found.error());
  return list;
}

std::string HotText(const HotList& list, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  const std::string unit = ScoreUnit(list.totals, list.options.model, *list.options.by);
  std::vector<double> numbers;
  bool has_references = false;
  bool has_samples = false;
  for (const HotList::Row& row : list.rows) {
    numbers.insert(numbers.end(), {row.score, row.interval.low, row.interval.high});
    has_references |= row.references.has_value();
    has_samples |= row.load_samples.has_value();
  }
  const ColumnScale scale(numbers);
  const bool has_error = !IsExact(*list.options.by);
  std::vector<TextTable::Column> columns{{"rank", kRight, kThird},
                                         {"pid", kRight, kFirst},
                                         {"target", kLeft, kThird},
                                         {"start", kRight, kKey},
                                         {"span", kRight, kKey}};
  if (has_references) columns.push_back({"references", kRight, kThird});
  if (has_samples) columns.push_back({"samples (loads+stores)", kRight, kThird});
  columns.push_back({scale.Title(unit), kRight, kKey});
  if (has_error) columns.insert(columns.end(), {{"at least"}, {.title = "at most", .joins = true}});
  columns.push_back({"mapping", kLeft, kFirst});
  if (list.has_objects) columns.push_back({"object", kLeft, kFirst});
  TextTable table(std::move(columns));
  for (const HotList::Row& row : list.rows) {
    std::vector<std::string> cells{fmt::format("{}", row.rank), PidText(row),
                                   Printable(row.target.name), Address(row.start),
                                   HumanSize(row.span)};
    if (has_references) cells.push_back(OrUnknown(row.references, Count));
    if (has_samples) cells.push_back(Samples(row));
    cells.push_back(scale(row.score));
    if (has_error) cells.insert(cells.end(), {scale(row.interval.low), scale(row.interval.high)});
    cells.push_back(row.mapping ? Printable(Describe(*row.mapping)) : "unknown");
    if (list.has_objects) cells.push_back(row.object ? row.object->text : "unknown");
    table.AddRow(std::move(cells));
  }
  std::string text = fmt::format(
      "hottest spans{} by {} over {}{}\n",
      list.options.object ? fmt::format(" of the object at {:#x}", *list.options.object) : "",
      TextOf(list.totals.basis), CountText(list.totals.epochs, "epoch"),
      has_error ? "; ordered by the lower end of the 90 % interval, per page" : "");
  text += table.Text(width);
  text += fmt::format("{} of {} shown, holding {} of the {}; {} in all\n",
                      Grouped(list.rows.size()), CountText(list.spans, "span"),
                      OrUnknown(list.shown_share, Percent), unit, CountText(list.pages));
  for (const std::string& note : NotesOf(list)) text += "note: " + note + "\n";
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
                    {"samples", OrNull(SamplesSum(row))},
                    {"load_samples", OrNull(row.load_samples)},
                    {"store_samples", OrNull(row.store_samples)},
                    {"score", row.score},
                    {"relative_sd", row.relative_sd},
                    {"score_low", row.interval.low},
                    {"score_high", row.interval.high},
                    {"mappers", MappersJson(row)},
                    {"mapping", std::move(mapping)},
                    {"object", row.object ? row.object->json : Json(nullptr)}});
  }
  return JsonText(
      WithEnd({{"view", "hot"},
               {"trace", list.totals.trace},
               {"epochs", list.totals.epochs},
               {"by", Name(*list.options.by)},
               {"rank_weight", Name(list.totals.basis.weight)},
               {"model", Name(list.options.model)},
               {"score_unit", ScoreUnit(list.totals, list.options.model, *list.options.by)},
               {"spans", list.spans},
               {"pages", list.pages.value()},
               {"total_score", list.total_score},
               {"shown_share", OrNull(list.shown_share)},
               {"notes", NotesOf(list)},
               {"rows", std::move(rows)}},
              list.totals.end, list.totals.lost_epochs));
}

std::string HotCsv(const HotList& list) {
  std::string csv =
      CsvLine({"rank", "target", "pid", "name", "start", "span", "references", "samples",
               "load_samples", "store_samples", "score", "relative_sd", "mapping", "mapping_kind",
               "mapping_path", "object", "score_low", "score_high", "mappers"});
  for (const HotList::Row& row : list.rows) {
    csv += CsvLine({fmt::format("{}", row.rank), fmt::format("{}", row.target.id.value()),
                    fmt::format("{}", row.target.pid.value()), row.target.name, Address(row.start),
                    fmt::format("{}", row.span.value()), OrEmpty(row.references, Exact),
                    OrEmpty(SamplesSum(row), Exact), OrEmpty(row.load_samples, Exact),
                    OrEmpty(row.store_samples, Exact), Exact(row.score), Exact(row.relative_sd),
                    row.mapping ? Describe(*row.mapping) : "",
                    row.mapping ? std::string(Name(row.mapping->kind)) : "",
                    row.mapping ? row.mapping->path : "", row.object ? row.object->full_text : "",
                    Exact(row.interval.low), Exact(row.interval.high),
                    fmt::format("{}", ProcessesOf(row))});
  }
  return csv;
}

}  // namespace tmprof
