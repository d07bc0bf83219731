// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/heatmap.h"
#include "report/render/canvas.h"

namespace tmprof {
namespace {

constexpr int kWidth = 1280;
constexpr int kHeight = 800;
constexpr Box kPlot{.left = 190, .top = 80, .width = 880, .height = 560};
constexpr Box kBar{.left = 1110, .top = 80, .width = 24, .height = 560};
constexpr double kTitle = 20;
constexpr double kCaption = 17;
constexpr double kTick = 14;
constexpr double kSmall = 12;
constexpr double kTickLength = 6;
constexpr double kCut = 16;       // height of a cut's band
constexpr double kTickRoom = 34;  // between address ticks
using enum Canvas::Across;

// Bright on black, or dark on the paper, by the style.
Colour ColourOf(const Heatmap& heatmap, double position) {
  return heatmap.style == HeatmapStyle::kWhole ? DarkColour(position) : HeatColour(position);
}
Colour ZeroColour(const Heatmap& heatmap) {
  return heatmap.style == HeatmapStyle::kWhole ? kPaper : Colour{};
}

// Returns the opacity of a cell over the hatch of unknown cells. It is half at an error of +-100 %,
// and never so little that the cell looks unknown.
double Opacity(double relative_sd) {
  constexpr double kLeast = 0.2;
  return std::max(kLeast, 1 / (1 + relative_sd * relative_sd));
}

// Places the segments in the plot, lowest addresses at the bottom.
class Layout {
 public:
  explicit Layout(const Heatmap& heatmap) : heatmap_(heatmap) {
    const auto cuts = static_cast<double>(heatmap.addresses.segments.size() - 1);
    row_height_ = (kPlot.height - kCut * cuts) / static_cast<double>(heatmap.addresses.rows);
    column_width_ = kPlot.width / static_cast<double>(heatmap.columns);
  }

  double SegmentBottom(std::size_t segment) const {
    const auto rows_below = static_cast<double>(heatmap_.addresses.segments[segment].first_row);
    return kPlot.bottom() - rows_below * row_height_ - kCut * static_cast<double>(segment);
  }
  double SegmentHeight(std::size_t segment) const {
    return static_cast<double>(heatmap_.addresses.segments[segment].rows) * row_height_;
  }
  Box Cell(std::size_t segment, std::size_t row, std::size_t column) const {
    const auto above =
        static_cast<double>(row - heatmap_.addresses.segments[segment].first_row + 1);
    return {.left = kPlot.left + static_cast<double>(column) * column_width_,
            .top = SegmentBottom(segment) - above * row_height_,
            .width = column_width_,
            .height = row_height_};
  }
  double YOf(std::size_t segment, PageCount offset) const {
    return SegmentBottom(segment) - static_cast<double>(offset.value()) /
                                        static_cast<double>(heatmap_.addresses.row_pages.value()) *
                                        row_height_;
  }
  double PagesPerPixel() const {
    return static_cast<double>(heatmap_.addresses.row_pages.value()) / row_height_;
  }

