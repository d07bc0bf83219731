// SPDX-License-Identifier: Apache-2.0
// A duration in two bytes, precise to 2.2 %.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>

namespace tmprof {

// Time at risk enters a rate whose own uncertainty is never below some 10 %. A logarithmic code
// with 16 steps per octave (relative error <= 2^(1/32) - 1 = 2.2 %) therefore loses nothing, and
// compresses well. The profile holds the code itself and not the exact value, so that a replayed
// trace and a live epoch have identical data. It covers 1 ns to 2^64 ns; zero is exact.
class LogDuration {
 public:
  constexpr LogDuration() = default;

  static LogDuration FromNanoseconds(std::chrono::nanoseconds duration) {
    if (duration.count() <= 0) return LogDuration();
    const double octaves = std::log2(static_cast<double>(duration.count()));
    return FromCode(static_cast<std::uint16_t>(1 + std::lround(octaves * kStepsPerOctave)));
  }
  static constexpr LogDuration FromCode(std::uint16_t code) {
    LogDuration result;
    result.code_ = std::min(code, kMaxCode);
    return result;
  }

  constexpr std::uint16_t code() const { return code_; }
  double seconds() const {
    return code_ == 0 ? 0.0 : std::exp2((code_ - 1) / double{kStepsPerOctave}) * 1e-9;
  }

  friend constexpr auto operator<=>(LogDuration, LogDuration) = default;

 private:
  static constexpr int kStepsPerOctave = 16;
  static constexpr std::uint16_t kMaxCode = 1 + 64 * kStepsPerOctave;
  std::uint16_t code_ = 0;
};

}  // namespace tmprof
