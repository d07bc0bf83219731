// SPDX-License-Identifier: Apache-2.0

#include "mover/rate_limit.h"

#include <algorithm>
#include <cmath>

namespace tmprof {
namespace {

// A rate of zero never fills the bucket. The caller looks again after this time.
constexpr std::chrono::seconds kLongestWait{1};

}  // namespace

RateLimit::RateLimit(std::optional<std::uint64_t> per_second, MonotonicTime now)
    : per_second_(per_second), filled_(now), tokens_(static_cast<double>(per_second.value_or(0))) {}

void RateLimit::Fill(MonotonicTime now) {
  // The clock of a machine that was suspended may have stood still, but does not step back.
  const double seconds = std::chrono::duration<double>(now - filled_).count();
  filled_ = now;
  const auto rate = static_cast<double>(*per_second_);
  tokens_ = std::min(tokens_ + std::max(seconds, 0.0) * rate, rate);
}

std::optional<std::uint64_t> RateLimit::Left(MonotonicTime now) {
  if (!per_second_) return std::nullopt;
  Fill(now);
  return static_cast<std::uint64_t>(std::max(tokens_, 0.0));
}

bool RateLimit::HasAny(MonotonicTime now) { return Left(now) != 0; }

void RateLimit::Spend(std::uint64_t tokens) {
  if (per_second_) tokens_ -= static_cast<double>(tokens);
}

std::chrono::nanoseconds RateLimit::Wait(MonotonicTime now) {
  if (HasAny(now)) return std::chrono::nanoseconds(0);
  if (*per_second_ == 0) return kLongestWait;
  const double seconds = (1 - tokens_) / static_cast<double>(*per_second_);
  return std::min<std::chrono::nanoseconds>(
      kLongestWait, std::chrono::nanoseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e9))));
}

}  // namespace tmprof
