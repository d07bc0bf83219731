// SPDX-License-Identifier: Apache-2.0
// Which process each target is, held so that no other is taken for it.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/host/procfs.h"
#include "base/tracked_process.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace tmprof {

// Thread-safe.
class LiveTargets {
 public:
  // `procfs` must outlive it.
  explicit LiveTargets(const ProcFs& procfs) : procfs_(procfs) {}

  // Those that are targets from now on.
  void Follow(const std::vector<TrackedProcess>& targets);
  // nullopt: the target has ended, and its number may soon be another's. Use the number for calls
  // of the kernel at once.
  std::optional<Pid> Find(TargetId target) const;

 private:
  struct Process {
    Pid pid;
    UniqueFd pidfd;
  };

  // None where it is gone, or another process has its number.
  UniqueFd Hold(const TrackedProcess& target) const;

  const ProcFs& procfs_;
  mutable std::mutex mutex_;
  std::map<TargetId, Process> processes_;
};

}  // namespace tmprof
