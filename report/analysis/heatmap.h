// SPDX-License-Identifier: Apache-2.0
// Heat of one target over time and address (TMP, IPDPS 2021, Fig. 3 and 4; Daptrace, Middleware
// 2019).

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/axis.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

enum class HeatmapStyle {
  kHottest,  // the addresses that hold the heat; bright is hot
  kWhole,    // all observed addresses, without the largest gaps; dark is hot (Daptrace)
};
std::string_view Name(HeatmapStyle style);
Result<HeatmapStyle> ParseHeatmapStyle(std::string_view name);

struct HeatmapOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  EpochRange epochs;
  std::optional<Pid> pid;             // unset: the target with the highest score
  std::optional<VpnRange> addresses;  // unset: chosen by the style
  // unset: kWhole if accessed bits were looked at by regions, else kHottest.
  std::optional<HeatmapStyle> style;
  std::size_t max_columns = 240;  // > 0
  std::size_t max_rows = 200;     // > 0
  bool raw = false;               // a cell uses only what was observed in its own time
};

// A cell's value is a score per base page and second. By the rate model it is the mean of the
// estimates of the cell's pages (rank/epoch_estimates.h), even of pages that were not looked at
// then. It is unknown if no page has an estimate. With `raw`, and by counts, the value is:
// - by references, and by combined if accessed bits were read in the cell: the mean over the pages
//   whose bits were read. The part of the cell that was read therefore does not matter.
// - by samples and by truth: the cell's score over all of its pages while the sampler was on.
// - by combined if no bit was read: the value by samples, provided that the cell has at least four
//   of them (the relative error of a count n is 1/sqrt(n)).
//
// Else the value is unknown, which is not 0.
struct Heatmap {
  TraceTotals totals;
  HeatmapOptions options;
  HeatmapStyle style = HeatmapStyle::kHottest;
  std::optional<TargetTotal> target;  // unset: no target has a page
  AddressAxis addresses;              // rows
  std::size_t columns = 0;            // all equally long
  std::chrono::nanoseconds start{0};  // start of the first column, since the start of the trace
  std::chrono::nanoseconds column_length{0};
  std::vector<std::optional<double>> cells;  // row-major; row 0 holds the lowest addresses
  // Standard deviation of each value, relative to it. Spans are taken to err independently of each
  // other. Empty: no value is estimated.
  std::vector<double> relative_sd;

  std::optional<double> At(std::size_t row, std::size_t column) const {
    return cells[row * columns + column];
  }
  double RelativeSdAt(std::size_t row, std::size_t column) const {
    return relative_sd.empty() ? 0 : relative_sd[row * columns + column];
  }
  // A cell with at least this `relative_sd` is drawn as little known: the true value may be half or
  // twice as much.
  static constexpr double kVague = 1;
  std::string Unit() const;
  std::string Title() const;
};

// Reads the trace twice: for the axes, then for the cells.
Result<Heatmap> MakeHeatmap(const Trace& trace, const HeatmapOptions& options);

// Draws one line per row of addresses. A column of time takes as many characters as fit the width.
std::string HeatmapText(const Heatmap& heatmap, std::size_t width_columns);
std::string HeatmapJson(const Heatmap& heatmap);
std::string HeatmapCsv(const Heatmap& heatmap);          // one line per cell
Result<std::string> HeatmapPng(const Heatmap& heatmap);  // the bytes of a PNG file

// Returns the room that HeatmapText() leaves for columns of time.
std::size_t HeatmapTextColumns(std::size_t width_columns);

}  // namespace tmprof
