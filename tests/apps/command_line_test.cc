// SPDX-License-Identifier: Apache-2.0
// The first minute at the prompt: help, slips of the pen, and how a command to run is told apart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/command_line/help.h"
#include "apps/command_line/parse_errors.h"
#include "apps/tmprof/command_words.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace command_line_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::StartsWith;

const std::vector<std::string>& Commands() {
  static const std::vector<std::string> commands = [] {
    std::vector<std::string> all{"record", "curve",   "report", "eval",
                                 "score",  "convert", "doctor", "ctl"};
    if (kHasObjects) all.emplace_back("cc");
    if (kHasObjects || kHasLocking) all.emplace_back("advise");
    return all;
  }();
  return commands;
}

Outcome TmprofInColumns(const std::string& columns, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{TmprofPath()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProgram(argv, [columns] { ::setenv("COLUMNS", columns.c_str(), 1); });
}

TEST(Help, IsPrintedWithoutACommandWhichFails) {
  const Outcome outcome = Tmprof({});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, Tmprof({"--help"}).out);
  EXPECT_THAT(outcome.out, HasSubstr("Usage: tmprof COMMAND"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Help, NamesEveryCommandAndNoHiddenOne) {
  const std::string help = Tmprof({"help"}).out;
  for (const std::string& command : Commands()) EXPECT_THAT(help, HasSubstr("\n  " + command));
  EXPECT_THAT(help, Not(HasSubstr("generate")));
}

TEST(Help, HelpWithACommandIsTheHelpOfThatCommandsOption) {
  for (const std::string& command : Commands()) {
    const Outcome asked = Tmprof({"help", command});
    EXPECT_EQ(asked.status, 0) << command;
    EXPECT_EQ(asked.out, Tmprof({command, "--help"}).out);
    EXPECT_EQ(asked.out, Tmprof({command, "-h"}).out);
    EXPECT_THAT(asked.out, HasSubstr("Usage: tmprof " + command));
  }
}

TEST(Help, RefusesHelpForAnUnknownCommand) {
  const Outcome outcome = Tmprof({"help", "recrod"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'record'?"));
}

TEST(Help, HelpForOneCommandHasNoExampleOfTheProgram) {
  EXPECT_THAT(Tmprof({"help", "doctor"}).out, Not(HasSubstr("help COMMAND")));
}

TEST(Help, HasNoLineAbove80Columns) {
  std::vector<std::vector<std::string>> all{{"--help"}};
  for (const std::string& command : Commands()) all.push_back({command, "--help"});
  for (const auto& arguments : all) {
    for (const std::string columns : {"80", "300", "nonsense"}) {
      EXPECT_THAT(LongestLine(TmprofInColumns(columns, arguments).out), Le(80U))
          << arguments.front() << " in " << columns;
    }
  }
}

TEST(Help, IsWrappedToTheColumnsOfTheTerminal) {
  const std::string help = TmprofInColumns("60", {"help"}).out;
  EXPECT_THAT(LongestLine(help), Le(60U));
  EXPECT_GT(LongestLine(Tmprof({"help"}).out), 60U);
}

TEST(Help, RefusesASecondCommand) {
  const Outcome outcome = Tmprof({"help", "record", "extra"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err,
            "tmprof: cannot use argument 'extra': help takes one command; write 'tmprof help "
            "record'\n");
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(Help, TellsThatABareNumberIsSecondsWhereACommandTakesTimes) {
  for (const std::string command : {"record", "curve"}) {
    std::string help = Tmprof({command, "--help"}).out;
    std::ranges::replace(help, '\n', ' ');
    EXPECT_THAT(help, HasSubstr("a bare number is seconds")) << command;
  }
}

TEST(Version, HasAShortOption) {
  EXPECT_THAT(Tmprof({"-V"}).out, AllOf(StartsWith("tmprof "), EndsWith("\n")));
  EXPECT_EQ(Tmprof({"-V"}).out, Tmprof({"--version"}).out);
}

TEST(Help, HelpForHelpIsTheWholeHelp) {
  const Outcome asked = Tmprof({"help", "help"});
  EXPECT_EQ(asked.out, Tmprof({"help"}).out);
  EXPECT_EQ(asked.status, 0);
}

TEST(Errors, RepeatATimeAsItWasTyped) {
  EXPECT_THAT(Tmprof({"record", "-d", ".", "true"}).err, HasSubstr("'.'"));
}

TEST(Nearest, TakesSlipsOfThePen) {
  const std::vector<std::string> names{"--record", "--report", "--duration"};
  EXPECT_EQ(Nearest("--recrod", names), "--record");
  EXPECT_EQ(Nearest("--reord", names), "--record");
  EXPECT_EQ(Nearest("--durration", names), "--duration");
  EXPECT_EQ(Nearest("--dur", names), "--duration");
}

TEST(Nearest, IsEmptyForAnotherWord) {
  const std::vector<std::string> names{"record", "report"};
  EXPECT_EQ(Nearest("xyzzy", names), "");
  EXPECT_EQ(Nearest("r", names), "");
  EXPECT_EQ(Nearest("--wid", std::vector<std::string>{"--pid"}), "");
  EXPECT_EQ(Nearest("", names), "");
}

TEST(Errors, HaveOnePrefixAndTellWhatToDoNext) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"recrod"}, "'recrod': tmprof has no such command; did you mean 'record'? 'tmprof help'"},
      {{"frobnicate"}, "tmprof has no such command; 'tmprof help' lists all"},
      {{"--vresion"}, "did you mean '--version'? 'tmprof --help' lists all"},
      {{"record", "--duratoin", "3", "true"},
       "'--duratoin': 'tmprof record' has no such option; "
       "did you mean '--duration'?"},
      {{"record", "--duratoin=3", "true"}, "did you mean '--duration'?"},
      {{"score", "--trtuh=x"}, "did you mean '--truth'?"},
      {{"score"}, "--truth is missing; 'tmprof score --help'"},
      {{"report", "--format", "jsn"}, "'jsn' is none of text, json, csv; did you mean 'json'?"},
      {{"report", "--limit"}, "'--limit': it takes a value, which is missing; "},
      {{"report", "--limit", "x"},
       "'x' is not a whole number of 0 or more; 'tmprof report --help'"},
      {{"report", "a", "b"}, "cannot use argument 'b': "},
      {{"eval", "--fast", "1GiB", "--ratio", "1/8"}, "leave one of them out"},
      {{"advise", "--limit", "5%"}, kHasLocking ? "it is for '--mlock'" : "lacks the component"},
      {{"record"}, "no target was given; name a program to start"},
      {{"record", "-d", "5x", "true"}, "'--duration': cannot read duration '5x': unknown unit"},
  };
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = Tmprof(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("tmprof: cannot "), HasSubstr(part), EndsWith("\n")));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

// An application with an option of each kind that `record` has.
class SplitCommandTest : public ::testing::Test {
 protected:
  SplitCommandTest() {
    app_.add_flag("-q,--quiet");
    app_.add_option("-o,--output", output_);
    app_.add_option("-p,--pid", pids_)->delimiter(',');
    app_.add_option("--source", sources_)->delimiter(',')->allow_extra_args(false);
  }

  void ExpectSplit(const std::vector<std::string>& words, std::size_t options,
                   const std::vector<std::string>& command) {
    const CommandWords split = SplitCommand(app_, words);
    EXPECT_EQ(split.options,
              std::vector<std::string>(words.begin(), words.begin() + static_cast<long>(options)));
    EXPECT_EQ(split.command, command);
  }

  CLI::App app_;
  std::string output_;
  std::vector<int> pids_;
  std::vector<std::string> sources_;
};

TEST_F(SplitCommandTest, TheFirstWordThatIsNoOptionStartsTheCommand) {
  ExpectSplit({"sleep", "1"}, 0, {"sleep", "1"});
  ExpectSplit({"-q", "sleep", "-q"}, 1, {"sleep", "-q"});
  ExpectSplit({"sleep", "--", "1"}, 0, {"sleep", "--", "1"});
  ExpectSplit({}, 0, {});
}

TEST_F(SplitCommandTest, ValuesOfOptionsAreNotTheCommand) {
  ExpectSplit({"-o", "file", "sleep"}, 2, {"sleep"});
  ExpectSplit({"-ofile", "sleep"}, 1, {"sleep"});
  ExpectSplit({"-qo", "file", "sleep"}, 2, {"sleep"});
  ExpectSplit({"--output", "file", "sleep"}, 2, {"sleep"});
  ExpectSplit({"--output=file", "sleep"}, 1, {"sleep"});
  ExpectSplit({"--source", "clock", "driver"}, 2, {"driver"});
  ExpectSplit({"-o"}, 1, {});
}

TEST_F(SplitCommandTest, PidsMayBeSeveralWords) {
  ExpectSplit({"-p", "1", "2", "3,4"}, 4, {});
  ExpectSplit({"-p", "1", "2", "-q"}, 4, {});
  ExpectSplit({"-p", "1", "sleep", "2"}, 2, {"sleep", "2"});
}

TEST_F(SplitCommandTest, DashesStartTheCommandWhateverItLooksLike) {
  ExpectSplit({"-q", "--", "-o", "x"}, 1, {"-o", "x"});
  ExpectSplit({"--"}, 0, {});
}

TEST_F(SplitCommandTest, AnUnknownOptionHasNoValue) {
  ExpectSplit({"--unknown", "5", "sleep"}, 1, {"5", "sleep"});
}

TEST(Manual, HasAPageForEachCommandWithAllSections) {
  const TemporaryFolder folder;
  ASSERT_EQ(Tmprof({"generate", folder.File("man")}).status, 0);
  std::vector<std::string> pages{"tmprof"};
  for (const std::string& command : Commands()) pages.push_back("tmprof-" + command);
  for (const std::string& page : pages) {
    const std::string text = ReadFile(folder.File("man/" + page + ".1"));
    for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "FILES",
                                "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"}) {
      EXPECT_THAT(text, HasSubstr(std::string(".SH ") + section + "\n")) << page;
    }
    EXPECT_EQ(text.contains(".SH EXAMPLES\n"), page != "tmprof-doctor") << page;
  }
  const auto synopsis = [&](const std::string& page) {
    const std::string text = ReadFile(folder.File("man/" + page + ".1"));
    const std::size_t begin = text.find(".SH SYNOPSIS\n") + 13;
    return text.substr(begin, text.find(".SH DESCRIPTION") - begin);
  };
  EXPECT_EQ(synopsis("tmprof-report"), ".B tmprof report [OPTION]... [FILE]\n");
  EXPECT_EQ(synopsis("tmprof-eval"), ".B tmprof eval [OPTION]... [FILE...]\n");
  EXPECT_EQ(synopsis("tmprof-ctl"), ".B tmprof ctl [OPTION]... COMMAND [SETTING...]\n");
  EXPECT_THAT(synopsis("tmprof-record"), HasSubstr("[\\-\\-] PROGRAM [ARGUMENT]..."));
}

TEST(Manual, HasDetailsThatTheHelpLeavesOut) {
  const TemporaryFolder folder;
  ASSERT_EQ(Tmprof({"generate", folder.File("man")}).status, 0);
  const std::string detail = "An existing file is kept as FILE.old.";
  EXPECT_THAT(ReadFile(folder.File("man/tmprof-record.1")), HasSubstr(detail));
  EXPECT_THAT(Tmprof({"help", "record"}).out, Not(HasSubstr(detail)));
}

// groff warns of what it does not understand.
TEST(Manual, IsUnderstoodByMan) {
  if (RunProgram({"sh", "-c", "command -v man && command -v groff"}).status != 0) {
    GTEST_SKIP() << "man or groff is not installed (Debian package man-db)";
  }
  const TemporaryFolder folder;
  ASSERT_EQ(Tmprof({"generate", folder.File("man")}).status, 0);
  const Outcome shown =
      RunProgram({"sh", "-c",
                  "for page in " + folder.File("man") +
                      "/*.1; do man --warnings -E UTF-8 -l \"$page\" >/dev/null || "
                      "exit 1; done"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.err, IsEmpty());
}

}  // namespace command_line_test
}  // namespace tmprof::test
