// SPDX-License-Identifier: Apache-2.0
// Operators who have asked for settings, and wait to hear if these are in force.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"

namespace tmprof {

// All functions are to be called with one mutex held, which is that of Wait().
class SettingRequests {
 public:
  // Returns the number of a request for settings. These are part of the next configuration.
  std::uint64_t Ask() { return ++asked_; }
  // All requests until now are part of the configuration that is tried now.
  void Try() { tried_ = asked_; }
  // Answers those whose settings were tried, and who have no answer yet.
  void Answer(const Status& answer);

  // Refuses all requests: those that wait, and those to come until TakeAgain().
  void Refuse(std::string why);
  void TakeAgain() { refuses_.reset(); }
  // The refusal of each request for now. Success: requests are taken.
  Status Takes() const;

  // Waits so long for the answer to a request. Releases the lock meanwhile.
  Status Wait(std::unique_lock<std::mutex>& lock, std::uint64_t request,
              std::chrono::nanoseconds patience);

 private:
  std::optional<std::string> refuses_;  // why; nullopt: requests are taken
  std::uint64_t asked_ = 0;
  std::uint64_t tried_ = 0;
  std::uint64_t answered_up_to_ = 0;
  Status answer_;
  std::condition_variable answered_;
};

// The error of settings that are not in force.
Error NotInForce(std::string reason, std::string advice);

}  // namespace tmprof
