// SPDX-License-Identifier: Apache-2.0
// Accesses over a stretch of time in which rates may change. It is derived in
// docs/design/whole-trace.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rank/rate_chances.h"
#include "rank/rate_fit.h"
#include "rank/rate_model.h"

namespace tmprof {

class RateChain;

// Parallel to the spans added.
struct AccessEstimates {
  std::vector<double> accesses;  // accesses of one base page, over all steps
  // Never too small: as if the errors of all steps went together.
  std::vector<double> relative_sd;
};

class RateHistory {
 public:
  // Precondition: there is a step.
  explicit RateHistory(std::size_t steps);

  // The target of the spans added next.
  void BeginTarget(TargetSteps target);
  // Adds the evidence of one span in each step.
  void AddSpan(std::span<const RateEvidence> steps);

  // The part of a span's accesses that one step has. Those of all steps add up to the span's.
  struct PartOfStep {
    std::size_t span;  // in the order added
    std::size_t step;
    double accesses;  // accesses of one base page
    double relative_sd;
  };
  // `visit` gets each part, unless it is null or rates last throughout: CPU time alone then shares
  // accesses out.
  AccessEstimates Estimate(const std::function<void(const PartOfStep&)>& visit = nullptr) &&;

  // `questions` name the targets and the steps in the order in which they were added.
  ChanceBounds EstimateChances(ChanceQuestions questions, const VisitChances& visit) &&;

 private:
  struct Span {
    RateEvidence sum;
    std::uint32_t target;
  };

  AccessEstimates EstimateSteady() const;
  std::size_t StrideToLearnFrom() const;
  struct Steady {
    double log_likelihood;
    std::vector<double> prior;
  };
  Steady FitSteady(const Mixture& mixture, std::size_t kinds) const;
  std::optional<double> LearnPersistence(const Mixture& mixture, std::size_t kinds,
                                         RateChain& chain) const;
  std::span<const std::uint32_t> KindsOf(std::size_t span) const {
    return std::span(kinds_).subspan(span * steps_, steps_);
  }

  std::size_t steps_;
  std::vector<TargetSteps> targets_;
  std::vector<Span> spans_;
  RateKinds sorter_;
  std::vector<std::uint32_t> kinds_;  // row-major: the steps of a span together
};

}  // namespace tmprof
