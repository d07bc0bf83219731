// SPDX-License-Identifier: Apache-2.0
// Computes the hit rates that follow from a recorded trace without replaying a policy.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "policy/replay/replay.h"
#include "rank/chosen_spans.h"
#include "rank/hit_rates.h"
#include "rank/rank_model.h"

namespace tmprof {

// True if the judge's weights are estimated rates. Other weights give no hit rates.
bool CanTellHitRates(const Ranker::Options& ranker, RankSource judge);

// Gets each epoch, and the spans that the ranking would put into tier 1 after it.
using OnChoice = std::function<void(const EpochProfile& epoch, const ChosenSpans& chosen)>;

// Returns one result for each capacity, from the epochs before any damage. A page that several
// processes map counts once. Precondition: CanTellHitRates().
Result<std::vector<HitRates>> TellHitRates(const OpenTrace& open, const Ranker::Options& ranker,
                                           RankSource judge, std::span<const PageCount> capacities,
                                           const OnChoice& on_choice = {});

}  // namespace tmprof
