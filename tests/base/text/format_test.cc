// SPDX-License-Identifier: Apache-2.0

#include "base/text/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tmprof {
namespace format_test {

TEST(PrintableTest, LeavesTextOfAnyScriptAlone) {
  EXPECT_EQ(Printable("redis-server é 名 🙂"), "redis-server é 名 🙂");
}

TEST(PrintableTest, SpellsOutWhatATerminalWouldActOn) {
  EXPECT_EQ(Printable("\x1b[31mred\n\t\x7f"), "\\x1b[31mred\\x0a\\x09\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b[2J"), "\\xc2\\x9b[2J");  // C1 control sequence introducer
}

TEST(PrintableTest, SpellsOutBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3");                           // cut short
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong '/'
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
}

TEST(CsvTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(CsvField("plain text"), "plain text");
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(CsvField("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(CsvField("\x1b[0m"), "\\x1b[0m");
  EXPECT_EQ(CsvLine({"a", "", "b,c"}), "a,,\"b,c\"\n");
}

TEST(JsonTest, SurvivesTextThatIsNotUtf8) {
  EXPECT_EQ(JsonText({{"name", "a\xff"}}), "{\n  \"name\": \"a\xef\xbf\xbd\"\n}\n");
}

TEST(NumbersTest, AreSpelledForPeople) {
  EXPECT_EQ(HumanSize(PageCount(1)), "4 KiB");
  EXPECT_EQ(HumanSize(PageCount(512)), "2 MiB");
  EXPECT_EQ(HumanSize(PageCount(393216)), "1.5 GiB");
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1234567), "1 234 567");
  EXPECT_EQ(Percent(0.125), "12.5 %");
  EXPECT_EQ(Significant(0.12345), "0.1235");
  EXPECT_EQ(Significant(9999.4), "9999");
  EXPECT_EQ(Significant(9999.6), "10 000");
  EXPECT_EQ(Significant(-49'254), "-49 250");
  EXPECT_EQ(Significant(1'234'567), "1 235 000");
  EXPECT_EQ(Significant(2.5e9), "2.5e+09");
  EXPECT_EQ(Address(Vpn(0x7f0012345)), "0x7f0012345000");
}

TEST(CountText, HasThePluralForAllButOne) {
  EXPECT_EQ(CountText(0, "page"), "0 pages");
  EXPECT_EQ(CountText(1, "page"), "1 page");
  EXPECT_EQ(CountText(1234, "page"), "1 234 pages");
  EXPECT_EQ(CountText(1, "process", "processes"), "1 process");
  EXPECT_EQ(CountText(2, "process", "processes"), "2 processes");
  EXPECT_EQ(CountText(PageCount(1)), "1 page");
}

TEST(ColumnScaleTest, HasOneScaleAndOneDecimalForAllOfAColumn) {
  const ColumnScale millions(std::vector{32.51e6, 12e3, 0.0});
  EXPECT_EQ(millions.Title("accesses"), "million accesses");
  EXPECT_EQ(millions(32.51e6), "32.510");
  EXPECT_EQ(millions(12e3), "0.012");
  EXPECT_EQ(millions(0), "0.000");
  EXPECT_EQ(millions(3), "< 0.001");
  const ColumnScale whole(std::vector{7.0, 999.0});
  EXPECT_EQ(whole.Title("samples"), "samples");
  EXPECT_EQ(whole(7), "7");
  EXPECT_EQ(ColumnScale(std::vector{0.25, 2.0})(2), "2.000");
}

TEST(ParseFormatTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(*ParseFormat("csv"), Format::kCsv);
  const Result<Format> unknown = ParseFormat("yaml");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(unknown.error().Message(), testing::HasSubstr("yaml"));
}

}  // namespace format_test
}  // namespace tmprof
