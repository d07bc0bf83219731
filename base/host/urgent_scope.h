// SPDX-License-Identifier: Apache-2.0
// Runs the calling thread before others for a while.

#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace tmprof {

// It is for work that takes a bounded CPU time and keeps somebody waiting. Where it is not
// permitted, nothing changes. Threads and processes that are begun meanwhile keep the priority.
class UrgentScope {
 public:
  UrgentScope() {
    errno = 0;
    before_ = ::getpriority(PRIO_PROCESS, thread_);
    raised_ = errno == 0 && ::setpriority(PRIO_PROCESS, thread_, kMostUrgent) == 0;
  }
  UrgentScope(const UrgentScope&) = delete;
  UrgentScope& operator=(const UrgentScope&) = delete;
  ~UrgentScope() {
    if (raised_) ::setpriority(PRIO_PROCESS, thread_, before_);
  }

 private:
  static constexpr int kMostUrgent = -20;

  id_t thread_ = static_cast<id_t>(::gettid());
  int before_ = 0;
  bool raised_ = false;
};

}  // namespace tmprof
