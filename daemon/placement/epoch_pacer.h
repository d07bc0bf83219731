// SPDX-License-Identifier: Apache-2.0
// How long the next epoch lasts, so that what is done at the end of each keeps to a share of a CPU.

#pragma once

#include <chrono>
#include <cstdint>

namespace tmprof {

class EpochPacer {
 public:
  // Epochs last no longer than this, or than the shortest where that is more: a slow answer to what
  // changes is better than none.
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(1);

  // Preconditions: shortest > 0, cpu_share > 0.
  EpochPacer(std::chrono::nanoseconds shortest, double cpu_share);

  // Holds from now on; time that is owed stays owed. Preconditions as above.
  void Configure(std::chrono::nanoseconds shortest, double cpu_share);

  // That another epoch is over, what its end took, and whether it was worth that. While it is not,
  // epochs become up to four times as long as the share asks for.
  void Note(std::chrono::nanoseconds epoch_length, std::chrono::nanoseconds cpu_time, bool paid);
  std::chrono::nanoseconds Next() const;
  // Many epochs on end were worth nothing.
  bool futile() const;
  // More than the longest of epochs earns was taken: the share is not kept to.
  bool overdrawn() const { return overdrawn_; }

 private:
  std::chrono::nanoseconds Longest() const;

  std::chrono::nanoseconds shortest_{1};
  double cpu_share_ = 1;
  double stretch_ = 1;
  std::uint64_t futile_epochs_ = 0;   // on end
  std::chrono::nanoseconds owed_{0};  // CPU time that was taken and not yet earned
  bool overdrawn_ = false;
};

}  // namespace tmprof
