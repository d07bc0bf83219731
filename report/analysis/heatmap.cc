// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/heatmap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "rank/epoch_estimates.h"

namespace tmprof {
namespace {

// Rows of a ranker's table that belong to one target: [first, end).
struct RowRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

RowRange RowsOf(const EvidenceTable& table, TargetId target) {
  const auto rows = std::ranges::equal_range(table.key, target, {}, &PageKey::target);
  return {.first = static_cast<std::size_t>(rows.begin() - table.key.begin()),
          .end = static_cast<std::size_t>(rows.end() - table.key.begin())};
}

// Returns the target with the highest score, or with the most pages if nothing has a score. Of
// equal targets the first registered wins.
std::optional<TargetId> HottestTarget(const EvidenceTable& table, const Scores& scores,
                                      const TraceTotals& totals, std::optional<Pid> pid) {
  struct Heat {
    double score = 0;
    double pages = 0;
    auto operator<=>(const Heat&) const = default;
  };
  std::map<TargetId, Heat> heat;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!totals.IsOf(table.key[i].target, pid)) continue;
    Heat& of_target = heat[table.key[i].target];
    of_target.score += scores[i];
    of_target.pages += table.span_pages[i];
  }
  std::optional<TargetId> hottest;
  for (const auto& [id, value] : heat) {
    if (!hottest || value > heat[*hottest]) hottest = id;
  }
  return hottest;
}

bool ByDelivery(RankSource by) { return by == RankSource::kSamples || IsExact(by); }

// Shares out epochs among columns of equal length.
class TimeAxis {
 public:
  explicit TimeAxis(const Heatmap& heatmap)
      : start_(heatmap.totals.start), length_(heatmap.column_length), columns_(heatmap.columns) {}

  struct Part {
    std::size_t column;
    double share;  // part of the epoch
  };
  // Returns the parts in ascending order. Slivers are left out. Epochs begin some ms early or late,
  // and pages looked at in one of them were not looked at in the neighbouring column.
  std::vector<Part> PartsOf(const EpochProfile& epoch) const {
    constexpr double kSliver = 0.05;
    std::vector<Part> parts;
    double sum = 0;
    const auto length = static_cast<double>(epoch.length().count());
    const auto first =
        static_cast<std::size_t>(std::max<std::int64_t>(0, (epoch.start - start_) / length_));
    for (std::size_t column = first; column < columns_; ++column) {
      const MonotonicTime from = start_ + length_ * static_cast<std::int64_t>(column);
      if (from >= epoch.end && column != first) break;
      const auto overlap = static_cast<double>(
          (std::min(from + length_, epoch.end) - std::max(from, epoch.start)).count());
      const bool sliver =
          overlap < kSliver * length && overlap < kSliver * static_cast<double>(length_.count());
      if (sliver && length > 0) continue;
      parts.push_back({.column = column, .share = length > 0 ? overlap / length : 1});
      sum += parts.back().share;
    }
    for (Part& part : parts) part.share /= sum;
    return parts;
  }

 private:
  MonotonicTime start_;
  std::chrono::nanoseconds length_;
  std::size_t columns_;
};

// Gathers the cells over the second reading.
class CellSums {
 public:
  CellSums(const Heatmap& heatmap, bool estimated)
      : map_(heatmap),
        estimated_(estimated),
        cells_(heatmap.addresses.rows * heatmap.columns),
        delivered_seconds_(heatmap.columns) {}

  void Add(const EpochProfile& epoch, const EvidenceTable& table, const Scores& scores) {
    if (!IsListed(epoch)) return;
    for (const TimeAxis::Part& part : TimeAxis(map_).PartsOf(epoch)) {
      AddPart(epoch, part, table, scores);
    }
  }

  // Sums over a step's rows are valid in all epochs of the step; only their share in a column
  // differs.
  void AddEstimated(const EpochProfile& epoch, const EpochEstimates& estimates) {
    const auto rows = std::ranges::lower_bound(estimates.targets(), map_.target->id, {},
                                               &EpochEstimates::TargetRows::target);
    if (rows->share <= 0) return;
    if (step_ != estimates.step()) SumStep(estimates, *rows);
    step_ = estimates.step();
    for (const TimeAxis::Part& part : TimeAxis(map_).PartsOf(epoch)) {
      const double share = rows->share * part.share;
      const double seconds = Seconds(epoch.length()) * part.share;
      for (std::size_t row = 0; row < of_step_.size(); ++row) {
        Cell& cell = cells_[row * map_.columns + part.column];
        cell.score += of_step_[row].score * share;
        cell.page_seconds += of_step_[row].pages * seconds;
        cell.variance += of_step_[row].variance * share * share;
      }
    }
  }

