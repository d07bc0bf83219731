// SPDX-License-Identifier: Apache-2.0
// Names what the score of a page counts. Views, `eval`, `advise`, `convert` and tmprofd all go by
// this.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rank/rank_model.h"

namespace tmprof {

enum class RankWeight : std::uint8_t {
  kMemory,      // accesses to memory: those that no cache serves
  kAccesses,    // all accesses
  kStall,       // time for which accesses to memory stall a program
  kReferences,  // accesses estimated from accessed bits alone
};

std::string_view Name(RankWeight weight);  // "memory", "accesses", "stall", "references"
Result<RankWeight> ParseRankWeight(std::string_view text);

// Reason for which scores of running programs count no stalls.
inline constexpr std::string_view kWhyNoStall =
    "samples of time also fall where a program executes, and nothing else tells how long accesses "
    "to memory stall a running program";

// A user's choice of what a ranking goes by.
struct RankChoice {
  RankWeight weight = RankWeight::kMemory;
  // One kind of evidence, whatever it counts; set: `weight` has no effect.
  std::optional<RankSource> evidence = std::nullopt;
};

// The evidence that a ranking goes by, and what its scores then count.
struct RankBasis {
  RankSource source = RankSource::kCombined;
  RankWeight weight = RankWeight::kAccesses;
  // Reason for which `weight` is not the one that was asked for; empty: it is.
  std::string why_not{};
};

// Evidence that is there.
struct TellingEvidence {
  bool memory = false;  // counts accesses to memory (RankSource::kMemory)
  bool misses = false;  // all epochs with pages counted misses (RankSource::kMisses)
  // All samples are of accesses to memory, and no accessed bits were read.
  bool memory_samples_alone = false;
  RankSource accesses = RankSource::kCombined;  // the best evidence of all accesses
  // Set unless one of the first three is.
  std::string why_no_memory{};
};

enum class RankUse : std::uint8_t {
  kShow,   // views, and the judge of a replay: exact counts come before estimates
  kPlace,  // a policy's ranking: estimates come first, which is all that it has when it is in use
};

// Chooses evidence for `weight`. Without any evidence of accesses to memory, scores of kMemory
// count all accesses. The evidence of kStall may be missing (KnownEvidence::Require()).
RankBasis BasisOf(RankWeight weight, const TellingEvidence& evidence, RankUse use);

// Returns what scores by this evidence count. Samples may be of any accesses.
RankWeight WeightOf(RankSource source);

// "memory", "memory (misses)", "accesses (combined)": the weight, and the evidence if that has
// another name.
std::string TextOf(const RankBasis& basis);

}  // namespace tmprof
