// SPDX-License-Identifier: Apache-2.0

#include "proto/given_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tmprof {
namespace given_settings_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Values = std::vector<Scalar>;

constexpr std::string_view kText =
    "targets { command: 'a' command: 'b' }\n"
    "tiers { tier { node: 0 } tier { node: [1, 3] footprint_ratio: '1/2' } }\n"
    "mover { attempts: 5 cpu_share: 0.5 }\n"
    "placement { track_only: true }\n";

GivenSettings Read(std::string_view text) {
  auto given = SettingsReading(text, "c").Take();
  EXPECT_TRUE(given) << given.error().Message();
  return given ? *std::move(given) : GivenSettings();
}

TEST(GivenSettings, HaveTheValuesOfATextByTheirPaths) {
  const GivenSettings given = Read(kText);
  EXPECT_EQ(given.Values("mover.attempts"), Values{std::uint64_t{5}});
  EXPECT_EQ(given.Values("mover.cpu_share"), Values{0.5});
  EXPECT_EQ(given.Values("placement.track_only"), Values{true});
  EXPECT_EQ(given.Values("targets.command"), (Values{std::string("a"), std::string("b")}));
  EXPECT_EQ(given.Groups("tiers.tier"), 2U);
  EXPECT_EQ(given.Values("tiers.tier[1].node"), (Values{std::uint64_t{1}, std::uint64_t{3}}));
  EXPECT_EQ(given.Values("tiers.tier[1].footprint_ratio"), Values{std::string("1/2")});
}

TEST(GivenSettings, HaveNoValueOfWhatIsNotGiven) {
  const GivenSettings given = Read(kText);
  EXPECT_FALSE(given.Has("mover.hysteresis"));
  EXPECT_FALSE(given.Has("ledger.file")) << "its group is not given";
  EXPECT_FALSE(given.Has("tiers.tier[0].capacity_mib"));
  EXPECT_FALSE(given.Has("tiers.tier[2].node")) << "there are two groups";
  EXPECT_EQ(GivenSettings().Groups("tiers.tier"), 0U);
}

TEST(GivenSettings, GiveMakesTheGroupsAroundAFieldAndTextPrintsThem) {
  GivenSettings given;
  given.Give("tiers.tier[0].node", {std::uint64_t{0}});
  given.Give("tiers.tier[1].node", {std::uint64_t{1}, std::uint64_t{2}});
  given.Give("tiers.tier[1].capacity_mib", {std::uint64_t{7}});
  given.Give("mover.attempts", {std::uint64_t{2}});
  given.Give("log.level", {});
  EXPECT_EQ(given.Text(),
            "tiers {\n  tier {\n    node: [0]\n  }\n  tier {\n    node: [1, 2]\n    capacity_mib: "
            "7\n  }\n}\nmover {\n  attempts: 2\n}\n");
}

TEST(GivenSettings, ClearRemovesAField) {
  GivenSettings given = Read(kText);
  given.Clear("tiers.tier[1].footprint_ratio");
  given.Clear("ledger.file");
  EXPECT_FALSE(given.Has("tiers.tier[1].footprint_ratio"));
  EXPECT_THAT(given.Text(), ::testing::Not(HasSubstr("ledger")));
}

TEST(GivenSettings, ACopyIsChangedByItself) {
  const GivenSettings given = Read(kText);
  GivenSettings copy = given;
  ASSERT_TRUE(copy.Set({"mover.attempts", "6"}));
  EXPECT_EQ(given.Values("mover.attempts"), Values{std::uint64_t{5}});
  EXPECT_EQ(copy.Values("mover.attempts"), Values{std::uint64_t{6}});
}

TEST(GivenSettings, SetTakesTextInQuotesOrNotAndDefault) {
  GivenSettings given = Read(kText);
  ASSERT_TRUE(given.Set({"log.level", "debug"}));
  EXPECT_EQ(given.Values("log.level"), Values{std::string("debug")});
  ASSERT_TRUE(given.Set({"log.level", "\"info\""}));
  EXPECT_EQ(given.Values("log.level"), Values{std::string("info")});
  ASSERT_TRUE(given.Set({"mover.attempts", "default"}));
  EXPECT_FALSE(given.Has("mover.attempts"));
}

TEST(GivenSettings, SetRefusesWithItsReason) {
  GivenSettings given;
  const auto why = [&given](const char* name, const char* value) {
    const auto set = given.Set({name, value});
    return set ? std::pair(std::string(), false)
               : std::pair(set.error().why, set.error().is_unknown);
  };
  EXPECT_EQ(why("mover.attempts", "0"),
            std::pair(std::string("a whole number from 1 to 100 is needed, not '0'"), false));
  EXPECT_EQ(why("mover", "0"),
            std::pair(std::string("names a group of fields: GROUP.FIELD=VALUE"), false));
  EXPECT_EQ(why("log.level.deeper", "0"),
            std::pair(std::string("log.level is a field, which has none in it"), false));
  EXPECT_THAT(why("targets.pid", "1").first, HasSubstr("only the configuration file"));
  const auto [unknown, is_unknown] = why("control.soket", "/a");
  EXPECT_EQ(unknown, "there is no such field; control has socket");
  EXPECT_TRUE(is_unknown);
}

TEST(GivenSettings, ReopenAsOthersThatDifferInWhatNeedsNoReopening) {
  const GivenSettings given = Read("profile { seed: 1 } mover { attempts: 1 }");
  EXPECT_TRUE(given.ReopensAs(Read("profile { seed: 1 } mover { attempts: 2 }")));
  EXPECT_FALSE(given.ReopensAs(Read("profile { seed: 2 } mover { attempts: 1 }")));
}

TEST(SettingPaths, AreInTheOrderOfTheProtoWithoutListsOfGroups) {
  const std::vector<std::string> paths = SettingPaths();
  EXPECT_EQ(paths.front(), "targets.command");
  EXPECT_THAT(paths, ::testing::Contains("mover.latency_gap_ns"));
  EXPECT_THAT(paths, ::testing::Not(::testing::Contains(HasSubstr("tiers.tier"))));
  EXPECT_EQ(paths.back(), "log.format");
}

TEST(SettingsReading, RefusesValuesAtTheirPlacesInTheOrderOfTheText) {
  SettingsReading reading("log {\n  level: 5\n}\n" + std::string(kText), "c");
  reading.Refuse("targets.command", "not this one", 1);
  reading.Refuse("tiers.tier[1].footprint_ratio", "too much");
  reading.Refuse("tiers.tier", "no such nodes");
  const auto taken = std::move(reading).Take();
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().Message(),
              HasSubstr("4 faults\n"
                        "c:2:10: log.level: text of 1 to 40 bytes in quotes is needed, not '5'\n"
                        "c:4:33: targets.command: not this one\n"
                        "c:5:9: tiers.tier: no such nodes\n"
                        "c:5:63: tiers.tier.footprint_ratio: too much"));
}

TEST(SettingsReading, TakesNothingOfWhatIsNoText) {
  const SettingsReading reading("mover { attempts: 2 }\x01", "c");
  EXPECT_FALSE(reading.given().Has("mover.attempts"));
  EXPECT_THAT(SettingsReading("\x01", "c").Take().error().Message(),
              HasSubstr("c:1:1: byte 0x01 is not of a text"));
  EXPECT_THAT(SettingsReading(std::string(kMostConfigBytes + 1, ' '), "c").Take().error().Message(),
              HasSubstr("larger than 1 MiB"));
}

}  // namespace given_settings_test
}  // namespace tmprof
