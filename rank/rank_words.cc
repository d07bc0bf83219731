// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_words.h"

namespace tmprof {

Result<ParsedRank> ParseRank(const RankWords& words) {
  ParsedRank choice;
  const Result<RankModel> model = ParseRankModel(words.model);
  if (!model) return Fail(model.error());
  choice.model = *model;
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(words.by);
  if (!by) return Fail(by.error());
  choice.by = *by;
  if (!words.weight) return choice;
  const Result<RankWeight> weight = ParseRankWeight(*words.weight);
  if (!weight) return Fail(weight.error());
  choice.weight = *weight;
  return choice;
}

}  // namespace tmprof
