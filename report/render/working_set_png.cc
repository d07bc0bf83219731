// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text/format.h"
#include "report/analysis/size_unit.h"
#include "report/analysis/working_set.h"
#include "report/render/canvas.h"

namespace tmprof {
namespace {

constexpr int kImageWidth = 1000;
constexpr int kImageHeight = 820;
constexpr Box kOverTime{.left = 110, .top = 84, .width = 700, .height = 350};
constexpr Box kIdle{.left = 110, .top = 560, .width = 700, .height = 190};
constexpr double kTitleSize = 20;
constexpr double kCaptionSize = 16;
constexpr double kTickSize = 14;
constexpr double kBand = 0.25;  // opacity
using enum Canvas::Across;

// Colour-blind readers can tell these apart (Okabe and Ito, 2008).
constexpr std::array<Colour, 6> kColours = {{{0.0, 0.45, 0.70},
                                             {0.0, 0.62, 0.45},
                                             {0.90, 0.62, 0.0},
                                             {0.84, 0.37, 0.0},
                                             {0.80, 0.47, 0.65},
                                             {0.34, 0.71, 0.91}}};

Colour ColourOfRate(std::size_t rate) { return kColours[rate % kColours.size()]; }

// A vertical axis of sizes from 0 on.
class SizeAxis {
 public:
  SizeAxis(const Box& box, double most_pages)
      : box_(box), most_(std::max(most_pages, 1.0)), unit_(SizeUnitOf(most_)) {}

  double YOf(double pages) const {
    return box_.bottom() - box_.height * std::min(1.0, pages / most_);
  }
  void Draw(Canvas& canvas) const {
    const double end = most_ / unit_.pages;
    const double step = TickStep(end, 5);
    for (double tick = 0; tick <= end * (1 + 1e-9); tick += step) {
      const double y = YOf(tick * unit_.pages);
      canvas.Line(box_.left, y, box_.right(), y, kFaint);
      canvas.Text(box_.left - 10, y, fmt::format("{:g}", tick), kTickSize, kRight);
    }
    canvas.Text(30, box_.top + box_.height / 2, unit_.name, kCaptionSize, kCentre,
                Canvas::Direction::kUpwards);
  }

