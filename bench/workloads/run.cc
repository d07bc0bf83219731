// SPDX-License-Identifier: Apache-2.0

#include "bench/workloads/run.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <vector>

#include "bench/workloads/parse.h"
#include "bench/workloads/print.h"
#include "bench/workloads/program.h"

namespace tmprof::workload {

using std::chrono::nanoseconds;

void Stop::Request() {
  {
    const std::lock_guard lock(mutex_);
    requested_ = true;
  }
  changed_.notify_all();
}

bool Stop::WaitUntil(Instant wake) {
  if (wake <= Now()) return requested();
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, std::chrono::steady_clock::time_point(wake),
                             [this] { return requested(); });
}

EndSignals::EndSignals() : owner_(::pthread_self()) {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGINT);
  ::sigaddset(&signals_, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

bool EndSignals::WaitUntil(Instant until) const {
  for (;;) {
    const timespec left = ToTimespec(std::max(until - Now(), nanoseconds(0)));
    if (::sigtimedwait(&signals_, nullptr, &left) > 0) return true;
    if (errno == EAGAIN) return false;
  }
}

void EndSignals::Raise() const { ::pthread_kill(owner_, SIGTERM); }

void RunTasks(std::span<Task* const> tasks, const Timeline& timeline, nanoseconds report_interval,
              const EndSignals& signals) {
  Stop stop;
  std::vector<std::jthread> threads;
  for (Task* task : tasks) {
    threads.emplace_back([task, &stop] { task->Run(stop); });
  }
  for (Instant report = timeline.start; report_interval.count() > 0 && report < timeline.end();
       report += report_interval) {
    if (signals.WaitUntil(report)) return stop.Request();
    std::uint64_t accesses = 0;
    nanoseconds cpu_time{0};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      clockid_t cpu_clock{};
      ::pthread_getcpuclockid(threads[i].native_handle(), &cpu_clock);
      accesses += tasks[i]->published_accesses();
      cpu_time += Now(cpu_clock) - tasks[i]->cpu_start();
    }
    Print(stdout, "{{\"t_ns\":{},\"accesses\":{},\"cpu_ns\":{}}}\n", Now().count(), accesses,
          cpu_time.count());
    std::fflush(stdout);
  }
  if (signals.WaitUntil(timeline.end())) stop.Request();
}

void PrintStart(const std::string& name, std::uint64_t footprint_bytes, std::uint64_t start_address,
                Instant first_phase) {
  Print(stdout, "{}: PID {}, {} at {:#x}, first phase at {} ns\n", name, ::getpid(),
        FormatBytes(footprint_bytes), start_address, first_phase.count());
  std::fflush(stdout);
}

void AddDutyOptions(CLI::App& app, Duty& duty) {
  CLI::Option* busy = AddOptional(app, "--busy", duty.busy, ParseDuration,
                                  "Work for so long, pause for --idle, and so on");
  CLI::Option* idle = AddOptional(app, "--idle", duty.idle, ParseDuration,
                                  "Pause between two times of work (default: no pauses)");
  busy->needs(idle);
  idle->needs(busy);
}

std::expected<void, std::string> ValidateDuty(const CLI::App& app, const Duty& duty) {
  if (app.count("--busy") > 0 && (duty.busy.count() == 0 || duty.idle.count() == 0)) {
    return std::unexpected("--busy and --idle must be above 0");
  }
  return {};
}

}  // namespace tmprof::workload