 private:
  const Heatmap& heatmap_;
  double row_height_ = 0;
  double column_width_ = 0;
};

void DrawCells(Canvas& canvas, const Heatmap& heatmap, const Layout& layout,
               const ValueScale& scale) {
  canvas.Hatch(kPlot);
  for (std::size_t s = 0; s < heatmap.addresses.segments.size(); ++s) {
    const AddressAxis::Segment& segment = heatmap.addresses.segments[s];
    for (std::size_t row = segment.first_row; row < segment.first_row + segment.rows; ++row) {
      for (std::size_t column = 0; column < heatmap.columns; ++column) {
        const std::optional<double> value = heatmap.At(row, column);
        if (value) {
          canvas.Fill(layout.Cell(s, row, column),
                      *value > 0 ? ColourOf(heatmap, scale.Position(*value)) : ZeroColour(heatmap),
                      Opacity(heatmap.RelativeSdAt(row, column)));
        }
      }
    }
  }
}

// Draws a white band with two wavy edges and the size of the gap.
void DrawCut(Canvas& canvas, double bottom, PageCount gap) {
  const Box band{.left = kPlot.left, .top = bottom - kCut, .width = kPlot.width, .height = kCut};
  canvas.Fill({.left = band.left - 10, .top = band.top, .width = band.width + 20, .height = kCut},
              kPaper);
  constexpr double kWave = 16;
  for (const double y : {band.top, band.bottom()}) {
    double side = 2.5;
    for (double x = band.left - 8; x < band.right() + 8; x += kWave / 2, side = -side) {
      canvas.Line(x, y + side, std::min(x + kWave / 2, band.right() + 8), y - side, kInk, 0.8);
    }
  }
  const std::string label = fmt::format("{} cut", HumanSize(gap));
  const double width = canvas.TextWidth(label, kSmall) + 12;
  canvas.Fill(
      {.left = band.right() - width - 6, .top = band.top + 1, .width = width, .height = kCut - 2},
      kPaper);
  canvas.Text(band.right() - 12, band.top + kCut / 2, label, kSmall, kRight);
}

void DrawAddresses(Canvas& canvas, const Heatmap& heatmap, const Layout& layout) {
  // Ticks are at powers of two, because people give sizes in these.
  const double least_pages = layout.PagesPerPixel() * kTickRoom;
  const PageCount step(
      static_cast<std::uint64_t>(std::exp2(std::max(0.0, std::ceil(std::log2(least_pages))))));
  const auto label = [&](double y, Vpn vpn) {
    canvas.Line(kPlot.left - kTickLength, y, kPlot.left, y, kInk);
    canvas.Text(kPlot.left - kTickLength - 5, y, Address(vpn), kTick, kRight);
  };
  for (std::size_t s = 0; s < heatmap.addresses.segments.size(); ++s) {
    const VpnRange range = heatmap.addresses.segments[s].range;
    const double bottom = layout.SegmentBottom(s);
    const double top = bottom - layout.SegmentHeight(s);
    label(bottom, range.start);
    std::uint64_t tick = (range.start.value() / step.value() + 1) * step.value();
    for (; Vpn(tick) < range.end; tick += step.value()) {
      const double y = layout.YOf(s, Vpn(tick) - range.start);
      if (bottom - y >= kTickRoom / 2 && y - top >= kTickRoom / 4) label(y, Vpn(tick));
    }
    if (s + 1 < heatmap.addresses.segments.size()) {
      DrawCut(canvas, top, heatmap.addresses.segments[s + 1].range.start - range.end);
    }
  }
  canvas.Text(28, kPlot.top + kPlot.height / 2,
              fmt::format("virtual address (ticks every {})", HumanSize(step)), kCaption, kCentre,
              Canvas::Direction::kUpwards);
}

void DrawTime(Canvas& canvas, const Heatmap& heatmap) {
  const double start = Seconds(heatmap.start);
  const double length = Seconds(heatmap.column_length) * static_cast<double>(heatmap.columns);
  if (length > 0) {
    const double step = TickStep(length, 12);
    for (double tick = std::ceil(start / step - 1e-9) * step; tick <= start + length * (1 + 1e-9);
         tick += step) {
      const double x = kPlot.left + (tick - start) / length * kPlot.width;
      canvas.Line(x, kPlot.bottom(), x, kPlot.bottom() + kTickLength, kInk);
      canvas.Text(x, kPlot.bottom() + 20, fmt::format("{:g}", tick + 0.0), kTick, kCentre);
    }
  }
  canvas.Text(kPlot.left + kPlot.width / 2, kPlot.bottom() + 48,
              "time since the recording began, s", kCaption, kCentre);
}

// Ticks at 1, 2 and 5 times powers of ten on a logarithmic bar, evenly on a linear one.
std::vector<double> BarTicks(const ValueScale& scale) {
  std::vector<double> ticks;
  if (scale.logarithmic()) {
    const bool decades_only = scale.high() / scale.low() > 300;
    for (double decade = std::pow(10, std::floor(std::log10(scale.low()))); decade <= scale.high();
         decade *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = decade * factor;
        if (decades_only && factor != 1.0) continue;
        if (tick >= scale.low() && tick <= scale.high()) ticks.push_back(tick);
      }
    }
  } else {
    const double step = TickStep(scale.high(), 6);
    for (int i = 0; i * step <= scale.high() * (1 + 1e-9); ++i) ticks.push_back(i * step);
  }
  return ticks;
}

void DrawColourBar(Canvas& canvas, const Heatmap& heatmap, const ValueScale& scale) {
  if (!scale.empty()) {
    for (double y = 0; y < kBar.height; ++y) {
      canvas.Fill({.left = kBar.left, .top = kBar.top + y, .width = kBar.width, .height = 1},
                  ColourOf(heatmap, 1 - y / (kBar.height - 1)));
    }
    canvas.Frame(kBar);
    for (const double tick : BarTicks(scale)) {
      const double y = kBar.bottom() - scale.Position(tick) * kBar.height;
      canvas.Line(kBar.right(), y, kBar.right() + kTickLength, y, kInk);
      canvas.Text(kBar.right() + kTickLength + 5, y, Significant(tick), kTick, kLeft);
    }
    canvas.Text(kWidth - 36, kBar.top + kBar.height / 2,
                heatmap.Unit() + (scale.logarithmic() ? " (log scale)" : ""), kCaption, kCentre,
                Canvas::Direction::kUpwards);
  }
  const double top = kBar.bottom() + 24;
  const Box zero{.left = kBar.left, .top = top, .width = kBar.width, .height = 16};
  const Box unknown{.left = kBar.left, .top = top + 28, .width = kBar.width, .height = 16};
  canvas.Fill(zero, ZeroColour(heatmap));
  canvas.Frame(zero);
  canvas.Text(zero.right() + 11, zero.top + 8, "0", kTick, kLeft);
  canvas.Hatch(unknown);
  canvas.Frame(unknown);
  canvas.Text(unknown.right() + 11, unknown.top + 8,
              heatmap.relative_sd.empty() ? "not observed" : "unknown", kTick, kLeft);
  if (heatmap.relative_sd.empty()) return;
  const Box vague{.left = kBar.left, .top = top + 56, .width = kBar.width, .height = 16};
  canvas.Hatch(vague);
  canvas.Fill(vague, ColourOf(heatmap, 0.5), Opacity(Heatmap::kVague));
  canvas.Frame(vague);
  canvas.Text(vague.right() + 11, vague.top + 8, "error +-100 %", kTick, kLeft);
}

}  // namespace

