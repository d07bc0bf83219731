// SPDX-License-Identifier: Apache-2.0
// How long the next epoch lasts, so that what is done at the end of each keeps to a share of a CPU.

#pragma once

#include <chrono>

namespace tmprof {

class EpochPacer {
 public:
  // Epochs last no longer than this, or than the shortest where that is more: a slow answer to what
  // changes is better than none.
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(1);

  // Preconditions: shortest > 0, cpu_share > 0.
  EpochPacer(std::chrono::nanoseconds shortest, double cpu_share);

  // That another epoch took so much CPU time.
  void Note(std::chrono::nanoseconds cpu_time);
  std::chrono::nanoseconds Next() const;

 private:
  std::chrono::nanoseconds shortest_;
  double cpu_share_;
  std::chrono::nanoseconds expected_{0};  // CPU time of an epoch
};

}  // namespace tmprof
