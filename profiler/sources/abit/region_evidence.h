// SPDX-License-Identifier: Apache-2.0
// What an epoch has shown of regions, while their bounds change.

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
  // Of the looks at one page of region `index`, at `frame`, which is `pages` base pages under one
  // entry; nullopt: where they are is not known.
  void Add(std::size_t index, const tmprof_tally& tally, PageCount pages,
           std::optional<std::uint64_t> frame);

  // Of pages of region `index`, picked at random, that are there or not. Outlasts the epoch: a
  // region has too few picks in one to tell its share.
  void Pick(std::size_t index, std::uint32_t present, std::uint32_t absent);

  // Of a page of region `index` that was accessed at some time, as its bit is set, and of which
  // nothing more is known, as it cannot be cleared.
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
    double looks = 0;  // of one page, whichever; so are references
    double references = 0;
    double first_accesses = 0;
    double page_seconds = 0;  // at risk
    bool seen = false;
    double picks = 0;
    double present = 0;  // of them
    double PresentShare() const { return present > 0 ? present / picks : 1; }
    std::vector<std::uint64_t> frames;
  };
  std::vector<Row> rows_;
};

}  // namespace tmprof::abit
