// SPDX-License-Identifier: Apache-2.0
// Tells the CPU time of processes at every moment, by a BPF program on context switches. The
// kernel's own figure of a running thread is brought up to date at timer ticks.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/units.h"

namespace tmprof::abit {

// The CPU time that a process has used.
struct RunningTime {
  std::chrono::nanoseconds cpu{0};           // since some fixed moment
  std::uint32_t threads = 0;                 // on a CPU
  std::chrono::nanoseconds longest_stay{0};  // longest recent stay of a thread
};

// Not thread-safe.
class SwitchClock {
 public:
  // Takes Linux 5.12 with BTF, CAP_BPF and CAP_PERFMON.
  static Result<std::unique_ptr<SwitchClock>> Open();
  virtual ~SwitchClock() = default;

  // A process's place.
  using Slot = std::uint32_t;
  // Those who watch the same process share its place, as does a process that gets the number of one
  // that has exited before that one is let go. nullopt: all places are taken. A thread that is on a
  // CPU already counts from its next switch, so the clock is complete once it counts as many
  // threads as are on a CPU.
  virtual std::optional<Slot> Watch(Pid pid) = 0;
  // Precondition: Watch() gave that place to that process.
  virtual void Unwatch(Pid pid, Slot slot) = 0;

  // A number that differs whenever a thread of it has got or left a CPU meanwhile.
  virtual std::uint64_t Switches(Slot slot) const = 0;

  // `time` is now or some microseconds ago. `last`: of the call before, or a default one.
  virtual RunningTime At(Slot slot, MonotonicTime time, std::chrono::nanoseconds last) const = 0;

  // wake_fd() becomes readable once a thread of it gets a CPU with so much CPU time used, as At()
  // gives it. Replaces the wish before.
  virtual void WakeAt(Slot slot, std::chrono::nanoseconds cpu) = 0;
  virtual void DoNotWake(Slot slot) = 0;
  virtual bool WillWake(Slot slot) const = 0;  // it was asked to, and has not yet

  // Returns what the program's runs have cost the threads of all processes that had the place.
  // Estimated: one run in 31 is timed.
  virtual std::chrono::nanoseconds Cost(Slot slot) const = 0;

  virtual int wake_fd() const = 0;
  virtual void TakeWakes() = 0;  // makes wake_fd() unreadable again
};

}  // namespace tmprof::abit
