// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_accounts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace tmprof {
namespace {

// Below, what was before a change is not worth remembering.
constexpr double kLeastOfOld = 0.05;

// The weighted squares by which the log rates of both differ from their mean (Ward, J. Am. Stat.
// Assoc. 58, 1963).
double LossOfMerging(const RateAccount& one, const RateAccount& other) {
  const double apart = one.log_rate - other.log_rate;
  return one.weight * other.weight / (one.weight + other.weight) * apart * apart;
}

RateAccount Merged(const RateAccount& one, const RateAccount& other) {
  RateAccount merged = one.weight >= other.weight ? one : other;
  merged.weight = one.weight + other.weight;
  return merged;
}

}  // namespace

RateAccounts ChooseAccounts(const RateAccount& ever, const RateAccount& suspicion,
                            const RateAccount& now, LeastChances least) {
  const double all = ever.weight + suspicion.weight + now.weight;
  const double most = std::max({ever.weight, suspicion.weight, now.weight});
  std::array<RateAccount, 3> kept;
  std::size_t count = 0;
  const auto keep = [&](const RateAccount& account, double least_of_all) {
    if (account.weight > 0 && account.weight >= std::min(most, least_of_all * all))
      kept[count++] = account;
  };
  keep(ever, kLeastOfOld);
  keep(suspicion, least.suspicion);
  keep(now, least.now);
  if (count == 0) return {.older = ever, .newer = std::nullopt};
  if (count == 1) return {.older = kept[0], .newer = std::nullopt};
  if (count == 2) return {.older = kept[0], .newer = kept[1]};

  std::size_t apart = 0;  // from the two that differ least
  double least_loss = std::numeric_limits<double>::infinity();
  for (const std::size_t other : {0, 2, 1}) {
    const double loss = LossOfMerging(kept[(other + 1) % 3], kept[(other + 2) % 3]);
    if (loss < least_loss) {
      least_loss = loss;
      apart = other;
    }
  }
  RateAccounts two{.older = kept[apart],
                   .newer = Merged(kept[(apart + 1) % 3], kept[(apart + 2) % 3])};
  if (two.newer->since < two.older.since) std::swap(two.older, *two.newer);
  return two;
}

}  // namespace tmprof
