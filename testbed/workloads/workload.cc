// SPDX-License-Identifier: Apache-2.0
//
// Threads: the main thread only waits for signals and report times; each worker, of all processes,
// owns every n-th word of each span, so that workers share pages and never a word, and plain loads
// and stores are exact.

#include "testbed/workloads/workload.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "testbed/workloads/memory.h"
#include "testbed/workloads/misses.h"
#include "testbed/workloads/print.h"
#include "testbed/workloads/run.h"
#include "testbed/workloads/timing.h"
#include "testbed/workloads/truth.h"

namespace tmprof::workload {
namespace {

using std::chrono::nanoseconds;

struct Options : RunOptions {
  std::uint64_t span_bytes = 0;
  std::optional<double> accesses_per_s;
  std::uint64_t threads = 0;
  std::uint64_t processes = 0;
  std::uint64_t workers() const { return threads * processes; }
  bool write = false;
  bool count = false;
  std::string truth_path;
  std::string miss_truth_path;
  std::optional<std::uint64_t> llc_bytes;
};

class Worker final : public Task {
 public:
  Worker(const Options& options, const Heat& heat, const Memory& memory, const Timeline& timeline,
         std::uint64_t worker)
      : options_(options),
        heat_(heat),
        timeline_(timeline),
        random_(Random::Mix(options.seed) + worker),
        own_words_(memory.words() + worker),
        span_words_(options.span_bytes / sizeof(std::uint64_t)),
        batch_(BatchSize(options)) {}

  // Looks at `stop` after every batch.
  void Run(Stop& stop) override {
    RunPhase(0, timeline_.start, stop);
    accesses_ = 0;
    std::vector<std::uint64_t> counted_before = CountSpans();
    const Instant cpu_start = Now(CLOCK_THREAD_CPUTIME_ID);
    PublishCpuStart(cpu_start);
    for (auto stretch = timeline_.Next(nanoseconds(0));
         stretch && !stop.WaitUntil(timeline_.start + stretch->start);
         stretch = timeline_.Next(stretch->end)) {
      PhaseRun run = RunPhase(stretch->phase, timeline_.start + stretch->end, stop);
      std::vector<std::uint64_t> counted = CountSpans();
      for (std::size_t span = 0; span < counted.size(); ++span) {
        run.span_accesses.push_back(counted[span] - counted_before[span]);
      }
      counted_before = std::move(counted);
      phases_.push_back(std::move(run));
    }
    cpu_time_ = Now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
  }

  // After Run.
  const std::vector<PhaseRun>& phases() const { return phases_; }
  std::uint64_t accesses() const { return accesses_; }
  nanoseconds cpu_time() const { return cpu_time_; }
  std::uint64_t checksum() const { return checksum_; }

 private:
  // Between two looks at the clock: some 10 to 200 us at full speed, and at most a millisecond's
  // worth where the rate is held down.
  static std::uint64_t BatchSize(const Options& options) {
    constexpr double kLargest = 1024;
    if (!options.accesses_per_s) return static_cast<std::uint64_t>(kLargest);
    const double per_ms = *options.accesses_per_s / static_cast<double>(options.workers()) / 1e3;
    return static_cast<std::uint64_t>(std::clamp(per_ms, 1.0, kLargest));
  }

  PhaseRun RunPhase(std::uint64_t phase, Instant end, const Stop& stop) {
    const Heat::Phase at = heat_.AtPhase(phase);
    PhaseRun run{.index = phase, .start = Now(), .end = {}, .accesses = 0, .span_accesses = {}};
    Instant now = run.start;
    for (; now < end && !stop.requested(); now = Now()) {
      options_.write ? Batch<true>(at) : Batch<false>(at);
      run.accesses += batch_;
      accesses_ += batch_;
      Publish(accesses_);
      if (options_.accesses_per_s)
        Pace(run.start, run.accesses * options_.workers(), *options_.accesses_per_s, end);
    }
    run.end = now;
    return run;
  }

