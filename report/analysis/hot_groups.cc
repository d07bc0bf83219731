// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hot_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/text/human_units.h"

namespace tmprof {
namespace {

constexpr std::array kGroups{std::pair(std::string_view("mapping"), HotGroup::kMapping),
                             std::pair(std::string_view("process"), HotGroup::kProcess),
                             std::pair(std::string_view("object"), HotGroup::kObject),
                             std::pair(std::string_view("file"), HotGroup::kFile)};

// Pages with the same key are one group; an unset field is the same for all.
struct GroupKey {
  std::optional<TargetId> target;
  std::optional<std::uint64_t> start;
  std::string what;
  auto operator<=>(const GroupKey&) const = default;
};

// Finds the group of each row, from the latest epoch that has one.
class GroupsOfRows {
 public:
  GroupsOfRows(const ScoredRows& scored, HotGroup group)
      : scored_(scored), group_(group), group_of_(scored.rows.size(), NumberOf({})) {
    if (group == HotGroup::kObject) {
      reading_ = scored.options.annotator->Read([](const Target&) { return true; },
                                                [this](const EpochProfile& e) { EndEpoch(e); });
    }
    if (group != HotGroup::kProcess) return;
    for (std::size_t i = 0; i < scored.rows.size(); ++i) {
      group_of_[i] = NumberOf({.target = scored.Key(scored.rows[i]).target, .what = "process"});
    }
  }

  void See(const EpochProfile& epoch) {
    if (reading_ == nullptr) return EndEpoch(epoch);
    reading_->See(epoch);
  }

  const std::vector<std::size_t>& group_of() const { return group_of_; }
  // Returns the keys by their number.
  std::vector<GroupKey> Keys() const {
    std::vector<GroupKey> keys(numbers_.size());
    for (const auto& [key, number] : numbers_) keys[number] = key;
    return keys;
  }

 private:
  void EndEpoch(const EpochProfile& epoch) {
    if (!scored_.options.epochs.Contains(epoch.index) || group_ == HotGroup::kProcess) return;
    std::size_t row = 0;  // both ascend
    for (const Target& target : epoch.targets) {
      while (row < scored_.rows.size() && KeyOf(row).target < target.id) ++row;
      std::size_t end = row;
      while (end < scored_.rows.size() && KeyOf(end).target == target.id) ++end;
      if (group_ == HotGroup::kObject) {
        FindObjects(row, end);
      } else {
        FindMappings(target, row, end);
      }
      row = end;
    }
  }

  PageKey KeyOf(std::size_t row) const { return scored_.Key(scored_.rows[row]); }

  std::size_t NumberOf(GroupKey key) {
    return numbers_.try_emplace(std::move(key), numbers_.size()).first->second;
  }

  void FindMappings(const Target& target, std::size_t row, std::size_t end) {
    for (const Mapping& mapping : target.mappings) {
      while (row < end && KeyOf(row).vpn < mapping.range.start) ++row;
      if (row == end) return;
      if (KeyOf(row).vpn >= mapping.range.end) continue;
      GroupKey key{
          .target = target.id, .start = AddressOf(mapping.range.start), .what = Describe(mapping)};
      if (group_ == HotGroup::kFile) key = {.what = std::move(key.what)};
      const std::size_t number = NumberOf(std::move(key));
      for (; row < end && KeyOf(row).vpn < mapping.range.end; ++row) group_of_[row] = number;
    }
  }

  void FindObjects(std::size_t row, std::size_t end) {
    for (; row < end; ++row) {
      const PageKey key = KeyOf(row);
      const std::uint64_t start = AddressOf(key.vpn);
      const std::uint64_t bytes = scored_.Span(scored_.rows[row]).value() * kBasePageBytes;
      const auto object = reading_->Largest(key.target, start, start + bytes);
      if (object) group_of_[row] = NumberOf(key.target, *object);
    }
  }

  // Spells an object once, however many pages and epochs it has.
  std::size_t NumberOf(TargetId target, const AnnotatedObject& object) {
    if (std::exchange(namings_, reading_->namings()) != reading_->namings()) number_of_.clear();
    const auto [known, is_new] = number_of_.try_emplace({target, object});
    if (is_new) {
      known->second =
          NumberOf({.target = target, .start = object.start, .what = reading_->Text(object)});
    }
    return known->second;
  }

