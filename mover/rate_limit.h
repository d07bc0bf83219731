// SPDX-License-Identifier: Apache-2.0
// A share of something that comes in at a steady rate, with what was saved up for later.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace tmprof {

// A bucket of tokens (bytes, nanoseconds of CPU time) that fills at `per_second` and holds at most
// one second's worth. What was spent may exceed what was there: the debt is paid off before
// anything may be spent again, so that the mean rate holds whatever a single expense was.
class RateLimit {
 public:
  // Nothing for `per_second`: no limit. Starts full.
  RateLimit(std::optional<std::uint64_t> per_second, MonotonicTime now);

  // Tokens that are there now; nothing: no limit.
  std::optional<std::uint64_t> Left(MonotonicTime now);
  bool HasAny(MonotonicTime now);
  void Spend(std::uint64_t tokens);
  // How long until HasAny(); 0 when it has.
  std::chrono::nanoseconds Wait(MonotonicTime now);

 private:
  void Fill(MonotonicTime now);

  std::optional<std::uint64_t> per_second_;
  MonotonicTime filled_;
  double tokens_;
};

}  // namespace tmprof
