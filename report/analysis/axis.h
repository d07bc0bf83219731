// SPDX-License-Identifier: Apache-2.0
// Axes of pictures: the addresses worth showing, the places of ticks, and the colours of values.

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
  std::optional<double> shown_share;  // share of all weight; unset: there is no weight

  VpnRange RowRange(std::size_t row) const;
};

// Chooses the addresses to show. With `wanted` unset these are the fewest addresses that hold 99 %
// of the weight (99 % of the pages, if nothing has weight). Else all spans within `wanted` are
// shown. Small gaps are kept while they make the axis at most a quarter longer, or twice as long if
// that leaves eight stretches or fewer. The other gaps are cut, and the lightest stretches are left
// out until eight remain. `spans` ascend and do not overlap. Precondition: max_rows > 0.
AddressAxis ChooseAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                            std::size_t max_rows);

// Shows all spans (within `wanted`, if it is set) and the memory between them, except for at most
// seven cut gaps. The two largest gaps are cut if they hold at least a 32nd of the pages of the
// spans: they separate program and heap, mappings, and stack (Daptrace, Middleware 2019). Further
// gaps are cut if they hold more than half of these pages, because program and heap may lie apart,
// too. Of equal gaps the one at the lower address is cut first. `spans` ascend and do not overlap.
// Precondition: max_rows > 0.
AddressAxis AllAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                         std::size_t max_rows);

// Returns 1, 2 or 5 times a power of ten: the smallest step that divides `extent` into at most
// `max_ticks` steps. Precondition: extent > 0.
double TickStep(double extent, std::size_t max_ticks);

// Maps values to [0, 1]. The scale is logarithmic over at most four decades if the positive values
// differ by more than a factor of ten. Else it is linear from 0.
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

// Grey map: hot values are dark, 1 is black. 0 is a little darker than the paper.
Colour DarkColour(double position);

// The viridis map: luminance rises with the position, also for colour-blind readers and in grey.
Colour HeatColour(double position);

}  // namespace tmprof