  const ScoredRows& scored_;
  HotGroup group_;
  std::map<GroupKey, std::size_t> numbers_;
  std::vector<std::size_t> group_of_;       // index: position in ScoredRows::rows
  std::unique_ptr<ObjectReading> reading_;  // only for objects
  std::size_t namings_ = 0;
  std::map<std::pair<TargetId, AnnotatedObject>, std::size_t> number_of_;  // by these names
};

std::string Plural(HotGroup group) {
  return group == HotGroup::kProcess ? "processes" : fmt::format("{}s", Name(group));
}

std::string ShownOf(const HotGroups& groups) {
  const std::string name(groups.groups == 1 ? Name(groups.group) : Plural(groups.group));
  return fmt::format("{} of {} {}", Grouped(groups.rows.size()), Grouped(groups.groups), name);
}

std::string StartText(const HotGroups::Row& row) {
  return row.start ? fmt::format("{:#x}", *row.start) : "";
}

std::string WhatText(const HotGroups::Row& row) {
  return row.what.empty() ? "unknown" : Printable(row.what);
}

bool ErrTogether(const HotGroups& groups) {
  return IsEstimated(groups.options.model, *groups.options.by);
}

}  // namespace

std::string_view Name(HotGroup group) {
  return std::ranges::find(kGroups, group, [](const auto& entry) { return entry.second; })->first;
}

Result<HotGroup> ParseHotGroup(std::string_view text) {
  const auto* found =
      std::ranges::find(kGroups, text, [](const auto& entry) { return entry.first; });
  if (found != kGroups.end()) return found->second;
  return Fail(BadInput("sum up hot pages by", std::string(text), "no such group",
                       "use mapping, process, object or file"));
}

Result<HotGroups> MakeHotGroups(const Trace& trace, const HotOptions& options, HotGroup group) {
  if (group == HotGroup::kObject && options.annotator == nullptr) {
    return Fail(BadInput("sum up hot pages by", std::string(Name(group)),
                         "nobody names the objects of this trace"));
  }
  const Result<ScoredRows> scored = ScoreRows(trace, options);
  if (!scored) return Fail(scored.error());
  GroupsOfRows finder(*scored, group);
  // A mapping that holds a page in the chosen epochs may be of an epoch before.
  const EpochRange until{.first = 0, .end = options.epochs.end};
  const Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { finder.See(epoch); });
  if (!end) return Fail(end.error());

  HotGroups groups{.totals = scored->whole.totals,
                   .options = scored->options,
                   .group = group,
                   .spans = scored->rows.size(),
                   .pages = scored->pages,
                   .total_score = scored->total_score};
  for (const GroupKey& key : finder.Keys()) {
    HotGroups::Row& row = groups.rows.emplace_back();
    if (key.target) row.target = groups.totals.TargetOf(*key.target);
    row.start = key.start;
    row.what = key.what;
  }
  std::vector<ScoreSum> sums(groups.rows.size(), ScoreSum(groups.options));
  std::vector<std::size_t> of_span;
  std::size_t at = 0;  // index in the rows of unshared pages, which ascend
  for (const std::size_t span : scored->spans) {
    of_span.clear();
    scored->ForEachRow(span, [&](std::size_t row, double part, Vpn) {
      if (!scored->IsShared(span)) {
        while (scored->rows[at] < row) ++at;
      } else {
        at = static_cast<std::size_t>(std::ranges::lower_bound(scored->rows, row) -
                                      scored->rows.begin());
      }
      const std::size_t of = finder.group_of()[at];
      sums[of].Add(part * scored->estimates.score[row], scored->estimates.relative_sd[row]);
      // A group may have several mappers of a span.
      if (std::ranges::find(of_span, of) != of_span.end()) return;
      of_span.push_back(of);
      groups.rows[of].pages += scored->PagesOf(span);
      ++groups.rows[of].spans;
    });
  }
  for (std::size_t i = 0; i < groups.rows.size(); ++i) {
    HotGroups::Row& row = groups.rows[i];
    if (row.spans == 0) continue;
    row.score = sums[i].score();
    row.relative_sd = sums[i].RelativeSd();
    row.interval = IntervalOf(row.score, row.relative_sd);
    row.share = row.score / groups.total_score;
  }
  std::erase_if(groups.rows, [](const HotGroups::Row& row) { return row.spans == 0; });
  std::ranges::stable_sort(groups.rows, std::greater{},
                           [](const HotGroups::Row& row) { return row.interval.low; });
  groups.groups = groups.rows.size();
  if (options.limit && *options.limit < groups.rows.size()) groups.rows.resize(*options.limit);
  return groups;
}

