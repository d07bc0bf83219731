// SPDX-License-Identifier: Apache-2.0
// Advice on objects, in the words of the options of `tmprof advise --objects`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace_info.h"
#include "objects/analysis/object_advice.h"
#include "rank/rank_words.h"

namespace tmprof {

struct ObjectAdviceRequest {
  std::string placed_under;  // file of the advice that the program ran under; empty: none
  std::vector<std::string> ratios{"1/8", "1/16", "1/32", "1/64", "1/128"};
  double hot_share = ObjectAdviceOptions().hot_share;
  std::string room;  // empty: that of `placed_under`, else 1/8
  std::vector<std::uint32_t> cold_nodes;
};

// Reads the advice that the program ran under. The caller adds counts.
Result<ObjectAdviceOptions> OptionsOf(const ObjectAdviceRequest& request, const RankWords& rank);

// Returns a warning unless `placed_under` is given just if the trace was recorded under advice: a
// site that is packed with others of its kind cannot be distinguished from them.
std::optional<std::string> WarningOfPlacing(const TraceInfo& info, const std::string& trace,
                                            const std::string& placed_under);

}  // namespace tmprof
