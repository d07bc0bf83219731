// SPDX-License-Identifier: Apache-2.0
// Pages that become hot or cold while others stay as they are, looked at by a ladder.

#include "rank/rate_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "rank/rank_model.h"

namespace tmprof {
namespace rate_change_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint64_t kPages = 256;
constexpr std::uint64_t kHotPages = 16;  // the first ones
constexpr std::uint64_t kChanging = 200;

struct Look {
  std::uint64_t vpn;
  bool hot;
  std::uint64_t span = 1;
};

// One second of the target's CPU time. A hot page is accessed a millisecond after its clear, a cold
// one a second after it.
EpochProfile Epoch(int index, const std::vector<Look>& looks) {
  EpochProfile epoch;
  epoch.index = static_cast<std::uint64_t>(index);
  epoch.start = MonotonicTime(seconds(100 + index));
  epoch.end = epoch.start + seconds(1);
  Target target;
  target.id = TargetId(0);
  target.cpu_time = seconds(1);
  epoch.targets = {target};
  for (const Look& look : looks) {
    Append(epoch.pages,
           {.key = {TargetId(0), Vpn(look.vpn)},
            .span = PageCount(look.span),
            .looks = 1,
            .references = 1,
            .first_accesses = 1,
            .time_at_risk = LogDuration::FromNanoseconds(look.hot ? milliseconds(1) : seconds(1))});
  }
  return epoch;
}

std::vector<Look> All(bool changing_is_hot) {
  std::vector<Look> looks;
  for (std::uint64_t vpn = 0; vpn < kPages; ++vpn) {
    looks.push_back({.vpn = vpn, .hot = vpn < kHotPages || (vpn == kChanging && changing_is_hot)});
  }
  return looks;
}

// Makes the record of a ladder. An access at `rate`, per millisecond, comes halfway between two
// reads.
PageRecord Visit(double rate, std::mt19937_64& random) {
  const double accessed_ms = std::exponential_distribution{rate}(random);
  const auto record = [](bool accessed, double at_risk_ms) {
    return PageRecord{
        .looks = 1,
        .references = accessed,
        .first_accesses = accessed,
        .time_at_risk = LogDuration::FromNanoseconds(nanoseconds(std::llround(1e6 * at_risk_ms)))};
  };
  double before_ms = 0;
  for (const double read_ms : {0.14, 0.6, 1.2, 1.6, 3.7, 15.4}) {
    if (accessed_ms < read_ms) return record(true, (before_ms + read_ms) / 2);
    before_ms = read_ms;
  }
  return record(false, before_ms);
}

class RankerWithChanges : public testing::Test {
 protected:
  void Absorb(const std::vector<Look>& looks) { ranker_.Absorb(Epoch(epoch_++, looks)); }
  void Absorb(const std::vector<Look>& looks, int epochs) {
    for (int i = 0; i < epochs; ++i) Absorb(looks);
  }
  double ScoreOf(std::uint64_t vpn) const {
    const auto& keys = ranker_.table().key;
    const auto row = std::ranges::find(keys, PageKey{TargetId(0), Vpn(vpn)}) - keys.begin();
    return ranker_.Score(RankSource::kReferences)[static_cast<std::size_t>(row)];
  }

  Ranker ranker_{Ranker::DefaultOptions(RankModel::kRate)};

