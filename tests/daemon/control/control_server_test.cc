// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <latch>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/control/control_address.h"
#include "daemon/control/control_client.h"
#include "tests/apps/program.h"
#include "tests/base/fake_clock.h"
#include "tests/daemon/control/recording_handlers.h"
#include "tests/daemon/control/statuses.h"

namespace tmprof::test {
namespace control_server_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Longer than any of these waits, however slow the host: nothing is to depend on it.
constexpr std::chrono::minutes kLong{10};
constexpr const char* kStatusLine = "{\"command\": \"status\"}\n";

// A client that does only as it is told.
class Connection {
 public:
  explicit Connection(const std::string& path) {
    auto connected = ConnectToDaemon(path, kLong);
    EXPECT_TRUE(connected.has_value()) << connected.error().Message();
    if (connected) fd_ = *std::move(connected);
  }

  // False once the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // One line, or what came before the server closed.
  std::string Line() {
    std::string line;
    char byte = 0;
    while (!line.ends_with('\n') && ::recv(fd_.get(), &byte, 1, 0) == 1) line += byte;
    return line;
  }
  std::string Bytes(std::size_t count) {
    std::string bytes;
    char byte = 0;
    while (bytes.size() < count && ::recv(fd_.get(), &byte, 1, 0) == 1) bytes += byte;
    return bytes;
  }
  Json Answer() { return Json::parse(Line(), nullptr, false); }
  void EndSending() { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  UniqueFd fd_;
};

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() : board_(clock_, FullStatus()), handlers_(recorder_.Handlers()) {}

