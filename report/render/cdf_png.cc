// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/cdf.h"
#include "report/render/canvas.h"

namespace tmprof {
namespace {

// Colour-blind readers can tell them apart (Okabe and Ito, 2008).
Colour CurveColour(RankSource by) {
  switch (by) {
    case RankSource::kReferences:
      return {0.0, 0.45, 0.70};  // blue
    case RankSource::kSamples:
      return {0.90, 0.62, 0.0};  // orange
    case RankSource::kCombined:
      return {0.84, 0.37, 0.0};  // vermilion
    case RankSource::kMemory:
      return {0.80, 0.47, 0.65};  // reddish purple
    case RankSource::kTruth:
    case RankSource::kMisses:
    case RankSource::kStall:
      return {0.0, 0.62, 0.45};  // bluish green
  }
  return kInk;
}

}  // namespace

Result<std::string> CdfPng(const Cdf& cdf) {
  constexpr int kWidth = 1000;
  constexpr int kHeight = 700;
  constexpr Box kPlot{.left = 100, .top = 70, .width = 860, .height = 520};
  constexpr double kTitle = 20;
  constexpr double kCaption = 17;
  constexpr double kTick = 15;
  Canvas canvas(kWidth, kHeight);
  using enum Canvas::Across;

  canvas.Text(kPlot.left + kPlot.width / 2, 34,
              fmt::format("{}: {} over pages, hottest first", Printable(cdf.totals.trace),
                          AccessesOf(*cdf.options.by)),
              kTitle, kCentre);
  const double smallest = cdf.plot_shares.empty() ? 0.01 : cdf.plot_shares.front();
  const auto x_of = [&](double share) {
    return kPlot.right() - kPlot.width * std::log(share) / std::log(smallest);
  };
  const auto y_of = [&](double share) { return kPlot.bottom() - kPlot.height * share; };

  for (double decade = 1; decade >= smallest * 0.999; decade /= 10) {
    for (int step = 1; step < 10 && decade * step <= 1; ++step) {
      const double x = x_of(decade * step);
      canvas.Line(x, kPlot.top, x, kPlot.bottom(), kFaint, step == 1 ? 1.5 : 0.6);
    }
    canvas.Text(x_of(decade), kPlot.bottom() + 20, fmt::format("{:g} %", decade * 100), kTick,
                kCentre);
  }
  for (int tenths = 0; tenths <= 10; tenths += 2) {
    const double y = y_of(tenths / 10.0);
    canvas.Line(kPlot.left, y, kPlot.right(), y, kFaint);
    canvas.Text(kPlot.left - 10, y, fmt::format("{} %", tenths * 10), kTick, kRight);
  }
  canvas.Text(kPlot.left + kPlot.width / 2, kPlot.bottom() + 50,
              fmt::format("hottest pages, share of the footprint ({}, {}; log scale)",
                          CountText(cdf.footprint), HumanSize(cdf.footprint)),
              kCaption, kCentre);
  canvas.Text(28, kPlot.top + kPlot.height / 2,
              fmt::format("share of the {}", AccessesOf(*cdf.options.by)), kCaption, kCentre,
              Canvas::Direction::kUpwards);

  cairo_t* context = canvas.context();
  const auto draw = [&](const std::vector<double>& shares, Colour colour, double width) {
    cairo_set_source_rgb(context, colour.red, colour.green, colour.blue);
    cairo_set_line_width(context, width);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      cairo_line_to(context, x_of(cdf.plot_shares[i]), y_of(shares[i]));
    }
    cairo_stroke(context);
  };
  struct LegendLine {
    std::string text;
    Colour colour;
    bool dashed = false;
  };
  std::vector<LegendLine> legend;
  constexpr std::array kDashes = {6.0, 5.0};
  cairo_set_dash(context, kDashes.data(), kDashes.size(), 0);
  draw(cdf.plot_shares, kInk, 1.2);
  cairo_set_dash(context, nullptr, 0, 0);
  for (const Cdf::Curve& curve : cdf.curves) {
    std::string name(Name(curve.by));
    draw(curve.plot, CurveColour(curve.by), curve.by == *cdf.options.by ? 4 : 2.2);
    if (curve.plot.empty()) name += " (unknown)";
    legend.push_back({.text = std::move(name), .colour = CurveColour(curve.by)});
  }
  legend.push_back({.text = "all pages alike", .colour = kInk, .dashed = true});

  const Box box{.left = kPlot.left + 20,
                .top = kPlot.top + 18,
                .width = 220,
                .height = 26.0 * static_cast<double>(legend.size()) + 14};
  canvas.Fill(box, kPaper);
  canvas.Frame(box);
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const double y = box.top + 20 + 26.0 * static_cast<double>(i);
    if (legend[i].dashed) cairo_set_dash(context, kDashes.data(), kDashes.size(), 0);
    canvas.Line(box.left + 12, y, box.left + 52, y, legend[i].colour, legend[i].dashed ? 1.2 : 3);
    cairo_set_dash(context, nullptr, 0, 0);
    canvas.Text(box.left + 64, y, legend[i].text, kTick, kLeft);
  }
  canvas.Frame(kPlot);
  return canvas.Png();
}

}  // namespace tmprof
