// SPDX-License-Identifier: Apache-2.0
// Which processes use enough of the machine to be worth tracking.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"

namespace tmprof {

// TMP's process filter (IPDPS 2021, optimisation 2): a process is tracked while it uses at least
// this share of one CPU or of the machine's memory.
struct ProcessFilter {
  double min_cpu_share = 0.05;
  double min_memory_share = 0.10;
  // The busiest processes of a family pass, too, until together they have used this part of the CPU
  // time that the family used of late: the work of a server may be spread over processes each of
  // which uses little. A family is a named process with its descendants, or is found
  // (TargetFinder).
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

// The CPU use of one process of a family.
struct FamilyUse {
  std::size_t family = 0;  // any number
  double recent = 0;       // CpuShareMeter::recent()
  bool passes = false;     // now; it gives way only to one that uses over kTakesThePlaceOf times
};

// A process takes the place of another one if it uses so many times its CPU time. Shares over a
// second of two equally busy processes on one CPU differ by less.
inline constexpr double kTakesThePlaceOf = 1.25;

// Tells of each process whether it is among the busiest of its family that together have used
// `part` of what all of the family have. Of equally busy ones the first is taken. Processes that
// have used nothing are not among them.
std::vector<bool> AreBusiest(std::span<const FamilyUse> processes, double part);

}  // namespace tmprof
