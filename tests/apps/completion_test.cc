// SPDX-License-Identifier: Apache-2.0
// Completion in the real shells.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace completion_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// Skips where `shell` is missing; else its scripts stand in folder_.
class Completion : public ::testing::Test {
 protected:
  void Prepare(const std::string& shell) {
    if (RunProgram({"sh", "-c", "command -v " + shell}).status != 0) {
      GTEST_SKIP() << shell << " is not installed (Debian package " << shell << ")";
    }
    ASSERT_EQ(Tmprof({"generate", folder_.path().string()}).status, 0);
    const std::string tmprofd = std::string(TMPROF_BINARY_DIR) + "/tmprofd";
    for (const auto& [kind, file] :
         {std::pair("bash", "tmprofd.bash"), {"zsh", "_tmprofd"}, {"fish", "tmprofd.fish"}}) {
      const Outcome made = RunProgram({tmprofd, "--generate", kind});
      ASSERT_EQ(made.status, 0) << made.err;
      WriteFile(folder_.File(file), made.out);
    }
  }

  static std::vector<std::string> Words(const std::string& text) {
    std::vector<std::string> words;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }

  TemporaryFolder folder_;
};

class BashCompletion : public Completion {
 protected:
  void SetUp() override { Prepare("bash"); }

  // Returns the words that bash would offer for the last of `words`.
  std::vector<std::string> Offered(const std::vector<std::string>& words) {
    const std::string& program = words.front();
    std::string script = "source " + folder_.File(program + ".bash") + "\nCOMP_WORDS=(";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n_" + program +
              "\nprintf '%s\\n' \"${COMPREPLY[@]}\"";
    const Outcome outcome = RunProgram({"bash", "-c", script});
    EXPECT_EQ(outcome.err, "");
    return Words(outcome.out);
  }
};

TEST_F(BashCompletion, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(Offered({"tmprof", "rec"}), ElementsAre("record"));
  EXPECT_THAT(Offered({"tmprof", "--ver"}), ElementsAre("--version"));
  EXPECT_THAT(Offered({"tmprof", "help", "rep"}), ElementsAre("report"));
  EXPECT_THAT(Offered({"tmprof", "record", "--max-o"}), ElementsAre("--max-overhead"));
  EXPECT_THAT(Offered({"tmprof", "report", "--format", "j"}), ElementsAre("json"));
  EXPECT_THAT(Offered({"tmprof", "report", "--format", "=", "j"}), ElementsAre("json"));
  EXPECT_THAT(Offered({"tmprof", "ctl", "p"}), ElementsAre("pause"));
  EXPECT_THAT(Offered({"tmprof", "record", "-o", "x"}), ElementsAre());
  EXPECT_THAT(Offered({"tmprof", ""}), Not(Contains("generate")));
  EXPECT_THAT(Offered({"tmprofd", "--check"}), ElementsAre("--check-config"));
}

TEST_F(BashCompletion, OffersSettingsThatCanBeSetBehindCtlSet) {
  EXPECT_THAT(Offered({"tmprof", "ctl", "set", "mover.att"}), ElementsAre("mover.attempts="));
  EXPECT_THAT(Offered({"tmprof", "ctl", "set", "profile.seed", "=", "1", "mover.att"}),
              ElementsAre("mover.attempts="));
  EXPECT_THAT(Offered({"tmprof", "ctl", "set", ""}), Not(Contains("targets.command=")))
      << "it is a list";
  EXPECT_THAT(Offered({"tmprof", "ctl", "set", "mover.attempts", "="}), ElementsAre())
      << "a value follows";
  EXPECT_THAT(Offered({"tmprof", "ctl", "mover.att"}), ElementsAre());
  EXPECT_THAT(Offered({"tmprof", "ctl", "set", "--for"}), ElementsAre("--format"));
}

class FishCompletion : public Completion {
 protected:
  void SetUp() override { Prepare("fish"); }

  std::vector<std::string> Offered(const std::string& line) {
    const std::string program = line.substr(0, line.find(' '));
    const Outcome outcome =
        RunProgram({"fish", "--no-config", "-c",
                    "source " + folder_.File(program + ".fish") + "; complete -C '" + line + "'"});
    EXPECT_EQ(outcome.err, "");
    std::vector<std::string> offered;  // without the description behind a tab
    std::istringstream lines(outcome.out);
    for (std::string each; std::getline(lines, each);) {
      offered.push_back(each.substr(0, each.find('\t')));
    }
    return offered;
  }
};

