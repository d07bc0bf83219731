// SPDX-License-Identifier: Apache-2.0

#include "daemon/config/daemon_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tmprof {
namespace daemon_config_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Made {
  DaemonConfig config;
  std::vector<std::pair<std::string, std::string>> refused;  // path, why
};

Made MadeOf(GivenSettings given) {
  Made made;
  made.config.given = std::move(given);
  const auto refuse = [&made](std::string_view path, std::string why, std::size_t /*index*/) {
    made.refused.emplace_back(path, std::move(why));
  };
  for (const SettingRow<DaemonConfig>& row : DaemonSettingRows()) {
    const std::vector<Scalar> values = made.config.given.Values(row.path);
    if (values.empty()) continue;
    row.set(values, made.config,
            [&](std::size_t index, std::string why) { refuse(row.path, std::move(why), index); });
  }
  Settle(made.config, refuse);
  return made;
}

Made MadeOf(std::string_view text) {
  auto given = SettingsReading(text, "c").Take();
  EXPECT_TRUE(given) << given.error().Message();
  return MadeOf(given ? *std::move(given) : GivenSettings());
}

TEST(DaemonSettingRows, AreInTheOrderOfTheProto) {
  const std::vector<std::string> paths = SettingPaths();
  auto next = paths.begin();
  for (const SettingRow<DaemonConfig>& row : DaemonSettingRows()) {
    next = std::find(next, paths.end(), row.path);
    ASSERT_NE(next, paths.end()) << row.path;
  }
}

TEST(DaemonSettingRows, ReturnWhatTheyHaveSet) {
  const Made made = MadeOf(
      "tiers { footprint_ratio: '1/4' reserve_mib: 3 } placement { policy: 'first_touch' } "
      "metrics { listen: '[::1]:9101' } mover { cpu_share: 0.25 } log { level: 'debug' }");
  EXPECT_THAT(made.refused, IsEmpty());
  EXPECT_EQ(made.config.tiers.capacity, Capacity(Ratio{1, 4}));
  EXPECT_EQ(made.config.tiers.reserve, PageCount(3 * 256));
  EXPECT_EQ(made.config.mover.limits.cpu_ns_per_second, 250'000'000U);
  for (const SettingRow<DaemonConfig>& row : DaemonSettingRows()) {
    const std::vector<Scalar> given = made.config.given.Values(row.path);
    if (given.empty()) continue;
    EXPECT_EQ(row.get(made.config), given) << row.path;
  }
}

TEST(Settle, ReadsTiersAndGiveTiersWritesThem) {
  const char* const text =
      "tiers {\n  tier {\n    node: [0]\n  }\n  tier {\n    node: [1]\n    footprint_ratio: "
      "\"1/2\"\n  }\n  tier {\n    node: [2]\n  }\n}\n";
  const Made made = MadeOf(text);
  ASSERT_TRUE(made.config.tiers.given);
  EXPECT_THAT(made.config.tiers.lower_capacities,
              ElementsAre(Capacity(Ratio{1, 2}), Capacity(FreeCapacity{})));
  GivenSettings again;
  GiveTiers(made.config.tiers, again);
  EXPECT_EQ(again.Text(), text);
}

TEST(Settle, RefusesSettingsThatContradictEachOther) {
  EXPECT_THAT(MadeOf("placement { rank: 'samples' rank_weight: 'accesses' }").refused,
              ElementsAre(Pair("placement.rank_weight", HasSubstr("set one of them"))));
  EXPECT_THAT(MadeOf("placement { rank_model: 'sum' rank: 'memory' }").refused,
              ElementsAre(Pair("placement.rank", HasSubstr("estimates no rates"))));
  EXPECT_THAT(MadeOf("placement { llc_kib: 8 rank_weight: 'accesses' }").refused,
              ElementsAre(Pair("placement.llc_kib", HasSubstr("rank_weight 'accesses' counts"))));
  EXPECT_THAT(MadeOf("placement { track_only: true dry_run: true }").refused,
              ElementsAre(Pair("placement.dry_run", HasSubstr("only one of them"))));
  EXPECT_THAT(
      MadeOf("tiers { tier { node: 0 capacity_mib: 1 } tier { node: 1 } capacity_mib: 2 }").refused,
      ElementsAre(Pair("tiers.tier[0].capacity_mib", HasSubstr("that is tier 1's"))));
}

TEST(Settle, TheRankFollowsTheWeightAndTheModel) {
  EXPECT_EQ(MadeOf("").config.placement.rank, RankSource::kMemory);
  const Made sum = MadeOf("placement { rank_model: 'sum' }");
  EXPECT_EQ(sum.config.placement.weight, RankWeight::kAccesses);
  EXPECT_EQ(sum.config.placement.rank, RankSource::kCombined);
  EXPECT_EQ(MadeOf("placement { rank: 'references' }").config.placement.weight,
            RankWeight::kReferences);
}

TEST(SetGiven, ReplacesTheCapacityOfTier1WhereverItWasGiven) {
  auto given =
      SettingsReading("tiers { tier { node: 0 capacity_mib: 1 } tier { node: 1 } }", "c").Take();
  ASSERT_TRUE(given);
  ASSERT_TRUE(SetGiven(*given, {"tiers.footprint_ratio", "1/8"}));
  const Made ratio = MadeOf(*given);
  EXPECT_THAT(ratio.refused, IsEmpty());
  EXPECT_EQ(ratio.config.tiers.capacity, Capacity(Ratio{1, 8}));
  ASSERT_TRUE(SetGiven(*given, {"tiers.footprint_ratio", "default"}));
  EXPECT_EQ(MadeOf(*given).config.tiers.capacity, Capacity(FreeCapacity{}));
}

TEST(SetGiven, AdvisesOnNamesThatNoFieldHas) {
  GivenSettings given;
  EXPECT_THAT(SetGiven(given, {"hysteresis", "2"}).error(),
              HasSubstr("; did you mean 'mover.hysteresis'?"));
  EXPECT_THAT(SetGiven(given, {"ledger.fil", "/a"}).error(),
              HasSubstr("; did you mean 'ledger.file'?"));
  EXPECT_THAT(SetGiven(given, {"mover.attempts", "0"}).error(),
              ::testing::Not(HasSubstr("did you mean")));
}

}  // namespace daemon_config_test
}  // namespace tmprof
