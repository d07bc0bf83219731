// SPDX-License-Identifier: Apache-2.0
// Spells how accurate rankings are as text, JSON and CSV.

#pragma once

#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/text/text_table.h"
#include "report/analysis/accuracy.h"

namespace tmprof {

// `by` names the true accesses that count: "accesses" or "misses".
std::string AccuracyText(const std::vector<AccuracyRow>& rows, const std::string& by,
                         TextWidth width);
// `truth` is how the truth's file ended.
std::string AccuracyJson(const AccuracyOutcome& outcome, const std::string& by,
                         const StreamEnd& truth);
std::string AccuracyCsv(const std::vector<AccuracyRow>& rows, const std::string& by);

}  // namespace tmprof
