// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/cdf.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/hottest_pages.h"

namespace tmprof {
namespace {

constexpr std::size_t kPlotPoints = 201;
constexpr double kSmallestShare = 1e-5;

std::vector<double> PlotShares(double footprint) {
  const double smallest = std::clamp(1 / footprint, kSmallestShare, 0.01);
  std::vector<double> shares;
  for (std::size_t i = 0; i < kPlotPoints; ++i) {
    const double left = static_cast<double>(kPlotPoints - 1 - i) / (kPlotPoints - 1);
    shares.push_back(std::pow(smallest, left));
  }
  return shares;
}

std::string PagesAt(const Cdf& cdf, double share) {
  return Grouped(
      static_cast<std::uint64_t>(std::llround(share * static_cast<double>(cdf.footprint.value()))));
}

// Returns the share of a curve; nullopt if the source has no score.
std::optional<double> At(const Cdf::Curve& curve, std::size_t i) {
  return curve.at_shares.empty() ? std::nullopt : std::optional(curve.at_shares[i]);
}

}  // namespace

const Cdf::Curve* Cdf::FindCurve(RankSource by) const {
  const auto found = std::ranges::find(curves, by, &Curve::by);
  return found == curves.end() ? nullptr : &*found;
}

Result<Cdf> MakeCdf(const Trace& trace, const CdfOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, options.epochs);
  if (!whole) return Fail(std::move(whole.error()));
  if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "draw a curve"); !chosen) {
    return Fail(std::move(chosen.error()));
  }
  const RankSource by = whole->totals.basis.source;
  Cdf cdf{.totals = whole->totals, .options = options};
  cdf.options.by = by;

  const DistinctPages accessed(*whole, Accessed);
  cdf.footprint = accessed.size();
  if (cdf.footprint == PageCount(0)) return cdf;
  const auto footprint = static_cast<double>(cdf.footprint.value());
  cdf.plot_shares = PlotShares(footprint);
  const auto pages_at = [footprint](std::span<const double> shares) {
    std::vector<double> pages;
    for (const double share : shares) pages.push_back(share * footprint);
    return pages;
  };

  std::vector<RankSource> sources = {RankSource::kReferences, RankSource::kSamples,
                                     RankSource::kCombined};
  if (IsExact(by)) sources = {by};
  if (by == RankSource::kMemory) sources.push_back(by);
  for (const RankSource source : sources) {
    const HottestPages hottest(accessed, whole->ranker.Score(source));
    Cdf::Curve curve{.by = source, .total_score = hottest.total_score()};
    if (curve.total_score > 0) {
      curve.at_shares = hottest.SharesHeldBy(pages_at(Cdf::kShares));
      curve.plot = hottest.SharesHeldBy(pages_at(cdf.plot_shares));
    }
    cdf.curves.push_back(std::move(curve));
  }
  return cdf;
}

std::string CdfText(const Cdf& cdf, std::size_t width_columns, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::string text =
      fmt::format("share of the {} that the hottest pages hold, by {}; footprint {} ({})\n",
                  AccessesOf(*cdf.options.by), TextOf(cdf.totals.basis), CountText(cdf.footprint),
                  HumanSize(cdf.footprint));
  std::vector<TextTable::Column> columns = {{"hottest", kRight, kKey}, {"pages"}};
  for (const Cdf::Curve& curve : cdf.curves)
    columns.push_back({fmt::format("{} %", Name(curve.by))});
  const Cdf::Curve* shown = cdf.FindCurve(*cdf.options.by);
  // The bar takes the width that the table leaves, and at least enough to tell eighths.
  const std::size_t bar_width = std::clamp<std::size_t>(width_columns, 70, 120) - 62;
  if (shown != nullptr) {
    const std::size_t bar_columns = bar_width + 2;  // a bar without its middle shows nothing
    columns.push_back({std::string(Name(shown->by)), kLeft, kThird, bar_columns});
  }
  TextTable table(columns);
  for (std::size_t i = 0; i < Cdf::kShares.size(); ++i) {
    std::vector<std::string> cells = {Percent(Cdf::kShares[i]), PagesAt(cdf, Cdf::kShares[i])};
    for (const Cdf::Curve& curve : cdf.curves) cells.push_back(OrUnknown(At(curve, i), Percent));
    if (shown != nullptr) {
      const double share = At(*shown, i).value_or(0);
      const auto full =
          static_cast<std::size_t>(std::lround(share * static_cast<double>(bar_width)));
      cells.push_back("|" + std::string(full, '#') + std::string(bar_width - full, ' ') + "|");
    }
    table.AddRow(std::move(cells));
  }
  text += table.Text(width);
  for (const std::string& caveat : Caveats(cdf.totals, *cdf.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string CdfJson(const Cdf& cdf) {
  Json curves = Json::array();
  for (const Cdf::Curve& curve : cdf.curves) {
    Json table = Json::array();
    for (std::size_t i = 0; i < Cdf::kShares.size(); ++i) {
      table.push_back({{"pages_share", Cdf::kShares[i]}, {"score_share", OrNull(At(curve, i))}});
    }
    curves.push_back({{"by", Name(curve.by)},
                      {"total_score", curve.total_score},
                      {"table", std::move(table)},
                      {"score_shares", curve.plot}});
  }
  return JsonText(WithEnd({{"view", "cdf"},
                           {"trace", cdf.totals.trace},
                           {"epochs", cdf.totals.epochs},
                           {"by", Name(*cdf.options.by)},
                           {"rank_weight", Name(cdf.totals.basis.weight)},
                           {"model", Name(cdf.options.model)},
                           {"footprint_pages", cdf.footprint.value()},
                           {"notes", Caveats(cdf.totals, *cdf.options.by)},
                           {"pages_shares", cdf.plot_shares},
                           {"curves", std::move(curves)}},
                          cdf.totals.end, cdf.totals.lost_epochs));
}

std::string CdfCsv(const Cdf& cdf) {
  std::string csv = CsvLine({"by", "pages_share", "score_share"});
  for (const Cdf::Curve& curve : cdf.curves) {
    for (std::size_t i = 0; i < curve.plot.size(); ++i) {
      csv +=
          CsvLine({std::string(Name(curve.by)), Exact(cdf.plot_shares[i]), Exact(curve.plot[i])});
    }
  }
  return csv;
}

}  // namespace tmprof