Result<std::string> HeatmapPng(const Heatmap& heatmap) {
  Canvas canvas(kWidth, kHeight);
  canvas.Text(kPlot.left + kPlot.width / 2, 36, heatmap.Title(), kTitle, kCentre);
  if (heatmap.cells.empty()) return canvas.Png();
  const ValueScale scale(heatmap.cells);
  const Layout layout(heatmap);
  DrawCells(canvas, heatmap, layout, scale);
  canvas.Frame(kPlot);
  DrawAddresses(canvas, heatmap, layout);
  DrawTime(canvas, heatmap);
  DrawColourBar(canvas, heatmap, scale);
  canvas.Text(kPlot.left, kPlot.bottom() + 92,
              fmt::format("shown: {} of the score of this target; a cell is {} by {} s",
                          OrUnknown(heatmap.addresses.shown_share, Percent),
                          HumanSize(heatmap.addresses.row_pages),
                          Significant(Seconds(heatmap.column_length))),
              kTick, kLeft);
  double y = kPlot.bottom() + 114;
  for (const std::string& caveat : Caveats(heatmap.totals, *heatmap.options.by)) {
    canvas.Text(kPlot.left, y, caveat, kTick, kLeft);
    y += 20;
  }
  return canvas.Png();
}

}  // namespace tmprof