  // Returns the values; `relative_sd` gets their deviations if they are estimated.
  std::vector<std::optional<double>> Values(std::vector<double>& relative_sd) const {
    std::vector<std::optional<double>> values(cells_.size());
    if (estimated_) relative_sd.resize(cells_.size());
    for (std::size_t row = 0; row < map_.addresses.rows; ++row) {
      const auto pages = static_cast<double>(map_.addresses.RowRange(row).size().value());
      for (std::size_t column = 0; column < map_.columns; ++column) {
        const std::size_t at = row * map_.columns + column;
        const Cell& cell = cells_[at];
        const double delivered = pages * delivered_seconds_[column];
        if (cell.page_seconds > 0) {
          values[at] = cell.score / cell.page_seconds;
          if (estimated_ && cell.score > 0) relative_sd[at] = std::sqrt(cell.variance) / cell.score;
        } else if (!estimated_ && delivered > 0 &&
                   (ByDelivery(*map_.options.by) || cell.samples >= kFewestSamples)) {
          values[at] = cell.sampled_score / delivered;
        }
      }
    }
    return values;
  }

 private:
  struct Cell {
    double score = 0;  // score of pages that were looked at, or that are estimated
    double page_seconds = 0;
    double variance = 0;  // variance of `score`
    double sampled_score = 0;
    double samples = 0;
  };
  // A row of the map in a step.
  struct EstimatedRow {
    double score = 0;
    double pages = 0;  // pages with a score
    double variance = 0;
  };
  static constexpr double kFewestSamples = 4;

  // Returns the share of the epoch in which samples, or exact counts, could have arrived.
  double DeliveredShare(const EpochProfile& epoch) const {
    if (*map_.options.by == RankSource::kReferences) return 0;
    const SourceRole role = IsExact(*map_.options.by) ? SourceRole::kTruth : SourceRole::kSamples;
    double share = 0;
    for (const SourceStatus& source : epoch.sources) {
      if (source.role != role || source.state != SourceState::kActive) continue;
      share = std::max(share, source.duty_cycle.value_or(1));
    }
    return share;
  }

  // False: the target has exited, or did not run yet.
  bool IsListed(const EpochProfile& epoch) const {
    return std::ranges::find(epoch.targets, map_.target->id, &Target::id) != epoch.targets.end() ||
           map_.totals.FindTarget(map_.target->id) == nullptr;
  }

  void AddPart(const EpochProfile& epoch, TimeAxis::Part part, const EvidenceTable& table,
               const Scores& scores) {
    const double seconds = Seconds(epoch.length()) * part.share;
    delivered_seconds_[part.column] += seconds * DeliveredShare(epoch);
    EachRow(table, RowsOf(table, map_.target->id),
            [&](std::size_t i, std::size_t row, double pages) {
              const double share = pages / table.span_pages[i] * part.share;
              Cell& cell = cells_[row * map_.columns + part.column];
              if (!ByDelivery(*map_.options.by) && table.evidence[i].looks > 0) {
                cell.score += scores[i] * share;
                cell.page_seconds += seconds * pages;
              } else {
                cell.sampled_score += scores[i] * share;
                cell.samples += table.evidence[i].samples() * share;
              }
            });
  }

  void SumStep(const EpochEstimates& estimates, const EpochEstimates::TargetRows& rows) {
    const EvidenceTable& table = estimates.table();
    of_step_.assign(map_.addresses.rows, {});
    EachRow(table, {.first = rows.first, .end = rows.end},
            [&](std::size_t i, std::size_t row, double pages) {
              const double score = estimates.StepScore(i) * pages / table.span_pages[i];
              if (score <= 0) return;
              const double sd =
                  score * estimates.StepRelativeSd(i);  // pages of a span err together
              of_step_[row].score += score;
              of_step_[row].pages += pages;
              of_step_[row].variance += sd * sd;
            });
  }

  // Calls visit(row of the table, row of the map, pages of the first that lie in the second).
  template <typename Visit>
  void EachRow(const EvidenceTable& table, RowRange rows, Visit visit) const {
    const std::uint64_t row_pages = map_.addresses.row_pages.value();
    auto segment = map_.addresses.segments.begin();
    const auto last_segment = map_.addresses.segments.end();
    for (std::size_t i = rows.first; i < rows.end; ++i) {
      const VpnRange range{table.key[i].vpn, table.key[i].vpn + PageCount(table.span_pages[i])};
      while (segment != last_segment && segment->range.end <= range.start) ++segment;
      for (auto s = segment; s != last_segment && s->range.start < range.end; ++s) {
        const Vpn end = std::min(range.end, s->range.end);
        for (Vpn at = std::max(range.start, s->range.start); at < end;) {
          const std::uint64_t row = (at - s->range.start).value() / row_pages;
          const Vpn next = std::min(end, s->range.start + PageCount((row + 1) * row_pages));
          visit(i, s->first_row + row, static_cast<double>((next - at).value()));
          at = next;
        }
      }
    }
  }

