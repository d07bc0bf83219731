// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/capacity_curve.h"
#include "report/render/canvas.h"

namespace tmprof {
namespace {

constexpr int kCurveWidth = 1000;
constexpr int kCurveHeight = 764;
constexpr Box kCurvePlot{.left = 100, .top = 104, .width = 860, .height = 520};
constexpr double kCurveTitleSize = 20;
constexpr double kCurveCaptionSize = 16;
constexpr double kCurveTickSize = 14;
constexpr double kCurveBand = 0.2;  // opacity
using enum Canvas::Across;

struct LineStyle {
  Colour colour;
  double width = 1;
  std::span<const double> dashes = {};
};

constexpr std::array kShortDashes = {2.0, 4.0};
constexpr std::array kLongDashes = {9.0, 5.0};
// Parallel to kCapacitySeries. Colour-blind readers can tell the colours apart (Okabe and Ito,
// 2008).
constexpr std::array<LineStyle, 3> kSeriesStyles = {
    {{.colour = {0.0, 0.45, 0.70}, .width = 3},
     {.colour = {0.84, 0.37, 0.0}, .width = 3},
     {.colour = {0.0, 0.62, 0.45}, .width = 2, .dashes = kLongDashes}}};
constexpr LineStyle kEqualPages{.colour = kInk, .width = 1, .dashes = kShortDashes};

// Shares of the whole are on a logarithmic scale.
double XOfShare(double share) {
  const double smallest = CapacityCurve::kShares.front();
  return kCurvePlot.right() - kCurvePlot.width * std::log(share) / std::log(smallest);
}

double YOfHitRate(double hit_rate) { return kCurvePlot.bottom() - kCurvePlot.height * hit_rate; }

// Draws the current path.
void StrokeWith(const LineStyle& style, Canvas& canvas) {
  cairo_t* context = canvas.context();
  cairo_set_source_rgb(context, style.colour.red, style.colour.green, style.colour.blue);
  cairo_set_line_width(context, style.width);
  cairo_set_dash(context, style.dashes.data(), static_cast<int>(style.dashes.size()), 0);
  cairo_stroke(context);
  cairo_set_dash(context, nullptr, 0, 0);
}

void DrawCurveAxes(const CapacityCurve& curve, Canvas& canvas) {
  for (const double decade : {0.01, 0.1}) {
    for (int step = 1; step < 10; ++step) {
      const double x = XOfShare(decade * step);
      canvas.Line(x, kCurvePlot.top, x, kCurvePlot.bottom(), kFaint, step == 1 ? 1.5 : 0.6);
    }
  }
  constexpr std::array kLabelled = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0};
  for (const CapacityCurve::Point& point : curve.points) {
    if (std::ranges::count(kLabelled, point.share) == 0) continue;
    const double x = XOfShare(point.share);
    canvas.Line(x, kCurvePlot.bottom(), x, kCurvePlot.bottom() + 5, kInk);
    canvas.Text(x, kCurvePlot.bottom() + 18, Percent(point.share), kCurveTickSize, kCentre);
    canvas.Text(x, kCurvePlot.bottom() + 38, HumanSize(point.rates.capacity), kCurveTickSize,
                kCentre);
  }
  for (int tenths = 0; tenths <= 10; tenths += 2) {
    const double y = YOfHitRate(tenths / 10.0);
    canvas.Line(kCurvePlot.left, y, kCurvePlot.right(), y, kFaint);
    canvas.Text(kCurvePlot.left - 10, y, fmt::format("{} %", tenths * 10), kCurveTickSize, kRight);
  }
  canvas.Text(kCurvePlot.left + kCurvePlot.width / 2, kCurvePlot.bottom() + 68,
              "capacity of tier 1 (log scale)", kCurveCaptionSize, kCentre);
  canvas.Text(kCurvePlot.left + kCurvePlot.width / 2, kCurvePlot.bottom() + 92,
              "100 % is " + WholeText(curve), kCurveTickSize, kCentre);
  canvas.Text(28, kCurvePlot.top + kCurvePlot.height / 2,
              fmt::format("share of the {} that tier 1 serves", AccessesOf(*curve.options.by)),
              kCurveCaptionSize, kCentre, Canvas::Direction::kUpwards);
}

void DrawIntervals(const CapacityCurve& curve, std::optional<HitRate> HitRates::* rate,
                   Colour colour, Canvas& canvas) {
  cairo_t* context = canvas.context();
  const auto lay = [&](const CapacityCurve::Point& point, double HitRate::* end) {
    const std::optional<HitRate>& each = point.rates.*rate;
    if (each) cairo_line_to(context, XOfShare(point.share), YOfHitRate((*each).*end));
  };
  for (std::size_t i = 0; i < curve.points.size(); ++i) lay(curve.points[i], &HitRate::high);
  for (std::size_t i = curve.points.size(); i-- > 0;) lay(curve.points[i], &HitRate::low);
  cairo_close_path(context);
  cairo_set_source_rgba(context, colour.red, colour.green, colour.blue, kCurveBand);
  cairo_fill(context);
}

// Points that are not known leave a gap.
void DrawHitRates(const CapacityCurve& curve, std::optional<HitRate> HitRates::* rate,
                  const LineStyle& style, Canvas& canvas) {
  cairo_t* context = canvas.context();
  for (const CapacityCurve::Point& point : curve.points) {
    const std::optional<HitRate>& each = point.rates.*rate;
    if (each && each->is_told()) {
      cairo_line_to(context, XOfShare(point.share), YOfHitRate(each->value));
    } else {
      cairo_new_sub_path(context);
    }
  }
  StrokeWith(style, canvas);
}

// Tells what tier 1 serves if all pages are equally hot.
void DrawEqualPages(Canvas& canvas) {
  constexpr int kSteps = 100;
  for (int step = kSteps; step >= 0; --step) {
    const double share =
        std::pow(CapacityCurve::kShares.front(), static_cast<double>(step) / kSteps);
    cairo_line_to(canvas.context(), XOfShare(share), YOfHitRate(share));
  }
  StrokeWith(kEqualPages, canvas);
}

void DrawCurveLegend(const CapacityCurve& curve, Canvas& canvas) {
  constexpr double kSample = 40;
  const double y = kCurvePlot.top - 22;
  double x = kCurvePlot.left;
  const auto add = [&](const std::string& text, const LineStyle& style) {
    cairo_move_to(canvas.context(), x, y);
    cairo_line_to(canvas.context(), x + kSample, y);
    StrokeWith(style, canvas);
    canvas.Text(x + kSample + 10, y, text, kCurveTickSize, kLeft);
    x += kSample + 10 + canvas.TextWidth(text, kCurveTickSize) + 26;
  };
  for (std::size_t i = 0; i < kSeriesStyles.size(); ++i) {
    if (curve.Knows(kCapacitySeries[i].rate)) add(kCapacitySeries[i].title, kSeriesStyles[i]);
  }
  add("all pages alike", kEqualPages);
  if (curve.is_exact || !curve.why_unknown.empty()) return;
  canvas.Fill({.left = x, .top = y - 8, .width = kSample, .height = 16},
              kSeriesStyles.front().colour, kCurveBand);
  canvas.Text(x + kSample + 10, y, "90 % interval", kCurveTickSize, kLeft);
}

}  // namespace