 private:
  int epoch_ = 0;
};

TEST_F(RankerWithChanges, SeesAPageThatBecomesHotInTwoVisits) {
  Absorb(All(false), 8);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
  Absorb(All(true), 2);
  EXPECT_GT(ScoreOf(kChanging), 0.5 * ScoreOf(0));
}

TEST_F(RankerWithChanges, SeesAPageThatBecomesColdInTwoVisits) {
  Absorb(All(true), 8);
  EXPECT_GT(ScoreOf(kChanging), 0.9 * ScoreOf(0));
  Absorb(All(false), 2);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
}

TEST_F(RankerWithChanges, DoesNotTakeOneQuickAccessForAChange) {
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(All(false), 2);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
}

// Evidence of one visit waits for the next one, however many epochs later it is made.
TEST_F(RankerWithChanges, RemembersASuspicionWhileThePageIsNotVisited) {
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(others, 3);
  Absorb(All(true));
  EXPECT_GT(ScoreOf(kChanging), 0.5 * ScoreOf(0));
}

// A page that was not probed for long had as long to change in, whatever the number of epochs.
TEST_F(RankerWithChanges, BelievesInAChangeByTheTimeSinceTheLastProbe) {
  const auto chance_after = [](const std::vector<double>& ages) {
    EvidenceTable known;
    EvidenceTable hot;
    TakeEvidence(::tmprof::rate_change_test::Epoch(0, All(false)), known);
    TakeEvidence(::tmprof::rate_change_test::Epoch(1, All(true)), hot);
    RateChanges changes;
    EvidenceTable joined;
    EvidenceTable apart;
    for (std::size_t i = 0; i < ages.size(); ++i) {
      const EvidenceTable newer = i + 1 < ages.size() ? EvidenceTable{} : hot;
      Join(known, Keeps(), newer, joined, apart);
      changes.Absorb(known, Keeps(), newer, Ages(ages[i]), joined);
      known = joined;
    }
    const SuspectedChanges& suspected = changes.suspected();
    const auto row = std::ranges::find(suspected.since.key, PageKey{TargetId(0), Vpn(kChanging)});
    return row == suspected.since.key.end()
               ? 0.0
               : suspected.chance[static_cast<std::size_t>(row - suspected.since.key.begin())];
  };
  const double after_a_second = chance_after({1});
  EXPECT_GT(after_a_second, 0.1);
  EXPECT_GT(chance_after({1, 1, 1, 1, 1, 1, 1, 1}), 1.5 * after_a_second);
  EXPECT_NEAR(chance_after({1, 1, 1, 1, 1, 1, 1, 1}), chance_after({8}), 1e-6);
  EXPECT_NEAR(chance_after({0, 0, 0, 1}), after_a_second, 1e-6) << "rests are no time to change in";
}

// The suspicion about a page that stays cold predicts as much of it as all its evidence does. It
// must not stand in the way of a change to come.
TEST_F(RankerWithChanges, SeesPagesThatBecomeHotWhateverWasSuspectedOfThemBefore) {
  constexpr std::uint64_t kUsed = 2048;
  constexpr std::uint64_t kAll = 3072;
  constexpr std::uint64_t kHotPart = 16;
  constexpr int kChangesBefore = 20;
  constexpr std::array kVisits = {0, 2, 4, 6, 8, 12, 20, 23};  // epochs
  constexpr double kHotPerMs = 60;
  constexpr double kColdPerMs = 1.0 / 20;
  const LogDuration kLong = LogDuration::FromNanoseconds(milliseconds(800));
  std::mt19937_64 random{1};
  for (const int epoch : kVisits) {
    EpochProfile profile = Epoch(epoch, {});
    profile.start = MonotonicTime(milliseconds(500) * epoch);
    profile.end = profile.start + milliseconds(500);
    const std::uint64_t hot = epoch < kChangesBefore ? 0 : 1;  // the hot page of each sixteen
    for (std::uint64_t vpn = 0; vpn < kAll; ++vpn) {
      PageRecord record = vpn < kUsed
                              ? Visit(vpn % kHotPart == hot ? kHotPerMs : kColdPerMs, random)
                              : PageRecord{.looks = 1, .time_at_risk = kLong};
      record.key = {TargetId(0), Vpn(vpn)};
      Append(profile.pages, record);
    }
    ranker_.Absorb(profile);
  }
  const Scores scores = ranker_.Score(RankSource::kReferences);
  std::uint64_t hot = 0;
  std::uint64_t mistaken = 0;
  for (std::uint64_t vpn = 0; vpn < kUsed; ++vpn) {
    const bool found = scores[vpn] > 100 * 1000 * kColdPerMs;
    (vpn % kHotPart == 1 ? hot : mistaken) += found;
  }
  EXPECT_EQ(hot, kUsed / kHotPart);
  EXPECT_LE(mistaken, kUsed / 1000) << "by two quick accesses in a row";
}

TEST_F(RankerWithChanges, LeavesAloneWhatDoesNotChange) {
  Absorb(All(false), 8);
  const std::pair<double, double> before{ScoreOf(0), ScoreOf(100)};
  Absorb(All(true), 4);
  EXPECT_NEAR(ScoreOf(0), before.first, 0.1 * before.first);
  EXPECT_NEAR(ScoreOf(100), before.second, 0.1 * before.second);
}

class RateChangesTest : public testing::Test {
 protected:
  void AbsorbEpochs(const EpochProfile& older, const EpochProfile& newer) {
    EvidenceTable older_table;
    EvidenceTable newer_table;
    TakeEvidence(older, older_table);
    TakeEvidence(newer, newer_table);
    EvidenceTable apart;
    Join(older_table, Keeps(), newer_table, joined_, apart);
    changes_.Absorb(older_table, Keeps(), newer_table, Ages(1), joined_);
  }
  void Absorb(const std::vector<Look>& older, const std::vector<Look>& newer) {
    AbsorbEpochs(Epoch(0, older), Epoch(1, newer));
  }
  bool Suspects(std::uint64_t vpn) const {
    return std::ranges::count(changes_.suspected().since.key, PageKey{TargetId(0), Vpn(vpn)}) == 1;
  }

