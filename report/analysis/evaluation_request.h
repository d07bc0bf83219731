// SPDX-License-Identifier: Apache-2.0
// An evaluation of traces, in the words of the options of `tmprof eval`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/replay/replay.h"
#include "report/analysis/evaluation.h"

namespace tmprof {

struct EvaluationRequest {
  std::vector<std::string> traces;
  std::vector<std::string> policies{"first_touch", "history", "oracle"};
  std::vector<std::string> ratios{"1/8", "1/16", "1/32", "1/64", "1/128"};
  std::string of = "footprint";
  std::vector<std::string> fast;           // capacities; empty: the ratios
  std::vector<std::string> addresses;      // ranges; empty: all memory
  std::string truth;                       // a file; empty: unknown
  bool curve = false;                      // hit rates by capacity, instead of policies
  std::optional<std::string> rank_weight;  // unset: memory
  std::vector<std::string> ranks;          // empty: the weight decides
  std::string judge;                       // empty: the weight decides
  std::string rank_model = "rate";
  std::string half_life;                   // empty: by the rank model
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string latency_gap;                 // empty: as the trace says, else assumed
};

// Refuses words that are no values of their options, values that do not go together, lists that
// have a value twice, and a weight that neither ranks nor judges.
Result<ReplayOptions> ReplayOptionsOf(const EvaluationRequest& request);
// Reads the file of the truth, too.
Result<EvaluationScope> ScopeOf(const EvaluationRequest& request);
// Returns the estimate that a file of the truth checks, unless another judge was asked for. A file
// of true accesses knows nothing of those that reached memory. Refuses what the model has no
// estimate of.
Result<RankSource> JudgeOf(const Truth& truth, RankModel model);

}  // namespace tmprof
