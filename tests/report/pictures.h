// SPDX-License-Identifier: Apache-2.0
// Reads a PNG back, for tests.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <cairo/cairo.h>

#include "report/analysis/axis.h"

namespace tmprof {

inline constexpr std::uint32_t kWhite = 0xffffff;

inline std::uint32_t Rgb(Colour colour) {
  const auto byte = [](double value) { return static_cast<std::uint32_t>(value * 255 + 0.5); };
  return byte(colour.red) << 16 | byte(colour.green) << 8 | byte(colour.blue);
}

// The greatest difference of a channel, 0 to 255.
inline std::uint32_t Difference(std::uint32_t a, std::uint32_t b) {
  std::uint32_t greatest = 0;
  for (const int shift : {0, 8, 16}) {
    const std::uint32_t x = a >> shift & 0xff;
    const std::uint32_t y = b >> shift & 0xff;
    greatest = std::max(greatest, x > y ? x - y : y - x);
  }
  return greatest;
}

class Picture {
 public:
  explicit Picture(std::string_view png) {
    surface_.reset(cairo_image_surface_create_from_png_stream(
        [](void* from, unsigned char* to, unsigned int bytes) {
          auto& rest = *static_cast<std::string_view*>(from);
          if (rest.size() < bytes) return CAIRO_STATUS_READ_ERROR;
          std::memcpy(to, rest.data(), bytes);
          rest.remove_prefix(bytes);
          return CAIRO_STATUS_SUCCESS;
        },
        &png));
  }

  int width() const { return cairo_image_surface_get_width(surface_.get()); }
  int height() const { return cairo_image_surface_get_height(surface_.get()); }
  // 0xRRGGBB.
  std::uint32_t At(int x, int y) const {
    const unsigned char* pixel = cairo_image_surface_get_data(surface_.get()) +
                                 y * cairo_image_surface_get_stride(surface_.get()) + 4 * x;
    std::uint32_t value = 0;
    std::memcpy(&value, pixel, sizeof value);
    return value & 0xffffff;
  }

 private:
  struct Release {
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  };
  std::unique_ptr<cairo_surface_t, Release> surface_;
};

}  // namespace tmprof
