// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/region_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "profiler/sources/abit/page_table_reader.h"

namespace tmprof::abit {
namespace {

// They show which node a region is on, or that it is on several.
constexpr std::size_t kMostFrames = 16;

// Above this number of picks the older ones are halved.
constexpr double kMostPicks = 64;

double PagesIn(VpnRange range) { return static_cast<double>(range.size().value()); }

VpnRange Overlap(VpnRange a, VpnRange b) {
  const Vpn start = std::max(a.start, b.start);
  return {start, std::max(start, std::min(a.end, b.end))};
}

// Returns the parts of a region that lie in `mapped`, in pieces that no one takes for a huge page.
std::vector<VpnRange> PiecesOf(VpnRange region, std::span<const VpnRange> mapped) {
  std::vector<VpnRange> pieces;
  auto at = std::ranges::upper_bound(mapped, region.start, {}, &VpnRange::end);
  for (; at != mapped.end() && at->start < region.end; ++at) {
    const VpnRange piece = Overlap(*at, region);
    if (piece.size() == PageCount(0)) continue;
    if (piece.size() != kTablePages && piece.size() != kGiantPages) {
      pieces.push_back(piece);
      continue;
    }
    const Vpn middle = piece.start + PageCount(piece.size().value() / 2);
    pieces.push_back({piece.start, middle});
    pieces.push_back({middle, piece.end});
  }
  return pieces;
}

}  // namespace

void RegionEvidenceTable::Add(std::size_t index, const tmprof_tally& tally, PageCount pages,
                              std::optional<std::uint64_t> frame) {
  Row& row = rows_[index];
  if (frame && row.frames.size() < kMostFrames) row.frames.push_back(*frame);
  row.looks += tally.looks;
  row.references += tally.references;
  row.first_accesses += tally.first_accesses;
  row.page_seconds += 1e-9 * static_cast<double>(tally.at_risk_ns * pages.value());
}

void RegionEvidenceTable::Pick(std::size_t index, std::uint32_t present, std::uint32_t absent) {
  Row& row = rows_[index];
  if (row.picks > kMostPicks) {
    row.picks /= 2;
    row.present /= 2;
  }
  row.picks += present + absent;
  row.present += present;
}

void RegionEvidenceTable::See(std::size_t index, std::uint64_t frame) {
  Row& row = rows_[index];
  if (row.frames.size() < kMostFrames) row.frames.push_back(frame);
  row.seen = true;
}

void RegionEvidenceTable::Follow(std::span<const tmprof_region> regions) {
  const std::vector<Row> old = std::exchange(rows_, {});
  std::size_t at = 0;
  for (const tmprof_region& region : regions) {
    Row row{.range = {Vpn(region.start), Vpn(region.end)}};
    while (at < old.size() && old[at].range.end <= row.range.start) ++at;
    double known = 0;
    double present_pages = 0;
    for (std::size_t i = at; i < old.size() && old[i].range.start < row.range.end; ++i) {
      const double pages = PagesIn(Overlap(old[i].range, row.range));
      const double share = pages / PagesIn(old[i].range);
      row.looks += pages * old[i].looks;
      row.references += pages * old[i].references;
      row.first_accesses += share * old[i].first_accesses;
      row.page_seconds += share * old[i].page_seconds;
      row.seen |= old[i].seen;
      row.picks += pages * old[i].picks;
      present_pages += pages * old[i].PresentShare();
      row.frames.insert(row.frames.end(), old[i].frames.begin(), old[i].frames.end());
      known += pages;
    }
    if (known > 0) {
      row.looks /= known;
      row.references /= known;
      row.picks /= known;
      row.present = row.picks * present_pages / known;
    }
    // Keeps some frames of each region that was joined.
    if (row.frames.size() > kMostFrames) {
      const std::size_t every = (row.frames.size() + kMostFrames - 1) / kMostFrames;
      std::size_t kept = 0;
      for (std::size_t i = 0; i < row.frames.size(); i += every) row.frames[kept++] = row.frames[i];
      row.frames.resize(kept);
    }
    rows_.push_back(std::move(row));
  }
}

std::uint64_t RegionEvidenceTable::Bytes() const {
  std::uint64_t bytes = rows_.capacity() * sizeof rows_[0];
  for (const Row& row : rows_) bytes += row.frames.capacity() * sizeof row.frames[0];
  return bytes;
}

void RegionEvidenceTable::Take(TargetId target, std::span<const VpnRange> clearable,
                               std::span<const VpnRange> unclearable,
                               std::vector<RegionEvidence>& out) {
  double carry = 0;
  for (Row& row : rows_) {
    const Row of =
        std::exchange(row, Row{.range = row.range, .picks = row.picks, .present = row.present});
    const bool looked_at = of.looks > 0 && of.page_seconds > 0;
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    if (of.seen) {
      for (const VpnRange& piece : PiecesOf(of.range, unclearable)) {
        out.push_back({.target = target,
                       .start = piece.start,
                       .span = piece.size(),
                       .seen = true,
                       .frames = of.frames});
      }
    }
    const bool seen_here = of.seen && out.size() == static_cast<std::size_t>(first);
    if (!looked_at && !seen_here) continue;
    const std::vector<VpnRange> pieces = PiecesOf(of.range, clearable);
    double pages = 0;
    for (const VpnRange& piece : pieces) pages += PagesIn(piece);
    for (const VpnRange& piece : pieces) {
      RegionEvidence record{.target = target,
                            .start = piece.start,
                            .span = piece.size(),
                            .seen = seen_here,
                            .frames = of.frames};
      if (looked_at) {
        const double looks = std::max(1.0, std::round(of.looks));
        const double exact = of.first_accesses * PagesIn(piece) / pages + carry;
        const double whole = std::max(0.0, std::round(exact));
        carry = exact - whole;
        record.looks = static_cast<std::uint32_t>(looks);
        record.references = static_cast<std::uint32_t>(std::min(looks, std::round(of.references)));
        record.first_accesses = static_cast<std::uint32_t>(whole);
        const double risk_ns =
            std::max(1.0, std::round(1e9 * of.page_seconds / (pages * of.PresentShare())));
        record.time_at_risk = std::chrono::nanoseconds(static_cast<std::int64_t>(risk_ns));
      }
      out.push_back(std::move(record));
    }
    std::sort(out.begin() + first, out.end(),
              [](const RegionEvidence& a, const RegionEvidence& b) { return a.start < b.start; });
  }
}

}  // namespace tmprof::abit
