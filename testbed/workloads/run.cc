// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/run.h"

#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "testbed/workloads/parse.h"
#include "testbed/workloads/print.h"

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
  CLI::Option* busy = AddOptional(app, "--busy", duty.busy, ParseLength,
                                  "Work for so long, pause for --idle, and so on");
  CLI::Option* idle = AddOptional(app, "--idle", duty.idle, ParseLength,
                                  "Pause between two times of work (default: no pauses)");
  busy->needs(idle);
  idle->needs(busy);
}

Timeline RunOptions::TimelineFromNow(nanoseconds shift) const {
  return {.start = Now() + warmup, .shift = shift, .duration = duration, .duty = duty};
}

void AddRunOptions(CLI::App& app, RunOptions& options, const std::string& footprint_help) {
  AddOption(app, "--footprint", options.footprint_bytes, ParseBytes, "512MiB", footprint_help);
  AddOption(app, "--duration", options.duration, ParseLength, "31s",
            "How long, after what is built and warmed up");
  AddDutyOptions(app, options.duty);
  AddOption(app, "--warmup", options.warmup, ParseDuration, "0s",
            "Work as in the first phase for so long before it counts");
  AddOption(app, "--seed", options.seed, ParseInteger, "1",
            "Of what is laid out and of what is asked of it");
  app.add_flag("--thp", options.huge, "Back the memory with transparent huge pages");
  AddOption(app, "--report-interval", options.report_interval, ParseDuration, "0s",
            "Print totals so far as a JSON line so often; 0s: never");
}

std::expected<RunMemory, Fault> MapForRun(const std::string& name, std::uint64_t footprint_bytes,
                                          bool huge, Sharing sharing) {
  std::expected<Memory, std::string> memory = Memory::Map(footprint_bytes, huge, sharing);
  if (!memory) return Refused(memory.error());
  const std::expected<std::uint64_t, std::string> huge_bytes = memory->HugeBytes();
  if (!huge_bytes) return Refused(huge_bytes.error());
  if (huge && *huge_bytes < footprint_bytes) {
    Print(stderr,
          "{}: only {} of {} are huge pages; see "
          "/sys/kernel/mm/transparent_hugepage/enabled\n",
          name, FormatBytes(*huge_bytes), FormatBytes(footprint_bytes));
  }
  return RunMemory{.memory = *std::move(memory), .huge_bytes = *huge_bytes};
}

}  // namespace tmprof::workload
