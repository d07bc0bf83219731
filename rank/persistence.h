// SPDX-License-Identifier: Apache-2.0
// How long a program's access rates last, learned from pages that are probed again.
// docs/accuracy.md ("How long evidence lasts") derives it. Only rank/ uses it.

#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace tmprof {

// Of one target. All seconds are of the target's own time.
class Persistence {
 public:
  // Before anything is learned, and of targets that nobody knows.
  static constexpr double kSupposedSeconds = 60;

  // What was learned so far is this much older.
  void Age(double seconds);
  // A page was probed `seconds` after its last probe. `lasted` and `drawn_anew`: how likely is what
  // was seen if its rate was still the same, and if it had changed since, up to a common factor.
  void Add(double seconds, double lasted, double drawn_anew);
  // To be called after the last Add() of an epoch: what it brought counts from then on.
  void Conclude();

  // The mean time for which a page's rate lasts.
  double MeanSeconds() const { return mean_seconds_; }
  // A page that was not probed for longer, although others were, is not there any more. Infinite
  // before any page was probed again.
  double LongestWait() const;

 private:
  static constexpr std::size_t kTimes = 9;
  static double Supposed(std::size_t i) { return std::ldexp(4, static_cast<int>(i)); }
  using ByTime = std::array<double, kTimes>;

  static constexpr ByTime Ones() {
    ByTime ones;
    ones.fill(1);
    return ones;
  }
  void MultiplyUp();

  // How likely all that was seen is, for each supposed time. Factors are multiplied up before their
  // logarithms are added.
  ByTime log_likelihood_{};
  ByTime factor_ = Ones();
  std::size_t factors_ = 0;
  double changed_for_seconds_ = -1;  // the last `seconds` added, and for it:
  ByTime changed_{};                 // the chance of a change
  double visits_ = 0;                // faded
  double waited_ = 0;                // seconds, of these
  double mean_seconds_ = kSupposedSeconds;
};

}  // namespace tmprof
