// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/evaluation_request.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/ratio.h"
#include "base/text/addresses.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "base/text/option_values.h"

namespace tmprof {
namespace {

// The judge `combined`, by the name of what it estimates.
constexpr std::string_view kAccesses = "accesses";

Result<Ranker::Options> RankerOptionsOf(const EvaluationRequest& request) {
  const Result<RankModel> model = ParseRankModel(request.rank_model);
  if (!model) return Fail(model.error());
  Ranker::Options ranker = Ranker::DefaultOptions(*model);
  if (request.half_life == "none") {
    ranker.memory = Ranker::Memory::kThisEpoch;
  } else if (request.half_life == "learned") {
    if (*model != RankModel::kRate) {
      return Fail(OfOption("--half-life", request.half_life,
                           BadInput("", "", "rank model sum learns nothing",
                                    "give a time or 'none', or choose '--rank-model rate'")));
    }
    ranker.memory = Ranker::Memory::kLearned;
  } else if (!request.half_life.empty()) {
    const auto half_life = ParseTimeOption(request.half_life);
    if (!half_life) return Fail(OfOption("--half-life", request.half_life, half_life.error()));
    if (half_life->count() == 0) {
      return Fail(OfOption(
          "--half-life", request.half_life,
          BadInput("", "", "a half-life is longer than 0", "write 'none' to forget each epoch")));
    }
    ranker.memory = Ranker::Memory::kHalfLife;
    ranker.half_life = *half_life;
  }
  if (request.llc_bytes && *model != RankModel::kRate) {
    return Fail(OfOption(
        "--llc", FormatBytes(*request.llc_bytes),
        BadInput("", "", "rank model sum estimates no rates", "choose '--rank-model rate'")));
  }
  ranker.llc_bytes = request.llc_bytes;
  return ranker;
}

// A weight that neither ranks nor judges would be passed over in silence.
Status RequireWeightIsRead(const EvaluationRequest& request) {
  if (!request.rank_weight) return {};
  const bool is_judged = !request.judge.empty() || !request.truth.empty();
  if (!is_judged || (request.ranks.empty() && !request.curve)) return {};
  return Fail(BadInput("use option", "--rank-weight",
                       request.curve ? "--judge chooses evidence instead of a weight"
                       : request.judge.empty()
                           ? "--rank and --truth choose evidence instead of a weight"
                           : "--rank and --judge choose evidence instead of a weight",
                       "leave --rank-weight out"));
}

}  // namespace

Result<ReplayOptions> ReplayOptionsOf(const EvaluationRequest& request) {
  if (Status read = RequireWeightIsRead(request); !read) return Fail(read.error());
  ReplayOptions replay;
  for (const std::string& name : request.policies) {
    const auto policy = FindPolicy(name);
    if (!policy) return Fail(OfOption("--policy", name, policy.error()));
    replay.policies.push_back(*policy);
  }
  if (request.rank_weight) {
    const Result<RankWeight> weight = ParseRankWeight(*request.rank_weight);
    if (!weight) return Fail(weight.error());
    replay.weight = *weight;
  }
  for (const std::string& name : request.ranks) {
    const auto rank = ParseRankSource(name);
    if (!rank) return Fail(OfOption("--rank", name, rank.error()));
    replay.ranks.push_back(*rank);
  }
  for (const std::string& text : request.ratios) {
    const auto ratio = ParseRatio(text);
    if (!ratio) return Fail(OfOption("--ratio", text, ratio.error()));
    replay.ratios.push_back(*ratio);
  }
  for (const std::string& text : request.fast) {
    const auto bytes = ParseBytes(text);
    if (!bytes) return Fail(OfOption("--fast", text, bytes.error()));
    if (*bytes < kBasePageBytes) {
      return Fail(OfOption("--fast", text, BadInput("", "", "it holds no page of 4 KiB")));
    }
    replay.sizes.push_back(PageCount(*bytes / kBasePageBytes));
  }
  if (!replay.sizes.empty()) replay.ratios.clear();
  const Result<RatioOf> of = ParseRatioOf(request.of);
  if (!of) return Fail(of.error());
  replay.ratio_of = *of;
  for (const Status& different : {RequireDifferent("FILE", request.traces, request.traces),
                                  RequireDifferent("--policy", request.policies, replay.policies),
                                  RequireDifferent("--rank", request.ranks, replay.ranks),
                                  RequireDifferent("--ratio", request.ratios, replay.ratios),
                                  RequireDifferent("--fast", request.fast, replay.sizes)}) {
    if (!different) return Fail(different.error());
  }
  const auto judge = ParseRankSourceIfAny(request.judge == kAccesses ? Name(RankSource::kCombined)
                                                                     : request.judge);
  if (!judge) return Fail(judge.error());
  replay.judge = *judge;
  if (request.rank_model == Name(RankModel::kSum)) {
    const std::string memory(Name(RankSource::kMemory));
    const bool ranks = std::ranges::count(replay.ranks, RankSource::kMemory) > 0;
    if (ranks || replay.judge == RankSource::kMemory) {
      return Fail(OfOption(
          ranks ? "--rank" : "--judge", memory,
          BadInput("", "", "rank model sum estimates no rates", "choose '--rank-model rate'")));
    }
  }
  const auto ranker = RankerOptionsOf(request);
  if (!ranker) return Fail(ranker.error());
  replay.ranker = *ranker;
  return replay;
}

Result<RankSource> JudgeOf(const Truth& truth, RankModel model) {
  if (truth.of != RankSource::kMisses) return RankSource::kCombined;
  if (model == RankModel::kRate) return RankSource::kMemory;
  return Fail(BadInput("use option", "--truth",
                       "its accesses are those to memory, which rank model sum does not estimate",
                       "choose '--rank-model rate'"));
}

Result<EvaluationScope> ScopeOf(const EvaluationRequest& request) {
  EvaluationScope scope;
  if (!request.latency_gap.empty()) {
    const auto gap = ParseDuration(request.latency_gap);
    if (!gap) return Fail(OfOption("--latency-gap", request.latency_gap, gap.error()));
    if (gap->count() == 0) {
      return Fail(OfOption("--latency-gap", request.latency_gap,
                           BadInput("", "", "slower memory takes longer than tier 1")));
    }
    scope.latency_gap_ns = static_cast<double>(gap->count());
  }
  for (const std::string& text : request.addresses) {
    const Result<VpnRange> range = ParseAddresses(text);
    if (!range) return Fail(range.error());
    scope.ranges.push_back(*range);
  }
  if (request.truth.empty()) return scope;
  if (IsTraceOrLedger(request.truth)) {
    return Fail(OfOption("--truth", request.truth,
                         BadInput("", "", "it is a trace",
                                  "join both by 'tmprof convert --beside' and use --judge truth")));
  }
  Result<Truth> truth = ReadTruth(request.truth);
  if (!truth) return Fail(std::move(truth.error()));
  if (!scope.ranges.empty()) *truth = TruthWithin(*std::move(truth), scope.ranges);
  if (truth->phases.empty()) {
    return Fail(OfOption("--truth", request.truth,
                         BadInput("", "", "it has no access within --addresses")));
  }
  scope.truth = *std::move(truth);
  return scope;
}

}  // namespace tmprof