  const Heatmap& map_;
  bool estimated_;
  std::vector<Cell> cells_;
  std::vector<double> delivered_seconds_;  // per column
  std::optional<std::size_t> step_;
  std::vector<EstimatedRow> of_step_;  // one per row of the map
};

constexpr std::string_view kLevels = ":-=+*#%@";  // in order of ink
constexpr std::string_view kVagueLevels = "abcdefgh";
constexpr char kUnknownMark = ' ';
constexpr char kZeroMark = '.';
constexpr std::size_t kAddressWidth = 15;  // "0x7fffffffffff" and a blank

char Mark(const ValueScale& scale, std::optional<double> value, bool vague) {
  if (!value) return kUnknownMark;
  if (*value <= 0) return kZeroMark;
  const auto levels = static_cast<double>(kLevels.size());
  const auto level = static_cast<std::size_t>(scale.Position(*value) * levels);
  return (vague ? kVagueLevels : kLevels)[std::min(level, kLevels.size() - 1)];
}

std::string Legend(const Heatmap& heatmap, const ValueScale& scale) {
  std::string text = "scale: blank not observed, '.' 0";
  if (!scale.empty()) {
    text += ", '";
    text += kLevels;
    text += fmt::format("' {} to {} {}{}", Significant(scale.low()), Significant(scale.high()),
                        heatmap.Unit(), scale.logarithmic() ? " (log scale)" : "");
  } else {
    text += " " + heatmap.Unit();
  }
  text += "\n";
  if (!heatmap.relative_sd.empty() && !scale.empty()) {
    text += fmt::format("'{}': the same levels where the error is above +-100 %\n", kVagueLevels);
  }
  return text;
}

// Tick marks and labels below `width` characters that span the columns.
std::string TimeAxisText(const Heatmap& heatmap, std::size_t width) {
  constexpr std::size_t kLabelRoom = 10;
  const double length = Seconds(heatmap.column_length) * static_cast<double>(heatmap.columns);
  const double start = Seconds(heatmap.start);
  const std::string margin(kAddressWidth, ' ');
  if (length <= 0) return "";
  const std::size_t most_ticks = std::max<std::size_t>(1, width / kLabelRoom);
  const auto first_tick = [start](double step) { return std::ceil(start / step - 1e-9) * step; };
  double step = TickStep(length, most_ticks);
  // An axis with one label has no scale.
  if (first_tick(step) + step > start + length + step * 1e-9)
    step = TickStep(length, 2 * most_ticks);
  std::string ticks(width + 1, '-');
  std::string labels;
  const auto put = [&labels, width](std::size_t at, const std::string& label) {
    at = std::min(at, std::max(width + 2, label.size()) - label.size());
    if (labels.size() > at || (at > 0 && labels.size() == at && labels.back() != ' ')) return;
    labels.resize(at, ' ');
    labels += label;
  };
  for (double tick = first_tick(step); tick <= start + length + step * 1e-9; tick += step) {
    const auto at =
        static_cast<std::size_t>(std::lround((tick - start) / length * static_cast<double>(width)));
    ticks[std::min(at, width)] = '+';
    put(at, fmt::format("{:g}", tick + 0.0));
  }
  return margin + ticks + "\n" + fmt::format("{:>{}} ", "time, s", kAddressWidth - 1) + labels +
         "\n";
}

// True if regions were looked at in any epoch.
bool ByRegions(const TraceTotals& totals) {
  return std::ranges::any_of(totals.sources, [](const SourceTotal& source) {
    return source.role == SourceRole::kReferences && source.Detail("regions").value_or(0) > 0;
  });
}

constexpr std::array kStyles{std::pair(std::string_view("hottest"), HeatmapStyle::kHottest),
                             std::pair(std::string_view("whole"), HeatmapStyle::kWhole)};

}  // namespace

std::string_view Name(HeatmapStyle style) {
  return std::ranges::find(kStyles, style, [](const auto& entry) { return entry.second; })->first;
}

Result<HeatmapStyle> ParseHeatmapStyle(std::string_view name) {
  const auto* found =
      std::ranges::find(kStyles, name, [](const auto& entry) { return entry.first; });
  if (found != kStyles.end()) return found->second;
  return Fail(BadInput("choose a style", std::string(name), "use one of hottest, whole"));
}

