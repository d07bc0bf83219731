// SPDX-License-Identifier: Apache-2.0
// Tells which share of the accesses the hottest pages have (TMP, IPDPS 2021, Fig. 5).

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

struct CdfOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  // If set, the text plot shows this kind of evidence instead of the weight. Tables and PNG show
  // all.
  std::optional<RankSource> by;
  EpochRange epochs;
};

// Every curve has the same axis of pages: shares of the footprint, which is the base pages of spans
// found referenced or sampled. Pages of one span are equally hot, so that a curve is linear within
// a span.
struct Cdf {
  struct Curve {
    RankSource by = RankSource::kCombined;
    double total_score = 0;
    // Shares of the score that the hottest pages hold; one per row of kShares and of `plot_shares`.
    // Empty if no page has a score from this source.
    std::vector<double> at_shares;
    std::vector<double> plot;
  };
  // The tier-1 ratios a reader asks about first.
  static constexpr std::array kShares = {0.01, 0.02, 0.05, 0.10, 0.125, 0.25, 0.50, 1.00};

  TraceTotals totals;
  CdfOptions options;
  PageCount footprint;
  std::vector<double> plot_shares;  // ascending, evenly spaced on a logarithmic axis, ends with 1
  // References, samples, combined, and memory if the view ranks by it. Exact evidence has one
  // curve.
  std::vector<Curve> curves;

  const Curve* FindCurve(RankSource by) const;
};

Result<Cdf> MakeCdf(const Trace& trace, const CdfOptions& options);

std::string CdfText(const Cdf& cdf, std::size_t width_columns, TextWidth width = {});
std::string CdfJson(const Cdf& cdf);
std::string CdfCsv(const Cdf& cdf);
Result<std::string> CdfPng(const Cdf& cdf);  // the bytes of a PNG file

}  // namespace tmprof
