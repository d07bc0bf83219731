// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/move_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <thread>

namespace tmprof {
namespace move_thread_test {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Moves everything; each call can be held up.
class FakeCall final : public MoveCall {
 public:
  int operator()(Pid /*pid*/, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                 std::span<int> status) override {
    ++calls;
    std::this_thread::sleep_for(takes.load());
    if (held) {
      entered.count_down();
      release.wait();
    }
    pages_moved += pages.size();
    std::ranges::transform(nodes, status.begin(), [](NodeId node) { return int{node.value()}; });
    return 0;
  }

  std::atomic<bool> held = false;
  std::atomic<std::chrono::nanoseconds> takes{std::chrono::nanoseconds(0)};
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

// A pause that waits for calls to come is none.
TEST_F(MoveThreadTest, PausesAfterTheCallThatIsUnderWay) {
  call_.takes = std::chrono::milliseconds(1);
  thread_.Replace(Moves(1'000'000));
  int late = 0;
  for (int pause = 0; pause < 21; ++pause) {
    while (call_.calls == 0) std::this_thread::yield();
    const int before = call_.calls;
    thread_.Pause();
    // More than the one under way may pass until a busy machine lets this thread come to Pause().
    late += call_.calls - before > 20;
    call_.calls = 0;
    thread_.Resume();
  }
  EXPECT_LE(late, 3);
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
