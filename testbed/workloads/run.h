// SPDX-License-Identifier: Apache-2.0
// Running threads of work to their end or to a signal, with reports meanwhile.

#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <mutex>
#include <span>
#include <string>

#include "testbed/workloads/memory.h"
#include "testbed/workloads/program.h"
#include "testbed/workloads/timeline.h"
#include "testbed/workloads/timing.h"

namespace tmprof::workload {

// Ends work early: looked at in its loops, waited for in its pauses. Any thread.
class Stop {
 public:
  void Request();
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  // Sleeps until `wake` on CLOCK_MONOTONIC. True if it was requested, perhaps long ago.
  bool WaitUntil(Instant wake);

 private:
  std::atomic<bool> requested_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Blocks the signals that end a run early, in the thread that makes it and in those it starts, so
// that this thread can receive them as values.
class EndSignals {
 public:
  EndSignals();

  // True if one arrived before `until`. Only in the thread that made this.
  bool WaitUntil(Instant until) const;
  // Acts as if a signal had arrived. Any thread.
  void Raise() const;

 private:
  sigset_t signals_{};
  pthread_t owner_;
};

// The work of one thread.
class Task {
 public:
  virtual ~Task() = default;

  // Until it is done or `stop` is requested.
  virtual void Run(Stop& stop) = 0;

  // The count published last; any thread may ask while Run is going on.
  std::uint64_t published_accesses() const {
    return published_accesses_.load(std::memory_order_relaxed);
  }
  std::chrono::nanoseconds cpu_start() const {
    return std::chrono::nanoseconds(cpu_start_ns_.load(std::memory_order_relaxed));
  }

 protected:
  // Accesses since the first phase began.
  void Publish(std::uint64_t accesses) {
    published_accesses_.store(accesses, std::memory_order_relaxed);
  }
  // The thread's own CPU time when the first phase began.
  void PublishCpuStart(std::chrono::nanoseconds cpu_start) {
    cpu_start_ns_.store(cpu_start.count(), std::memory_order_relaxed);
  }

 private:
  // On a line of their own: the main thread's looks must not disturb the loop.
  alignas(64) std::atomic<std::uint64_t> published_accesses_ = 0;
  std::atomic<std::int64_t> cpu_start_ns_ = 0;
};

// Runs each task in a thread of its own until the timeline's end or a signal, and waits for them.
// Prints a line per interval on standard output, totals since the timeline's start; 0: none.
void RunTasks(std::span<Task* const> tasks, const Timeline& timeline,
              std::chrono::nanoseconds report_interval, const EndSignals& signals);

// Opens the output of a run: where what is accessed lies, once it is all there.
void PrintStart(const std::string& name, std::uint64_t footprint_bytes, std::uint64_t start_address,
                Instant first_phase);

// --busy and --idle.
void AddDutyOptions(CLI::App& app, Duty& duty);

// Options of every run whose memory is mapped at its start.
struct RunOptions {
  std::uint64_t footprint_bytes = 0;
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds warmup{0};
  std::chrono::nanoseconds report_interval{0};
  Duty duty;
  std::uint64_t seed = 0;
  bool huge = false;

  std::uint64_t page_bytes() const { return huge ? kHugePageBytes : kBasePageBytes; }
  // Timeline that begins now, after the warm-up. `shift`: the length of a phase.
  Timeline TimelineFromNow(std::chrono::nanoseconds shift) const;
};
// `footprint_help` says what the footprint is of.
void AddRunOptions(CLI::App& app, RunOptions& options, const std::string& footprint_help);

struct RunMemory {
  Memory memory;
  std::uint64_t huge_bytes;  // of it, as the kernel backs it
};
// Says so on standard error where huge pages were asked for and not all of it is.
std::expected<RunMemory, Fault> MapForRun(const std::string& name, std::uint64_t footprint_bytes,
                                          bool huge, Sharing sharing = Sharing::kPrivate);

}  // namespace tmprof::workload
