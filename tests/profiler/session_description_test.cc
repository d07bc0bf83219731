// SPDX-License-Identifier: Apache-2.0

#include "profiler/session_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/version.h"

namespace tmprof {
namespace session_description_test {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(DescribeSession, SaysWhoRecordsWhereAndWhen) {
  const auto before = std::chrono::system_clock::now();
  const TraceInfo info =
      DescribeSession({{"source", "auto"}}, seconds(2), MonotonicTime(seconds(5)));
  EXPECT_EQ(info.tool_version, std::string("tmprof ") + kVersion);
  EXPECT_FALSE(info.kernel_release.empty());
  EXPECT_GT(info.cpus, 0U);
  EXPECT_EQ(info.start, MonotonicTime(seconds(5)));
  EXPECT_EQ(info.epoch_length, seconds(2));
  EXPECT_GE(info.wall_start, before);
  ASSERT_FALSE(info.settings.empty());
  EXPECT_EQ(info.settings.front(), (Setting{"source", "auto"}));
}

TEST(CalibratedText, TellsTheAgeOfFiguresThatWereKept) {
  using Age = SessionSources::FiguresAge;
  EXPECT_EQ(CalibratedText(std::vector<Age>{{"accessed bits", seconds(26 * 60 + 59)},
                                            {"clock samples", std::nullopt}}),
            "accessed bits 1560s before, clock samples now")
      << "whole minutes";
  EXPECT_EQ(CalibratedText(std::vector<Age>{{"accessed bits", std::chrono::milliseconds(59'999)}}),
            "accessed bits 59s before");
  EXPECT_EQ(CalibratedText(std::vector<Age>{{"accessed bits", seconds(9), false},
                                            {"clock samples", {}, false}}),
            "accessed bits 9s before (not settled), clock samples now");
}

TEST(CalibratedText, IsEmptyWhereAllWasMeasuredNow) {
  EXPECT_EQ(CalibratedText({}), "");
  EXPECT_EQ(CalibratedText(std::vector<SessionSources::FiguresAge>{{"a", std::nullopt}}), "");
}

}  // namespace session_description_test
}  // namespace tmprof