  // The accesses are independent of each other: the processor overlaps their misses. A write adds
  // one to the word. A read adds the word and its index to a checksum that is printed: the index is
  // used after the load, so that the load cannot overwrite its own address, as a compiler at
  // liberty often lets it. Clock sampling is blind to loads that do.
  template <bool kWrite>
  void Batch(Heat::Phase phase) {
    Random random = random_;
    std::uint64_t checksum = checksum_;
    const std::uint64_t workers = options_.workers();
    const std::uint64_t words_per_worker = span_words_ / workers;
    for (std::uint64_t i = 0; i < batch_; ++i) {
      Fraction rest(0);
      const std::uint64_t span = heat_.Draw(phase, random, rest);
      const std::uint64_t at = span * span_words_ + rest.Take(words_per_worker) * workers;
      if constexpr (kWrite) {
        ++own_words_[at];
      } else {
        checksum = (checksum + own_words_[at]) ^ at;
      }
    }
    random_ = random;
    checksum_ = checksum;
  }

  // Accesses so far per span, read back from the words that --write counted them in.
  std::vector<std::uint64_t> CountSpans() const {
    std::vector<std::uint64_t> counts;
    if (!options_.count) return counts;
    for (std::uint64_t span = 0; span < heat_.spans(); ++span) {
      const std::uint64_t* words = own_words_ + span * span_words_;
      counts.push_back(std::reduce(words, words + span_words_));
    }
    return counts;
  }

  const Options& options_;
  const Heat& heat_;
  const Timeline timeline_;
  Random random_;
  std::uint64_t* const own_words_;
  const std::uint64_t span_words_;
  const std::uint64_t batch_;
  std::uint64_t accesses_ = 0;
  std::uint64_t checksum_ = 0;
  nanoseconds cpu_time_{0};
  std::vector<PhaseRun> phases_;
};

struct Totals {
  std::vector<PhaseRun> phases;
  std::uint64_t accesses = 0;
  std::uint64_t checksum = 0;
  nanoseconds cpu_time{0};

