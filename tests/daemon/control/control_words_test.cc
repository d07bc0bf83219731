// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace control_words_test {

using ::testing::HasSubstr;

std::string Refusal(const ControlWords& words) {
  const auto request = RequestOf(words);
  return request ? "" : request.error().Message();
}

TEST(RequestOf, AsksInTheFormatAndWidthThatAreWanted) {
  EXPECT_EQ(RequestOf({.command = "status", .settings = {}, .format = "json", .width = {}}),
            (Json{{"command", "status"}, {"format", "json"}}));
  EXPECT_EQ(RequestOf({.command = "targets", .settings = {}, .width = 80}),
            (Json{{"command", "targets"}, {"format", "text"}, {"columns", 80}}));
  EXPECT_EQ(RequestOf({.command = "pause", .settings = {}, .width = 80}),
            (Json{{"command", "pause"}}));
}

TEST(RequestOf, LimitsTheHottestSpansUnlessAllAreWanted) {
  EXPECT_EQ(RequestOf({.command = "hot", .settings = {}, .width = 80}),
            (Json{{"command", "hot"}, {"format", "text"}, {"columns", 80}, {"limit", 20}}));
  EXPECT_EQ(RequestOf({.command = "hot", .settings = {}, .format = "binary", .limit = 0}),
            (Json{{"command", "hot"}, {"format", "binary"}}));
  EXPECT_THAT(Refusal({.command = "status", .settings = {}, .limit = 5}),
              HasSubstr("'--limit': 'status' takes none"));
  EXPECT_THAT(Refusal({.command = "targets", .settings = {}, .format = "binary"}),
              HasSubstr("only 'hot' has a binary format"));
}

TEST(RequestOf, SplitsSettingsAtTheFirstEqualsSign) {
  EXPECT_EQ(RequestOf({.command = "set", .settings = {"a.b=1", "c=x=y"}, .width = {}}),
            (Json{{"command", "set"}, {"settings", {{"a.b", "1"}, {"c", "x=y"}}}}));
}

TEST(RequestOf, RefusesSettingsThatAreWrong) {
  EXPECT_THAT(Refusal({.command = "set", .settings = {}, .width = {}}),
              HasSubstr("nothing to set"));
  EXPECT_THAT(Refusal({.command = "set", .settings = {"a"}, .width = {}}), HasSubstr("no '='"));
  EXPECT_THAT(Refusal({.command = "set", .settings = {"=1"}, .width = {}}), HasSubstr("no name"));
  EXPECT_THAT(Refusal({.command = "set", .settings = {"a=1", "a=2"}, .width = {}}),
              HasSubstr("its name is in the list before"));
  EXPECT_THAT(Refusal({.command = "pause", .settings = {"a=1"}, .width = {}}),
              HasSubstr("'pause' takes none"));
}

TEST(Reply, HasWhatWasAskedOrConfirms) {
  const ControlWords status{.command = "status", .settings = {}, .width = {}};
  EXPECT_EQ(ReplyText(status, {{"ok", true}, {"text", "all is well\n"}}), "all is well\n");
  EXPECT_EQ(ReplyJson(status, {{"ok", true}, {"status", {{"epoch", 1}}}}),
            JsonText({{"epoch", 1}}));
  EXPECT_EQ(ReplyText({.command = "pause", .settings = {}, .width = {}}, {{"ok", true}}),
            "paused\n");
  EXPECT_EQ(ReplyText({.command = "set", .settings = {"a=1", "b=2"}, .width = {}}, {{"ok", true}}),
            "a=1\nb=2\n");
  EXPECT_EQ(ReplyJson({.command = "stop", .settings = {}, .width = {}}, {{"ok", true}}),
            JsonText({{"ok", true}}));
}

}  // namespace control_words_test
}  // namespace tmprof
