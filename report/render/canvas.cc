// SPDX-License-Identifier: Apache-2.0

#include "report/render/canvas.h"

#include <numbers>

namespace tmprof {
namespace {

constexpr Colour kHatchGround{0.93, 0.93, 0.93};
constexpr Colour kHatchStroke{0.80, 0.80, 0.80};
constexpr double kHatchPitch = 8;

void SetColour(cairo_t* context, Colour colour) {
  cairo_set_source_rgb(context, colour.red, colour.green, colour.blue);
}

void SetFont(cairo_t* context, double size_px) {
  cairo_select_font_face(context, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, size_px);
}

cairo_status_t AppendBytes(void* to, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Canvas::Canvas(int width_px, int height_px)
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width_px, height_px)),
      context_(cairo_create(surface_.get())) {
  SetColour(context_.get(), kPaper);
  cairo_paint(context_.get());
}

void Canvas::Fill(const Box& box, Colour colour, double opacity) {
  // Without anti-aliasing neighbouring boxes meet exactly, with no seam between them.
  cairo_set_antialias(context_.get(), CAIRO_ANTIALIAS_NONE);
  cairo_set_source_rgba(context_.get(), colour.red, colour.green, colour.blue, opacity);
  cairo_rectangle(context_.get(), box.left, box.top, box.width, box.height);
  cairo_fill(context_.get());
  cairo_set_antialias(context_.get(), CAIRO_ANTIALIAS_DEFAULT);
}

void Canvas::Hatch(const Box& box) {
  cairo_save(context_.get());
  Fill(box, kHatchGround);
  cairo_rectangle(context_.get(), box.left, box.top, box.width, box.height);
  cairo_clip(context_.get());
  for (double x = box.left - box.height; x < box.right(); x += kHatchPitch) {
    Line(x, box.bottom(), x + box.height, box.top, kHatchStroke);
  }
  cairo_restore(context_.get());
}

void Canvas::Frame(const Box& box) {
  SetColour(context_.get(), kInk);
  cairo_set_line_width(context_.get(), 1);
  cairo_rectangle(context_.get(), box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1);
  cairo_stroke(context_.get());
}

void Canvas::Line(double x0, double y0, double x1, double y1, Colour colour, double width_px) {
  SetColour(context_.get(), colour);
  cairo_set_line_width(context_.get(), width_px);
  cairo_move_to(context_.get(), x0, y0);
  cairo_line_to(context_.get(), x1, y1);
  cairo_stroke(context_.get());
}

void Canvas::Text(double x, double y, std::string_view text, double size_px, Across across,
                  Direction direction) {
  const std::string terminated(text);
  SetFont(context_.get(), size_px);
  cairo_text_extents_t extents;
  cairo_text_extents(context_.get(), terminated.c_str(), &extents);
  cairo_font_extents_t font;
  cairo_font_extents(context_.get(), &font);
  double shift = 0;
  if (across == Across::kCentre) shift = -extents.x_advance / 2;
  if (across == Across::kRight) shift = -extents.x_advance;
  cairo_save(context_.get());
  cairo_translate(context_.get(), x, y);
  if (direction == Direction::kUpwards) cairo_rotate(context_.get(), -std::numbers::pi / 2);
  cairo_move_to(context_.get(), shift, (font.ascent - font.descent) / 2);
  SetColour(context_.get(), kInk);
  cairo_show_text(context_.get(), terminated.c_str());
  cairo_new_path(context_.get());
  cairo_restore(context_.get());
}

double Canvas::TextWidth(std::string_view text, double size_px) {
  SetFont(context_.get(), size_px);
  cairo_text_extents_t extents;
  cairo_text_extents(context_.get(), std::string(text).c_str(), &extents);
  return extents.x_advance;
}

Result<std::string> Canvas::Png() const {
  std::string bytes;
  cairo_status_t status = cairo_status(context_.get());
  if (status == CAIRO_STATUS_SUCCESS) {
    status = cairo_surface_write_to_png_stream(surface_.get(), AppendBytes, &bytes);
  }
  if (status != CAIRO_STATUS_SUCCESS) {
    return Fail(
        {.attempt = "draw a picture", .object = "PNG", .reason = cairo_status_to_string(status)});
  }
  return bytes;
}

}  // namespace tmprof
