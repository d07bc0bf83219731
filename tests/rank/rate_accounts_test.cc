// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_accounts.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace rate_accounts_test {

using enum RateAccount::Since;

constexpr LeastChances kLeast{.suspicion = 0.02, .now = 0.04};

struct Told {
  double weight;
  double log_rate;
};

RateAccounts Choose(Told ever, Told suspicion, Told now) {
  return ChooseAccounts({kEver, ever.weight, ever.log_rate},
                        {kSuspicion, suspicion.weight, suspicion.log_rate},
                        {kNow, now.weight, now.log_rate}, kLeast);
}

void ExpectOnly(const RateAccounts& accounts, RateAccount::Since since) {
  EXPECT_EQ(accounts.older.since, since);
  EXPECT_FALSE(accounts.newer);
}

void ExpectBoth(const RateAccounts& accounts, RateAccount::Since older, double older_weight,
                RateAccount::Since newer, double newer_weight) {
  EXPECT_EQ(accounts.older.since, older);
  EXPECT_DOUBLE_EQ(accounts.older.weight, older_weight);
  ASSERT_TRUE(accounts.newer);
  EXPECT_EQ(accounts.newer->since, newer);
  EXPECT_DOUBLE_EQ(accounts.newer->weight, newer_weight);
}

TEST(ChooseAccounts, KeepsWhatIsLikely) {
  ExpectBoth(Choose({0.9, 0}, {}, {0.1, 5}), kEver, 0.9, kNow, 0.1);
  ExpectBoth(Choose({0.9, 0}, {0.1, 5}, {}), kEver, 0.9, kSuspicion, 0.1);
}

TEST(ChooseAccounts, WeightsAreInProportion) {
  ExpectBoth(Choose({900, 0}, {}, {100, 5}), kEver, 900, kNow, 100);
  ExpectOnly(Choose({990, 0}, {}, {10, 5}), kEver);
}

TEST(ChooseAccounts, DropsAChangeThatIsLessLikelyThanTheLeast) {
  ExpectOnly(Choose({0.961, 0}, {}, {0.039, 5}), kEver);
  ExpectBoth(Choose({0.959, 0}, {}, {0.041, 5}), kEver, 0.959, kNow, 0.041);
  ExpectOnly(Choose({0.981, 0}, {0.019, 5}, {}), kEver);
  ExpectBoth(Choose({0.979, 0}, {0.021, 5}, {}), kEver, 0.979, kSuspicion, 0.021);
}

TEST(ChooseAccounts, DropsWhatWasBeforeAChangeThatIsCertain) {
  ExpectOnly(Choose({0.049, 0}, {}, {0.951, 5}), kNow);
  ExpectOnly(Choose({0.049, 0}, {0.951, 5}, {}), kSuspicion);
  ExpectBoth(Choose({0.051, 0}, {}, {0.949, 5}), kEver, 0.051, kNow, 0.949);
  ExpectBoth(Choose({0.02, 0}, {0.5, 2}, {0.48, 7}), kSuspicion, 0.5, kNow, 0.48);
}

TEST(ChooseAccounts, KeepsTheLikeliestHoweverMuchIsTheLeast) {
  const RateAccounts accounts =
      ChooseAccounts({kEver, 0.04, 0}, {kSuspicion, 0.56, 2}, {kNow, 0.4, 5}, {0.6, 0.6});
  ExpectOnly(accounts, kSuspicion);
}

TEST(ChooseAccounts, ASuspicionThatPredictsTheSameGivesWayToANewOne) {
  ExpectBoth(Choose({0.88, 4}, {0.06, 4.5}, {0.06, 9}), kEver, 0.94, kNow, 0.06);
}

TEST(ChooseAccounts, ASuspicionThatIsSeenAgainIsAsLikelyAsBoth) {
  ExpectBoth(Choose({0.5, 4}, {0.4, 9}, {0.1, 9.5}), kEver, 0.5, kSuspicion, 0.5);
  ExpectBoth(Choose({0.5, 4}, {0.1, 9}, {0.4, 9.5}), kEver, 0.5, kNow, 0.5);
}

TEST(ChooseAccounts, AnAgreementWithAllThatWasSeenIsNoChange) {
  ExpectBoth(Choose({0.5, 4}, {0.4, 9}, {0.1, 4.5}), kEver, 0.6, kSuspicion, 0.4);
}

TEST(ChooseAccounts, AMergeHasTheHeaviersBits) {
  ExpectBoth(Choose({0.06, 0}, {0.5, 1}, {0.44, 9}), kSuspicion, 0.56, kNow, 0.44);
  ExpectBoth(Choose({0.1, 0}, {0.3, 9}, {0.6, 1}), kSuspicion, 0.3, kNow, 0.7);
}

// Calculated by hand: .5 x .3 / .8 x 2^2 = .75 for the older two, .3 x .2 / .5 x 3^2 = 1.08 for the
// newer. Undivided these would be .6 and .54, with the distances themselves .375 and .36.
TEST(ChooseAccounts, LossGoesByTheSquareOfTheDistance) {
  ExpectBoth(Choose({0.5, 0}, {0.3, 2}, {0.2, 5}), kEver, 0.8, kNow, 0.2);
}

// Calculated by hand: .7 x .2 / .9 x 2^2 = .622 for the older two, .2 x .1 / .3 x 2.93^2 = .572 for
// the newer. By the lesser weight of each two it would be .8 and .858, by distances 2 and 2.93.
TEST(ChooseAccounts, LossGoesByBothWeights) {
  ExpectBoth(Choose({0.7, 0}, {0.2, 2}, {0.1, 4.93}), kEver, 0.7, kSuspicion, 0.2 + 0.1);
}

TEST(ChooseAccounts, EqualWeightsKeepTheOlderOnesBits) {
  ExpectBoth(Choose({0.3, 4}, {0.4, 9}, {0.3, 4}), kEver, 0.6, kSuspicion, 0.4);
  ExpectBoth(Choose({0.3, 4}, {0.3, 4}, {0.4, 9}), kEver, 0.6, kNow, 0.4);
  ExpectBoth(Choose({0.4, 4}, {0.3, 9}, {0.3, 9}), kEver, 0.4, kSuspicion, 0.6);
}

TEST(ChooseAccounts, WithoutAnyWeightAllBitsAreOfTheRate) { ExpectOnly(Choose({}, {}, {}), kEver); }

}  // namespace rate_accounts_test
}  // namespace tmprof
