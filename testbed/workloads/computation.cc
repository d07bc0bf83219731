// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/computation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testbed/workloads/print.h"
#include "testbed/workloads/run.h"
#include "testbed/workloads/timing.h"
#include "testbed/workloads/truth.h"

namespace tmprof::workload {
namespace {

using std::chrono::nanoseconds;

class Steps final : public Task {
 public:
  Steps(Computation& computation, const Timeline& timeline, std::optional<std::uint64_t> units,
        const EndSignals& signals)
      : computation_(computation), timeline_(timeline), units_(units), signals_(signals) {}

  // Looks at `stop` after every step.
  void Run(Stop& stop) override {
    while (Now() < timeline_.start && !stop.requested()) computation_.Step(kNoLimit);
    const nanoseconds cpu_start = Now(CLOCK_THREAD_CPUTIME_ID);
    PublishCpuStart(cpu_start);
    start_ = end_ = Now();
    for (auto stretch = timeline_.Next(nanoseconds(0));
         stretch && !done() && !stop.WaitUntil(timeline_.start + stretch->start);
         stretch = timeline_.Next(stretch->end)) {
      RunStretch(timeline_.start + stretch->end, stop);
    }
    cpu_time_ = Now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    if (done()) {
      signals_.Raise();
      stop.WaitUntil(timeline_.end());  // reports ask for this thread's clock until then
    }
  }

  // After Run.
  const Progress& progress() const { return progress_; }
  const std::vector<PhaseRun>& stretches() const { return stretches_; }
  nanoseconds cpu_time() const { return cpu_time_; }
  double seconds() const { return std::chrono::duration<double>(end_ - start_).count(); }

 private:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  bool done() const { return units_ && progress_.units >= *units_; }

  void RunStretch(Instant end, const Stop& stop) {
    PhaseRun run{.start = Now()};
    const std::uint64_t accesses_before = progress_.accesses;
    while (Now() < end && !stop.requested() && !done()) {
      const Progress step = computation_.Step(units_ ? *units_ - progress_.units : kNoLimit);
      progress_.units += step.units;
      progress_.accesses += step.accesses;
      Publish(progress_.accesses);
    }
    end_ = run.end = Now();
    run.accesses = progress_.accesses - accesses_before;
    if (run.accesses > 0) stretches_.push_back(std::move(run));
  }

  Computation& computation_;
  const Timeline timeline_;
  const std::optional<std::uint64_t> units_;
  const EndSignals& signals_;
  Progress progress_;
  std::vector<PhaseRun> stretches_;
  Instant start_{0};
  Instant end_{0};
  nanoseconds cpu_time_{0};
};

void PrintSummary(const Computation& computation, const RunMemory& run, const Steps& steps) {
  const auto [units, accesses] = steps.progress();
  const double cpu_seconds = std::chrono::duration<double>(steps.cpu_time()).count();
  const double per_cpu_second = cpu_seconds > 0 ? static_cast<double>(accesses) / cpu_seconds : 0;
  Print(stdout,
        "{}: {} {}, {} accesses of {} in {:.1f} s ({:.1f} CPU s): {:.2f} M per CPU second\n",
        computation.name(), units, computation.unit(), accesses,
        FormatBytes(run.memory.footprint_bytes()), steps.seconds(), cpu_seconds,
        per_cpu_second / 1e6);
  Print(stdout,
        "{{\"workload\":\"{}\",\"pid\":{},\"footprint_bytes\":{},\"huge_bytes\":{},\"threads\":1,"
        "\"accesses\":{},\"seconds\":{:.6f},\"cpu_seconds\":{:.6f},"
        "\"accesses_per_cpu_second\":{:.1f},\"{}\":{},{},\"checksum\":{}}}\n",
        computation.name(), ::getpid(), run.memory.footprint_bytes(), run.huge_bytes, accesses,
        steps.seconds(), cpu_seconds, per_cpu_second, computation.unit(), units,
        computation.Figures(), computation.checksum());
}

Ended Run(Computation& computation, const RunOptions& options, std::optional<std::uint64_t> units,
          const std::string& truth_path) {
  const auto needed_bytes = computation.Fit(options.footprint_bytes);
  if (!needed_bytes) return BadInput(needed_bytes.error());
  const std::uint64_t page_bytes = options.page_bytes();
  const std::uint64_t footprint_bytes = (*needed_bytes + page_bytes - 1) / page_bytes * page_bytes;

  std::optional<AtomicFile> truth;
  if (!truth_path.empty()) {
    std::expected<AtomicFile, std::string> file = AtomicFile::Open(truth_path);
    if (!file) return Refused(file.error());
    truth.emplace(*std::move(file));
  }
  const EndSignals signals;
  const auto run = MapForRun(computation.name(), footprint_bytes, options.huge);
  if (!run) return std::unexpected(run.error());
  computation.Build(Arena(run->memory.words()), options.seed);

  const Timeline timeline = options.TimelineFromNow(options.duration);
  PrintStart(computation.name(), footprint_bytes, run->memory.start_address(), timeline.start);
  Steps steps(computation, timeline, units, signals);
  Task* const tasks[] = {&steps};
  RunTasks(tasks, timeline, options.report_interval, signals);
  if (truth) {
    PageCounts counts(run->memory.start_address(), footprint_bytes);
    computation.CountUnit(counts);
    WriteTruth(truth->stream(), ::getpid(), run->memory.start_address(), counts, steps.stretches());
    if (const auto written = truth->Commit(); !written) return Refused(written.error());
  }
  PrintSummary(computation, *run, steps);
  return {};
}

}  // namespace

int RunComputation(Computation& computation, int argc, char** argv) {
  RunOptions options;
  std::optional<std::uint64_t> units;
  CLI::App app(computation.description(), computation.name());
  AddRunOptions(app, options,
                "The largest problem that fits; all its memory is present before the first phase");
  computation.AddOptions(app);
  AddOptional(app, fmt::format("--{}", computation.unit()), units, ParseInteger,
              "End after so many, if --duration is not over before");
  std::string truth_path;
  if (computation.Counts()) {
    app.add_option("--truth", truth_path,
                   "JSON file for what was accessed how often: by page, as counted of one of the "
                   "units at the end");
  }
  return RunProgram(app, argc, argv, [&]() -> Ended {
    if (units == 0) return BadInput(fmt::format("--{} must be above 0", computation.unit()));
    return Run(computation, options, units, truth_path);
  });
}

}  // namespace tmprof::workload
