// SPDX-License-Identifier: Apache-2.0

#include "report/heatmap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "report/format.h"

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

// The target with the highest score, or the most pages where nothing has a score; ties to the
// first registered.
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

// Gathers the cells over the second reading.
class CellSums {
 public:
  explicit CellSums(const Heatmap& heatmap)
      : map_(heatmap),
        cells_(heatmap.addresses.rows * heatmap.columns),
        delivered_seconds_(heatmap.columns) {}

  void Add(const EpochProfile& epoch, const EvidenceTable& table, const Scores& scores) {
    const auto column =
        static_cast<std::size_t>((epoch.index - map_.totals.first_index) / map_.epochs_per_column);
    if (column >= map_.columns) return;
    const double seconds = Seconds(epoch.length());
    delivered_seconds_[column] += seconds * DeliveredShare(epoch);
    const RowRange rows = RowsOf(table, map_.target->id);
    auto segment = map_.addresses.segments.begin();
    const auto last_segment = map_.addresses.segments.end();
    for (std::size_t i = rows.first; i < rows.end; ++i) {
      const VpnRange range{table.key[i].vpn, table.key[i].vpn + PageCount(table.span_pages[i])};
      while (segment != last_segment && segment->range.end <= range.start) ++segment;
      for (auto s = segment; s != last_segment && s->range.start < range.end; ++s) {
        AddWithin(*s, column, range, table.evidence[i], scores[i], seconds);
      }
    }
  }

  std::vector<std::optional<double>> Values() const {
    std::vector<std::optional<double>> values(cells_.size());
    for (std::size_t row = 0; row < map_.addresses.rows; ++row) {
      const auto pages = static_cast<double>(map_.addresses.RowRange(row).size().value());
      for (std::size_t column = 0; column < map_.columns; ++column) {
        const Cell& cell = cells_[row * map_.columns + column];
        const double delivered = pages * delivered_seconds_[column];
        std::optional<double>& value = values[row * map_.columns + column];
        if (cell.looked_page_seconds > 0) {
          value = cell.looked_score / cell.looked_page_seconds;
        } else if (delivered > 0 &&
                   (ByDelivery(map_.options.by) || cell.samples >= kFewestSamples)) {
          value = cell.sampled_score / delivered;
        }
      }
    }
    return values;
  }

 private:
  struct Cell {
    double looked_score = 0;
    double looked_page_seconds = 0;
    double sampled_score = 0;
    double samples = 0;
  };
  static constexpr double kFewestSamples = 4;

  // The share of the epoch in which samples, or exact counts, could have arrived.
  double DeliveredShare(const EpochProfile& epoch) const {
    if (map_.options.by == RankSource::kReferences) return 0;
    const SourceRole role = IsExact(map_.options.by) ? SourceRole::kTruth : SourceRole::kSamples;
    double share = 0;
    for (const SourceStatus& source : epoch.sources) {
      if (source.role != role || source.state != SourceState::kActive) continue;
      share = std::max(share, source.duty_cycle.value_or(1));
    }
    return share;
  }

  void AddWithin(const AddressAxis::Segment& segment, std::size_t column, VpnRange range,
                 const Evidence& evidence, double score, double seconds) {
    const std::uint64_t row_pages = map_.addresses.row_pages.value();
    const double score_per_page = score / static_cast<double>(range.size().value());
    const Vpn end = std::min(range.end, segment.range.end);
    for (Vpn at = std::max(range.start, segment.range.start); at < end;) {
      const std::uint64_t row = (at - segment.range.start).value() / row_pages;
      const Vpn next = std::min(end, segment.range.start + PageCount((row + 1) * row_pages));
      const auto pages = static_cast<double>((next - at).value());
      Cell& cell = cells_[(segment.first_row + row) * map_.columns + column];
      if (!ByDelivery(map_.options.by) && evidence.looks > 0) {
        cell.looked_score += score_per_page * pages;
        cell.looked_page_seconds += pages * seconds;
      } else {
        cell.sampled_score += score_per_page * pages;
        cell.samples += evidence.samples() * pages / static_cast<double>(range.size().value());
      }
      at = next;
    }
  }

  const Heatmap& map_;
  std::vector<Cell> cells_;
  std::vector<double> delivered_seconds_;  // per column
};

constexpr std::string_view kLevels = ":-=+*#%@";  // by ink
constexpr char kUnknownMark = ' ';
constexpr char kZeroMark = '.';
constexpr std::size_t kAddressWidth = 15;  // "0x7fffffffffff" and a blank

char Mark(const ValueScale& scale, std::optional<double> value) {
  if (!value) return kUnknownMark;
  if (*value <= 0) return kZeroMark;
  const auto levels = static_cast<double>(kLevels.size());
  const auto level = static_cast<std::size_t>(scale.Position(*value) * levels);
  return kLevels[std::min(level, kLevels.size() - 1)];
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
  return text + "\n";
}

