// SPDX-License-Identifier: Apache-2.0
// Limits the rate of an expense, and saves up what is not used.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace tmprof {

// A bucket of tokens (bytes, nanoseconds of CPU time) that fills at `per_second` and holds at most
// one second's worth. An expense may exceed the tokens that are there. The debt is then paid off
// before anything else may be spent, so that the mean rate holds for expenses of any size.
class RateLimit {
 public:
  // `per_second` unset: no limit. The bucket starts full.
  RateLimit(std::optional<std::uint64_t> per_second, MonotonicTime now);

  // Returns the present tokens; nullopt: no limit.
  std::optional<std::uint64_t> Left(MonotonicTime now);
  bool HasAny(MonotonicTime now);
  void Spend(std::uint64_t tokens);
  // Returns the time until HasAny(); 0 if there are tokens.
  std::chrono::nanoseconds Wait(MonotonicTime now);

 private:
  void Fill(MonotonicTime now);

  std::optional<std::uint64_t> per_second_;
  MonotonicTime filled_;
  double tokens_;
};

}  // namespace tmprof
