// SPDX-License-Identifier: Apache-2.0
// A thread that is to run at once when it is woken.

#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

namespace tmprof::abit {

// struct sched_attr of linux/sched/types.h, a header that cannot be had together with <sched.h>.
struct SchedAttributes {
  std::uint32_t size = sizeof(SchedAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0x08;  // SCHED_FLAG_KEEP_POLICY
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice_ns = 0;  // sched_runtime, of a thread without deadlines
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedAttributes) == 48);  // SCHED_ATTR_SIZE_VER0

// Reads are due to fractions of a millisecond: a late one merges rungs, and on a machine with more
// work than CPUs most would be late. Not a real-time class: that would wake the thread on the CPU
// it ran on last, even if a target runs there now and another CPU is idle. The scanner's own budget
// keeps the thread's share of a CPU low. The thread does without whatever is not permitted:
// ScanCounts::late then grows. `name`: of the calling thread, ends with a 0 and has 15 characters
// at most.
inline void BePunctual(std::string_view name) {
  constexpr int kMostUrgent = -20;
  ::prctl(PR_SET_NAME, name.data());
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // ns; 50 us by default
  const auto thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, kMostUrgent);
  // Linux 6.12 lets a thread that asks for shorter slices run sooner, for no more time in all.
  SchedAttributes attributes;
  attributes.nice = ::getpriority(PRIO_PROCESS, thread);
  attributes.slice_ns = 100'000;  // the least that it gives
  ::syscall(SYS_sched_setattr, thread, &attributes, 0U);
}

}  // namespace tmprof::abit
