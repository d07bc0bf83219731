// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/live_targets.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace tmprof {

// The start time is read while the descriptor is held: from then on the number is its own.
UniqueFd LiveTargets::Hold(const TrackedProcess& target) const {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, target.pid.value(), 0)));
  if (!pidfd) return pidfd;
  const auto stat = procfs_.Stat(target.pid);
  if (!stat || stat->start_time_ticks != target.start_time_ticks) pidfd.Reset();
  return pidfd;
}

void LiveTargets::Follow(const std::vector<TrackedProcess>& targets) {
  const std::scoped_lock lock(mutex_);
  std::map<TargetId, Process> followed;
  for (const TrackedProcess& target : targets) {
    if (auto known = processes_.extract(target.id); !known.empty()) {
      followed.insert(std::move(known));
    } else if (UniqueFd pidfd = Hold(target)) {
      followed.emplace(target.id, Process{target.pid, std::move(pidfd)});
    }
  }
  processes_ = std::move(followed);
}

std::optional<Pid> LiveTargets::Find(TargetId target) const {
  const std::scoped_lock lock(mutex_);
  const auto found = processes_.find(target);
  if (found == processes_.end()) return std::nullopt;
  pollfd ended{.fd = found->second.pidfd.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, 0) != 0) return std::nullopt;
  return found->second.pid;
}

}  // namespace tmprof
