// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/axis.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr double kWantedShare = 0.99;
constexpr std::uint64_t kBlocks = 512;   // the grain of the choice: 1/512 of the pages observed
constexpr std::uint64_t kGapBudget = 4;  // kept gaps: at most 1/4 of the chosen blocks
constexpr std::size_t kMaxSegments = 8;
constexpr std::size_t kCuts = 2;  // the number in Daptrace
// The least gaps to be one of these cuts, and to be a further one: the spans' pages divided by
// this.
constexpr std::uint64_t kLeastCutShare = 32;
constexpr std::uint64_t kFurtherCutShare = 2;
constexpr double kLogFromRatio = 10;
constexpr double kMaxDecades = 4;

struct Block {
  std::uint64_t number = 0;  // vpn / block size
  double weight = 0;
};

// A run of blocks [first, end).
struct Run {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  double weight = 0;
};

VpnRange Overlap(VpnRange a, VpnRange b) {
  const VpnRange overlap{std::max(a.start, b.start), std::min(a.end, b.end)};
  return overlap.start < overlap.end ? overlap : VpnRange{};
}

VpnRange RangeOf(const WeightedSpan& span) { return {span.start, span.start + span.span}; }

std::vector<Block> Blocks(std::span<const WeightedSpan> spans, VpnRange within,
                          std::uint64_t block_pages, bool by_pages) {
  std::vector<Block> blocks;
  for (const WeightedSpan& span : spans) {
    const VpnRange range = Overlap(RangeOf(span), within);
    for (Vpn at = range.start; at < range.end;) {
      const std::uint64_t number = at.value() / block_pages;
      const Vpn end = std::min(range.end, Vpn((number + 1) * block_pages));
      if (blocks.empty() || blocks.back().number != number) blocks.push_back({.number = number});
      const auto pages = static_cast<double>((end - at).value());
      blocks.back().weight +=
          by_pages ? pages : span.weight * pages / static_cast<double>(span.span.value());
      at = end;
    }
  }
  return blocks;
}

// Keeps the fewest blocks that hold the wanted share, in ascending order.
void KeepHeaviest(std::vector<Block>& blocks, double total) {
  std::ranges::sort(blocks, [](const Block& a, const Block& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.number < b.number;
  });
  double held = 0;
  std::size_t kept = 0;
  while (kept < blocks.size() && held < kWantedShare * total) held += blocks[kept++].weight;
  blocks.resize(kept);
  std::ranges::sort(blocks, {}, &Block::number);
}

// Joins runs across gaps, the smallest gap first and the lowest address among equals. Small gaps
// are joined in any case. Further ones are joined until kMaxSegments runs are left, unless that
// doubles the axis.
std::vector<Run> JoinAcrossSmallGaps(const std::vector<Block>& blocks) {
  const auto gap_before = [&](std::size_t i) {
    return blocks[i].number - blocks[i - 1].number - 1;
  };
  std::vector<std::size_t> by_gap;  // all blocks but the first
  for (std::size_t i = 1; i < blocks.size(); ++i) by_gap.push_back(i);
  std::ranges::stable_sort(by_gap, {}, gap_before);
  std::vector<bool> joined(blocks.size(), false);
  std::uint64_t added = 0;
  std::size_t runs_left = blocks.size();
  for (const std::size_t i : by_gap) {
    added += gap_before(i);
    const std::uint64_t allowed =
        runs_left > kMaxSegments ? blocks.size() : blocks.size() / kGapBudget;
    if (added > allowed) break;
    joined[i] = true;
    --runs_left;
  }
  std::vector<Run> runs;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!joined[i]) runs.push_back({.first = blocks[i].number});
    runs.back().end = blocks[i].number + 1;
    runs.back().weight += blocks[i].weight;
  }
  return runs;
}

