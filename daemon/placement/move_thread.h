// SPDX-License-Identifier: Apache-2.0
// Moves pages in a thread of its own, so that a slow call holds up neither profile nor status.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/move.h"
#include "mover/page_mover.h"

namespace tmprof {

// CPU time of the thread that asks.
class ThreadCpuClock final : public Clock {
 public:
  MonotonicTime Now() const override;
};

class MoveThread {
 public:
  // The bindings of a target: found in the way of PageMover, or read, which may take long. Without
  // either no page is bound.
  struct Bindings {
    PageMover::FindBinding find;
    std::function<void(TargetId)> read;
  };

  // `call` and `clock` must outlive the thread. It calls the functions, and nobody waits for what
  // is read of bindings.
  MoveThread(const MoverLimits& limits, MoveCall& call, const Clock& clock,
             PageMover::FindPid find_pid, Bindings bindings = {},
             PageMover::FindFiles find_files = {});
  // Ends after the call that is under way.
  ~MoveThread();
  MoveThread(const MoveThread&) = delete;
  MoveThread& operator=(const MoveThread&) = delete;

  // Both are those of PageMover. They wait for the call that is under way, like all functions here,
  // and for no other.
  void Configure(const MoverLimits& limits);
  std::vector<Move> Replace(std::vector<Move> moves);
  // Those that are over since the last time.
  std::vector<MoveOutcome> TakeOutcomes();
  // No page moves from the return of Pause() to Resume(); what is to be done stays so.
  void Pause();
  void Resume();
  bool paused() const;
  std::size_t pending() const;

 private:
  std::unique_lock<std::mutex> Enter() const;
  void LetCallersIn() const;
  void Run(const std::stop_token& stop);

  ThreadCpuClock cpu_clock_;
  mutable std::atomic<int> callers_{0};  // that want the mutex
  std::function<void(TargetId)> read_binding_;
  mutable std::mutex mutex_;  // guards all below, and is held through each call
  std::condition_variable_any changed_;
  PageMover mover_;
  std::vector<MoveOutcome> outcomes_;
  bool paused_ = false;
  bool changed_since_ = false;
  std::jthread thread_;  // the last, as it uses all others
};

}  // namespace tmprof
