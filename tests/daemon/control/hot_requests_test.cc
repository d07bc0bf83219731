// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/hot_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "tests/daemon/control/hot_lists.h"

namespace tmprof::test {
namespace hot_requests_test {

using ::testing::HasSubstr;

// Longer than any of these waits, however slow the host.
constexpr std::chrono::minutes kLong{10};

TEST(HotRequests, AreAnsweredWithAsManySpansAsEachWants) {
  HotRequests requests;
  std::latch asked(2);
  const auto ask = [&](std::size_t most) {
    return std::async(std::launch::async, [&requests, &asked, most] {
      return requests.Ask(most, kLong, [&asked] { asked.count_down(); });
    });
  };
  auto one = ask(1);
  auto all = ask(100);
  asked.wait();
  std::size_t wanted = 0;
  requests.Answer([&wanted](std::size_t most) {
    wanted = most;
    return SmallHotList();
  });
  EXPECT_EQ(wanted, 100U);
  const auto short_list = one.get();
  ASSERT_TRUE(short_list.has_value());
  EXPECT_EQ(short_list->spans.size(), 1U);
  EXPECT_EQ(short_list->ranked, 3000U);
  const auto list = all.get();
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->spans.size(), 2U);
}

TEST(HotRequests, CostNothingWhileNobodyAsks) {
  HotRequests requests;
  requests.Answer([](std::size_t) -> Result<HotList> {
    ADD_FAILURE() << "nobody has asked";
    return SmallHotList();
  });
}

TEST(HotRequests, AreGivenUpIfTheDaemonIsBusyForTooLong) {
  HotRequests requests;
  const auto answer = requests.Ask(1, std::chrono::milliseconds(1), [] {});
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().Message(), HasSubstr("busy with an epoch"));
  // It waits no more.
  requests.Answer([](std::size_t) -> Result<HotList> {
    ADD_FAILURE() << "nobody waits";
    return SmallHotList();
  });
}

TEST(HotRequests, AreRefusedAtOnceUntilTheyAreTakenAgain) {
  HotRequests requests;
  requests.Refuse("the daemon answers elsewhere");
  const auto refused = requests.Ask(1, kLong, [] { ADD_FAILURE() << "there is nobody to wake"; });
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().Message(), HasSubstr("answers elsewhere"));
  requests.TakeAgain();
  const auto busy = requests.Ask(1, std::chrono::milliseconds(1), [] {});
  ASSERT_FALSE(busy.has_value());
  EXPECT_THAT(busy.error().Message(), HasSubstr("busy with an epoch"));
}

TEST(HotRequests, AreRefusedWithTheReason) {
  HotRequests requests;
  std::latch asked(1);
  auto waiting = std::async(
      std::launch::async, [&] { return requests.Ask(1, kLong, [&asked] { asked.count_down(); }); });
  asked.wait();
  requests.Refuse("the daemon ends");
  const auto answer = waiting.get();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().Message(), "cannot list the hottest spans: the daemon ends");
}

}  // namespace hot_requests_test
}  // namespace tmprof::test
