// SPDX-License-Identifier: Apache-2.0
// Summarises a trace: its contents, how it was made and what it cost.

#pragma once

#include <string>

#include "base/result.h"
#include "base/text/text_table.h"
#include "report/analysis/coverage.h"

namespace tmprof {

struct Summary {
  Coverage coverage;  // totals included

  // Returns the accessed bits that were cleared, from the sources' detail "clears"; nullopt if no
  // source reports it.
  std::optional<std::uint64_t> Clears() const;
};

Result<Summary> MakeSummary(const Trace& trace, EpochRange epochs = {});

std::string SummaryText(const Summary& summary, TextWidth width = {});
std::string SummaryJson(const Summary& summary);
std::string SummaryCsv(const Summary& summary);  // rows of "key,value"

}  // namespace tmprof
