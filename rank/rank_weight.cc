// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_weight.h"

#include <array>

#include <fmt/format.h>

#include "base/check.h"

namespace tmprof {

std::string_view Name(RankWeight weight) {
  switch (weight) {
    case RankWeight::kMemory:
      return "memory";
    case RankWeight::kAccesses:
      return "accesses";
    case RankWeight::kStall:
      return "stall";
    case RankWeight::kReferences:
      return "references";
  }
  TMPROF_CHECK(false);
}

Result<RankWeight> ParseRankWeight(std::string_view text) {
  constexpr std::array kWeights = {RankWeight::kMemory, RankWeight::kAccesses, RankWeight::kStall,
                                   RankWeight::kReferences};
  for (const RankWeight weight : kWeights) {
    if (Name(weight) == text) return weight;
  }
  return Fail(BadInput("use rank weight", std::string(text), "unknown name",
                       "use one of memory, accesses, stall, references"));
}

RankBasis BasisOf(RankWeight weight, const TellingEvidence& evidence, RankUse use) {
  if (weight == RankWeight::kReferences)
    return {.source = RankSource::kReferences, .weight = weight};
  if (weight == RankWeight::kStall) return {.source = RankSource::kStall, .weight = weight};
  const RankBasis accesses{.source = evidence.accesses, .weight = RankWeight::kAccesses};
  if (weight == RankWeight::kAccesses) return accesses;
  const RankBasis exact{.source = RankSource::kMisses, .weight = weight};
  if (evidence.misses && use == RankUse::kShow) return exact;
  if (evidence.memory) return {.source = RankSource::kMemory, .weight = weight};
  if (evidence.misses) return exact;
  if (evidence.memory_samples_alone) return {.source = RankSource::kSamples, .weight = weight};
  RankBasis instead = accesses;
  instead.why_not = evidence.why_no_memory;
  return instead;
}

RankWeight WeightOf(RankSource source) {
  switch (source) {
    case RankSource::kMemory:
    case RankSource::kMisses:
      return RankWeight::kMemory;
    case RankSource::kReferences:
      return RankWeight::kReferences;
    case RankSource::kStall:
      return RankWeight::kStall;
    case RankSource::kSamples:
    case RankSource::kCombined:
    case RankSource::kTruth:
      return RankWeight::kAccesses;
  }
  TMPROF_CHECK(false);
}

std::string TextOf(const RankBasis& basis) {
  if (Name(basis.weight) == Name(basis.source)) return std::string(Name(basis.weight));
  return fmt::format("{} ({})", Name(basis.weight), Name(basis.source));
}

}  // namespace tmprof
