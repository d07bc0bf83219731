// SPDX-License-Identifier: Apache-2.0
// Which processes use enough of the machine to be worth tracking.

#pragma once

#include <chrono>
#include <optional>

#include "base/units.h"

namespace tmprof {

// TMP's process filter (IPDPS 2021, optimisation 2): a process is tracked while it uses at least
// this share of one CPU or of the machine's memory.
struct ProcessFilter {
  double min_cpu_share = 0.05;
  double min_memory_share = 0.10;
  // The busiest descendants of a process pass, too, until together they have used this part of the
  // CPU time that it and its descendants used of late: the work of a server may be spread over
  // processes each of which uses little.
  double busiest_part = 0.95;

  // Memory of unknown size is no share.
  bool Passes(double cpu_share, std::optional<PageCount> resident,
              std::optional<PageCount> total_memory) const;
  friend bool operator==(const ProcessFilter&, const ProcessFilter&) = default;
};

// A process's share of one CPU, over periods of a second or more: TMP judges once a second.
class CpuShareMeter {
 public:
  // `used`: CPU time so far. Returns whether it has ended a period; the first reading has not.
  bool Add(MonotonicTime now, std::chrono::nanoseconds used);
  // Over the last period; 0 before its end.
  double share() const { return share_; }
  // The mean over all periods, of which one that is 10 s old counts half. 0 before the first ends.
  double recent() const { return recent_; }
  bool has_ended_a_period() const { return has_ended_a_period_; }

 private:
  struct Reading {
    MonotonicTime at;
    std::chrono::nanoseconds used{0};
  };
  std::optional<Reading> last_;
  double share_ = 0;
  double recent_ = 0;
  bool has_ended_a_period_ = false;
};

}  // namespace tmprof
