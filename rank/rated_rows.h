// SPDX-License-Identifier: Apache-2.0
// Rows of evidence as the rate model sees them. Only rank/ uses it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"
#include "rank/rate_fit.h"
#include "rank/unknown_pages.h"

namespace tmprof {

struct RatedRow {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  PageKey key;
  std::uint32_t row = 0;  // a row of the table it was made from; a file's: of JoinedPages::pages()
  std::uint32_t pages = 0;
  std::uint32_t kind = 0;
  // The evidence since the rate is suspected to have changed (kNone: no suspicion), and the chance
  // of that change.
  std::uint32_t kind_since = kNone;
  float chance = 0;
  // Accessed bits were found set, but all reads that found them came late and kept no time.
  bool found_untimed = false;
  // These are the target's: in the last epoch, and remembered of all epochs.
  double cpu_seconds = 0;
  double remembered_cpu_seconds = 0;
  // The CPU time of the last epoch that the score is in proportion to: of a shared page, that of
  // its mappers alone, in terms of the file's clock.
  double score_seconds = 0;
  // False: the target had exited before the last epoch.
  bool is_there = true;
  // Address samples, and the time in which each base page could be sampled, whatever evidence the
  // rates are from.
  double samples = 0;
  double watched_seconds = 0;
};

struct RatedRows {
  std::vector<RatedRow> rows;  // ascending by key
  std::vector<RateKind> kinds;
  std::vector<UnknownPages> unknown;  // ascending by target

  PageCount unknown_pages() const { return SizeOf(unknown); }

  // False: all targets have exited; they left all the evidence that there is.
  bool any_is_there() const { return std::ranges::any_of(rows, &RatedRow::is_there); }

  PageCount pages() const {
    PageCount sum;
    for (const RatedRow& each : rows) sum += PageCount(each.pages);
    return sum;
  }
};

}  // namespace tmprof