  double seconds() const {
    if (phases.empty()) return 0;
    return std::chrono::duration<double>(phases.back().end - phases.front().start).count();
  }
};

Totals Sum(const std::deque<Worker>& workers) {
  Totals totals;
  std::vector<std::vector<PhaseRun>> phases;
  for (const Worker& worker : workers) {
    phases.push_back(worker.phases());
    totals.accesses += worker.accesses();
    totals.checksum += worker.checksum();
    totals.cpu_time += worker.cpu_time();
  }
  totals.phases = MergePhases(phases);
  return totals;
}

void PrintSummary(const std::string& name, const Options& options, const Totals& totals,
                  std::uint64_t huge_bytes) {
  const double cpu_seconds = std::chrono::duration<double>(totals.cpu_time).count();
  const double per_cpu_second =
      cpu_seconds > 0 ? static_cast<double>(totals.accesses) / cpu_seconds : 0;
  Print(stdout, "{}: {} {} of {} in {:.1f} s ({:.1f} CPU s): {:.2f} M per CPU second, {} phases\n",
        name, totals.accesses, options.write ? "updates" : "reads",
        FormatBytes(options.footprint_bytes), totals.seconds(), cpu_seconds, per_cpu_second / 1e6,
        totals.phases.size());
  Print(stdout,
        "{{\"workload\":\"{}\",\"pid\":{},\"footprint_bytes\":{},\"huge_bytes\":{},\"threads\":{},"
        "\"phases\":{},\"accesses\":{},\"seconds\":{:.6f},\"cpu_seconds\":{:.6f},"
        "\"accesses_per_cpu_second\":{:.1f},\"checksum\":{}}}\n",
        name, ::getpid(), options.footprint_bytes, huge_bytes, options.threads,
        totals.phases.size(), totals.accesses, totals.seconds(), cpu_seconds, per_cpu_second,
        totals.checksum);
}

void PrintMisses(const std::string& name, std::uint64_t llc_bytes, const SimulatedMisses& misses) {
  Print(stdout, R"({{"workload":"{}","llc_bytes":{},"misses_per_access":{:.6f},"misses":[)", name,
        llc_bytes, misses.per_access);
  const char* before = "";
  for (const Misses& each : misses.bands) {
    Print(stdout, R"({}{{"spans":{},"share":{:.9g}}})", std::exchange(before, ","), each.spans,
          each.share);
  }
  Print(stdout, "]}}\n");
  std::fflush(stdout);
}

constexpr std::uint64_t kMostWorkers = 64;  // each still owns 8 words of every page

std::expected<void, std::string> Validate(const Options& options) {
  if (options.span_bytes % options.page_bytes() != 0) {
    return std::unexpected(
        fmt::format("--span must be a multiple of {}", FormatBytes(options.page_bytes())));
  }
  if (options.footprint_bytes % options.span_bytes != 0) {
    return std::unexpected(fmt::format("--footprint must be a multiple of the span, {}",
                                       FormatBytes(options.span_bytes)));
  }
  if (options.threads == 0 || options.threads > kMostWorkers) {
    return std::unexpected(fmt::format("--threads must be within 1 and {}", kMostWorkers));
  }
  if (options.processes == 0 || options.processes > kMostWorkers / options.threads) {
    return std::unexpected(
        fmt::format("--processes, times --threads, must be within 1 and {}", kMostWorkers));
  }
  if (options.llc_bytes && options.workers() != 1) {
    return std::unexpected("--llc needs a single thread");
  }
  if (!options.miss_truth_path.empty() && !options.llc_bytes) {
    return std::unexpected("--miss-truth needs --llc, the size of the cache");
  }
  if (options.count && (!options.write || options.workers() != 1)) {
    return std::unexpected("--count needs --write and a single thread");
  }
  return {};
}

std::deque<Worker> MakeWorkers(const Options& options, const Heat& heat, const Memory& memory,
                               const Timeline& timeline, std::uint64_t process) {
  std::deque<Worker> workers;
  for (std::uint64_t thread = 0; thread < options.threads; ++thread)
    workers.emplace_back(options, heat, memory, timeline, process * options.threads + thread);
  return workers;
}

void RunWorkers(std::deque<Worker>& workers, const Timeline& timeline, nanoseconds report_interval,
                const EndSignals& signals) {
  std::vector<Task*> tasks;
  for (Worker& worker : workers) tasks.push_back(&worker);
  RunTasks(tasks, timeline, report_interval, signals);
}

// The processes beside this one, which end with it.
class Siblings {
 public:
  Siblings() = default;
  Siblings(const Siblings&) = delete;
  Siblings& operator=(const Siblings&) = delete;
  ~Siblings() {
    for (const pid_t pid : pids_) ::kill(pid, SIGTERM);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }

  // False: the kernel refused.
  template <typename Body>
  bool Start(Body body) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() == parent) body();
      ::_exit(0);
    }
    if (pid > 0) pids_.push_back(pid);
    return pid > 0;
  }

 private:
  std::vector<pid_t> pids_;
};

