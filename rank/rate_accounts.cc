// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_accounts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

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

RateAccount Merged(const RateAccount& older, const RateAccount& newer) {
  RateAccount merged = older.weight >= newer.weight ? older : newer;
  merged.weight = older.weight + newer.weight;
  return merged;
}

}  // namespace

RateAccounts ChooseAccounts(const RateAccount& ever, const RateAccount& suspicion,
                            const RateAccount& now, LeastChances least) {
  const double all = ever.weight + suspicion.weight + now.weight;
  const double most = std::max({ever.weight, suspicion.weight, now.weight});
  std::array<RateAccount, 3> kept{ever};  // stays where no weight tells
  std::size_t count = 0;
  const auto keep = [&](const RateAccount& account, double least_of_all) {
    if (account.weight > 0 && account.weight >= std::min(most, least_of_all * all))
      kept[count++] = account;
  };
  keep(ever, kLeastOfOld);
  keep(suspicion, least.suspicion);
  keep(now, least.now);
  if (count < 2) return {.older = kept[0], .newer = std::nullopt};
  if (count == 2) return {.older = kept[0], .newer = kept[1]};

  struct Pair {
    std::size_t one;
    std::size_t other;
    double loss;
  };
  const auto pair = [&](std::size_t one, std::size_t other) {
    return Pair{one, other, LossOfMerging(kept[one], kept[other])};
  };
  const std::array pairs = {pair(1, 2), pair(0, 1), pair(0, 2)};
  const Pair least_apart = *std::ranges::min_element(pairs, {}, &Pair::loss);
  RateAccounts two{.older = kept[3 - least_apart.one - least_apart.other],
                   .newer = Merged(kept[least_apart.one], kept[least_apart.other])};
  if (two.newer->since < two.older.since) std::swap(two.older, *two.newer);
  return two;
}

}  // namespace tmprof
