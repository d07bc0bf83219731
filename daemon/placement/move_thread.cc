// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_thread.h"

#include <csignal>
#include <ctime>
#include <iterator>
#include <optional>
#include <utility>

namespace tmprof {

MonotonicTime ThreadCpuClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return MonotonicTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

MoveThread::MoveThread(const MoverLimits& limits, MoveCall& call, const Clock& clock,
                       PageMover::FindPid find_pid, Bindings bindings,
                       PageMover::FindFiles find_files)
    : read_binding_(std::move(bindings.read)),
      mover_(limits, call, clock, cpu_clock_, std::move(find_pid), std::move(bindings.find),
             std::move(find_files)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

MoveThread::~MoveThread() = default;

void MoveThread::Configure(const MoverLimits& limits) {
  const std::unique_lock lock = Enter();
  mover_.Configure(limits);
  changed_since_ = true;
  changed_.notify_all();
}

std::vector<Move> MoveThread::Replace(std::vector<Move> moves) {
  const std::unique_lock lock = Enter();
  changed_since_ = true;
  changed_.notify_all();
  return mover_.Replace(std::move(moves));
}

std::vector<MoveOutcome> MoveThread::TakeOutcomes() {
  const std::unique_lock lock = Enter();
  return std::exchange(outcomes_, {});
}

void MoveThread::Pause() {
  const std::unique_lock lock = Enter();
  paused_ = true;
}

void MoveThread::Resume() {
  const std::unique_lock lock = Enter();
  paused_ = false;
  changed_since_ = true;
  changed_.notify_all();
}

bool MoveThread::paused() const {
  const std::unique_lock lock = Enter();
  return paused_;
}

std::size_t MoveThread::pending() const {
  const std::unique_lock lock = Enter();
  return mover_.pending();
}

// A mutex that is free for a moment only goes to the thread that had it, time and again.
void MoveThread::LetCallersIn() const {
  for (int callers = callers_; callers > 0; callers = callers_) callers_.wait(callers);
}

std::unique_lock<std::mutex> MoveThread::Enter() const {
  ++callers_;
  std::unique_lock lock(mutex_);
  --callers_;
  callers_.notify_one();
  return lock;
}

void MoveThread::Run(const std::stop_token& stop) {
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  const auto changed = [this] { return std::exchange(changed_since_, false); };
  while (!stop.stop_requested()) {
    const std::optional<std::chrono::nanoseconds> wait = paused_ ? std::nullopt : mover_.Wait();
    if (!wait) {
      changed_.wait(lock, stop, changed);
    } else if (wait->count() > 0) {
      changed_.wait_for(lock, stop, *wait, changed);
    } else {
      std::vector<MoveOutcome> over = mover_.MoveChunk();
      outcomes_.insert(outcomes_.end(), std::make_move_iterator(over.begin()),
                       std::make_move_iterator(over.end()));
      const std::optional<TargetId> unread = mover_.unread();
      lock.unlock();
      const MonotonicTime began = cpu_clock_.Now();
      if (unread) read_binding_(*unread);
      const std::chrono::nanoseconds took = cpu_clock_.Now() - began;
      LetCallersIn();
      lock.lock();
      if (unread) mover_.SpendCpuTime(took);
    }
  }
}

}  // namespace tmprof
