// SPDX-License-Identifier: Apache-2.0
// Keeps this process off the CPUs that its targets run on.

#pragma once

#include <set>
#include <vector>

#include "base/host/procfs.h"
#include "base/tracked_process.h"
#include "base/units.h"

namespace tmprof {

// The CPUs that this process was allowed to use when it started. The set is empty where there are
// more than CPU_SETSIZE of them.
const std::set<CpuId>& CpusAtStart();

// Those of `own` that are not `busy`; all of them where none would be left.
std::set<CpuId> CpusBeside(const std::set<CpuId>& own, const std::set<CpuId>& busy);

// The scheduler does not do it: once half the CPUs that share a cache are busy, Linux looks for an
// idle one at few wake-ups or none (SIS_UTIL in kernel/sched/features.h, since 5.20), and a thread
// that sleeps for a millisecond at a time wakes up where it slept, in place of the target. On two
// CPUs gups lost 2.1 % to a recorder that shared its CPU and 1.1 % to one that did not
// (bench/overhead).
class OwnCpus {
 public:
  // The CPUs that this process may use now are those it chooses among, and returns to in the end.
  explicit OwnCpus(const ProcFs& procfs);
  ~OwnCpus();
  OwnCpus(const OwnCpus&) = delete;
  OwnCpus& operator=(const OwnCpus&) = delete;

  // Moves all threads of this process to CPUs where no thread of the targets is running now.
  void MakeWayFor(const std::vector<TrackedProcess>& targets);

 private:
  void MoveTo(const std::set<CpuId>& cpus);

  const ProcFs& procfs_;
  std::set<CpuId> own_;
  std::set<CpuId> used_;
};

}  // namespace tmprof
