// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/host/proc_tree.h"
#include "tests/profiler/exact/stream_bytes.h"

namespace tmprof::exact {
namespace truth_server_test {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

MonotonicTime At(int second) { return MonotonicTime(seconds(second)); }
constexpr seconds kPatience{5};

class Client {
 public:
  explicit Client(const TruthServer& server) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    server.socket().string().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void Send(const StreamBytes& stream) {
    EXPECT_EQ(send(fd_.get(), stream.bytes.data(), stream.bytes.size(), 0),
              static_cast<ssize_t>(stream.bytes.size()));
  }
  bool Closed() const {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  UniqueFd fd_;
};

class TruthServerTest : public testing::Test {
 protected:
  TruthServerTest() : server_(*TruthServer::Listen(procfs_)) {}

  ProcFs procfs_{"/nonexistent"};
  TruthServer server_;
};

// No process has this pid, so that no mappings are found.
StreamBytes Begun(std::uint32_t pid) { return StreamBytes().Header().Target(0, pid, "p"); }

TEST_F(TruthServerTest, AnEpochIsCompleteWhenAllHaveSentTheirs) {
  Client first(server_);
  Client second(server_);
  first.Send(Begun(1).Pages({PageEntry(7, 3, 0)}).End(0, 10, 20, 3, 0));
  second.Send(Begun(2));
  server_.Service(At(1));
  EXPECT_THAT(server_.TakeEpochs(At(1), kPatience), IsEmpty()) << "the second may still send";
  second.Send(StreamBytes().Pages({PageEntry(7, 4, 0)}).End(0, 10, 20, 4, 0));
  server_.Service(At(2));
  const auto epochs = server_.TakeEpochs(At(2), kPatience);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_THAT(epochs[0].targets, SizeIs(2));
  EXPECT_EQ(epochs[0].sources[0].observations, 7u);
}

TEST_F(TruthServerTest, ASilentOneIsWaitedForInPatience) {
  Client first(server_);
  Client second(server_);
  second.Send(Begun(2));
  server_.Service(At(1));
  first.Send(Begun(1).End(0, 10, 20, 0, 0));
  server_.Service(At(4));
  EXPECT_THAT(server_.TakeEpochs(At(5), kPatience), IsEmpty());
  EXPECT_THAT(server_.TakeEpochs(At(6), kPatience), SizeIs(1));
}

TEST_F(TruthServerTest, OneThatHasGoneIsNotWaitedForAndItsWholeEpochsStand) {
  Client first(server_);
  {
    Client second(server_);
    second.Send(
        Begun(2).Pages({PageEntry(7, 4, 0)}).End(0, 10, 20, 4, 0).Pages({PageEntry(8, 1, 0)}));
  }
  first.Send(Begun(1).End(0, 10, 20, 0, 0).End(1, 20, 30, 0, 0));
  server_.Service(At(1));
  const auto epochs = server_.TakeEpochs(At(1), kPatience);
  ASSERT_THAT(epochs, SizeIs(2));
  EXPECT_EQ(epochs[0].sources[0].observations, 4u);
  EXPECT_EQ(epochs[0].sources[0].lost, 0u);
  EXPECT_EQ(epochs[1].sources[0].observations, 0u) << "its open epoch is lost";
  EXPECT_EQ(epochs[1].sources[0].lost, std::nullopt);
  EXPECT_EQ(
      epochs[1].sources[0].note,
      "process 2 (p) ended its stream early, as when killed: its accesses since its last epoch "
      "are lost");
  ASSERT_THAT(epochs[1].targets, SizeIs(2));
  EXPECT_TRUE(epochs[1].targets[1].exited);
  EXPECT_TRUE(server_.MayHearMore()) << "of the first";
}

TEST_F(TruthServerTest, OneKilledInItsFirstEpochHasItBesideTheOthersOpenOnes) {
  Client first(server_);
  first.Send(Begun(1).End(0, 10, 20, 0, 0).End(1, 20, 30, 0, 0));
  server_.Service(At(1));
  EXPECT_THAT(server_.TakeEpochs(At(1), kPatience), SizeIs(2));
  Client(server_).Send(Begun(2));
  server_.Service(At(2));
  first.Send(StreamBytes().End(2, 30, 40, 0, 0).Finish(3));
  server_.Service(At(2));
  const auto epochs = server_.TakeRest();
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].index, 2u);
  EXPECT_EQ(epochs[0].sources[0].lost, std::nullopt);
  EXPECT_FALSE(server_.MayHearMore());
}

class TruthServerOfLivingTest : public testing::Test {
 protected:
  TruthServerOfLivingTest() : server_(*TruthServer::Listen(procfs_)) {
    tree_.Put({.pid = 2, .start_time_ticks = 77});  // StreamBytes::Target says so, too
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  TruthServer server_;
};

TEST_F(TruthServerOfLivingTest, OneThatConnectsAnewHasLostNothingAndKeepsItsMappings) {
  // The tree's only mapping is of the pages 1 and 2.
  Client(server_).Send(Begun(2).Pages({PageEntry(1, 4, 0)}).End(0, 10, 20, 4, 0));
  server_.Service(At(1));
  EXPECT_TRUE(server_.MayHearMore());
  Client again(server_);
  again.Send(Begun(2).End(1, 20, 30, 0, 0).Finish(1));
  tree_.Remove(2);
  server_.Service(At(2));
  EXPECT_FALSE(server_.MayHearMore());
  const auto epochs = server_.TakeRest();
  ASSERT_THAT(epochs, SizeIs(2));
  EXPECT_EQ(epochs[1].sources[0].lost, 0u);
  ASSERT_THAT(epochs[1].targets, SizeIs(1));
  EXPECT_THAT(epochs[1].targets[0].mappings, SizeIs(1)) << "though it accessed nothing since";
}

TEST_F(TruthServerOfLivingTest, OneThatHasFinishedAndLivesMayRunAnotherProgram) {
  Client client(server_);
  client.Send(Begun(2).End(0, 10, 20, 0, 0).Finish(1));
  server_.Service(At(1));
  EXPECT_TRUE(client.Closed());
  EXPECT_TRUE(server_.MayHearMore());
  tree_.Put({.pid = 2, .state = 'Z', .start_time_ticks = 77});
  server_.Service(At(2));
  EXPECT_FALSE(server_.MayHearMore());
  EXPECT_EQ(server_.TakeRest().back().sources[0].lost, 0u);
}

TEST_F(TruthServerOfLivingTest, AnEpochWaitsForTheProgramThatIsExecutedInIt) {
  Client(server_).Send(Begun(2).Pages({PageEntry(1, 4, 0)}).End(0, 10, 20, 4, 0).Finish(1));
  server_.Service(At(1));
  EXPECT_THAT(server_.TakeEpochs(At(1), kPatience), IsEmpty());
  Client executed(server_);
  executed.Send(Begun(2).Pages({PageEntry(1, 3, 0)}).End(0, 20, 30, 3, 0));
  server_.Service(At(2));
  const auto epochs = server_.TakeEpochs(At(2), kPatience);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].sources[0].observations, 7u);
}

