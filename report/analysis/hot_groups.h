// SPDX-License-Identifier: Apache-2.0
// Sums up the scores of the hot list and shows which mapping, process, object or file is hot.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "report/analysis/hot.h"
#include "report/analysis/interval.h"

namespace tmprof {

enum class HotGroup : std::uint8_t { kMapping, kProcess, kObject, kFile };

std::string_view Name(HotGroup group);  // "mapping", "process", "object", "file"
Result<HotGroup> ParseHotGroup(std::string_view text);

struct HotGroups {
  struct Row {
    std::optional<TargetTotal> target;   // unset: several targets, or unknown memory
    std::optional<std::uint64_t> start;  // address of a mapping or an object
    std::string what;                    // "file /usr/lib/libc.so.6"; empty: unknown
    std::uint64_t spans = 0;             // with a score
    PageCount pages;                     // sum over those spans
    double score = 0;
    double relative_sd = 0;  // counts err independently; estimates are taken to err together
    Interval interval;
    double share = 0;  // share of the total score
  };
  TraceTotals totals;
  HotOptions options;  // `limit` limits the rows here
  HotGroup group = HotGroup::kMapping;
  std::vector<Row> rows;   // descending by the lower end of the interval, then as found
  std::size_t groups = 0;  // shown or not
  std::size_t spans = 0;
  PageCount pages;
  double total_score = 0;
};

// The totals are those of MakeHotList(). A page belongs to the group that held it when the page was
// last seen.
Result<HotGroups> MakeHotGroups(const Trace& trace, const HotOptions& options, HotGroup group);

std::string HotGroupsText(const HotGroups& groups, TextWidth width = {});
std::string HotGroupsJson(const HotGroups& groups);
std::string HotGroupsCsv(const HotGroups& groups);

}  // namespace tmprof
