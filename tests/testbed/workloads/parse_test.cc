// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof::workload {
namespace parse_test {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;
using testing::HasSubstr;

TEST(ParseBytes, TakesEachBinaryUnitAndFractionsThatAreWholeBytes) {
  EXPECT_EQ(ParseBytes("4096B"), 4096u);
  EXPECT_EQ(ParseBytes("16KiB"), 16384u);
  EXPECT_EQ(ParseBytes("512MiB"), 536870912u);
  EXPECT_EQ(ParseBytes("1.5GiB"), 1610612736u);
  EXPECT_EQ(ParseBytes("2TiB"), 2199023255552u);
}

TEST(ParseBytes, RefusesWhatIsNotExactlyASize) {
  for (const char* text : {"", "512", "MiB", "512MB", "512 MiB", "512mib", "-1MiB", "+1MiB", "0B",
                           "0.3B", "1e3MiB", "1..5GiB", "512MiBx", "inf", "9000000TiB"}) {
    const Parsed<std::uint64_t> parsed = ParseBytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error(), HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(ParseDuration, TakesEachUnitAndZero) {
  EXPECT_EQ(ParseDuration("7ns"), 7ns);
  EXPECT_EQ(ParseDuration("3us"), 3us);
  EXPECT_EQ(ParseDuration("250ms"), 250ms);
  EXPECT_EQ(ParseDuration("1.5s"), 1500ms);
  EXPECT_EQ(ParseDuration("2min"), 2min);
  EXPECT_EQ(ParseDuration("1h"), 1h);
  EXPECT_EQ(ParseDuration("0s"), 0s);
}

TEST(ParseDuration, RefusesWhatIsNotExactlyADuration) {
  for (const char* text : {"", "10", "s", "10S", "10 s", "-1s", "10sec", "1e3s", "99999999h"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(ParseLength, TakesWhatIsADurationAboveZero) {
  EXPECT_EQ(ParseLength("1ns"), 1ns);
  EXPECT_FALSE(ParseLength("0s"));
  EXPECT_FALSE(ParseLength("10"));
}

TEST(ParseShare, TakesARatioADecimalAndAPercentage) {
  EXPECT_EQ(ParseShare("1/16"), 0.0625);
  EXPECT_EQ(ParseShare("0.9"), 0.9);
  EXPECT_EQ(ParseShare("90%"), 0.9);
  EXPECT_EQ(ParseShare("0"), 0.0);
  EXPECT_EQ(ParseShare("1"), 1.0);
}

TEST(ParseShare, RefusesWhatIsOutsideOrNotAShare) {
  for (const char* text :
       {"", "1.1", "101%", "2/1", "1/0", "/16", "1/", "-0.5", "0,9", "nan", "%"}) {
    EXPECT_FALSE(ParseShare(text)) << text;
  }
}

TEST(ParseRate, TakesDecimalMultiplesAndRefusesZero) {
  EXPECT_EQ(ParseRate("200000"), 200000.0);
  EXPECT_EQ(ParseRate("200k"), 200000.0);
  EXPECT_EQ(ParseRate("1.5M"), 1.5e6);
  for (const char* text : {"", "0", "-1", "5K", "5Mx", "fast"})
    EXPECT_FALSE(ParseRate(text)) << text;
}

TEST(ParseInteger, RefusesSignsFractionsAndOverflow) {
  EXPECT_EQ(ParseInteger("18446744073709551615"), 18446744073709551615u);
  for (const char* text : {"", "-1", "+1", "1.0", "0x10", "18446744073709551616"}) {
    EXPECT_FALSE(ParseInteger(text)) << text;
  }
}

TEST(FormatBytes, PicksTheLargestUnitThatLeavesAtLeastOne) {
  EXPECT_EQ(FormatBytes(1), "1 B");
  EXPECT_EQ(FormatBytes(4096), "4 KiB");
  EXPECT_EQ(FormatBytes(536870912), "512 MiB");
  EXPECT_EQ(FormatBytes(1610612736), "1.5 GiB");
}

}  // namespace parse_test
}  // namespace tmprof::workload
