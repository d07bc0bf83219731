// SPDX-License-Identifier: Apache-2.0
// Tells how likely pages are accessed so often, or not at all, and how far sums of such chances may
// be off. docs/design/working-set.md derives it. Other folders ask
// TotalRanker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "rank/rate_fit.h"

namespace tmprof {

struct ChanceQuestions {
  // Accesses per second of a base page: how likely does a page reach each of them, in each step?
  std::vector<double> rates;
  std::vector<bool>
      is_asked;  // per target: others have no answers, but show how rates are distributed
  // For each target and each age: the CPU time of each step that lies within that age of the
  // target's end. The question is how likely a page was not accessed in that time.
  std::vector<std::vector<std::vector<double>>> idle_cpu_seconds;

  std::size_t ages() const { return idle_cpu_seconds.empty() ? 0 : idle_cpu_seconds[0].size(); }
};

// Each base page of one span has these chances.
struct SpanChances {
  std::vector<double> reaches;  // row-major, a row of rates for each step; 0 if the target rested
  std::vector<double> idle;  // one per age; accesses that were seen in that time are not considered
};

// A share of all base pages. The evidence leaves low to high possible (90 %).
struct ShareBounds {
  double value = 0;
  double low = 0;
  double high = 0;
};

// These are shares of the base pages of some of the spans asked about.
struct ChanceBounds {
  bool is_steady = false;  // rates last throughout: there is one step, of the whole time
  std::vector<ShareBounds>
      reaches;                    // row-major, as SpanChances has them; pages of targets that ran
  std::vector<ShareBounds> idle;  // one per age
};

// It gets the chances of each span that is asked about, in their order.
using VisitChances = std::function<void(std::size_t span, const SpanChances& chances)>;

// One target in each step.
struct TargetSteps {
  std::vector<double> cpu_seconds;  // used in the step
  std::vector<double> middles;  // the steps' middles, in seconds of the target's own age, ascending
};

struct ChancesInput {
  struct Span {
    std::uint32_t target;  // an index of `targets`
    double pages;
  };
  std::size_t steps = 1;
  std::vector<TargetSteps> targets;
  std::vector<Span> spans;  // those of a target together
  std::vector<RateKind> kinds;
  std::vector<std::uint32_t> kind_of;  // row-major: the steps of a span together
  std::optional<double> persistence;   // seconds of a target's age; nullopt: rates last throughout
};

// Precondition: there is one step if rates last throughout.
ChanceBounds EstimateChances(const ChancesInput& input, const ChanceQuestions& questions,
                             const VisitChances& visit);

}  // namespace tmprof
