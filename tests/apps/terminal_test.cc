// SPDX-License-Identifier: Apache-2.0
// Runs tmprof at terminals of several widths, as people do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "report/view.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace terminal_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

constexpr unsigned short kWidths[] = {60, 80, 120, 200};

std::string Golden(const std::string& name) {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/golden/" + name;
}

Outcome AtTerminal(unsigned short columns, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{TmprofPath()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunAtTerminal(argv, columns);
}

Outcome WithColumns(const std::string& columns, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TmprofPath());
  return RunProgram(arguments, [columns] { ::setenv("COLUMNS", columns.c_str(), 1); });
}

TEST(Terminal, IsNotNarrowerThanTheHelp) {
  for (const std::string command : {"record", "cc", "curve", "report", "eval", "advise", "score",
                                    "convert", "doctor", "ctl", "--help"}) {
    for (const unsigned short columns : kWidths) {
      const Outcome help = AtTerminal(columns, {"help", command});
      if (command != "--help") {
        EXPECT_EQ(help.status, 0) << command;
      }
      EXPECT_THAT(LongestLine(help.out), Le(std::min<unsigned short>(columns, 80)))
          << command << "\n"
          << help.out;
    }
  }
}

TEST(Terminal, IsNotNarrowerThanTheHelpOfTheDaemon) {
  for (const unsigned short columns : kWidths) {
    const Outcome help =
        RunAtTerminal({std::string(TMPROF_BINARY_DIR) + "/tmprofd", "--help"}, columns);
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(LongestLine(help.out), Le(std::min<unsigned short>(columns, 80))) << help.out;
  }
}

TEST(Terminal, IsNotNarrowerThanAnyView) {
  std::vector<std::vector<std::string>> all;
  if (kHasObjects) all.push_back({"report", Golden("v2.tmprof.data"), "--view", "objects"});
  for (const View& view : Views()) {
    if (view.render != nullptr) {
      all.push_back({"report", Golden("v2.tmprof.data"), "--view", std::string(view.name)});
    }
    if (view.render_ledger != nullptr) {
      all.push_back({"report", Golden("v1.tmprof.ledger"), "--view", std::string(view.name)});
    }
  }
  all.push_back({"eval", Golden("v2.tmprof.data")});
  all.push_back({"eval", Golden("v2.tmprof.data"), "--curve"});
  all.push_back({"doctor"});
  for (const auto& arguments : all) {
    for (const unsigned short columns : kWidths) {
      const Outcome shown = AtTerminal(columns, arguments);
      EXPECT_EQ(shown.status, 0) << arguments.back() << shown.out;
      EXPECT_THAT(LongestLine(shown.out), Le(columns)) << arguments.back() << "\n" << shown.out;
    }
  }
}

TEST(Terminal, GetsAllColumnsWithWideAsAPipeDoes) {
  const std::vector<std::string> narrow{"report", Golden("v2.tmprof.data"), "--view", "hot"};
  std::vector<std::string> wide = narrow;
  wide.emplace_back("--wide");
  EXPECT_THAT(AtTerminal(60, narrow).out,
              AllOf(HasSubstr("left out: "), HasSubstr("(--wide shows")));
  EXPECT_EQ(AtTerminal(60, wide).out, Tmprof(narrow).out);
  EXPECT_EQ(WithColumns("60", wide).out, Tmprof(narrow).out);
  EXPECT_THAT(Tmprof(narrow).out, Not(HasSubstr("--wide")));
}

TEST(Terminal, IsOverriddenByColumnsWhichLimitAPipeToo) {
  const std::vector<std::string> hot{"report", Golden("v2.tmprof.data"), "--view", "hot"};
  EXPECT_THAT(LongestLine(WithColumns("60", hot).out), Le(60U));
  EXPECT_EQ(WithColumns("60", hot).out, AtTerminal(60, hot).out);
  EXPECT_EQ(WithColumns("nonsense", hot).out, Tmprof(hot).out);
  EXPECT_EQ(WithColumns("0", hot).out, Tmprof(hot).out);
}

TEST(Terminal, Has80ColumnsIfItDoesNotTell) {
  const std::vector<std::string> hot{"report", Golden("v2.tmprof.data"), "--view", "hot"};
  EXPECT_EQ(AtTerminal(0, hot).out, AtTerminal(80, hot).out);
}

TEST(Terminal, ChangesNoJsonAndNoCsv) {
  for (const std::string format : {"json", "csv"}) {
    const std::vector<std::string> hot{
        "report", Golden("v2.tmprof.data"), "--view", "hot", "--format", format};
    EXPECT_EQ(AtTerminal(60, hot).out, Tmprof(hot).out) << format;
    EXPECT_THAT(Tmprof(hot).out, Not(HasSubstr("\r"))) << format;
  }
}

TEST(Wide, IsAnOptionOfEachCommandThatPrintsTables) {
  for (const std::string command : {"curve", "report", "eval", "advise", "score", "ctl"}) {
    if (command == "advise" && !kHasObjects && !kHasLocking) continue;
    EXPECT_THAT(Tmprof({"help", command}).out, HasSubstr("--wide ")) << command;
  }
}

}  // namespace terminal_test
}  // namespace tmprof::test
