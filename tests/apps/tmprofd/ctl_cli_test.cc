// SPDX-License-Identifier: Apache-2.0
// The built `tmprof ctl` against a daemon's socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/control/control_address.h"
#include "daemon/control/control_server.h"
#include "tests/apps/program.h"
#include "tests/base/fake_clock.h"
#include "tests/daemon/control/recording_handlers.h"
#include "tests/daemon/control/statuses.h"

namespace tmprof::test {
namespace ctl_cli_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::StartsWith;

class CtlTest : public ::testing::Test {
 protected:
  CtlTest() : board_(clock_, FullStatus()) {
    auto server = ControlServer::Start(path_, board_, recorder_.Handlers());
    EXPECT_TRUE(server.has_value());
    if (server) server_ = *std::move(server);
  }

  Outcome Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    arguments.insert(arguments.end(), {"--socket", path_});
    return Tmprof(arguments);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("control");
  const FakeClock clock_{kDaemonStart};
  StatusBoard board_;
  RecordingHandlers recorder_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(CtlTest, ShowsTheStatusForPeopleAndForPrograms) {
  const Outcome text = Ctl({"status"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("tmprofd 1.2.3: running"), HasSubstr("redis-server")));
  const Outcome json = Ctl({"status", "--format", "json"});
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["tier1_hit_ratio"], 0.875);
}

TEST_F(CtlTest, ShowsTheTargets) {
  EXPECT_THAT(Ctl({"targets"}).out, HasSubstr("redis-server"));
  EXPECT_EQ(Json::parse(Ctl({"targets", "--format", "json"}).out)[0]["pid"], 4711);
}

TEST_F(CtlTest, ShowsTheHottestSpans) {
  EXPECT_EQ(Ctl({"hot"}).out, AsText(SmallHotList()));
  EXPECT_EQ(Json::parse(Ctl({"hot", "--format", "json"}).out), AsJson(SmallHotList()));
  EXPECT_EQ(Ctl({"hot", "--limit", "0", "--format", "binary"}).out, AsBinary(SmallHotList()));
  EXPECT_THAT(recorder_.calls(), ElementsAre("hot 20", "hot 20", HasSubstr("hot 1844")));
}

TEST_F(CtlTest, WritesNoBinaryToATerminal) {
  const Outcome outcome =
      RunAtTerminal({TmprofPath(), "ctl", "hot", "--format", "binary", "--socket", path_}, 80);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr("write it to a file"));
}

TEST_F(CtlTest, FitsTheTerminalUnlessItIsAskedForAllColumns) {
  static constexpr unsigned short kWidths[] = {60, 80, 120, 200};
  for (const unsigned short columns : kWidths) {
    const Outcome shown =
        RunAtTerminal({TmprofPath(), "ctl", "status", "--socket", path_}, columns);
    EXPECT_EQ(shown.status, 0) << shown.out;
    EXPECT_THAT(LongestLine(shown.out), Le(columns)) << shown.out;
  }
  const Outcome narrow = RunAtTerminal({TmprofPath(), "ctl", "status", "--socket", path_}, 60);
  EXPECT_THAT(narrow.out, HasSubstr("an access takes longer by (--wide shows all)"));
  const Outcome wide =
      RunAtTerminal({TmprofPath(), "ctl", "status", "--wide", "--socket", path_}, 60);
  EXPECT_EQ(wide.out, Ctl({"status"}).out);
  EXPECT_THAT(wide.out, Not(HasSubstr("--wide")));
}

TEST_F(CtlTest, TellsTheDaemonWhatToDo) {
  EXPECT_EQ(Ctl({"pause"}).out, "paused\n");
  EXPECT_EQ(Ctl({"resume"}).out, "resumed\n");
  EXPECT_EQ(Ctl({"set", "hysteresis=2", "note=a=b"}).out, "hysteresis=2\nnote=a=b\n");
  EXPECT_EQ(Json::parse(Ctl({"stop", "--format", "json"}).out), Json({{"ok", true}}));
  EXPECT_THAT(recorder_.calls(),
              ElementsAre("pause", "resume", "hysteresis to 2", "note to a=b", "stop"));
}

TEST_F(CtlTest, EndsAsTheDaemonRefuses) {
  recorder_.AnswerWith(Fail(BadInput("set", "x=1", "there is no such quantity")));
  const Outcome bad = Ctl({"set", "x=1"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_EQ(bad.err, "tmprof: cannot set 'x=1': there is no such quantity\n");
  recorder_.AnswerWith(Fail(Refused("pause", "the mover", EIO)));
  EXPECT_EQ(Ctl({"pause"}).status, 1);
}

TEST_F(CtlTest, RefusesWhatItCannotTellTheDaemon) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"status", "a=1"},
                                             {"status", "--limit", "3"},
                                             {"status", "--format", "binary"},
                                             {"hot", "a=1"},
                                             {"hot", "--limit", "-1"},
                                             {"stop", "now"},
                                             {"set"},
                                             {"set", "hysteresis"},
                                             {"set", "=1"},
                                             {"set", "a=1", "a=2"},
                                             {"frobnicate"},
                                             {},
                                             {"status", "--format", "csv"}}) {
    const Outcome outcome = Ctl(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  EXPECT_THAT(recorder_.calls(), IsEmpty());
}

TEST(Ctl, SaysThatNoDaemonIsThere) {
  const TemporaryFolder folder;
  const std::string path = folder.File("control");
  const Outcome none = Tmprof({"ctl", "status", "--socket", path});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr(path), HasSubstr("ENOENT"), HasSubstr("no tmprofd")));
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), UnixAddressOf(path)->get(), UnixAddress::size()), 0);
  }
  const Outcome dead = Tmprof({"ctl", "status", "--socket", path});
  EXPECT_EQ(dead.status, 1);
  EXPECT_THAT(dead.err, AllOf(HasSubstr("ECONNREFUSED"), HasSubstr("no tmprofd")));
}

TEST_F(CtlTest, SaysWhoMayAsk) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const Outcome outcome = RunAsNobody({TmprofPath(), "ctl", "status", "--socket", path_});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("EACCES"), HasSubstr("run as root")));
}

}  // namespace ctl_cli_test
}  // namespace tmprof::test
