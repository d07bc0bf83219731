// SPDX-License-Identifier: Apache-2.0
// Tells which pages each kind of source detected (TMP, IPDPS 2021, Table IV).

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

// Distinct base pages; a huge page counts as all of its pages. Counts of a source that never
// delivered are unknown, and so are all counts that depend on them. Counts from accessed bits are
// unknown, too, if bits were looked at by regions: the pages of a region that the bits belonged to
// are not known.
struct PagesSeen {
  std::optional<PageCount> looked_at;   // an accessed bit was read, whatever it said
  std::optional<PageCount> references;  // a bit was found set
  std::optional<PageCount> samples;
  std::optional<PageCount> references_only;
  std::optional<PageCount> samples_only;
  std::optional<PageCount> both;
  std::optional<PageCount> either;
  // Pages of the spans in which anything was found, by any source, which is how replays count. With
  // regions it is at least `either`.
  std::optional<PageCount> footprint;
  // Set with regions, if `looked_at` is unknown: all pages of regions of which some page was looked
  // at.
  std::optional<PageCount> most_looked_at;
};

struct Coverage {
  struct Row {
    TargetTotal target;
    PagesSeen seen;
  };
  TraceTotals totals;
  std::vector<Row> rows;  // ascending by target, including targets without a page
  PagesSeen all;
};

Coverage CoverageOf(const WholeTrace& whole);
Result<Coverage> MakeCoverage(const Trace& trace, EpochRange epochs = {});

std::string CoverageText(const Coverage& coverage, TextWidth width = {});
std::string CoverageJson(const Coverage& coverage);
std::string CoverageCsv(const Coverage& coverage);

}  // namespace tmprof
