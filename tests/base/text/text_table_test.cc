// SPDX-License-Identifier: Apache-2.0

#include "base/text/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace tmprof {
namespace text_table_test {

using enum TextTable::Align;
using enum TextTable::Importance;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TextTable, AlignsByCharactersNotBytes) {
  TextTable table({{"name", kLeft}, {"n"}});
  table.AddRow({"é", "1"});
  table.AddRow({"abcde", "23"});
  EXPECT_EQ(table.Text(),
            "name    n\n"
            "é       1\n"
            "abcde  23\n");
}

TextTable Heat() {
  TextTable table({{"rank", kRight, kThird},
                   {"pid"},
                   {"start", kRight, kKey},
                   {"samples", kRight, kThird},
                   {"accesses", kRight, kKey},
                   {"mapping", kLeft, kKey, 10}});
  table.AddRow({"1", "4711", "0x1000", "17", "12.5", "file /usr/lib/libc.so.6"});
  table.AddRow({"2", "4712", "0x20000", "3", "0.5", "heap"});
  return table;
}

TEST(TextTable, HasAllColumnsIfTheyFitOrIfNoWidthIsGiven) {
  const std::string whole =
      "rank   pid    start  samples  accesses  mapping\n"
      "   1  4711   0x1000       17      12.5  file /usr/lib/libc.so.6\n"
      "   2  4712  0x20000        3       0.5  heap\n";
  EXPECT_EQ(Heat().Text(), whole);
  EXPECT_EQ(Heat().Text(63), whole);
}

TEST(TextTable, CutsTextsInTheirMiddleBeforeItLeavesColumnsOut) {
  EXPECT_EQ(Heat().Text(52),
            "rank   pid    start  samples  accesses  mapping\n"
            "   1  4711   0x1000       17      12.5  file /….so.6\n"
            "   2  4712  0x20000        3       0.5  heap\n"
            "cut: mapping (--wide shows all)\n");
}

TEST(TextTable, LeavesOutTheLeastImportantFirstFromTheRightAndNamesThem) {
  EXPECT_EQ(Heat().Text(46),
            "rank   pid    start  accesses  mapping\n"
            "   1  4711   0x1000      12.5  file /u…bc.so.6\n"
            "   2  4712  0x20000       0.5  heap\n"
            "left out: samples; cut: mapping (--wide shows\n"
            "  all)\n");
  EXPECT_EQ(Heat().Text(36),
            " pid    start  accesses  mapping\n"
            "4711   0x1000      12.5  file ….so.6\n"
            "4712  0x20000       0.5  heap\n"
            "left out: rank, samples; cut:\n"
            "  mapping (--wide shows all)\n");
  EXPECT_THAT(Heat().Text(30), HasSubstr("  start  accesses  mapping\n 0x1000"));
}

TEST(TextTable, ShowsANarrowColumnWhereAWiderOneOfMoreImportanceDoesNotFit) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  TextTable table({{"start", kRight, kKey}, {"a long title", kRight, kFirst}, {"pid", kRight}});
  table.AddRow({"0x1000", "1", "4711"});
  EXPECT_THAT(table.Text(14), HasSubstr(" start   pid\n0x1000  4711\n"));
}

TEST(TextTable, BecomesAListForEachRowWhenItsKeysDoNotFit) {
  EXPECT_EQ(Heat().Text(26),
            "rank      1\n"
            "pid       4711\n"
            "start     0x1000\n"
            "samples   17\n"
            "accesses  12.5\n"
            "mapping   file\n"
            "        /usr/lib/libc.so.6\n"
            "\n"
            "rank      2\n"
            "pid       4712\n"
            "start     0x20000\n"
            "samples   3\n"
            "accesses  0.5\n"
            "mapping   heap\n"
            "\n"
            "the terminal is too narrow\n"
            "  for a table; --wide\n"
            "  prints one\n");
}

TEST(TextTable, TellsColumnsWithOneTitleApartByTheColumnBefore) {
  TextTable table({{"site", kLeft, kKey}, {"references"}, {"share"}, {"samples"}, {"share"}});
  table.AddRow({"main", "100", "5 %", "7", "1 %"});
  EXPECT_THAT(table.Text(34), HasSubstr("left out: share of samples"));
  EXPECT_THAT(table.Text(18), HasSubstr("left out: share of\n  references,\n  samples,"));
}

TEST(TextTable, ShowsAColumnThatJoinsWithTheOneBeforeOrNotAtAll) {
  TextTable table({{"start", kRight, kKey},
                   {"low", kRight, kThird},
                   {.title = "high", .joins = true},
                   {"n", kRight, kThird},
                   {"mapping", kLeft, kFirst}});
  table.AddRow({"0x10", "1.5", "2.5", "7", "heap"});
  EXPECT_THAT(table.Text(25), StartsWith("start  low  high  mapping\n"));
  EXPECT_THAT(table.Text(24), StartsWith("start  n  mapping\n"));
  EXPECT_THAT(table.Text(24), HasSubstr("left out: low, high\n"));
}

TEST(TextTable, HasNoLineAboveItsWidth) {
  for (std::size_t width = 20; width < 70; ++width) {
    std::istringstream lines(Heat().Text(width));
    for (std::string line; std::getline(lines, line);) {
      const auto columns =
          std::ranges::count_if(line, [](unsigned char byte) { return (byte & 0xc0) != 0x80; });
      EXPECT_LE(columns, static_cast<long>(width)) << line;
    }
  }
}

TEST(TextTable, CutsBetweenCharactersOfSeveralBytes) {
  TextTable table({{"n", kLeft, kKey, 5}, {"x", kRight, kKey}});
  table.AddRow({"ééééééé", "1"});
  EXPECT_THAT(table.Text(8), HasSubstr("éé…éé  1\n"));
}

TEST(Fitted, BreaksLongLinesBetweenWords) {
  EXPECT_EQ(Fitted("note: one two three\nshort\n", 12), "note: one\n  two three\nshort\n");
  EXPECT_EQ(Fitted("a path/that/is/longer b\n", 8), "a\npath/that/is/longer\n  b\n");
  EXPECT_EQ(Fitted("any length\n", std::nullopt), "any length\n");
}

TEST(Fitted, KeepsTheGroupsOfANumberTogether) {
  EXPECT_EQ(Fitted("by both 73 218, of 1 234 567 pages 12 at most\n", 18),
            "by both 73 218, of\n  1 234 567 pages\n  12 at most\n");
  EXPECT_EQ(Fitted("epochs 31 323 4 of 12\n", 10), "epochs\n  31 323 4\n  of 12\n");
}

TEST(Fitted, IndentsBelowTheTextOfAListOfFacts) {
  EXPECT_EQ(Fitted("cost          one two three\n", 22),
            "cost          one two\n"
            "              three\n");
  EXPECT_EQ(Fitted("  pebs       usable   one two three\n", 30),
            "  pebs       usable   one two\n"
            "                      three\n");
}

TEST(Fitted, LeavesLinesThatFitAsTheyAre) {
  const std::string text = "a  b\n\n  c | d\n";
  EXPECT_EQ(Fitted(text, 40), text);
}

}  // namespace text_table_test
}  // namespace tmprof
