// SPDX-License-Identifier: Apache-2.0
// A picture under construction, drawn with cairo, in pixels from the top left corner.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <cairo/cairo.h>

#include "base/result.h"
#include "report/analysis/axis.h"

namespace tmprof {

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

class Canvas {
 public:
  enum class Across { kLeft, kCentre, kRight };  // the end of a text that is at x
  enum class Direction { kLevel, kUpwards };

  Canvas(int width_px, int height_px);

  // `opacity`: 1 hides what was there, 0 changes nothing.
  void Fill(const Box& box, Colour colour, double opacity = 1);
  // Fills with diagonal strokes on light grey. That means "not observed" and is unlike any colour
  // of a heat map.
  void Hatch(const Box& box);
  void Frame(const Box& box);
  void Line(double x0, double y0, double x1, double y1, Colour colour, double width_px = 1);
  // y is the middle of the text's height.
  void Text(double x, double y, std::string_view text, double size_px, Across across,
            Direction direction = Direction::kLevel);
  double TextWidth(std::string_view text, double size_px);

  cairo_t* context() { return context_.get(); }

  Result<std::string> Png() const;  // the bytes of a PNG file

 private:
  struct Release {
    void operator()(cairo_t* context) const { cairo_destroy(context); }
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  };
  std::unique_ptr<cairo_surface_t, Release> surface_;
  std::unique_ptr<cairo_t, Release> context_;
};

inline constexpr Colour kInk{0.13, 0.13, 0.13};
inline constexpr Colour kFaint{0.85, 0.85, 0.85};
inline constexpr Colour kPaper{1, 1, 1};

}  // namespace tmprof