std::string HotGroupsText(const HotGroups& groups, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  const std::string unit = ScoreUnit(groups.totals, groups.options.model, *groups.options.by);
  const bool of_targets = groups.group != HotGroup::kFile;
  const bool of_addresses = of_targets && groups.group != HotGroup::kProcess;
  std::vector<double> numbers;
  double shown = 0;
  for (const HotGroups::Row& row : groups.rows) {
    numbers.insert(numbers.end(), {row.score, row.interval.low, row.interval.high});
    shown += row.share;
  }
  const ColumnScale scale(numbers);
  const bool has_error = !IsExact(*groups.options.by);
  std::vector<TextTable::Column> columns;
  if (of_targets) columns.insert(columns.end(), {{"pid", kRight, kKey}, {"target", kLeft, kKey}});
  if (of_addresses) columns.push_back({"start", kRight, kThird});
  columns.insert(columns.end(), {{"pages"}, {scale.Title(unit), kRight, kKey}});
  if (has_error)
    columns.insert(columns.end(),
                   {{"at least", kRight, kThird}, {.title = "at most", .joins = true}});
  columns.push_back({"share"});
  if (groups.group != HotGroup::kProcess) {
    columns.push_back({std::string(Name(groups.group)), kLeft, kKey});
  }
  TextTable table(std::move(columns));
  for (const HotGroups::Row& row : groups.rows) {
    std::vector<std::string> cells;
    if (of_targets) {
      cells.push_back(row.target ? fmt::format("{}", row.target->pid.value()) : "");
      cells.push_back(row.target ? Printable(row.target->name) : "unknown");
    }
    if (of_addresses) cells.push_back(StartText(row));
    cells.insert(cells.end(), {Grouped(row.pages.value()), scale(row.score)});
    if (has_error) cells.insert(cells.end(), {scale(row.interval.low), scale(row.interval.high)});
    cells.push_back(Percent(row.share));
    if (groups.group != HotGroup::kProcess) cells.push_back(WhatText(row));
    table.AddRow(std::move(cells));
  }
  std::string text = fmt::format(
      "hot {} by {} over {}{}\n", Plural(groups.group), TextOf(groups.totals.basis),
      CountText(groups.totals.epochs, "epoch"),
      !has_error            ? ""
      : ErrTogether(groups) ? "; at least, at most: 90 % interval if all pages err the same way"
                            : "; at least, at most: 90 % interval");
  text += table.Text(width);
  text += fmt::format("{} shown, holding {} of the {}; {} in all\n", ShownOf(groups),
                      groups.total_score > 0 ? Percent(std::min(1.0, shown)) : "unknown", unit,
                      CountText(groups.pages));
  for (const std::string& caveat : Caveats(groups.totals, *groups.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string HotGroupsJson(const HotGroups& groups) {
  Json rows = Json::array();
  for (const HotGroups::Row& row : groups.rows) {
    rows.push_back({{"target", row.target ? Json(row.target->id.value()) : Json(nullptr)},
                    {"pid", row.target ? Json(row.target->pid.value()) : Json(nullptr)},
                    {"name", row.target ? Json(row.target->name) : Json(nullptr)},
                    {"start", row.start ? Json(StartText(row)) : Json(nullptr)},
                    {"what", row.what.empty() ? Json(nullptr) : Json(row.what)},
                    {"spans", row.spans},
                    {"pages", row.pages.value()},
                    {"score", row.score},
                    {"relative_sd", row.relative_sd},
                    {"score_low", row.interval.low},
                    {"score_high", row.interval.high},
                    {"share", row.share}});
  }
  return JsonText(
      WithEnd({{"view", "hot"},
               {"group", Name(groups.group)},
               {"trace", groups.totals.trace},
               {"epochs", groups.totals.epochs},
               {"by", Name(*groups.options.by)},
               {"rank_weight", Name(groups.totals.basis.weight)},
               {"model", Name(groups.options.model)},
               {"score_unit", ScoreUnit(groups.totals, groups.options.model, *groups.options.by)},
               {"groups", groups.groups},
               {"spans", groups.spans},
               {"pages", groups.pages.value()},
               {"total_score", groups.total_score},
               {"notes", Caveats(groups.totals, *groups.options.by)},
               {"rows", std::move(rows)}},
              groups.totals.end, groups.totals.lost_epochs));
}

std::string HotGroupsCsv(const HotGroups& groups) {
  std::string csv = CsvLine({"target", "pid", "name", "start", "what", "spans", "pages", "score",
                             "relative_sd", "score_low", "score_high", "share"});
  for (const HotGroups::Row& row : groups.rows) {
    csv += CsvLine({row.target ? fmt::format("{}", row.target->id.value()) : "",
                    row.target ? fmt::format("{}", row.target->pid.value()) : "",
                    row.target ? row.target->name : "", StartText(row), row.what,
                    fmt::format("{}", row.spans), fmt::format("{}", row.pages.value()),
                    Exact(row.score), Exact(row.relative_sd), Exact(row.interval.low),
                    Exact(row.interval.high), Exact(row.share)});
  }
  return csv;
}

}  // namespace tmprof
