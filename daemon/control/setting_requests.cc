// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/setting_requests.h"

#include <utility>

namespace tmprof {

Error NotInForce(std::string reason, std::string advice) {
  return {.attempt = "set",
          .object = "the configuration",
          .reason = std::move(reason),
          .advice = std::move(advice)};
}

void SettingRequests::Answer(const Status& answer) {
  if (answered_up_to_ == tried_) return;
  answer_ = answer;
  answered_up_to_ = tried_;
  answered_.notify_all();
}

void SettingRequests::Refuse(std::string why) {
  refuses_ = std::move(why);
  Try();
  Answer(Takes());
}

Status SettingRequests::Takes() const {
  if (refuses_) return Fail(NotInForce(*refuses_, ""));
  return {};
}

Status SettingRequests::Wait(std::unique_lock<std::mutex>& lock, std::uint64_t request,
                             std::chrono::nanoseconds patience) {
  if (!answered_.wait_for(lock, patience, [&] { return answered_up_to_ >= request; })) {
    return Fail(NotInForce("it is not in force yet", "ask for the status"));
  }
  return answer_;
}

}  // namespace tmprof
