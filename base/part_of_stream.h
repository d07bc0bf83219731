// SPDX-License-Identifier: Apache-2.0
// The part of a stream of epochs that lies in ranges of addresses.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/epoch_stream.h"
#include "base/kept_groups.h"
#include "base/rung_blocks.h"

namespace tmprof {

// Hands on the records that have a page within one of some ranges of addresses, of every target. A
// huge page or region at the edge of a range is handed on whole, and so is a block of counts by
// rung. Memory that is mapped within the ranges is assumed to be resident, up to the target's
// resident memory.
class PartOfStream final : public EpochStream {
 public:
  PartOfStream(std::unique_ptr<EpochStream> whole, std::vector<VpnRange> ranges)
      : whole_(std::move(whole)), ranges_(Disjoint(std::move(ranges))) {}

  Result<bool> Next(EpochProfile& epoch) override {
    Result<bool> more = whole_->Next(epoch);
    if (!more || !*more) return more;
    PageColumns part;
    if (const auto& counted = epoch.pages.accesses) {
      part.accesses.emplace();
      if (counted->llc_misses) part.accesses->llc_misses.emplace();
      if (counted->dtlb_misses) part.accesses->dtlb_misses.emplace();
      if (counted->hidden_misses) part.accesses->hidden_misses.emplace();
      if (counted->stall_ns) part.accesses->stall_ns.emplace();
    }
    if (epoch.pages.new_visits) part.new_visits.emplace();
    KeptGroups groups(epoch.pages, part);
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      if (!Overlaps(epoch.pages.vpn[i], epoch.pages.span_pages[i])) continue;
      Append(part, RecordAt(epoch.pages, i));
      groups.Keep(i);
    }
    epoch.pages = std::move(part);
    for (RungCounts& counts : epoch.rungs) {
      KeepBlocks(counts, [&](std::size_t block) {
        return Overlaps(counts.start[block], counts.pages[block]);
      });
    }
    for (Target& target : epoch.targets) {
      if (target.mappings.empty()) target.resident_pages = std::nullopt;
      if (!target.resident_pages) continue;
      target.resident_pages = std::min(*target.resident_pages, MappedWithin(target));
    }
    return true;
  }

  StreamEnd End() const override { return whole_->End(); }

 private:
  static std::vector<VpnRange> Disjoint(std::vector<VpnRange> ranges) {
    std::ranges::sort(ranges, {}, &VpnRange::start);
    std::vector<VpnRange> joined;
    for (const VpnRange& range : ranges) {
      if (joined.empty() || joined.back().end < range.start) {
        joined.push_back(range);
      } else {
        joined.back().end = std::max(joined.back().end, range.end);
      }
    }
    return joined;
  }

  bool Overlaps(Vpn start, std::uint64_t pages) const {
    return std::ranges::any_of(ranges_, [&](const VpnRange& range) {
      return start < range.end && range.start < start + PageCount(pages);
    });
  }

  PageCount MappedWithin(const Target& target) const {
    PageCount pages;
    for (const Mapping& mapping : target.mappings) {
      if (mapping.kind == MappingKind::kSpecial) continue;
      for (const VpnRange& range : ranges_) {
        const Vpn start = std::max(mapping.range.start, range.start);
        const Vpn end = std::min(mapping.range.end, range.end);
        if (start < end) pages += end - start;
      }
    }
    return pages;
  }

  std::unique_ptr<EpochStream> whole_;
  std::vector<VpnRange> ranges_;
};

}  // namespace tmprof