 private:
  Box box_;
  double most_;
  SizeUnit unit_;
};

void DrawOverTime(Canvas& canvas, const WorkingSet& set, double most_pages) {
  const SizeAxis axis(kOverTime, most_pages);
  const auto visited = static_cast<double>(set.visited.value());
  const auto never = static_cast<double>(set.never_visited.value_or(PageCount(0)).value());
  if (never > 0 && !set.is_exact) {
    const double top = axis.YOf(visited + never);
    canvas.Hatch({.left = kOverTime.left,
                  .top = top,
                  .width = kOverTime.width,
                  .height = axis.YOf(visited) - top});
  }
  axis.Draw(canvas);
  const double seconds = std::max(1e-9, Seconds(set.totals.duration()));
  const auto x_of = [&](MonotonicTime time) {
    return kOverTime.left + kOverTime.width * Seconds(time - set.totals.start) / seconds;
  };
  for (std::size_t r = 0; r < set.options.rates.size(); ++r) {
    for (const WorkingSet::Row& row : set.rows) {
      if (!row.any_ran) continue;
      const WorkingSet::Size& size = row.at_least[r];
      const double left = x_of(row.start);
      const double width = x_of(row.end) - left;
      canvas.Fill({.left = left,
                   .top = axis.YOf(size.high),
                   .width = width,
                   .height = axis.YOf(size.low) - axis.YOf(size.high)},
                  ColourOfRate(r), kBand);
    }
  }
  for (std::size_t r = 0; r < set.options.rates.size(); ++r) {
    // Sizes that are equal stay visible: the line on top is the thinner one.
    const double width = 2 + 2.5 * static_cast<double>(set.options.rates.size() - 1 - r);
    const WorkingSet::Row* before = nullptr;
    for (const WorkingSet::Row& row : set.rows) {
      if (row.any_ran) {
        const double y = axis.YOf(row.at_least[r].pages);
        canvas.Line(x_of(row.start), y, x_of(row.end), y, ColourOfRate(r), width);
        if (before != nullptr) {
          canvas.Line(x_of(row.start), axis.YOf(before->at_least[r].pages), x_of(row.start), y,
                      ColourOfRate(r), width);
        }
      }
      before = row.any_ran ? &row : nullptr;
    }
  }
  const double step = TickStep(seconds, 10);
  for (double tick = 0; tick <= seconds * (1 + 1e-9); tick += step) {
    const double x = kOverTime.left + kOverTime.width * tick / seconds;
    canvas.Line(x, kOverTime.bottom(), x, kOverTime.bottom() + 5, kInk);
    canvas.Text(x, kOverTime.bottom() + 18, fmt::format("{:g}", tick), kTickSize, kCentre);
  }
  canvas.Text(kOverTime.left + kOverTime.width / 2, kOverTime.bottom() + 42, "seconds",
              kCaptionSize, kCentre);
  canvas.Frame(kOverTime);
}

void DrawLegend(Canvas& canvas, const WorkingSet& set) {
  constexpr double kLine = 26;
  double y = kOverTime.top + 8;
  const double left = kOverTime.right() + 20;
  for (const char* line : {"accesses of a page", "per CPU second:"}) {
    canvas.Text(left, y, line, kTickSize, kLeft);
    y += 20;
  }
  y += 6;
  for (std::size_t r = 0; r < set.options.rates.size(); ++r, y += kLine) {
    canvas.Fill({.left = left, .top = y - 8, .width = 34, .height = 16}, ColourOfRate(r), kBand);
    canvas.Line(left, y, left + 34, y, ColourOfRate(r), 2.5);
    canvas.Text(left + 44, y, fmt::format("≥ {:g}", set.options.rates[r]), kTickSize, kLeft);
  }
  if (!set.is_exact) {
    canvas.Text(left, y, "band: 90 % interval", kTickSize, kLeft);
    y += kLine;
  }
  const std::optional<PageCount> never = set.never_visited;
  if (never && *never > PageCount(0) && !set.is_exact) {
    canvas.Hatch({.left = left, .top = y - 8, .width = 34, .height = 16});
    canvas.Text(left + 44, y, "never looked at", kTickSize, kLeft);
  }
}

void DrawIdle(Canvas& canvas, const WorkingSet& set, double most_pages) {
  canvas.Text(kIdle.left + kIdle.width / 2, kIdle.top - 22,
              "idle memory: not accessed for so long, at the end", kCaptionSize, kCentre);
  const SizeAxis axis(kIdle, most_pages);
  const auto visited = static_cast<double>(set.visited.value());
  axis.Draw(canvas);
  const auto bars = static_cast<double>(set.idle.size() + (set.is_exact ? 0 : 1));
  const double slot = kIdle.width / std::max(1.0, bars);
  constexpr double kBarShare = 0.5;  // of its slot
  for (std::size_t age = 0; age < set.idle.size(); ++age) {
    const WorkingSet::Idle& idle = set.idle[age];
    const double left = kIdle.left + slot * (static_cast<double>(age) + (1 - kBarShare) / 2);
    const double middle = left + slot * kBarShare / 2;
    const double top = axis.YOf(idle.size.pages);
    canvas.Fill(
        {.left = left, .top = top, .width = slot * kBarShare, .height = kIdle.bottom() - top},
        ColourOfRate(0), 0.7);
    const double low = axis.YOf(idle.size.low);
    const double high = axis.YOf(idle.size.high);
    canvas.Line(middle, low, middle, high, kInk, 1.6);
    for (const double y : {low, high}) canvas.Line(middle - 6, y, middle + 6, y, kInk, 1.6);
    canvas.Text(middle, kIdle.bottom() + 18, "≥ " + AgeText(idle.age), kTickSize, kCentre);
  }
  if (!set.is_exact) {
    const double left =
        kIdle.left + slot * (static_cast<double>(set.idle.size()) + (1 - kBarShare) / 2);
    if (const std::optional<PageCount> never = set.never_visited) {
      const double top = axis.YOf(static_cast<double>(never->value()));
      canvas.Hatch(
          {.left = left, .top = top, .width = slot * kBarShare, .height = kIdle.bottom() - top});
    }
    canvas.Text(left + slot * kBarShare / 2, kIdle.bottom() + 18,
                set.never_visited ? "never looked at" : "rest: unknown", kTickSize, kCentre);
  }
  if (set.idle.empty()) {
    canvas.Text(kIdle.left + kIdle.width / 2, kIdle.top + kIdle.height / 2,
                set.at_least.empty() ? "unknown" : "no process was there for a second", kTickSize,
                kCentre);
  }
  canvas.Line(kIdle.left, axis.YOf(visited), kIdle.right(), axis.YOf(visited), kInk);
  canvas.Text(kIdle.right() + 8, axis.YOf(visited), set.is_exact ? "accessed" : "looked at",
              kTickSize, kLeft);
  canvas.Frame(kIdle);
}

}  // namespace

Result<std::string> WorkingSetPng(const WorkingSet& set) {
  Canvas canvas(kImageWidth, kImageHeight);
  canvas.Text(kOverTime.left + kOverTime.width / 2, 28,
              fmt::format("{}: working set", Printable(set.totals.trace)), kTitleSize, kCentre);
  std::string known =
      fmt::format("{} {}", set.is_exact ? "accessed:" : "looked at:", HumanSize(set.visited));
  if (set.resident)
    known += fmt::format("; at most {} resident at a time", HumanSize(*set.resident));
  canvas.Text(kOverTime.left + kOverTime.width / 2, 56, known, kCaptionSize, kCentre);
  const PageCount most = set.visited + set.never_visited.value_or(PageCount(0));
  const auto most_pages = static_cast<double>(most.value());
  DrawOverTime(canvas, set, most_pages);
  DrawLegend(canvas, set);
  DrawIdle(canvas, set, most_pages);
  return canvas.Png();
}

}  // namespace tmprof