void DropLightest(std::vector<Run>& runs, std::size_t most) {
  if (runs.size() <= most) return;
  std::ranges::sort(runs, [](const Run& a, const Run& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.first < b.first;
  });
  runs.resize(most);
  std::ranges::sort(runs, {}, &Run::first);
}

// Lays out as many rows as allowed, each of the smallest size possible. Precondition: no more
// segments than rows.
void LayRows(AddressAxis& axis, std::size_t max_rows) {
  std::uint64_t extent = 0;
  for (const auto& segment : axis.segments) extent += segment.range.size().value();
  const auto rows_at = [&axis](std::uint64_t row_pages) {
    std::uint64_t rows = 0;
    for (const auto& segment : axis.segments) {
      rows += CeilDivide(segment.range.size().value(), row_pages);
    }
    return rows;
  };
  std::uint64_t row_pages = CeilDivide(extent, max_rows);
  while (rows_at(row_pages) > max_rows) row_pages += 1 + row_pages / 64;
  axis.row_pages = PageCount(row_pages);
  for (auto& segment : axis.segments) {
    segment.first_row = axis.rows;
    segment.rows = CeilDivide(segment.range.size().value(), row_pages);
    axis.rows += segment.rows;
  }
}

}  // namespace

VpnRange AddressAxis::RowRange(std::size_t row) const {
  TMPROF_CHECK(row < rows);
  const auto after = std::ranges::upper_bound(segments, row, {}, &Segment::first_row);
  const Segment& segment = *std::prev(after);
  const Vpn start = segment.range.start + PageCount((row - segment.first_row) * row_pages.value());
  return {start, std::min(segment.range.end, start + row_pages)};
}

AddressAxis ChooseAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                            std::size_t max_rows) {
  TMPROF_CHECK(max_rows > 0);
  AddressAxis axis;
  if (spans.empty()) return axis;
  const VpnRange within = wanted.value_or(VpnRange{spans.front().start, RangeOf(spans.back()).end});
  double total = 0;
  std::uint64_t pages = 0;
  for (const WeightedSpan& span : spans) {
    total += span.weight;
    pages += Overlap(RangeOf(span), within).size().value();
  }
  if (pages == 0) return axis;

  const std::uint64_t block_pages = std::bit_floor(std::max<std::uint64_t>(1, pages / kBlocks));
  std::vector<Block> blocks = Blocks(spans, within, block_pages, total <= 0);
  if (!wanted) KeepHeaviest(blocks, total > 0 ? total : static_cast<double>(pages));
  std::vector<Run> runs = JoinAcrossSmallGaps(blocks);
  DropLightest(runs, std::min(kMaxSegments, max_rows));

  // Bounds are those of the observed pages, which are finer than the blocks of the choice.
  double shown = 0;
  auto span = spans.begin();
  for (const Run& run : runs) {
    const VpnRange bounds =
        Overlap({Vpn(run.first * block_pages), Vpn(run.end * block_pages)}, within);
    std::optional<VpnRange> range;
    while (span != spans.end() && RangeOf(*span).end <= bounds.start) ++span;
    for (; span != spans.end() && span->start < bounds.end; ++span) {
      const VpnRange part = Overlap(RangeOf(*span), bounds);
      range = range ? VpnRange{range->start, part.end} : part;
      shown += span->weight * static_cast<double>(part.size().value()) /
               static_cast<double>(span->span.value());
      if (RangeOf(*span).end > bounds.end) break;  // the next run may hold the rest of it
    }
    axis.segments.push_back({.range = *range});
  }
  if (total > 0) axis.shown_share = std::min(1.0, shown / total);
  LayRows(axis, max_rows);
  return axis;
}

