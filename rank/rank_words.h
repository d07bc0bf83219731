// SPDX-License-Identifier: Apache-2.0
// A ranking in the words of options, which reports, advice and their commands share.

#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "rank/scores.h"

namespace tmprof {

struct RankWords {
  std::string model = "rate";
  std::string by;                     // evidence; empty: the weight decides
  std::optional<std::string> weight;  // unset: the reader has a default
};

struct ParsedRank {
  RankModel model = RankModel::kRate;
  std::optional<RankSource> by;
  std::optional<RankWeight> weight;
};

// Refuses words that are no model, evidence or weight.
Result<ParsedRank> ParseRank(const RankWords& words);

}  // namespace tmprof
