// SPDX-License-Identifier: Apache-2.0
// The evidence of an epoch about regions, while their bounds change.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"
#include "driver/core/regions.h"
#include "profiler/sources/abit/engine.h"

namespace tmprof::abit {

class RegionEvidenceTable {
 public:
  // Adds the looks at one page of region `index`, at `frame`, which is `pages` base pages under one
  // entry. nullopt: its frame is not known.
  void Add(std::size_t index, const tmprof_tally& tally, PageCount pages,
           std::optional<std::uint64_t> frame);

  // Counts pages of region `index`, picked at random, that are present or absent. The counts
  // outlast the epoch: a region has too few picks in one epoch to estimate its present share.
  void Pick(std::size_t index, std::uint32_t present, std::uint32_t absent);

  // Records a page of region `index` that was accessed at some time, because its bit is set. No
  // more is known, because the bit cannot be cleared.
  void See(std::size_t index, std::uint64_t frame);

  // The regions have other bounds now. Where an old one is parted, each part was looked at as
  // often, and has its share, by size, of the first accesses and of the time.
  void Follow(std::span<const tmprof_region> regions);

  // Delivers and forgets. A region becomes one record for each stretch of `clearable` and of
  // `unclearable` in it (each ascending); none, if nothing was seen of it. Looks are of what can be
  // cleared; pages that are not there, of which there is an estimate, count as not accessed. No
  // record has the size of a huge page, which stands for one entry. Fractions of a first access go
  // to the next record, so that none is lost.
  void Take(TargetId target, std::span<const VpnRange> clearable,
            std::span<const VpnRange> unclearable, std::vector<RegionEvidence>& out);

  void Clear() { rows_.clear(); }

  std::uint64_t Bytes() const;  // in memory

 private:
  struct Row {
    VpnRange range;
    double looks = 0;  // looks at single pages, like references
    double references = 0;
    double first_accesses = 0;
    double page_seconds = 0;  // at risk
    bool seen = false;
    double picks = 0;
    double present = 0;  // picks that were present
    double PresentShare() const { return present > 0 ? present / picks : 1; }
    std::vector<std::uint64_t> frames;
  };
  std::vector<Row> rows_;
};

}  // namespace tmprof::abit
