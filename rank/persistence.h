// SPDX-License-Identifier: Apache-2.0
// Learns how long a program's access rates last, from pages that are probed again. It is derived
// in docs/design/changing-rates.md. Only rank/ uses it.

#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace tmprof {

// Learns it for one target. All seconds are of the target's own time.
class Persistence {
 public:
  // Assumed while no page was probed twice.
  static constexpr double kAssumedSeconds = 60;
  // Assumed while no page was probed at all: a half-life of 6 s. Samples do not show changes.
  static constexpr double kAssumedSecondsOfSamples = 8.7;

  // Tells that so much time has passed since the last call.
  void Age(double seconds);
  // Tells that pages of the target are probed.
  void SetProbed();
  // A page was probed `seconds` after its last probe. What was seen has the likelihood `lasted` if
  // the page's rate is the same as before, and `drawn_anew` if it has changed; both up to a common
  // factor.
  void Add(double seconds, double lasted, double drawn_anew);
  // Has to be called after the last Add() of an epoch: what that brought counts from then on.
  void Conclude();

  // The mean time for which a page's rate lasts.
  double MeanSeconds() const { return mean_seconds_; }
  // A page that was not seen for longer, in time in which others were probed, is not there any
  // more.
  double LongestWait() const;

 private:
  static constexpr std::size_t kTimes = 9;
  static double Assumed(std::size_t i) { return std::ldexp(4, static_cast<int>(i)); }
  using ByTime = std::array<double, kTimes>;

  static constexpr ByTime Ones() {
    ByTime ones;
    ones.fill(1);
    return ones;
  }
  void MultiplyUp();

  // The likelihood of all that was seen, by assumed time. Factors are multiplied up before their
  // logarithms are added.
  ByTime log_likelihood_{};
  ByTime factor_ = Ones();
  std::size_t factors_ = 0;
  // The chance of a change within `changed_for_seconds_`, the last seconds that were added.
  ByTime changed_{};
  double changed_for_seconds_ = -1;
  bool probed_ = false;
  double visits_ = 0;          // faded
  double waited_seconds_ = 0;  // sum over these visits, faded
  double mean_seconds_ = kAssumedSecondsOfSamples;
};

}  // namespace tmprof