TEST_F(FishCompletion, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(Offered("tmprof rec"), ElementsAre("record"));
  EXPECT_THAT(Offered("tmprof --ver"), ElementsAre("--version"));
  EXPECT_THAT(Offered("tmprof help rep"), ElementsAre("report"));
  EXPECT_THAT(Offered("tmprof record --max-o"), ElementsAre("--max-overhead"));
  EXPECT_THAT(Offered("tmprof report --format j"), ElementsAre("json"));
  EXPECT_THAT(Offered("tmprof ctl pa"), ElementsAre("pause"));
  EXPECT_THAT(Offered("tmprof report --max-o"), ElementsAre());
  EXPECT_THAT(Offered("tmprofd --check"), ElementsAre("--check-config"));
}

TEST_F(FishCompletion, OffersSettingsThatCanBeSetBehindCtlSet) {
  EXPECT_THAT(Offered("tmprof ctl set mover.att"), ElementsAre("mover.attempts="));
  EXPECT_THAT(Offered("tmprof ctl set profile.seed=1 mover.att"), ElementsAre("mover.attempts="));
  EXPECT_THAT(Offered("tmprof ctl set pau"), Not(Contains("pause")));
  EXPECT_THAT(Offered("tmprof ctl mover.att"), ElementsAre());
}

class ZshCompletion : public Completion {
 protected:
  void SetUp() override { Prepare("zsh"); }

  // The line after the user typed `line` and the tab key in an interactive zsh.
  std::string Completed(const std::string& line) {
    constexpr const char* kScript = R"(zmodload zsh/zpty zsh/zselect
zpty shell zsh -f -i
wait_for() {
  local output part i
  for i in {1..200}; do
    while zpty -r -t shell part; do output+=$part; done
    [[ $output == *$1* ]] && return
    zselect -t 5
  done
  print "no $1 in: $output"
  exit 1
}
zpty -w shell "PS1= ; fpath=($2 \$fpath); autoload -U compinit; compinit -u -D
dump() { print -r -- \"\$BUFFER\" >|$2/done; exit }
zle -N dump; bindkey '^X' dump; bindkey '^I' complete-word; print re''ady"
wait_for ready
zpty -n -w shell "$1"$'\t\x18'
for i in {1..200}; do [[ -s $2/done ]] && exit 0; zselect -t 5; done
exit 1
)";
    const std::string script = folder_.File("script");
    const std::string done = folder_.File("done");
    WriteFile(script, kScript);
    WriteFile(done, "");
    const Outcome outcome =
        RunProgram({"timeout", "60", "zsh", "-f", script, line, folder_.path().string()});
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    std::string buffer = ReadFile(done);
    while (buffer.ends_with('\n') || buffer.ends_with(' ')) buffer.pop_back();
    return buffer;
  }
};

TEST_F(ZshCompletion, CompletesCommandsOptionsAndValues) {
  EXPECT_EQ(Completed("tmprof rec"), "tmprof record");
  EXPECT_EQ(Completed("tmprof --ver"), "tmprof --version");
  EXPECT_EQ(Completed("tmprof help rep"), "tmprof help report");
  EXPECT_EQ(Completed("tmprof record --max-o"), "tmprof record --max-overhead=");
  EXPECT_EQ(Completed("tmprof report --format j"), "tmprof report --format json");
  EXPECT_EQ(Completed("tmprof ctl pau"), "tmprof ctl pause");
  EXPECT_EQ(Completed("tmprofd --check"), "tmprofd --check-config");
}

TEST_F(ZshCompletion, CompletesSettingsThatCanBeSetBehindCtlSet) {
  EXPECT_EQ(Completed("tmprof ctl set mover.att"), "tmprof ctl set mover.attempts=");
  EXPECT_EQ(Completed("tmprof ctl set profile.seed=1 mover.att"),
            "tmprof ctl set profile.seed=1 mover.attempts=");
}

}  // namespace completion_test
}  // namespace tmprof::test