std::string Heatmap::Unit() const {
  return ScoreUnit(totals, options.model, *options.by) + " per page per second";
}

std::string Heatmap::Title() const {
  if (!target) return fmt::format("{}: no page observed", Printable(totals.trace));
  return fmt::format("{}: {} (PID {}), by {}", Printable(totals.trace), Printable(target->name),
                     target->pid.value(), TextOf(totals.basis));
}

Result<Heatmap> MakeHeatmap(const Trace& trace, const HeatmapOptions& options) {
  Heatmap heatmap{.totals = {}, .options = options};
  TotalRanker ranker(options.model);
  RankSource by{};
  {
    Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
    if (!whole) return Fail(std::move(whole.error()));
    if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "draw a heat map");
        !chosen) {
      return Fail(std::move(chosen.error()));
    }
    by = whole->totals.basis.source;
    heatmap.options.by = by;
    heatmap.totals = std::move(whole->totals);
    const EvidenceTable& table = whole->ranker.table();
    const Scores scores = whole->ranker.Score(by);
    const std::optional<TargetId> hottest =
        HottestTarget(table, scores, heatmap.totals, options.pid);
    if (!hottest) {
      if (!options.pid) return heatmap;
      return Fail(BadInput("draw a heat map", fmt::format("PID {}", options.pid->value()),
                           "no page of this process is in the trace"));
    }
    heatmap.target = heatmap.totals.TargetOf(*hottest);
    std::vector<WeightedSpan> spans;
    const RowRange rows = RowsOf(table, *hottest);
    for (std::size_t i = rows.first; i < rows.end; ++i) {
      spans.push_back(
          {.start = table.key[i].vpn, .span = PageCount(table.span_pages[i]), .weight = scores[i]});
    }
    heatmap.style = options.style.value_or(ByRegions(heatmap.totals) ? HeatmapStyle::kWhole
                                                                     : HeatmapStyle::kHottest);
    const auto choose = heatmap.style == HeatmapStyle::kWhole ? AllAddresses : ChooseAddresses;
    heatmap.addresses = choose(spans, options.addresses, options.max_rows);
    ranker = std::move(whole->ranker);
  }
  const bool estimated = !options.raw && IsEstimated(options.model, by);
  if (heatmap.addresses.rows == 0) return heatmap;

  // Epochs of equal length are whole columns. If they are too many, several of them are one.
  const TraceTotals& totals = heatmap.totals;
  const auto epochs = static_cast<std::uint64_t>(std::max(
      1.0, std::round(Seconds(totals.duration()) / std::max(Seconds(totals.short_epoch), 1e-9))));
  const std::uint64_t epochs_per_column = CeilDivide(epochs, options.max_columns);
  heatmap.columns = CeilDivide(epochs, epochs_per_column);
  heatmap.start = totals.start - totals.info.start;
  heatmap.column_length = std::max(
      std::chrono::nanoseconds(1),
      std::chrono::nanoseconds(CeilDivide(
          static_cast<std::uint64_t>(totals.duration().count()) * epochs_per_column, epochs)));

  CellSums sums(heatmap, estimated);
  std::optional<EpochEstimates> estimates;
  if (!options.raw) estimates.emplace(ranker, by);
  Ranker of_epoch({.model = options.model, .memory = Ranker::Memory::kThisEpoch});
  const Result<StreamEnd> end = ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) {
    if (options.raw) {
      of_epoch.Absorb(epoch);
      sums.Add(epoch, of_epoch.table(), of_epoch.Score(by));
      return;
    }
    estimates->See(epoch);
    if (estimated) {
      sums.AddEstimated(epoch, *estimates);
    } else {
      sums.Add(epoch, estimates->table(), estimates->estimates().score);
    }
  });
  if (!end) return Fail(end.error());
  heatmap.cells = sums.Values(heatmap.relative_sd);
  return heatmap;
}

std::size_t HeatmapTextColumns(std::size_t width_columns) {
  constexpr std::size_t kLeast = 20;
  constexpr std::size_t kFrame = 2;
  return std::max(width_columns, kAddressWidth + kFrame + kLeast) - kAddressWidth - kFrame;
}