TEST_F(TruthServerOfLivingTest, AProcessThatHasItsPidLaterIsAnother) {
  Client(server_).Send(Begun(2));
  tree_.Put({.pid = 2, .start_time_ticks = 78});
  server_.Service(At(1));
  EXPECT_FALSE(server_.MayHearMore());
  const auto epochs = server_.TakeRest();
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].sources[0].lost, std::nullopt);
}

TEST_F(TruthServerOfLivingTest, OneThatIsNotFollowedIsNotWaitedFor) {
  StreamBytes stream = Begun(2);
  const std::string why = "/bin/su runs with other rights";
  tmprof_truth_not_followed record{};
  record.processes = 1;
  record.text_bytes = static_cast<std::uint32_t>(why.size());
  stream.Record(TMPROF_TRUTH_NOT_FOLLOWED, record, why).End(0, 10, 20, 0, 0).Finish(1);
  Client client(server_);
  client.Send(stream);
  server_.Service(At(1));
  EXPECT_FALSE(server_.MayHearMore());
}

TEST_F(TruthServerTest, AFinishedStreamIsClosedSoThatItsProcessMayEnd) {
  Client client(server_);
  client.Send(Begun(1).End(0, 10, 20, 0, 0));
  server_.Service(At(1));
  EXPECT_FALSE(client.Closed());
  client.Send(StreamBytes().Finish(1));
  server_.Service(At(1));
  EXPECT_TRUE(client.Closed());
  EXPECT_THAT(server_.TakeRest(), SizeIs(1));
}

TEST_F(TruthServerTest, ComplainsOfAConnectionThatSendsSomethingElse) {
  Client client(server_);
  StreamBytes nonsense;
  nonsense.bytes = "GET / HTTP/1.0\r\n\r\n";
  client.Send(nonsense);
  server_.Service(At(1));
  EXPECT_TRUE(client.Closed());
  const auto complaints = server_.TakeComplaints();
  ASSERT_THAT(complaints, SizeIs(1));
  EXPECT_THAT(complaints[0].Message(), HasSubstr("it is not a truth stream"));
  EXPECT_THAT(server_.TakeComplaints(), IsEmpty());
}

TEST(TruthServer, LeavesNoSocketBehind) {
  const ProcFs procfs("/nonexistent");
  std::filesystem::path socket;
  {
    auto server = TruthServer::Listen(procfs);
    ASSERT_TRUE(server);
    const TruthServer moved(*std::move(server));
    socket = moved.socket();
    EXPECT_TRUE(std::filesystem::exists(socket));
  }
  EXPECT_FALSE(std::filesystem::exists(socket.parent_path()));
}

}  // namespace truth_server_test
}  // namespace tmprof::exact
