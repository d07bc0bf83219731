// SPDX-License-Identifier: Apache-2.0
// Which pages each kind of source detected (TMP, IPDPS 2021, Table IV).

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "report/whole_trace.h"

namespace tmprof {

// Distinct base pages; a huge page counts as all of its pages. A kind of source that never
// delivered leaves its own counts, and what depends on them, unknown, and so do accessed bits that
// were looked at by regions: which pages of a region they were of is not known.
struct PagesSeen {
  std::optional<PageCount> looked_at;   // an accessed bit was read, whatever it said
  std::optional<PageCount> references;  // a bit was found set
  std::optional<PageCount> samples;
  std::optional<PageCount> references_only;
  std::optional<PageCount> samples_only;
  std::optional<PageCount> both;
  std::optional<PageCount> either;
  // Of the spans in which anything was found, whatever it was of: as replays count. Of regions it
  // is `either` or more.
  std::optional<PageCount> footprint;
  // Of regions, where `looked_at` is unknown: all pages of which one or another was looked at.
  std::optional<PageCount> most_looked_at;
};

struct Coverage {
  struct Row {
    TargetTotal target;
    PagesSeen seen;
  };
  TraceTotals totals;
  std::vector<Row> rows;  // ascending by target, those without a page included
  PagesSeen all;
};

Coverage CoverageOf(const WholeTrace& whole);
Result<Coverage> MakeCoverage(const Trace& trace, EpochRange epochs = {});

std::string CoverageText(const Coverage& coverage);
std::string CoverageJson(const Coverage& coverage);
std::string CoverageCsv(const Coverage& coverage);

}  // namespace tmprof