std::string HeatmapText(const Heatmap& heatmap, std::size_t width_columns) {
  std::string text = heatmap.Title() + "\n";
  if (heatmap.cells.empty()) return text;
  const ValueScale scale(heatmap.cells);
  const std::size_t repeat =
      std::max<std::size_t>(1, HeatmapTextColumns(width_columns) / heatmap.columns);
  const std::size_t width = repeat * heatmap.columns;
  text += fmt::format("{:>{}}address\n", "", kAddressWidth - 8);
  // High addresses on top, as in the picture.
  for (std::size_t s = heatmap.addresses.segments.size(); s-- > 0;) {
    const AddressAxis::Segment& segment = heatmap.addresses.segments[s];
    for (std::size_t row = segment.first_row + segment.rows; row-- > segment.first_row;) {
      const Vpn start = heatmap.addresses.RowRange(row).start;
      text += fmt::format("{:>{}}|", Address(start) + " ", kAddressWidth);
      for (std::size_t column = 0; column < heatmap.columns; ++column) {
        text.append(repeat, Mark(scale, heatmap.At(row, column),
                                 heatmap.RelativeSdAt(row, column) > Heatmap::kVague));
      }
      text += "|\n";
    }
    if (s > 0) {
      const PageCount gap = segment.range.start - heatmap.addresses.segments[s - 1].range.end;
      text += fmt::format("{:~^{}}\n", fmt::format(" cut: {} ", HumanSize(gap)),
                          kAddressWidth + 2 + width);
    }
  }
  text += TimeAxisText(heatmap, width);
  text += Legend(heatmap, scale);
  text += fmt::format("a row is {}, a column {} s; shown: {} of the score of this target\n",
                      HumanSize(heatmap.addresses.row_pages),
                      Significant(Seconds(heatmap.column_length)),
                      OrUnknown(heatmap.addresses.shown_share, Percent));
  for (const std::string& caveat : Caveats(heatmap.totals, *heatmap.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string HeatmapJson(const Heatmap& heatmap) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < heatmap.addresses.rows; ++row) {
    const VpnRange range = heatmap.addresses.RowRange(row);
    Json values = Json::array();
    Json relative_sd = Json::array();
    for (std::size_t column = 0; column < heatmap.columns; ++column) {
      const std::optional<double> value = heatmap.At(row, column);
      values.push_back(OrNull(value));
      if (heatmap.relative_sd.empty()) continue;
      relative_sd.push_back(value ? Json(heatmap.RelativeSdAt(row, column)) : Json(nullptr));
    }
    rows.push_back({{"start", Address(range.start)},
                    {"end", Address(range.end)},
                    {"values", std::move(values)}});
    if (!heatmap.relative_sd.empty()) rows.back()["relative_sd"] = std::move(relative_sd);
  }
  Json target = nullptr;
  if (heatmap.target) {
    target = {{"target", heatmap.target->id.value()},
              {"pid", heatmap.target->pid.value()},
              {"name", heatmap.target->name}};
  }
  return JsonText(WithEnd({{"view", "heatmap"},
                           {"trace", heatmap.totals.trace},
                           {"target", std::move(target)},
                           {"by", Name(*heatmap.options.by)},
                           {"rank_weight", Name(heatmap.totals.basis.weight)},
                           {"model", Name(heatmap.options.model)},
                           {"unit", heatmap.Unit()},
                           {"style", Name(heatmap.style)},
                           {"estimated", !heatmap.relative_sd.empty()},
                           {"start_s", Seconds(heatmap.start)},
                           {"column_s", Seconds(heatmap.column_length)},
                           {"columns", heatmap.columns},
                           {"row_pages", heatmap.addresses.row_pages.value()},
                           {"shown_share", OrNull(heatmap.addresses.shown_share)},
                           {"notes", Caveats(heatmap.totals, *heatmap.options.by)},
                           {"rows", std::move(rows)}},
                          heatmap.totals.end, heatmap.totals.lost_epochs));
}

std::string HeatmapCsv(const Heatmap& heatmap) {
  std::string csv = CsvLine(
      {"time_start_s", "time_end_s", "address_start", "address_end", "value", "relative_sd"});
  for (std::size_t row = 0; row < heatmap.addresses.rows; ++row) {
    const VpnRange range = heatmap.addresses.RowRange(row);
    for (std::size_t column = 0; column < heatmap.columns; ++column) {
      const auto start = heatmap.start + heatmap.column_length * static_cast<std::int64_t>(column);
      csv += CsvLine({Exact(Seconds(start)), Exact(Seconds(start + heatmap.column_length)),
                      Address(range.start), Address(range.end),
                      OrEmpty(heatmap.At(row, column), Exact),
                      heatmap.At(row, column) && !heatmap.relative_sd.empty()
                          ? Exact(heatmap.RelativeSdAt(row, column))
                          : ""});
    }
  }
  return csv;
}

}  // namespace tmprof
