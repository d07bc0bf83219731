// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/setting_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

namespace tmprof {
namespace setting_requests_test {

using ::testing::HasSubstr;

class SettingRequestsTest : public testing::Test {
 protected:
  // The answer that is there now.
  Status AnswerTo(std::uint64_t request) {
    return requests_.Wait(lock_, request, std::chrono::nanoseconds(0));
  }
  bool IsAnswered(std::uint64_t request) {
    const Status answer = AnswerTo(request);
    return answer || answer.error().reason != "it is not in force yet";
  }

  std::mutex mutex_;
  std::unique_lock<std::mutex> lock_{mutex_};
  SettingRequests requests_;
};

TEST_F(SettingRequestsTest, AreAnsweredOnceTheirSettingsWereTried) {
  const std::uint64_t request = requests_.Ask();
  requests_.Answer({});
  EXPECT_FALSE(IsAnswered(request)) << "another configuration was tried";
  requests_.Try();
  EXPECT_FALSE(IsAnswered(request));
  requests_.Answer({});
  EXPECT_TRUE(AnswerTo(request));
}

TEST_F(SettingRequestsTest, HaveTheAnswerOfTheConfigurationThatTheyArePartOf) {
  const std::uint64_t first = requests_.Ask();
  requests_.Try();
  const std::uint64_t later = requests_.Ask();
  requests_.Answer(Fail(Refused("open", "x", ENOENT)));
  EXPECT_EQ(AnswerTo(first).error().system_error, ENOENT);
  EXPECT_FALSE(IsAnswered(later));
  requests_.Try();
  requests_.Answer({});
  EXPECT_TRUE(AnswerTo(later));
}

TEST_F(SettingRequestsTest, KeepTheFirstAnswer) {
  const std::uint64_t request = requests_.Ask();
  requests_.Try();
  requests_.Answer({});
  requests_.Answer(Fail(Refused("open", "x", ENOENT)));
  EXPECT_TRUE(AnswerTo(request));
}

TEST_F(SettingRequestsTest, AreRefusedUntilTheyAreTakenAgain) {
  const std::uint64_t waiting = requests_.Ask();
  EXPECT_TRUE(requests_.Takes());
  requests_.Refuse("the daemon ends");
  EXPECT_THAT(AnswerTo(waiting).error().Message(), HasSubstr("the daemon ends"));
  EXPECT_THAT(requests_.Takes().error().Message(), HasSubstr("the daemon ends"));
  requests_.TakeAgain();
  EXPECT_TRUE(requests_.Takes());
}

TEST_F(SettingRequestsTest, WakeTheirWaiters) {
  const std::uint64_t request = requests_.Ask();
  std::jthread daemon([this] {
    const std::scoped_lock lock(mutex_);  // free once the request is waited for
    requests_.Try();
    requests_.Answer({});
  });
  EXPECT_TRUE(requests_.Wait(lock_, request, std::chrono::minutes(1)));
}

}  // namespace setting_requests_test
}  // namespace tmprof
