// SPDX-License-Identifier: Apache-2.0
// The hit rates that a recorded trace tells without a policy being replayed.

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

// True if the judge's weights are rates that were estimated. Other weights tell no hit rates.
bool CanTellHitRates(const Ranker::Options& ranker, RankSource judge);

// Gets each epoch and what the ranking would put into tier 1 after it.
using OnChoice = std::function<void(const EpochProfile& epoch, const ChosenSpans& chosen)>;

// One for each capacity, of the epochs before any damage. A page that several processes map counts
// once. Precondition: CanTellHitRates().
Result<std::vector<HitRates>> TellHitRates(const OpenTrace& open, const Ranker::Options& ranker,
                                           RankSource judge, std::span<const PageCount> capacities,
                                           const OnChoice& on_choice = {});

}  // namespace tmprof