  void Start(ControlLimits limits = {.patience = kLong}) {
    auto server = ControlServer::Start(path_, board_, handlers_, limits);
    ASSERT_TRUE(server.has_value()) << server.error().Message();
    server_ = *std::move(server);
  }
  std::string StartError() {
    const auto server = ControlServer::Start(path_, board_, handlers_);
    EXPECT_FALSE(server.has_value());
    return server ? "" : server.error().Message();
  }
  Result<Json> Ask(const Json& request) { return AskDaemon(path_, request, kLong); }
  void ExpectStatusIsAnswered() {
    const Result<Json> answer = Ask({{"command", "status"}});
    ASSERT_TRUE(answer.has_value()) << answer.error().Message();
    EXPECT_EQ((*answer)["status"]["version"], "1.2.3");
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("control");
  const FakeClock clock_{kDaemonStart};
  StatusBoard board_;
  RecordingHandlers recorder_;
  ControlHandlers handlers_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlServerTest, AnswersStatusAndTargets) {
  Start();
  ExpectStatusIsAnswered();
  const auto targets = Ask({{"command", "targets"}});
  ASSERT_TRUE(targets.has_value());
  EXPECT_EQ((*targets)["targets"][0]["pid"], 4711);
  const auto text = Ask({{"command", "status"}, {"format", "text"}});
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT((*text)["text"].get<std::string>(), StartsWith("tmprofd 1.2.3"));
}

TEST_F(ControlServerTest, FitsTablesToTheColumnsOfTheRequest) {
  Start();
  const auto text = [&](const char* command, const std::optional<std::size_t>& columns) {
    Json request = {{"command", command}, {"format", "text"}};
    if (columns) request["columns"] = *columns;
    return (*Ask(request))["text"].get<std::string>();
  };
  EXPECT_THAT(text("status", {}), Not(HasSubstr("--wide")));
  EXPECT_THAT(text("status", 60),
              HasSubstr("left out: an access takes longer by (--wide shows all)\n"));
  EXPECT_THAT(text("targets", 30), HasSubstr("left out: in tier 1, CPU time\n"));
}

TEST_F(ControlServerTest, HandsOutTheHottestSpansInThreeFormats) {
  Start();
  const auto json = Ask({{"command", "hot"}, {"limit", 1}});
  ASSERT_TRUE(json.has_value()) << json.error().Message();
  EXPECT_EQ((*json)["hot"]["rows"].size(), 1U);
  const auto text = Ask({{"command", "hot"}, {"format", "text"}, {"columns", 60}});
  ASSERT_TRUE(text.has_value()) << text.error().Message();
  EXPECT_EQ((*text)["text"], AsText(SmallHotList(), 60));
  const auto binary = AskDaemonForBytes(path_, {{"command", "hot"}, {"format", "binary"}}, kLong);
  ASSERT_TRUE(binary.has_value()) << binary.error().Message();
  EXPECT_EQ(binary->bytes, AsBinary(SmallHotList()));
  EXPECT_THAT(recorder_.calls(),
              ElementsAre("hot 1", HasSubstr("hot 1844"), HasSubstr("hot 1844")));
}

TEST_F(ControlServerTest, GoesOnBehindTheBytesOfAnAnswer) {
  Start();
  Connection connection(path_);
  connection.Send("{\"command\": \"hot\", \"format\": \"binary\"}\n");
  connection.Send(kStatusLine);
  const std::string announced = connection.Line();
  const auto bytes = Json::parse(announced)["bytes"].get<std::size_t>();
  EXPECT_EQ(connection.Bytes(bytes), AsBinary(SmallHotList()));
  EXPECT_EQ(connection.Answer()["status"]["version"], "1.2.3");
}

TEST_F(ControlServerTest, ShowsWhatWasPublishedLast) {
  Start();
  DaemonStatus next = FullStatus();
  next.state = DaemonState::kPaused;
  board_.Publish(next);
  EXPECT_EQ((*Ask({{"command", "status"}}))["status"]["state"], "paused");
}

TEST_F(ControlServerTest, HandsEachCommandToItsHandler) {
  Start();
  for (const char* command : {"pause", "resume", "stop"}) {
    EXPECT_TRUE(Ask({{"command", command}}).has_value()) << command;
  }
  EXPECT_TRUE(Ask({{"command", "set"}, {"settings", {{"hysteresis", "2"}, {"cpu_share", ""}}}})
                  .has_value());
  EXPECT_THAT(recorder_.calls(),
              ElementsAre("pause", "resume", "stop", "hysteresis to 2", "cpu_share to "));
}

TEST_F(ControlServerTest, PassesTheHandlersRefusalOn) {
  Start();
  const Error below = BadInput("set", "hysteresis=0", "it is below 1", "give 1 or more");
  recorder_.AnswerWith(Fail(below));
  const auto refused = Ask({{"command", "set"}, {"settings", {{"hysteresis", "0"}}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(refused.error().Message(), below.Message());
  recorder_.AnswerWith(Fail(Refused("pause", "the mover", EPERM)));
  const auto kernel = Ask({{"command", "pause"}});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(kernel.error().system_error, EPERM);
}

TEST_F(ControlServerTest, RefusesWhatIsNoRequestAndGoesOn) {
  Start();
  Connection client(path_);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not one JSON object"},
      {"status", "not one JSON object"},
      {"[]", "not one JSON object"},
      {"{} {}", "not one JSON object"},
      {std::string(kMostRequestBytes - 1, '['), "not one JSON object"},
      {"{\"a\xff\": 1}", "not one JSON object"},
      {"{}", "no text 'command'"},
      {R"({"command": 1})", "no text 'command'"},
      {R"({"command": "x\u001by"})", "no command 'x\\x1by'"},
      {R"({"command": "stop", "command": "pause"})", "twice"},
      {R"({"command": "pause", "format": "json"})", "'pause' takes no field 'format'"},
      {R"({"command": "status", "format": "xml"})", "'format' is"},
      {R"({"command": "status", "format": "text", "columns": 0})", "whole number above 0"},
      {R"({"command": "status", "format": "text", "columns": -8})", "whole number above 0"},
      {R"({"command": "status", "format": "text", "columns": "8"})", "whole number above 0"},
      {R"({"command": "status", "columns": 80})", "'columns' is for"},
      {R"({"command": "pause", "": 1})", "takes no field ''"},
      {R"({"command": "set"})", "needs 'settings'"},
      {R"({"command": "set", "settings": {}})", "at least one"},
      {R"({"command": "set", "settings": ["a"]})", "at least one"},
      {R"({"command": "set", "settings": {"a": 1}})", "'a' is not text"},
      {R"({"command": "set", "settings": {"a": "1", "a": "2"}})", "twice"},
  };
  for (const auto& [line, reason] : cases) {
    ASSERT_TRUE(client.Send(line + "\n")) << line.substr(0, 80);
    const Json answer = client.Answer();
    EXPECT_EQ(answer["ok"], false) << line.substr(0, 80);
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr(reason));
    EXPECT_EQ(answer["fault"]["kind"], "bad-input");
  }
  client.Send(kStatusLine);
  EXPECT_EQ(client.Answer()["ok"], true);
  EXPECT_THAT(recorder_.calls(), IsEmpty());
}

TEST_F(ControlServerTest, HasASocketForItsUserAlone) {
  const mode_t before = ::umask(0);
  Start();
  ::umask(before);
  struct stat file{};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 07777, 0600U);
}

TEST_F(ControlServerTest, RemovesItsSocketAtTheEnd) {
  Start();
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ControlServerTest, LeavesASocketThatIsNotItsOwn) {
  Start();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  WriteFile(path_, "");
  server_.reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ControlServerTest, ReplacesTheSocketOfADeadDaemon) {
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto address = UnixAddressOf(path_);
    ASSERT_EQ(::bind(dead.get(), address->get(), UnixAddress::size()), 0);
    ASSERT_EQ(::listen(dead.get(), 1), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  Start();
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, RefusesTheSocketOfALivingDaemonAndNamesIt) {
  Start();
  EXPECT_THAT(StartError(), AllOf(HasSubstr(path_), HasSubstr("PID " + std::to_string(getpid())),
                                  HasSubstr("tmprof ctl stop")));
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, RefusesTheSocketOfALivingDaemonWhoseLockFileWasRemoved) {
  Start();
  ASSERT_EQ(::unlink((path_ + ".lock").c_str()), 0);
  EXPECT_THAT(StartError(), HasSubstr("PID " + std::to_string(getpid())));
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, RefusesASocketThatAnotherDaemonIsAboutToMake) {
  const UniqueFd lock(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_THAT(StartError(), HasSubstr("another daemon is about to serve it"));
}

TEST_F(ControlServerTest, RefusesAPathWithSomethingElse) {
  WriteFile(path_, "precious");
  EXPECT_THAT(StartError(), HasSubstr("something else than a socket"));
  EXPECT_EQ(ReadFile(path_), "precious");
}

TEST_F(ControlServerTest, RefusesAPathThatIsTooLongForASocket) {
  const auto server = ControlServer::Start(folder_.File(std::string(108, 'x')), board_, handlers_);
  ASSERT_FALSE(server.has_value());
  EXPECT_THAT(server.error().Message(), HasSubstr("107 bytes"));
}

TEST_F(ControlServerTest, MakesTheFolderOfItsSocket) {
  const std::string path = folder_.File("new/control");
  const auto server = ControlServer::Start(path, board_, handlers_);
  ASSERT_TRUE(server.has_value()) << server.error().Message();
  EXPECT_TRUE(AskDaemon(path, {{"command", "status"}}, kLong).has_value());
}

TEST_F(ControlServerTest, RefusesOtherUsersThoughTheyReachTheSocket) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Start();
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const auto answer = AskDaemon(path_, {{"command", "stop"}}, kLong);
    const bool refused =
        !answer && answer.error().Message().find("user 65534") != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(recorder_.calls(), IsEmpty());
}

// Clients that behave badly.

TEST_F(ControlServerTest, WaitsForTheRestOfALineWhileItServesOthers) {
  Start();
  Connection slow(path_);
  ASSERT_TRUE(slow.Send("{\"comm"));
  ExpectStatusIsAnswered();
  ASSERT_TRUE(slow.Send("and\": \"pause\"}"));
  ExpectStatusIsAnswered();
  EXPECT_THAT(recorder_.calls(), IsEmpty());
  ASSERT_TRUE(slow.Send("\n"));
  EXPECT_EQ(slow.Answer()["ok"], true);
  EXPECT_THAT(recorder_.calls(), ElementsAre("pause"));
}

TEST_F(ControlServerTest, ObeysNoLineThatWasCutShort) {
  Start();
  Connection client(path_);
  ASSERT_TRUE(client.Send("{\"command\": \"stop\"}"));
  client.EndSending();
  EXPECT_EQ(client.Line(), "");
  EXPECT_THAT(recorder_.calls(), IsEmpty());
}

TEST_F(ControlServerTest, AnswersAClientThatHasEndedSending) {
  Start();
  Connection client(path_);
  ASSERT_TRUE(client.Send(std::string(kStatusLine) + "{\"command\": \"pause\"}\n"));
  client.EndSending();
  EXPECT_EQ(client.Answer()["status"]["version"], "1.2.3");
  EXPECT_EQ(client.Answer(), Json({{"ok", true}}));
  EXPECT_EQ(client.Line(), "");
}

TEST_F(ControlServerTest, RefusesALineOfAMebibyte) {
  Start();
  Connection client(path_);
  EXPECT_FALSE(client.Send(std::string(1 << 20, 'x')));
  EXPECT_THAT(client.Line(), HasSubstr("longer than 65536 bytes"));
  EXPECT_EQ(client.Line(), "");
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, TakesALineAsLongAsMayBe) {
  Start();
  Connection client(path_);
  std::string line = kStatusLine;
  line.insert(0, kMostRequestBytes - line.size(), ' ');
  ASSERT_TRUE(client.Send(line));
  EXPECT_EQ(client.Answer()["ok"], true);
  ASSERT_TRUE(client.Send(" " + line));
  EXPECT_EQ(client.Answer()["ok"], false);
}

TEST_F(ControlServerTest, ServesOnBehindAHundredSilentConnections) {
  Start();
  std::vector<Connection> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(path_);
  ExpectStatusIsAnswered();
  // The first of them had to go.
  EXPECT_EQ(silent.front().Line(), "");
}

TEST_F(ControlServerTest, LivesThroughClientsThatCloseAtOnce) {
  Start();
  for (int i = 0; i < 100; ++i) {
    Connection client(path_);
    if (i % 2 == 0) client.Send(kStatusLine);
    if (i % 4 == 0) client.Send("{\"command\": \"pause\"}\n");
  }
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, DropsAClientThatNeverFinishesItsRequest) {
  Start({.patience = std::chrono::milliseconds(20)});
  Connection client(path_);
  client.Send("{\"comm");
  EXPECT_EQ(client.Line(), "");
}

TEST_F(ControlServerTest, IsNotHeldUpByOneThatTakesNoAnswers) {
  Start();
  Connection deaf(path_);
  // These are as many as fit on the way, and not one is read.
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += "{\"command\": \"targets\"}\n";
  ASSERT_TRUE(deaf.Send(requests));
  ExpectStatusIsAnswered();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(deaf.Answer()["ok"], true);
}

TEST_F(ControlServerTest, AnswersStatusWhileAHandlerWaits) {
  std::latch entered(1);
  std::latch may_end(1);
  handlers_.pause = [&] {
    entered.count_down();
    may_end.wait();
    return Status();
  };
  Start();
  Connection client(path_);
  Connection gone(path_);
  ASSERT_TRUE(client.Send("{\"command\": \"pause\"}\n"));
  entered.wait();
  ExpectStatusIsAnswered();
  ASSERT_TRUE(gone.Send("{\"command\": \"resume\"}\n"));
  gone = Connection(path_);  // one that does not wait for its turn
  ExpectStatusIsAnswered();
  may_end.count_down();
  EXPECT_EQ(client.Answer()["ok"], true);
  ExpectStatusIsAnswered();
}

TEST_F(ControlServerTest, RefusesMoreThanItsMostWhileAllWaitForHandlers) {
  std::latch entered(1);
  std::latch may_end(1);
  handlers_.pause = [&] {
    entered.count_down();
    may_end.wait();
    return Status();
  };
  Start({.most_clients = 1, .patience = kLong});
  Connection first(path_);
  ASSERT_TRUE(first.Send("{\"command\": \"pause\"}\n"));
  entered.wait();
  Connection second(path_);
  EXPECT_THAT(second.Line(), HasSubstr("too many"));
  may_end.count_down();
  EXPECT_EQ(first.Answer()["ok"], true);
}

TEST_F(ControlServerTest, AnswersStopThoughItEndsAtOnce) {
  std::promise<void> stop;
  handlers_.stop = [&] {
    stop.set_value();
    return Status();
  };
  Start();
  Connection client(path_);
  ASSERT_TRUE(client.Send("{\"command\": \"stop\"}\n"));
  stop.get_future().wait();
  server_.reset();
  EXPECT_EQ(client.Answer()["ok"], true);
}

// The asking side.

TEST(AskDaemon, GivesUpOnASilentDaemon) {
  const TemporaryFolder folder;
  const std::string path = folder.File("control");
  const UniqueFd silent(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(silent.get(), UnixAddressOf(path)->get(), UnixAddress::size()), 0);
  ASSERT_EQ(::listen(silent.get(), 0), 0);
  const auto ask = [&] {
    return AskDaemon(path, {{"command", "status"}}, std::chrono::milliseconds(20));
  };
  const auto first = ask();
  ASSERT_FALSE(first.has_value());
  EXPECT_THAT(first.error().Message(), AllOf(HasSubstr(path), HasSubstr("silent for 20ms")));
  // The backlog is now full, so that not even a connection comes about.
  const auto second = ask();
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().Message(), HasSubstr("silent for 20ms"));
}

TEST(AskDaemon, TellsAnAnswerThatIsNone) {
  for (const auto& [said, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "closed the connection"},
           {"hello\n", "what it said is none"},
           {"{\"ok\": 1}\n", "what it said is none"},
           {"{\"ok\": true", "closed the connection after 11 bytes"},
           {"{\"ok\": false, \"error\": \"no\"}\n", "no"}}) {
    const TemporaryFolder folder;
    const std::string path = folder.File("control");
    const UniqueFd odd(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(odd.get(), UnixAddressOf(path)->get(), UnixAddress::size()), 0);
    ASSERT_EQ(::listen(odd.get(), 1), 0);
    auto answer = std::async([&] { return AskDaemon(path, {{"command", "status"}}, kLong); });
    {
      const UniqueFd client(::accept(odd.get(), nullptr, nullptr));
      char request[64];
      ASSERT_GT(::recv(client.get(), request, sizeof request, 0), 0);
      ASSERT_EQ(::send(client.get(), said.data(), said.size(), 0), std::ssize(said));
    }
    const auto got = answer.get();
    ASSERT_FALSE(got.has_value()) << said;
    EXPECT_THAT(got.error().Message(), HasSubstr(reason));
  }
}

}  // namespace control_server_test
}  // namespace tmprof::test
