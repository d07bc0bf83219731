// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a look for targets among many processes:
//   build/release/find_targets
// The argument is how many idle ones it adds to those of the machine (`processes` is all). CPU is
// time of the one thread that looks; looks are a second apart as far as the finder can tell.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/host/procfs.h"
#include "profiler/target_finder.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

class IdleProcesses {
 public:
  explicit IdleProcesses(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const pid_t child = fork();
      TMPROF_CHECK(child >= 0);
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) pause();
      }
      children_.push_back(child);
    }
  }
  IdleProcesses(const IdleProcesses&) = delete;
  IdleProcesses& operator=(const IdleProcesses&) = delete;
  ~IdleProcesses() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

 private:
  std::vector<pid_t> children_;
};

void LookRepeatedly(benchmark::State& state, TargetRules rules, CpuTimeOf cpu_time_of) {
  const IdleProcesses processes(static_cast<std::size_t>(state.range(0)));
  const ProcFs procfs;
  TargetFinder finder(procfs, std::move(cpu_time_of), std::move(rules), Pid(getpid()));
  MonotonicTime now;
  finder.Look(now);
  for (auto _ : state) {
    now += std::chrono::seconds(1);
    benchmark::DoNotOptimize(finder.Look(now));
  }
  state.counters["processes"] = static_cast<double>(procfs.Processes().size());
}

TargetRules Named() {
  return {.commands = {"redis-*", "postgres"},
          .executables = {"/usr/lib/jvm/*/bin/java"},
          .cgroups = {"/system.slice/mysql.service"}};
}

void FirstLook(benchmark::State& state) {
  const IdleProcesses processes(static_cast<std::size_t>(state.range(0)));
  const ProcFs procfs;
  for (auto _ : state) {
    TargetFinder finder(procfs, ProcessCpuTime, Named(), Pid(getpid()));
    benchmark::DoNotOptimize(finder.Look(MonotonicTime()));
  }
  state.counters["processes"] = static_cast<double>(procfs.Processes().size());
}

// Commands, programs and control groups.
void LookForNamed(benchmark::State& state) { LookRepeatedly(state, Named(), ProcessCpuTime); }

void LookForAny(benchmark::State& state) {
  LookRepeatedly(state, {.any = ProcessFilter{}}, ProcessCpuTime);
}

// The worst: each has run since the look before.
void LookForAnyWhereAllRan(benchmark::State& state) {
  nanoseconds extra{0};
  LookRepeatedly(state, {.any = ProcessFilter{}}, [&extra](Pid pid) {
    extra += nanoseconds(1);
    const auto used = ProcessCpuTime(pid);
    return used ? std::optional(*used + extra) : std::nullopt;
  });
}

BENCHMARK(FirstLook)->Arg(0)->Arg(2000)->Unit(benchmark::kMicrosecond);
BENCHMARK(LookForNamed)->Arg(0)->Arg(500)->Arg(2000)->Arg(8000)->Unit(benchmark::kMicrosecond);
BENCHMARK(LookForAny)->Arg(0)->Arg(500)->Arg(2000)->Arg(8000)->Unit(benchmark::kMicrosecond);
BENCHMARK(LookForAnyWhereAllRan)->Arg(2000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tmprof