Ended Run(const Workload& workload, const Options& options) {
  const std::string name = workload.name();
  const std::expected<Pattern, std::string> pattern =
      workload.MakePattern(options.footprint_bytes / options.span_bytes);
  if (!pattern) return BadInput(pattern.error());
  const Heat heat(*pattern, options.seed);

  std::optional<AtomicFile> truth;
  if (!options.truth_path.empty()) {
    std::expected<AtomicFile, std::string> file = AtomicFile::Open(options.truth_path);
    if (!file) return Refused(file.error());
    truth.emplace(*std::move(file));
  }
  // The simulation comes before the memory is there, so that its time is no part of the run.
  std::optional<SimulatedMisses> misses;
  if (options.llc_bytes)
    misses = SimulateMisses(heat, options.span_bytes, *options.llc_bytes, options.seed);
  const EndSignals signals;
  const std::expected<RunMemory, Fault> run =
      MapForRun(name, options.footprint_bytes, options.huge,
                options.processes > 1 ? Sharing::kShared : Sharing::kPrivate);
  if (!run) return std::unexpected(run.error());
  const Memory& memory = run->memory;

  const Timeline timeline = options.TimelineFromNow(workload.Shift(options.duration));
  // It is there when the first line is printed, and the memory, too.
  if (misses && !options.miss_truth_path.empty()) {
    std::expected<AtomicFile, std::string> file = AtomicFile::Open(options.miss_truth_path);
    if (!file) return Refused(file.error());
    WriteMissTruth(file->stream(), ::getpid(), memory.start_address(), options.span_bytes, heat,
                   misses->of_span, timeline.start,
                   timeline.start + std::min(timeline.shift, timeline.duration));
    if (const auto written = file->Commit(); !written) return Refused(written.error());
  }
  PrintStart(name, options.footprint_bytes, memory.start_address(), timeline.start);
  if (misses) PrintMisses(name, *options.llc_bytes, *misses);

  Siblings siblings;
  for (std::uint64_t process = 1; process < options.processes; ++process) {
    const bool started = siblings.Start([&] {
      if (!memory.Populate()) return;
      std::deque<Worker> workers = MakeWorkers(options, heat, memory, timeline, process);
      RunWorkers(workers, timeline, nanoseconds(0), signals);
    });
    if (!started) return Refused("cannot start a process");
  }
  std::deque<Worker> workers = MakeWorkers(options, heat, memory, timeline, 0);
  RunWorkers(workers, timeline, options.report_interval, signals);

  const Totals totals = Sum(workers);
  if (truth) {
    WriteTruth(truth->stream(), ::getpid(), memory.start_address(), options.span_bytes, heat,
               totals.phases);
    if (const auto written = truth->Commit(); !written) return Refused(written.error());
  }
  PrintSummary(name, options, totals, run->huge_bytes);
  return {};
}

}  // namespace

int RunWorkload(Workload& workload, int argc, char** argv) {
  Options options;
  std::optional<std::uint64_t> span_bytes;
  CLI::App app(workload.description(), workload.name());
  AddRunOptions(app, options, "Memory accessed, all present before the first phase");
  workload.AddOptions(app);
  AddOption(app, "--threads", options.threads, ParseInteger, "1",
            "Workers of a process, each on words of its own");
  AddOption(app, "--processes", options.processes, ParseInteger, "1",
            "Processes that share the memory; what is printed, and the truth, are of the first");
  AddOptional(app, "--rate", options.accesses_per_s, ParseRate,
              "Accesses per second of all workers (default: no limit)");
  AddOptional(app, "--span", span_bytes, ParseBytes,
              "What is equally hot together (default: 4KiB, with --thp 2MiB)");
  app.add_flag("--write", options.write, "Add one to each word instead of reading it");
  app.add_flag("--count", options.count,
               "Count accesses per span into the truth (needs --write; walks all memory between "
               "phases)");
  app.add_option("--truth", options.truth_path,
                 "JSON file for what was accessed how often; written at the end, also of a run "
                 "ended by SIGINT or SIGTERM");
  AddOptional(
      app, "--llc", options.llc_bytes, ParseBytes,
      "Also print, as a JSON line, which spans have the misses of a cache of this size (LRU, "
      "16 ways), simulated on accesses of the first phase");
  app.add_option("--miss-truth", options.miss_truth_path,
                 "JSON file for which pages have these misses in the first phase, for tmprof eval "
                 "--truth; written before the work starts");
  return RunProgram(app, argc, argv, [&]() -> Ended {
    options.span_bytes = span_bytes.value_or(options.huge ? kHugePageBytes : kBasePageBytes);
    if (auto valid = Validate(options); !valid) return BadInput(valid.error());
    return Run(workload, options);
  });
}

}  // namespace tmprof::workload