AddressAxis AllAddresses(std::span<const WeightedSpan> spans, std::optional<VpnRange> wanted,
                         std::size_t max_rows) {
  TMPROF_CHECK(max_rows > 0);
  AddressAxis axis;
  if (spans.empty()) return axis;
  const VpnRange within = wanted.value_or(VpnRange{spans.front().start, RangeOf(spans.back()).end});
  struct Gap {
    std::uint64_t pages = 0;
    std::size_t before = 0;  // index of the part
  };
  std::vector<VpnRange> parts;
  std::vector<Gap> gaps;
  double total = 0;
  double shown = 0;
  std::uint64_t pages = 0;
  for (const WeightedSpan& span : spans) {
    total += span.weight;
    const VpnRange part = Overlap(RangeOf(span), within);
    if (part.size() == PageCount(0)) continue;
    if (!parts.empty()) {
      gaps.push_back({.pages = (part.start - parts.back().end).value(), .before = parts.size()});
    }
    parts.push_back(part);
    pages += part.size().value();
    shown += span.weight * static_cast<double>(part.size().value()) /
             static_cast<double>(span.span.value());
  }
  if (parts.empty()) return axis;
  std::erase_if(gaps, [&](const Gap& gap) { return kLeastCutShare * gap.pages < pages; });
  std::ranges::stable_sort(gaps, std::greater{}, &Gap::pages);
  std::size_t cuts = 0;
  while (cuts < gaps.size() && cuts < std::min(kMaxSegments, max_rows) - 1 &&
         (cuts < kCuts || kFurtherCutShare * gaps[cuts].pages > pages))
    ++cuts;
  gaps.resize(cuts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool cut = std::ranges::find(gaps, i, &Gap::before) != gaps.end();
    if (i == 0 || cut) axis.segments.push_back({.range = parts[i]});
    axis.segments.back().range.end = parts[i].end;
  }
  if (total > 0) axis.shown_share = std::min(1.0, shown / total);
  LayRows(axis, max_rows);
  return axis;
}

double TickStep(double extent, std::size_t max_ticks) {
  TMPROF_CHECK(extent > 0 && max_ticks > 0);
  const double least = extent / static_cast<double>(max_ticks);
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least) return factor * decade;
  }
  return 10 * decade;
}

ValueScale::ValueScale(std::span<const std::optional<double>> values) {
  double least = 0;
  for (const std::optional<double>& value : values) {
    if (!value || *value <= 0) continue;
    high_ = std::max(high_, *value);
    least = least == 0 ? *value : std::min(least, *value);
  }
  logarithmic_ = high_ > kLogFromRatio * least && least > 0;
  if (logarithmic_) low_ = std::max(least, high_ * std::pow(10, -kMaxDecades));
}

double ValueScale::Position(double value) const {
  if (empty()) return 0;
  if (value <= low_) return 0;
  const double position = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                       : (value - low_) / (high_ - low_);
  return std::clamp(position, 0.0, 1.0);
}

double ValueScale::ValueAt(double position) const {
  return logarithmic_ ? low_ * std::pow(high_ / low_, position) : low_ + (high_ - low_) * position;
}

Colour DarkColour(double position) {
  constexpr double kLightest = 0.88;
  const double grey = kLightest * (1 - std::clamp(position, 0.0, 1.0));
  return {.red = grey, .green = grey, .blue = grey};
}

Colour HeatColour(double position) {
  // Ten evenly spaced colours of viridis (Smith and van der Walt, matplotlib 1.5; CC0).
  static constexpr std::array<std::uint32_t, 10> kAnchors = {0x440154, 0x482878, 0x3e4989, 0x31688e,
                                                             0x26828e, 0x1f9e89, 0x35b779, 0x6ece58,
                                                             0xb5de2b, 0xfde725};
  const double at = std::clamp(position, 0.0, 1.0) * (kAnchors.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), kAnchors.size() - 2);
  const double weight = at - static_cast<double>(below);
  const auto channel = [&](int shift) {
    const auto value = [&](std::size_t i) { return (kAnchors[i] >> shift & 0xff) / 255.0; };
    return value(below) * (1 - weight) + value(below + 1) * weight;
  };
  return {.red = channel(16), .green = channel(8), .blue = channel(0)};
}

}  // namespace tmprof
