// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/axis.h"

#include <vector>

#include <gtest/gtest.h>

namespace tmprof {
namespace axis_test {

using Spans = std::vector<WeightedSpan>;

void AddPages(Spans& spans, std::uint64_t first, std::uint64_t pages, double weight) {
  for (std::uint64_t i = 0; i < pages; ++i) {
    spans.push_back({.start = Vpn(first + i), .span = PageCount(1), .weight = weight});
  }
}

std::vector<VpnRange> Ranges(const AddressAxis& axis) {
  std::vector<VpnRange> ranges;
  for (const AddressAxis::Segment& segment : axis.segments) ranges.push_back(segment.range);
  return ranges;
}

TEST(ChooseAddressesTest, ShowsNothingOfNothing) {
  const AddressAxis axis = ChooseAddresses({}, std::nullopt, 10);
  EXPECT_EQ(axis.rows, 0u);
  EXPECT_FALSE(axis.shown_share.has_value());
}

TEST(ChooseAddressesTest, ShowsOnePageAsOneRow) {
  const AddressAxis axis =
      ChooseAddresses(Spans{{.start = Vpn(7), .span = PageCount(1), .weight = 3}}, {}, 10);
  EXPECT_EQ(Ranges(axis), (std::vector{VpnRange{Vpn(7), Vpn(8)}}));
  EXPECT_EQ(axis.rows, 1u);
  EXPECT_EQ(axis.shown_share, 1.0);
}

TEST(ChooseAddressesTest, CutsTheGapBetweenTwoHotRanges) {
  Spans spans;
  AddPages(spans, 1000, 100, 1);
  AddPages(spans, 900000, 50, 1);
  // 99 % of 150 equal pages are 149.
  const AddressAxis axis = ChooseAddresses(spans, std::nullopt, 15);
  EXPECT_EQ(Ranges(axis),
            (std::vector{VpnRange{Vpn(1000), Vpn(1100)}, VpnRange{Vpn(900000), Vpn(900049)}}));
  EXPECT_EQ(axis.row_pages, PageCount(10));
  EXPECT_EQ(axis.rows, 15u);
  EXPECT_EQ(axis.RowRange(9), (VpnRange{Vpn(1090), Vpn(1100)}));
  EXPECT_EQ(axis.RowRange(10), (VpnRange{Vpn(900000), Vpn(900010)}));
}

TEST(ChooseAddressesTest, LeavesOutWhatHoldsLessThanOnePercent) {
  Spans spans;
  AddPages(spans, 1000, 100, 1000);
  AddPages(spans, 500000, 100, 1);
  const AddressAxis axis = ChooseAddresses(spans, std::nullopt, 50);
  ASSERT_EQ(axis.segments.size(), 1u);
  EXPECT_GE(axis.segments[0].range.start, Vpn(1000));
  EXPECT_LE(axis.segments[0].range.end, Vpn(1100));
  EXPECT_GE(*axis.shown_share, 0.99);
}

TEST(ChooseAddressesTest, KeepsASmallGapInsideAHotRange) {
  Spans spans;
  AddPages(spans, 1000, 100, 1);
  AddPages(spans, 1110, 100, 1);
  EXPECT_EQ(Ranges(ChooseAddresses(spans, std::nullopt, 50)),
            (std::vector{VpnRange{Vpn(1000), Vpn(1208)}}));
}

TEST(AllAddressesTest, ShowsWhatIsColdTooWithoutTheTwoLargestGaps) {
  // Program, heap with a hole, mappings, stack: the gaps have 40, 5, 1020 and 70 pages.
  const Spans spans{{.start = Vpn(100), .span = PageCount(40), .weight = 1},
                    {.start = Vpn(180), .span = PageCount(10), .weight = 0},
                    {.start = Vpn(195), .span = PageCount(5), .weight = 0},
                    {.start = Vpn(1220), .span = PageCount(30), .weight = 1},
                    {.start = Vpn(1320), .span = PageCount(4), .weight = 0}};
  const AddressAxis axis = AllAddresses(spans, std::nullopt, 254);
  EXPECT_EQ(Ranges(axis), (std::vector{VpnRange{Vpn(100), Vpn(200)}, VpnRange{Vpn(1220), Vpn(1250)},
                                       VpnRange{Vpn(1320), Vpn(1324)}}));
  EXPECT_EQ(axis.shown_share, 1.0);
  EXPECT_EQ(axis.row_pages, PageCount(1));
  EXPECT_EQ(axis.rows, 134u);
  EXPECT_EQ(axis.RowRange(100), (VpnRange{Vpn(1220), Vpn(1221)}));
}

TEST(AllAddressesTest, CutsFurtherGapsThatAreLargerThanHalfOfWhatIsShown) {
  // 89 pages: a gap of 45 is above half, of 44 it is not.
  Spans spans{{.start = Vpn(100), .span = PageCount(40)},
              {.start = Vpn(185), .span = PageCount(15)},
              {.start = Vpn(1220), .span = PageCount(30)},
              {.start = Vpn(1320), .span = PageCount(4)}};
  EXPECT_EQ(AllAddresses(spans, std::nullopt, 254).segments.size(), 4u);
  spans[0].start = Vpn(101);
  EXPECT_EQ(AllAddresses(spans, std::nullopt, 254).segments.size(), 3u);
  spans.clear();
  for (std::uint64_t i = 0; i < 20; ++i) AddPages(spans, 1000 * i, 10, 1);
  EXPECT_EQ(AllAddresses(spans, std::nullopt, 254).segments.size(), 8u);
}

TEST(AllAddressesTest, CutsOfEqualGapsTheLowestAndNoneThatIsSmall) {
  Spans spans;
  for (std::uint64_t i = 0; i < 4; ++i) AddPages(spans, 200 * i, 100, 1);
  EXPECT_EQ(Ranges(AllAddresses(spans, std::nullopt, 50)),
            (std::vector{VpnRange{Vpn(0), Vpn(100)}, VpnRange{Vpn(200), Vpn(300)},
                         VpnRange{Vpn(400), Vpn(700)}}));
  // 640 pages, of which a 32nd is 20.
  spans = {{.start = Vpn(0), .span = PageCount(500)},
           {.start = Vpn(519), .span = PageCount(100)},
           {.start = Vpn(639), .span = PageCount(40)}};
  EXPECT_EQ(Ranges(AllAddresses(spans, std::nullopt, 50)),
            (std::vector{VpnRange{Vpn(0), Vpn(619)}, VpnRange{Vpn(639), Vpn(679)}}));
}

TEST(AllAddressesTest, IsOfTheRangeAskedForAndHasNoMoreStretchesThanRows) {
  Spans spans;
  for (std::uint64_t i = 0; i < 3; ++i) AddPages(spans, 200 * i, 100, 1);
  const AddressAxis part = AllAddresses(spans, VpnRange{Vpn(50), Vpn(250)}, 50);
  EXPECT_EQ(Ranges(part), (std::vector{VpnRange{Vpn(50), Vpn(100)}, VpnRange{Vpn(200), Vpn(250)}}));
  EXPECT_EQ(part.shown_share, 100.0 / 300);
  EXPECT_EQ(Ranges(AllAddresses(spans, std::nullopt, 1)),
            (std::vector{VpnRange{Vpn(0), Vpn(500)}}));
  EXPECT_EQ(AllAddresses(spans, VpnRange{Vpn(120), Vpn(180)}, 9).rows, 0u);
  EXPECT_EQ(AllAddresses({}, std::nullopt, 9).rows, 0u);
}

TEST(ColourTest, TheLastColourOfDarkAndOfHeatIsTheHottest) {
  EXPECT_EQ(DarkColour(1).red, 0);
  EXPECT_LT(DarkColour(0).green, 1) << "what is accessed at all is not as the paper";
  for (int i = 1; i <= 10; ++i) EXPECT_LT(DarkColour(0.1 * i).blue, DarkColour(0.1 * (i - 1)).blue);
}

TEST(ChooseAddressesTest, ShowsAtMostEightStretchesTheHeaviest) {
  Spans spans;
  for (std::uint64_t i = 0; i < 20; ++i) {
    AddPages(spans, 1'000'000 * (i + 1), 10, i == 3 ? 0.5 : 1);
  }
  const AddressAxis axis = ChooseAddresses(spans, std::nullopt, 100);
  ASSERT_EQ(axis.segments.size(), 8u);
  EXPECT_EQ(axis.segments[3].range.start, Vpn(5'000'000));  // the light fourth is not among them
  EXPECT_DOUBLE_EQ(*axis.shown_share, 80.0 / 195);
}

TEST(ChooseAddressesTest, NeverExceedsTheRowsAllowed) {
  Spans spans;
  for (std::uint64_t i = 0; i < 6; ++i) AddPages(spans, 100'000 * (i + 1), 7 * i + 1, 1);
  for (std::size_t most = 1; most < 40; ++most) {
    const AddressAxis axis = ChooseAddresses(spans, std::nullopt, most);
    EXPECT_LE(axis.rows, most);
    std::size_t rows = 0;
    for (const auto& segment : axis.segments) {
      EXPECT_EQ(segment.first_row, rows);
      rows += segment.rows;
    }
    EXPECT_EQ(rows, axis.rows);
  }
}

TEST(ChooseAddressesTest, ShowsAllOfAWantedRangeHoweverCold) {
  Spans spans;
  AddPages(spans, 1000, 100, 1000);
  AddPages(spans, 500000, 100, 0);
  const AddressAxis axis = ChooseAddresses(spans, VpnRange{Vpn(500010), Vpn(600000)}, 50);
  EXPECT_EQ(Ranges(axis), (std::vector{VpnRange{Vpn(500010), Vpn(500100)}}));
  EXPECT_EQ(axis.shown_share, 0.0);
}

TEST(ChooseAddressesTest, GoesByPagesWhereNothingHasWeight) {
  Spans spans;
  AddPages(spans, 1000, 100, 0);
  const AddressAxis axis = ChooseAddresses(spans, std::nullopt, 50);
  ASSERT_EQ(axis.segments.size(), 1u);
  EXPECT_GE(axis.segments[0].range.size(), PageCount(99));
  EXPECT_FALSE(axis.shown_share.has_value());
}

TEST(ChooseAddressesTest, CutsAHugeSpanToItsShareOfTheWantedRange) {
  const Spans spans = {{.start = Vpn(0), .span = PageCount(512), .weight = 8}};
  const AddressAxis axis = ChooseAddresses(spans, VpnRange{Vpn(128), Vpn(256)}, 4);
  EXPECT_EQ(Ranges(axis), (std::vector{VpnRange{Vpn(128), Vpn(256)}}));
  EXPECT_DOUBLE_EQ(*axis.shown_share, 0.25);
}

TEST(TickStepTest, IsOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(TickStep(10, 10), 1);
  EXPECT_DOUBLE_EQ(TickStep(31, 12), 5);
  EXPECT_DOUBLE_EQ(TickStep(0.7, 5), 0.2);
  EXPECT_DOUBLE_EQ(TickStep(900, 10), 100);
}

TEST(ValueScaleTest, IsLogarithmicOverWideValuesAndNeverBeyondFourDecades) {
  const std::vector<std::optional<double>> values = {std::nullopt, 0.0, 1e-9, 1.0, 100.0};
  const ValueScale scale(values);
  EXPECT_TRUE(scale.logarithmic());
  EXPECT_DOUBLE_EQ(scale.low(), 0.01);
  EXPECT_DOUBLE_EQ(scale.Position(1.0), 0.5);
  EXPECT_DOUBLE_EQ(scale.Position(1e-9), 0.0);
  EXPECT_DOUBLE_EQ(scale.Position(1000), 1.0);
  EXPECT_DOUBLE_EQ(scale.ValueAt(0.5), 1.0);
}

TEST(ValueScaleTest, IsLinearFromZeroOverNarrowValues) {
  const std::vector<std::optional<double>> values = {2.0, 4.0};
  const ValueScale scale(values);
  EXPECT_FALSE(scale.logarithmic());
  EXPECT_DOUBLE_EQ(scale.Position(2.0), 0.5);
  EXPECT_DOUBLE_EQ(scale.Position(4.0), 1.0);
}

TEST(ValueScaleTest, HasNothingToScaleWithoutPositiveValues) {
  const std::vector<std::optional<double>> values = {std::nullopt, 0.0};
  EXPECT_TRUE(ValueScale(values).empty());
}

TEST(HeatColourTest, GrowsBrighterWithHeat) {
  double before = -1;
  for (int i = 0; i <= 100; ++i) {
    const Colour colour = HeatColour(i / 100.0);
    // Relative luminance weights of ITU-R BT.709.
    const double luminance = 0.2126 * colour.red + 0.7152 * colour.green + 0.0722 * colour.blue;
    EXPECT_GT(luminance, before) << i;
    before = luminance;
  }
}

}  // namespace axis_test
}  // namespace tmprof
