// SPDX-License-Identifier: Apache-2.0
// Operators who have asked for the hottest spans, and wait for the thread that ranks them.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/control/hot_list.h"

namespace tmprof {

// Any thread may call any function.
class HotRequests {
 public:
  // Asks for at most so many spans, calls `wake`, and waits so long for the answer.
  Result<HotList> Ask(std::size_t most, std::chrono::nanoseconds patience,
                      const std::function<void()>& wake);

  // Answers all who wait, by one call of `hottest` for the most that any of them wants.
  void Answer(const std::function<Result<HotList>(std::size_t most)>& hottest);
  // Refuses all requests: those that wait, and those to come until TakeAgain().
  void Refuse(const std::string& why);
  void TakeAgain();

 private:
  struct Request {
    std::size_t most = 0;
    std::optional<Result<HotList>> answer{};
  };

  std::mutex mutex_;
  std::optional<std::string> refuses_;  // why; nullopt: requests are taken
  std::condition_variable answered_;
  std::vector<Request*> waiting_;  // each is of a call of Ask()
};

}  // namespace tmprof