Result<std::string> CapacityCurvePng(const CapacityCurve& curve) {
  static_assert(kSeriesStyles.size() == std::size(kCapacitySeries));
  Canvas canvas(kCurveWidth, kCurveHeight);
  const RankSource by = *curve.options.by;
  const double middle = kCurvePlot.left + kCurvePlot.width / 2;
  canvas.Text(middle, 28, Printable(curve.totals.trace), kCurveTitleSize, kCentre);
  canvas.Text(
      middle, 54,
      fmt::format("hit rate of {} by the capacity of tier 1 (--by {})", AccessesOf(by), Name(by)),
      kCurveCaptionSize, kCentre);
  DrawCurveAxes(curve, canvas);
  DrawEqualPages(canvas);
  bool has_gap = false;
  for (std::size_t i = 0; i < kSeriesStyles.size(); ++i) {
    const auto rate = kCapacitySeries[i].rate;
    has_gap = has_gap || !curve.IsAllTold(rate);
    // Three bands over each other are hard to read: history has a line alone.
    if (!curve.is_exact && kSeriesStyles[i].dashes.empty())
      DrawIntervals(curve, rate, kSeriesStyles[i].colour, canvas);
  }
  for (std::size_t i = 0; i < kSeriesStyles.size(); ++i)
    DrawHitRates(curve, kCapacitySeries[i].rate, kSeriesStyles[i], canvas);
  if (!curve.why_unknown.empty()) {
    canvas.Text(middle, kCurvePlot.top + kCurvePlot.height / 2,
                fmt::format("no hit rate is known: {}", curve.why_unknown), kCurveCaptionSize,
                kCentre);
  }
  if (has_gap) {
    canvas.Text(middle, kCurvePlot.bottom() + 114, "no line: too little was seen to tell",
                kCurveTickSize, kCentre);
  }
  DrawCurveLegend(curve, canvas);
  canvas.Frame(kCurvePlot);
  return canvas.Png();
}

}  // namespace tmprof
