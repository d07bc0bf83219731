// SPDX-License-Identifier: Apache-2.0
// Spells an evaluation of traces as text, JSON and CSV.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "policy/replay/replay.h"
#include "rank/rank_model.h"
#include "report/analysis/capacity_curve.h"
#include "report/analysis/evaluation.h"

namespace tmprof {

// `options` are those of the evaluation. Text has, for each trace, a row per policy and rank, and a
// column of hit rates per capacity.
std::string EvaluationText(const Evaluation& evaluation, const ReplayOptions& options,
                           TextWidth width);
std::string EvaluationJson(const Evaluation& evaluation, const ReplayOptions& options);
std::string EvaluationCsv(const Evaluation& evaluation, const ReplayOptions& options);

// The curves of several traces, and the errors of those that have none.
struct Curves {
  std::vector<CapacityCurve> told;
  std::vector<std::pair<std::string, Error>> refused;
};
std::string CurvesText(const Curves& curves, TextWidth width);
std::string CurvesJson(const Curves& curves, const Ranker::Options& ranker);
std::string CurvesCsv(const Curves& curves);

}  // namespace tmprof
