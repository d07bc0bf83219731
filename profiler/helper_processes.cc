// SPDX-License-Identifier: Apache-2.0

#include "profiler/helper_processes.h"

#include <unistd.h>

#include <mutex>
#include <set>

namespace tmprof {
namespace {

struct Helpers {
  std::mutex mutex;
  std::set<Pid> pids;
};

Helpers& OfThisProcess() {
  static Helpers helpers;
  return helpers;
}

}  // namespace

pid_t ForkHelper() {
  Helpers& helpers = OfThisProcess();
  // In the child the mutex stays locked: a helper begins no helpers.
  std::unique_lock lock(helpers.mutex);
  const pid_t pid = ::fork();
  if (pid == 0) (void)lock.release();
  if (pid > 0) helpers.pids.insert(Pid(pid));
  return pid;
}

void ForgetHelper(Pid pid) {
  Helpers& helpers = OfThisProcess();
  const std::scoped_lock lock(helpers.mutex);
  helpers.pids.erase(pid);
}

bool IsHelper(Pid pid) {
  Helpers& helpers = OfThisProcess();
  const std::scoped_lock lock(helpers.mutex);
  return helpers.pids.contains(pid);
}

}  // namespace tmprof
