// SPDX-License-Identifier: Apache-2.0

#include "rank/scores.h"

#include <array>
#include <cstddef>
#include <string>

namespace tmprof {
namespace {

constexpr std::array kModels = {RankModel::kSum, RankModel::kRate};
constexpr std::array kSources = {
    RankSource::kReferences, RankSource::kSamples, RankSource::kCombined, RankSource::kMemory,
    RankSource::kTruth,      RankSource::kMisses,  RankSource::kStall};

template <typename Choice, std::size_t n>
Result<Choice> ParseName(std::string_view text, const char* attempt,
                         const std::array<Choice, n>& choices) {
  std::string names;
  for (const Choice choice : choices) {
    if (Name(choice) == text) return choice;
    names.append(names.empty() ? "" : ", ").append(Name(choice));
  }
  return Fail(BadInput(attempt, std::string(text), "unknown name", "use one of " + names));
}

}  // namespace

std::string_view Name(RankModel model) {
  switch (model) {
    case RankModel::kSum:
      return "sum";
    case RankModel::kRate:
      return "rate";
  }
  return "invalid";
}

std::string_view Name(RankSource source) {
  switch (source) {
    case RankSource::kReferences:
      return "references";
    case RankSource::kSamples:
      return "samples";
    case RankSource::kCombined:
      return "combined";
    case RankSource::kMemory:
      return "memory";
    case RankSource::kTruth:
      return "truth";
    case RankSource::kMisses:
      return "misses";
    case RankSource::kStall:
      return "stall";
  }
  return "invalid";
}

std::string_view AccessesOf(RankSource source) {
  if (source == RankSource::kStall) return "stall time";
  return source == RankSource::kMemory || source == RankSource::kMisses ? "accesses to memory"
                                                                        : "accesses";
}

Result<RankModel> ParseRankModel(std::string_view text) {
  return ParseName(text, "choose rank model", kModels);
}

Result<RankSource> ParseRankSource(std::string_view text) {
  return ParseName(text, "choose rank source", kSources);
}

Result<std::optional<RankSource>> ParseRankSourceIfAny(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return ParseRankSource(text);
}

}  // namespace tmprof
