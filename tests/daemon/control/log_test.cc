// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/log.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace log_test {

// 24 November 2026, 21:03:04.250 UTC.
constexpr std::chrono::system_clock::time_point kNow{std::chrono::milliseconds(1795554184250)};

std::string Lines(std::string_view text, LogFormat format, bool to_journal) {
  return LogLines({.level = LogLevel::kWarning, .text = text, .figures = {{"moves", 7}}}, format,
                  to_journal, kNow);
}

TEST(LogLines, SayTheirLevelToPeople) {
  EXPECT_EQ(Lines("two\nlines", LogFormat::kText, false), "tmprofd: warning: two\nlines\n");
}

TEST(LogLines, MarkEachLineForTheJournal) {
  EXPECT_EQ(Lines("two\nlines", LogFormat::kText, true), "<4>two\n<4>lines\n");
}

TEST(LogLines, AreOneObjectForPrograms) {
  EXPECT_EQ(
      Lines("two\nlines", LogFormat::kJson, false),
      R"({"time":"2026-11-24T21:03:04.250Z","level":"warning","message":"two\nlines","moves":7})"
      "\n");
  EXPECT_EQ(Lines("x", LogFormat::kJson, true).substr(0, 4), "<4>{");
}

TEST(LogLines, AreJsonWhateverBytesANameHas) {
  const std::string line = Lines("\xff", LogFormat::kJson, false);
  EXPECT_EQ(Json::parse(line)["message"], "\xEF\xBF\xBD");
}

}  // namespace log_test
}  // namespace tmprof
