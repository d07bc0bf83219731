// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_thread.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace tmprof {
namespace move_thread_test {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Moves everything; each call can be held up.
class FakeCall final : public MoveCall {
 public:
  int operator()(Pid /*pid*/, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                 std::span<int> status, MoveScope /*scope*/) override {
    ++calls;
    if (held) {
      entered.count_down();
      release.wait();
    }
    pages_moved += pages.size();
    std::ranges::transform(nodes, status.begin(), [](NodeId node) { return int{node.value()}; });
    return 0;
  }

  std::atomic<bool> held = false;
  std::atomic<int> calls = 0;
  std::latch entered{1};
  std::latch release{1};
  std::atomic<std::size_t> pages_moved = 0;
};

std::vector<Move> Moves(std::uint64_t count) {
  std::vector<Move> moves;
  for (std::uint64_t i = 0; i < count; ++i) {
    moves.push_back({.key = {TargetId(1), Vpn(i)}, .from = NodeId(1), .to = NodeId(0)});
  }
  return moves;
}

class MoveThreadTest : public testing::Test {
 protected:
  std::vector<MoveOutcome> WaitForOutcomes(std::size_t count) {
    std::vector<MoveOutcome> outcomes;
    while (outcomes.size() < count) {
      for (MoveOutcome& outcome : thread_.TakeOutcomes()) outcomes.push_back(outcome);
      std::this_thread::yield();
    }
    return outcomes;
  }

  FakeCall call_;
  SystemClock clock_;
  MoveThread thread_{{}, call_, clock_, [](TargetId) { return Pid(1); }};
};

TEST_F(MoveThreadTest, MovesWhatItIsTold) {
  EXPECT_THAT(thread_.Replace(Moves(1000)), IsEmpty());
  EXPECT_THAT(WaitForOutcomes(1000), SizeIs(1000));
  EXPECT_EQ(call_.pages_moved, 1000U);
  EXPECT_EQ(thread_.pending(), 0U);
}

TEST_F(MoveThreadTest, EndsWithMovesLeft) { thread_.Replace(Moves(1'000'000)); }

TEST_F(MoveThreadTest, MovesNothingWhilePaused) {
  thread_.Pause();
  EXPECT_TRUE(thread_.paused());
  thread_.Replace(Moves(10));
  EXPECT_THAT(thread_.TakeOutcomes(), IsEmpty());
  EXPECT_EQ(call_.pages_moved, 0U);
  EXPECT_EQ(thread_.pending(), 10U);
  thread_.Resume();
  EXPECT_THAT(WaitForOutcomes(10), SizeIs(10));
}

TEST_F(MoveThreadTest, HasNoCallUnderWayOncePaused) {
  call_.held = true;
  thread_.Replace(Moves(100'000));
  call_.entered.wait();
  call_.held = false;
  std::jthread releaser([this] { call_.release.count_down(); });
  thread_.Pause();
  const std::size_t moved = call_.pages_moved;
  EXPECT_GT(moved, 0U);
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(call_.pages_moved, moved);
}

// True if a thread of this process waits for something or has ended.
bool IsAtRest(pid_t thread) {
  std::ifstream stat(fmt::format("/proc/self/task/{}/stat", thread));
  const std::string text(std::istreambuf_iterator<char>(stat), {});
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text[name_end + 2] == 'S';
}

TEST_F(MoveThreadTest, PausesAfterTheCallThatIsUnderWay) {
  call_.held = true;
  thread_.Replace(Moves(1'000'000));
  call_.entered.wait();
  call_.held = false;
  std::atomic<pid_t> pauser = 0;
  std::jthread pausing([&] {
    pauser = ::gettid();
    thread_.Pause();
  });
  while (pauser == 0 || !IsAtRest(pauser)) std::this_thread::yield();
  call_.release.count_down();
  pausing.join();
  EXPECT_EQ(call_.calls, 1) << "calls were made while a caller waited to pause them";
}

// Reading takes long where much memory is mapped; whoever pauses does not wait for it.
TEST_F(MoveThreadTest, ReadsWhatBindsATargetWhileOthersPause) {
  std::atomic<bool> is_read = false;
  std::latch reading{1};
  std::latch paused{1};
  MoveThread thread{{},
                    call_,
                    clock_,
                    [](TargetId) { return Pid(1); },
                    {.find = [&](TargetId) -> std::optional<std::shared_ptr<const MemoryBinding>> {
                       if (!is_read) return std::nullopt;
                       return std::make_shared<const MemoryBinding>(
                           std::nullopt, std::nullopt, std::vector<MemoryBinding::Range>{});
                     },
                     .read =
                         [&](TargetId) {
                           reading.count_down();
                           paused.wait();
                           is_read = true;
                         }}};
  thread.Replace(Moves(10));
  reading.wait();
  thread.Pause();
  paused.count_down();
  EXPECT_EQ(call_.pages_moved, 0U);
  thread.Resume();
  std::size_t over = 0;
  while (over < 10) over += thread.TakeOutcomes().size();
  EXPECT_EQ(call_.pages_moved, 10U);
}

TEST_F(MoveThreadTest, ReturnsWhatItHadNotDone) {
  thread_.Pause();
  thread_.Replace(Moves(10));
  EXPECT_THAT(thread_.Replace({}), SizeIs(10));
  EXPECT_EQ(thread_.pending(), 0U);
}

}  // namespace move_thread_test
}  // namespace tmprof