  RateChanges changes_;
  EvidenceTable joined_;
};

TEST_F(RateChangesTest, FadesEvidenceByHowLongRatesLastOrSoonIfItsTargetIsGone) {
  Absorb(All(false), All(false));
  const double lasts = std::exp(-1 / changes_.PersistenceOf(TargetId(0)).MeanSeconds());
  EXPECT_GT(lasts, 0.98);
  EXPECT_DOUBLE_EQ(changes_.KeepsAfter(Ages(1), /*lists_targets=*/false).Of(TargetId(0)).evidence,
                   lasts);
  Ages ages(6);
  ages.Append(TargetId(0), 1);
  Keeps keeps = changes_.KeepsAfter(ages, /*lists_targets=*/true);
  EXPECT_DOUBLE_EQ(keeps.Of(TargetId(0)).evidence, lasts);
  EXPECT_EQ(keeps.Of(TargetId(0)).accesses, 0);
  EXPECT_DOUBLE_EQ(keeps.Of(TargetId(3)).evidence, 0.5) << "it is not listed";
  keeps = changes_.KeepsAfter(Ages(6), /*lists_targets=*/true);
  EXPECT_DOUBLE_EQ(keeps.Of(TargetId(0)).evidence, 0.5) << "all have exited";
}

// Samples alone show no change: evidence is remembered as briefly as if rates lasted 9 s.
TEST_F(RateChangesTest, FadesSamplesOfATargetThatNobodyProbes) {
  EpochProfile sampled = Epoch(0, {});
  Append(sampled.pages, {.key = {TargetId(0), Vpn(1)}, .load_samples = 3});
  AbsorbEpochs(sampled, sampled);
  Ages ages;
  ages.Append(TargetId(0), 6);
  EXPECT_NEAR(changes_.KeepsAfter(ages, /*lists_targets=*/true).Of(TargetId(0)).evidence, 0.5,
              0.01);
}

// Target 0 is steady. Other pages of target 1 are hot in each second epoch.
TEST(RateChanges, LearnOfEachTargetHowLongItsRatesLast) {
  RateChanges changes;
  EvidenceTable older;
  for (int e = 0; e < 20; ++e) {
    EpochProfile epoch = Epoch(e, All(false));
    std::vector<Look> looks;
    for (std::uint64_t vpn = 0; vpn < kPages; ++vpn) {
      looks.push_back({.vpn = vpn, .hot = vpn % 16 == static_cast<std::uint64_t>(e) / 2 % 16});
    }
    const EpochProfile other = Epoch(e, looks);
    for (std::size_t i = 0; i < other.pages.size(); ++i) {
      PageRecord record = RecordAt(other.pages, i);
      record.key.target = TargetId(1);
      Append(epoch.pages, record);
    }
    Ages ages;
    ages.Append(TargetId(0), 1);
    ages.Append(TargetId(1), 1);
    EvidenceTable newer;
    EvidenceTable joined;
    EvidenceTable apart;
    TakeEvidence(epoch, newer);
    const Keeps keeps = changes.KeepsAfter(ages, /*lists_targets=*/true);
    Join(older, keeps, newer, joined, apart);
    changes.Absorb(older, keeps, newer, ages, joined);
    older = joined;
  }
  const double steady = changes.PersistenceOf(TargetId(0)).MeanSeconds();
  const double changing = changes.PersistenceOf(TargetId(1)).MeanSeconds();
  EXPECT_GT(steady, 2 * Persistence::kAssumedSeconds);
  EXPECT_LT(changing, Persistence::kAssumedSeconds / 2);
  Ages ages;
  ages.Append(TargetId(0), 5);
  ages.Append(TargetId(1), 5);
  EXPECT_DOUBLE_EQ(changes.KeepsAfter(ages, /*lists_targets=*/true).Of(TargetId(1)).evidence,
                   std::exp(-5 / changing));
}

TEST_F(RateChangesTest, SuspectsWhatContradictsOlderEvidence) {
  Absorb(All(false), All(true));
  EXPECT_TRUE(Suspects(kChanging));
  EXPECT_FALSE(Suspects(0));
  ASSERT_EQ(changes_.suspected().since.size(), changes_.suspected().chance.size());
  for (const float chance : changes_.suspected().chance) {
    EXPECT_GT(chance, 0);
    EXPECT_LT(chance, 1);
  }
}

TEST_F(RateChangesTest, AVisitThatAgreesAgainEndsASuspicion) {
  Absorb(All(false), All(true));
  ASSERT_TRUE(Suspects(kChanging));
  Absorb(All(false), All(false));
  EXPECT_FALSE(Suspects(kChanging));
}

TEST_F(RateChangesTest, ForgetsTheBitsBeforeACertainChange) {
  EpochProfile sampled = Epoch(0, All(false));
  sampled.pages.load_samples[kChanging] = 7;
  AbsorbEpochs(sampled, Epoch(1, All(true)));
  EXPECT_NEAR(joined_.evidence[kChanging].page_seconds_at_risk, 1, 0.05);
  AbsorbEpochs(sampled, Epoch(1, All(true)));
  EXPECT_FALSE(Suspects(kChanging));
  EXPECT_NEAR(joined_.evidence[kChanging].page_seconds_at_risk, 0.002, 1e-4);
  EXPECT_EQ(joined_.evidence[kChanging].first_accesses, 2);
  EXPECT_EQ(joined_.evidence[kChanging].samples(), 7);
  EXPECT_NEAR(joined_.evidence[100].page_seconds_at_risk, 2, 0.1);
}

TEST_F(RateChangesTest, SaysNothingOfSpansWithOtherBoundsOrOfNewOnes) {
  Absorb({{.vpn = 0, .hot = false, .span = 512}},
         {{.vpn = 0, .hot = true}, {.vpn = 900, .hot = true}});
  EXPECT_TRUE(changes_.suspected().chance.empty());
  Absorb({}, {});
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

TEST_F(RateChangesTest, SuspectsNoSpanThatIsNotThereAnyMore) {
  Absorb(All(false), All(true));
  ASSERT_TRUE(Suspects(kChanging));
  Absorb(All(false), {});
  EXPECT_TRUE(Suspects(kChanging));
  Absorb({{.vpn = kChanging, .hot = false, .span = 16}}, {});
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

TEST_F(RateChangesTest, TakesNoSampleAndNoTruthForALook) {
  EpochProfile newer = Epoch(1, {});
  Append(newer.pages, {.key = {TargetId(0), Vpn(kChanging)}, .load_samples = 100});
  Append(newer.pages,
         {.key = {TargetId(0), Vpn(kChanging + 1)}, .accesses = AccessCounts{.loads = 1000}});
  AbsorbEpochs(Epoch(0, All(false)), newer);
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

// Stale reads add references, but do not say when they were (docs/design/ladder.md).
TEST_F(RateChangesTest, SuspectsNothingForLooksThatKeptNoTime) {
  EpochProfile older = Epoch(0, All(false));
  older.pages.looks.assign(kPages, 1000);
  older.pages.references.assign(kPages, 1000);
  older.pages.references[kChanging] = older.pages.first_accesses[kChanging] = 0;
  EpochProfile late = Epoch(1, All(false));
  for (std::size_t row = 0; row < late.pages.size(); ++row) {
    late.pages.first_accesses[row] = 0;
    late.pages.time_at_risk[row] = {};
  }
  AbsorbEpochs(older, late);
  EXPECT_TRUE(changes_.suspected().chance.empty());
  EXPECT_EQ(joined_.evidence[kChanging].looks, 1001) << "none forgotten";
}

TEST_F(RateChangesTest, ALookThatKeptNoTimeLeavesASuspicionAsItWas) {
  Absorb(All(false), All(true));
  ASSERT_TRUE(Suspects(kChanging));
  const float before = changes_.suspected().chance[0];
  EpochProfile late = Epoch(1, All(false));
  late.pages.first_accesses[kChanging] = 0;
  late.pages.time_at_risk[kChanging] = {};
  AbsorbEpochs(Epoch(0, All(false)), late);
  ASSERT_TRUE(Suspects(kChanging));
  EXPECT_EQ(changes_.suspected().chance[0], before);
  EXPECT_EQ(changes_.suspected().since.evidence[0].looks, 1) << "the visit that was before";
}

// A second implementation, for pages that are accessed either 1024 times a second, of which each
// sixteenth is, or once: three accounts, of which each is a list of visits.
class TwoRates {
 public:
  struct Bits {
    double accesses;
    double seconds;
  };

  // Returns the probability of a change; 0: none is suspected.
  double chance() const { return chance_; }
  Bits since() const { return Total(since_); }
  Bits all() const { return Total(all_); }

  // `drawn_anew`: the chance that the rate was, before the visit is known.
  void Visit(Bits visit, double drawn_anew) {
    struct Account {
      double weight;
      double log_rate;
      std::vector<Bits> bits;
    };
    std::vector<Account> accounts;
    const auto weigh = [&](double chance, std::vector<Bits> bits) {
      const double before = Likelihood(bits).first;
      bits.push_back(visit);
      const auto [likelihood, log_rate] = Likelihood(bits);
      accounts.push_back({chance * likelihood / before, log_rate, std::move(bits)});
    };
    weigh((1 - chance_) * (1 - drawn_anew), all_);
    if (chance_ > 0) weigh(chance_ * (1 - drawn_anew), since_);
    weigh(drawn_anew, {});

    double sum = 0;
    for (const Account& account : accounts) sum += account.weight;
    for (std::size_t i = accounts.size(), newest = i - 1; i-- > 0;) {
      const double least = i == 0        ? 0.05
                           : i == newest ? std::max(0.02, 1.5 * drawn_anew)
                                         : std::max(0.02, drawn_anew);
      if (accounts[i].weight < least * sum)
        accounts.erase(accounts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (accounts.size() == 3) {
      const auto loss = [&](std::size_t i, std::size_t j) {
        const double mean = (accounts[i].weight * accounts[i].log_rate +
                             accounts[j].weight * accounts[j].log_rate) /
                            (accounts[i].weight + accounts[j].weight);
        return accounts[i].weight * std::pow(accounts[i].log_rate - mean, 2) +
               accounts[j].weight * std::pow(accounts[j].log_rate - mean, 2);
      };
      const std::array<std::pair<double, std::array<std::size_t, 2>>, 3> pairs = {
          {{loss(0, 1), {0, 1}}, {loss(1, 2), {1, 2}}, {loss(0, 2), {0, 2}}}};
      auto [i, j] =
          std::ranges::min_element(pairs, {}, [](const auto& pair) { return pair.first; })->second;
      if (accounts[i].weight < accounts[j].weight) std::swap(i, j);
      accounts[i].weight += accounts[j].weight;
      accounts.erase(accounts.begin() + static_cast<std::ptrdiff_t>(j));
    }
    all_ = accounts.front().bits;
    chance_ = 0;
    if (accounts.size() == 1) return;
    since_ = accounts.back().bits;
    chance_ = accounts.back().weight / (accounts.front().weight + accounts.back().weight);
  }

 private:
  static Bits Total(const std::vector<Bits>& bits) {
    Bits total{};
    for (const Bits& one : bits) {
      total.accesses += one.accesses;
      total.seconds += one.seconds;
    }
    return total;
  }

  // Returns the log-likelihood of all of it, and the rate's expected logarithm.
  static std::pair<double, double> Likelihood(const std::vector<Bits>& bits) {
    double sum = 0;
    double of_logs = 0;
    for (const auto& [rate, share] : {std::pair(1024.0, 1.0 / 16), std::pair(1.0, 15.0 / 16)}) {
      double likelihood = share;
      for (const Bits& one : bits)
        likelihood *= std::pow(rate, one.accesses) * std::exp(-rate * one.seconds);
      sum += likelihood;
      of_logs += likelihood * std::log(rate);
    }
    return {sum, of_logs / sum};
  }

  std::vector<Bits> all_;
  std::vector<Bits> since_;
  double chance_ = 0;
};

TEST(RateChanges, WeighAccountsAsASecondImplementationDoes) {
  using Bits = TwoRates::Bits;
  constexpr Bits kHot{1, 1.0 / 1024};
  constexpr Bits kCold{1, 1};
  constexpr Bits kLikelyHot{1, 4.0 / 1024};
  constexpr Bits kLikelyCold{0, 3.0 / 1024};
  constexpr Bits kUndecided{1, 6.9 / 1024};
  constexpr std::uint64_t kBackground = 65536;
  constexpr double kSecondsApart = 1;
  const std::vector<std::vector<Bits>> pages = {
      {kCold, kHot, kCold, kHot, kHot},
      {kCold, kLikelyHot, kLikelyHot, kLikelyHot},
      {kCold, kLikelyHot, kLikelyCold, kHot, kLikelyHot},
      {kHot, kLikelyCold, kLikelyCold, kLikelyCold},
      {kHot, kLikelyHot, kCold, kHot, kLikelyCold, kHot},
      {kCold, kLikelyHot, kUndecided, kUndecided, kHot, kHot},
      {kHot, kLikelyCold, kUndecided, kHot, kUndecided, kCold},
  };
  for (std::size_t page = 0; page < pages.size(); ++page) {
    TwoRates expected;
    RateChanges changes;
    EvidenceTable older;
    for (std::size_t visit = 0; visit < pages[page].size(); ++visit) {
      EvidenceTable newer;
      const auto push = [&](std::uint64_t vpn, Bits bits) {
        Push(newer, {TargetId(0), Vpn(vpn)}, 1,
             {.looks = 1,
              .references = bits.accesses,
              .first_accesses = bits.accesses,
              .page_seconds_at_risk = bits.seconds});
      };
      for (std::uint64_t vpn = 0; vpn < kBackground; ++vpn) push(vpn, vpn % 16 == 0 ? kHot : kCold);
      push(kBackground, pages[page][visit]);
      EvidenceTable joined;
      EvidenceTable apart;
      Join(older, Keeps(), newer, joined, apart);
      const double drawn_anew =
          -std::expm1(-kSecondsApart / changes.PersistenceOf(TargetId(0)).MeanSeconds());
      changes.Absorb(older, Keeps(), newer, Ages(kSecondsApart), joined);
      expected.Visit(pages[page][visit], drawn_anew);
      const auto expect_bits = [&](const Evidence& evidence, Bits bits) {
        EXPECT_NEAR(evidence.first_accesses, bits.accesses, 1e-9) << page << ", " << visit;
        EXPECT_NEAR(evidence.page_seconds_at_risk, bits.seconds, 1e-9) << page << ", " << visit;
      };
      expect_bits(joined.evidence.back(), expected.all());
      const SuspectedChanges& suspected = changes.suspected();
      const bool suspects =
          !suspected.since.key.empty() && suspected.since.key.back() == joined.key.back();
      ASSERT_EQ(suspects, expected.chance() > 0) << page << ", " << visit;
      if (suspects) {
        EXPECT_NEAR(suspected.chance.back(), expected.chance(), 0.1 * expected.chance())
            << page << ", " << visit;
        expect_bits(suspected.since.evidence.back(), expected.since());
      }
      older = joined;
    }
  }
}

// Pages that are not there any more are forgotten, those that just nobody probes are not.
TEST_F(RankerWithChanges, ForgetsPagesThatAreNotSeenWhileOthersAreProbed) {
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  const double before = ScoreOf(kChanging);
  Absorb({}, 100);
  EXPECT_EQ(ranker_.table().size(), kPages) << "the scanner paused";
  EXPECT_NEAR(ScoreOf(kChanging), before, before / 4);
  Absorb(others, 50);
  EXPECT_GT(ScoreOf(kChanging), before / 2);
  Absorb(others, 30);
  EXPECT_EQ(ranker_.table().size(), kPages - 1);
}

// A half-life that is asked for is kept to.
TEST_F(RankerWithChanges, KeepsPagesThatAreNotSeenForAsLongAsItIsTold) {
  ranker_.Configure(
      {.model = RankModel::kRate, .memory = Ranker::Memory::kHalfLife, .half_life = seconds(1000)});
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  Absorb(others, 100);
  EXPECT_EQ(ranker_.table().size(), kPages);
  ranker_.Configure(Ranker::DefaultOptions(RankModel::kRate));
  Absorb(others);
  EXPECT_EQ(ranker_.table().size(), kPages) << "it goes with the next epoch";
  Absorb(others);
  EXPECT_EQ(ranker_.table().size(), kPages - 1);
}

// A target that has exited is not remembered for ever, and does not enter others' scores.
TEST_F(RankerWithChanges, ForgetsASuspectThatIsNeverVisitedAgain) {
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(others, 300);
  const double beside_a_suspect = ScoreOf(0);
  Ranker never_suspected{Ranker::DefaultOptions(RankModel::kRate)};
  for (int i = 0; i < 309; ++i) never_suspected.Absorb(Epoch(i, others));
  EXPECT_EQ(ranker_.table().size(), kPages - 1);
  EXPECT_NEAR(beside_a_suspect, never_suspected.Score(RankSource::kReferences)[0],
              1e-3 * beside_a_suspect);
}

}  // namespace rate_change_test
}  // namespace tmprof
