// SPDX-License-Identifier: Apache-2.0
// Axes of pictures: which addresses are worth showing, where ticks go, what colour a value has.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"

namespace tmprof {

struct WeightedSpan {
  Vpn start;
  PageCount span{1};
  double weight = 0;
};

// Stretches of addresses at one scale, with the gaps between them cut out.
struct AddressAxis {
  struct Segment {
    VpnRange range;
    std::size_t first_row = 0;
    std::size_t rows = 0;
  };
  std::vector<Segment> segments;  // ascending, disjoint
  PageCount row_pages{1};         // the last row of a segment may hold fewer
  std::size_t rows = 0;
  std::optional<double> shown_share;  // of all weight; unknown without any

  VpnRange RowRange(std::size_t row) const;
};

// With `wanted` unset, the fewest addresses that hold 99 % of the weight (of the pages, when
// nothing has weight); else all of `wanted` that has spans. Small gaps are kept, at the price of at
// most a quarter more axis, or twice the axis where that leaves eight stretches or fewer; the
// others are cut, and the lightest stretches left out until there are eight. `spans` ascend and do
// not overlap. Precondition: max_rows > 0.
AddressAxis ChooseAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                            std::size_t max_rows);

// All of the spans (of `wanted`, where that is set) with what lies between them, but for gaps that
// are cut: the two largest, from a 32nd of what the spans hold up (program and heap, mappings,
// stack: Daptrace, Middleware 2019), and others of more than half of it (program and heap lie
// apart, too), seven at most in all. Of equal gaps the one at the lower address goes first. `spans`
// and `max_rows` as above.
AddressAxis AllAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                         std::size_t max_rows);

// 1, 2 or 5 times a power of ten: the smallest that gives at most `max_ticks` steps over `extent`.
// Precondition: extent > 0.
double TickStep(double extent, std::size_t max_ticks);

// Maps values to [0, 1]. Logarithmic over at most four decades where the positive values differ by
// more than a factor of ten, else linear from 0.
class ValueScale {
 public:
  explicit ValueScale(std::span<const std::optional<double>> values);

  bool logarithmic() const { return logarithmic_; }
  bool empty() const { return high_ <= 0; }  // no positive value
  double low() const { return low_; }
  double high() const { return high_; }
  double Position(double value) const;  // clamped
  double ValueAt(double position) const;

 private:
  bool logarithmic_ = false;
  double low_ = 0;
  double high_ = 0;
};

struct Colour {
  double red = 0;
  double green = 0;
  double blue = 0;
};

// Grey, black at 1: what is darker is hotter. Lighter than any is the paper.
Colour DarkColour(double position);

// The viridis map: luminance rises with the position, also for colour-blind readers and in grey.
Colour HeatColour(double position);

}  // namespace tmprof