// Tick marks and labels below `width` characters that span the columns.
std::string TimeAxisText(const Heatmap& heatmap, std::size_t width) {
  constexpr std::size_t kLabelRoom = 10;
  const double length = Seconds(heatmap.column_length) * static_cast<double>(heatmap.columns);
  const double start = Seconds(heatmap.start);
  const std::string margin(kAddressWidth, ' ');
  if (length <= 0) return "";
  const double step = TickStep(length, std::max<std::size_t>(1, width / kLabelRoom));
  std::string ticks(width + 1, '-');
  std::string labels;
  for (double tick = std::ceil(start / step - 1e-9) * step; tick <= start + length + step * 1e-9;
       tick += step) {
    const auto at =
        static_cast<std::size_t>(std::lround((tick - start) / length * static_cast<double>(width)));
    ticks[std::min(at, width)] = '+';
    if (labels.size() < at) labels.resize(at, ' ');
    if (labels.size() == at) labels += fmt::format("{:g}", tick + 0.0);
  }
  return margin + ticks + "\n" + margin + labels + "  time, s\n";
}

// A result of regions in any epoch.
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
  return ScoreUnit(totals, options.model, options.by) + " per page per second";
}

std::string Heatmap::Title() const {
  if (!target) return fmt::format("{}: no page observed", Printable(totals.trace));
  return fmt::format("{}: {} (PID {}), by {}", Printable(totals.trace), Printable(target->name),
                     target->pid.value(), Name(options.by));
}

Result<Heatmap> MakeHeatmap(const Trace& trace, const HeatmapOptions& options) {
  Heatmap heatmap{.totals = {}, .options = options};
  {
    Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
    if (!whole) return Fail(std::move(whole.error()));
    if (auto known = whole->known.Require(options.by, "draw a heat map by misses", trace.name);
        !known) {
      return Fail(std::move(known.error()));
    }
    heatmap.totals = std::move(whole->totals);
    const EvidenceTable& table = whole->ranker.table();
    const Scores scores = whole->ranker.Score(options.by);
    const std::optional<TargetId> hottest =
        HottestTarget(table, scores, heatmap.totals, options.pid);
    if (!hottest) {
      if (!options.pid) return heatmap;
      return Fail(BadInput("draw a heat map", fmt::format("PID {}", options.pid->value()),
                           "no page of this process is in the trace"));
    }
    const TargetTotal* target = heatmap.totals.FindTarget(*hottest);
    heatmap.target = target != nullptr ? *target : TargetTotal{.id = *hottest};
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
  }
  if (heatmap.addresses.rows == 0) return heatmap;

  // A column is a whole number of epochs: none is smeared over two.
  const TraceTotals& totals = heatmap.totals;
  const std::uint64_t indices = totals.epochs + totals.lost_epochs;
  heatmap.epochs_per_column = CeilDivide(indices, options.max_columns);
  heatmap.columns = CeilDivide(indices, heatmap.epochs_per_column);
  heatmap.start = totals.start - totals.info.start;
  heatmap.column_length = totals.duration() / static_cast<std::int64_t>(indices) *
                          static_cast<std::int64_t>(heatmap.epochs_per_column);

  CellSums sums(heatmap);
  Ranker ranker({.model = options.model, .memory = Ranker::Memory::kThisEpoch});
  const Result<StreamEnd> end = ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) {
    ranker.Absorb(epoch);
    sums.Add(epoch, ranker.table(), ranker.Score(options.by));
  });
  if (!end) return Fail(end.error());
  heatmap.cells = sums.Values();
  return heatmap;
}

std::size_t HeatmapTextColumns(std::size_t width_columns) {
  constexpr std::size_t kLeast = 20;
  return std::max(width_columns, kAddressWidth + 1 + kLeast) - kAddressWidth - 1;
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
        text.append(repeat, Mark(scale, heatmap.At(row, column)));
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
  for (const std::string& caveat : Caveats(heatmap.totals, heatmap.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string HeatmapJson(const Heatmap& heatmap) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < heatmap.addresses.rows; ++row) {
    const VpnRange range = heatmap.addresses.RowRange(row);
    Json values = Json::array();
    for (std::size_t column = 0; column < heatmap.columns; ++column) {
      values.push_back(OrNull(heatmap.At(row, column)));
    }
    rows.push_back({{"start", Address(range.start)},
                    {"end", Address(range.end)},
                    {"values", std::move(values)}});
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
                           {"by", Name(heatmap.options.by)},
                           {"model", Name(heatmap.options.model)},
                           {"unit", heatmap.Unit()},
                           {"style", Name(heatmap.style)},
                           {"start_s", Seconds(heatmap.start)},
                           {"column_s", Seconds(heatmap.column_length)},
                           {"columns", heatmap.columns},
                           {"row_pages", heatmap.addresses.row_pages.value()},
                           {"shown_share", OrNull(heatmap.addresses.shown_share)},
                           {"notes", Caveats(heatmap.totals, heatmap.options.by)},
                           {"rows", std::move(rows)}},
                          heatmap.totals.end, heatmap.totals.lost_epochs));
}

std::string HeatmapCsv(const Heatmap& heatmap) {
  std::string csv =
      CsvLine({"time_start_s", "time_end_s", "address_start", "address_end", "value"});
  for (std::size_t row = 0; row < heatmap.addresses.rows; ++row) {
    const VpnRange range = heatmap.addresses.RowRange(row);
    for (std::size_t column = 0; column < heatmap.columns; ++column) {
      const auto start = heatmap.start + heatmap.column_length * static_cast<std::int64_t>(column);
      csv += CsvLine({Exact(Seconds(start)), Exact(Seconds(start + heatmap.column_length)),
                      Address(range.start), Address(range.end),
                      OrEmpty(heatmap.At(row, column), Exact)});
    }
  }
  return csv;
}

}  // namespace tmprof
