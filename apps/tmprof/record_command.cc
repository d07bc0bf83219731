// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/tmprof/cli.h"
#include "apps/tmprof/launched_command.h"
#include "apps/tmprof/session_sources.h"
#include "apps/tmprof/version.h"
#include "base/human_units.h"
#include "profiler/procfs.h"
#include "profiler/recorder.h"
#include "profiler/target_tracker.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
  std::string output{kDefaultTrace};
  std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
  std::optional<std::chrono::nanoseconds> duration;
  SourceChoice sources;
  bool follow_children = true;
  bool process_filter = true;
  std::optional<std::size_t> max_targets;
  std::vector<int> pids;
  std::vector<std::string> command;
  bool quiet = false;
};

struct StopRequest {
  int signal = 0;
  bool from_terminal = false;  // which has sent it to the whole foreground job
};

// SIGINT, SIGTERM and SIGCHLD as something to poll.
class Signals {
 public:
  // Before any thread exists, so that all inherit what is blocked.
  static Result<Signals> Catch() {
    Signals signals;
    sigset_t caught;
    sigemptyset(&caught);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&caught, signal);
    signals.fd_ = UniqueFd(signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals.fd_) return Fail(Refused("wait for signals", "", errno));
    pthread_sigmask(SIG_BLOCK, &caught, &signals.before_);
    return signals;
  }

  int fd() const { return fd_.get(); }
  const sigset_t& mask_before() const { return before_; }

  // The first signal that asked to stop, since the start.
  const std::optional<StopRequest>& StopRequested() {
    signalfd_siginfo info{};
    while (read(fd_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD && !stop_request_) {
        stop_request_ = {.signal = static_cast<int>(info.ssi_signo),
                         .from_terminal = info.ssi_code == SI_KERNEL};
      }
    }
    return stop_request_;
  }
  // From here on a signal acts as it would without us.
  void Restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  Signals() = default;

  sigset_t before_{};
  UniqueFd fd_;
  std::optional<StopRequest> stop_request_;
};

std::string CpuModel() {
  constexpr std::string_view kField = "model name\t: ";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with(kField)) return line.substr(kField.size());
  }
  return {};
}

std::vector<Setting> SettingsInForce(const RecordOptions& options) {
  std::string sources;
  for (const std::string& name : options.sources.names)
    sources += (sources.empty() ? "" : ",") + name;
  std::vector<Setting> settings{
      {"source", sources},
      {"abit", options.sources.abit_mode == AbitMode::kLadder ? "ladder" : "plain"},
      {"epoch", FormatDuration(options.epoch)},
      {"max-overhead", FormatShare(options.sources.max_overhead)},
      {"sample-rate", fmt::format("{}x", options.sources.sample_rate)},
      {"gate", options.sources.gate},
      {"process-filter", options.process_filter ? "on" : "off"},
      {"children", options.follow_children ? "on" : "off"},
      {"seed", std::to_string(options.sources.seed)}};
  if (options.sources.abit_mode == AbitMode::kPlain) {
    settings.push_back({"scan-interval", FormatDuration(options.sources.scan_interval)});
  }
  if (options.duration) {
    settings.push_back({"duration", FormatDuration(*options.duration)});
  }
  if (options.max_targets) {
    settings.push_back({"max-targets", std::to_string(*options.max_targets)});
  }
  return settings;
}

TraceInfo DescribeSession(const RecordOptions& options, const SessionSources& sources,
                          MonotonicTime start) {
  utsname system{};
  uname(&system);
  return {.tool_version = std::string("tmprof ") + kVersion,
          .kernel_release = system.release,
          .cpu_model = CpuModel(),
          .cpus = std::thread::hardware_concurrency(),
          .wall_start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
              std::chrono::system_clock::now()),
          .start = start,
          .epoch_length = options.epoch,
          .calibration = sources.calibration,
          .settings = SettingsInForce(options),
          .warnings = sources.warnings};
}

// As perf does: what was recorded before is kept once, under the name FILE.old, which is returned.
Result<std::optional<fs::path>> KeepPrevious(const fs::path& output) {
  std::error_code failed;
  if (!fs::is_regular_file(output, failed)) return std::nullopt;
  const UniqueFd file(open(output.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return Fail(Refused("keep the previous trace", output.string(), errno));
  // A trace that is being written is locked (TraceWriter).
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Fail(Refused("create trace file", output.string(), EWOULDBLOCK,
                        "another recorder writes this file; name another one (-o)"));
  }
  fs::path old = output;
  old += ".old";
  fs::rename(output, old, failed);
  if (failed) return Fail(Refused("keep the previous trace as", old.string(), failed.value()));
  return old;
}

// Nothing was recorded: what was there before takes its place again. Devices and pipes stay.
void Discard(const fs::path& trace, const std::optional<fs::path>& previous) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::symlink_status(trace, failed))) return;
  fs::remove(trace, failed);
  if (previous && !failed) fs::rename(*previous, trace, failed);
  if (failed) Warn(fmt::format("'{}' could not be removed: {}", trace.string(), failed.message()));
}

// One line on a terminal, rewritten each epoch.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled) {}

  void Show(const EpochProfile& epoch) {
    std::uint64_t samples = 0;
    for (const SourceStatus& source : epoch.sources) {
      if (source.role == SourceRole::kSamples) samples += source.observations.value_or(0);
      lost_ += source.lost.value_or(0);
    }
    pages_ += epoch.pages.size();
    samples_ += samples;
    own_cpu_ += epoch.profiler_cpu_time;
    ++epochs_;
    if (!enabled_) return;
    const double own_share =
        std::chrono::duration<double>(epoch.profiler_cpu_time) / epoch.length() * 100;
    fmt::print(stderr,
               "\repoch {:4}  page records {:>9}  samples {:>7}  lost {}  own CPU {:.1f} %\x1b[K",
               epoch.index, FormatCount(epoch.pages.size()), FormatCount(samples),
               FormatCount(lost_), own_share);
  }

  void Close(const std::string& output, std::uint64_t bytes) const {
    if (!enabled_) return;
    fmt::print(
        stderr,
        "\r{}: {} epochs, {} page records, {} samples, {} lost, {}; own CPU {:.2f} s\x1b[K\n",
        output, epochs_, FormatCount(pages_), FormatCount(samples_), FormatCount(lost_),
        FormatBytes(bytes), std::chrono::duration<double>(own_cpu_).count());
  }

 private:
  bool enabled_;
  std::uint64_t epochs_ = 0;
  std::uint64_t pages_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t lost_ = 0;
  std::chrono::nanoseconds own_cpu_{0};
};

class RecordSession {
 public:
  RecordSession(RecordOptions options, Signals signals)
      : options_(std::move(options)), signals_(std::move(signals)) {}

  int Run() {
    const Status recorded = Record();
    if (!recorded) {
      ReportError(recorded.error());
      if (command_ && !command_->Exited()) {
        Warn(fmt::format("recording has stopped; '{}' runs on", options_.command.front()));
      }
    }
    // A launched program is never harmed by our failure: it runs to its end, unless the user asked
    // us, and so it, to stop.
    const auto& stop = signals_.StopRequested();
    if (command_ && stop && !stop->from_terminal) command_->Signal(stop->signal);
    signals_.Restore();
    const int command_status = command_ ? command_->Wait() : kDone;
    if (exec_failure_) return StatusOfFailedExec(*exec_failure_);
    return recorded ? command_status : recorded.error().ExitStatus();
  }

 private:
  Status Record() {
    TargetTracker tracker(procfs_, ProcessCpuTime, TrackerOptions());
    for (const int pid : options_.pids) {
      if (auto status = tracker.AddNamed(Pid(pid)); !status) return status;
    }

    Result<SessionSources> sources = OpenSources(options_.sources);
    if (!sources) return Fail(sources.error());
    for (const std::string& warning : sources->warnings) Warn(warning);

    const Result<std::optional<fs::path>> previous = KeepPrevious(options_.output);
    if (!previous) return Fail(previous.error());
    Result<TraceWriter> writer =
        TraceWriter::Create(options_.output, DescribeSession(options_, *sources, clock_.Now()));
    if (!writer) return Fail(writer.error());

    if (!options_.command.empty()) {
      if (auto status = LaunchHeld(tracker, *sources); !status) {
        command_.reset();  // a child that is still held would never end by itself
        Discard(options_.output, *previous);
        return status;
      }
    }

    const bool on_terminal = isatty(STDERR_FILENO) == 1 && !options_.quiet;
    if (on_terminal) PrintSettings();
    Progress progress(on_terminal);
    PollWaiter waiter;
    Recorder recorder(RecorderOptions(),
                      {.clock = clock_,
                       .waiter = waiter,
                       .targets = tracker,
                       .own_cpu_time = OwnCpuTime,
                       .stop_requested = [this] { return ShouldStop(); },
                       .stop_fds = {signals_.fd()},
                       .gate = sources->gate},
                      std::move(sources->sources), std::move(sources->unavailable));
    const auto stopped = recorder.Run([&](const EpochProfile& epoch) -> Status {
      if (auto status = writer->Write(epoch); !status) return status;
      progress.Show(epoch);
      return {};
    });
    if (!stopped) return Fail(stopped.error());
    if (auto status = writer->Finish(); !status) return status;
    progress.Close(options_.output, writer->bytes_written());
    return {};
  }

  // Sources are attached while the child still waits, so that nothing of the program escapes them.
  Status LaunchHeld(TargetTracker& tracker, SessionSources& sources) {
    // Orphans of the command come to us, so that they are still found as descendants.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto held = LaunchedCommand::Hold(options_.command, signals_.mask_before());
    if (!held) return Fail(held.error());
    command_ = *std::move(held);
    if (auto status = tracker.AddNamed(command_->pid()); !status) return status;
    for (const auto& source : sources.sources) {
      if (auto status = source->SetTargets(tracker.tracked()); !status) return status;
    }
    if (auto status = command_->Release(); !status) {
      exec_failure_ = status.error();
      return status;
    }
    return {};
  }

  bool ShouldStop() {
    return signals_.StopRequested().has_value() || (command_ && command_->Exited());
  }

  TargetTracker::Options TrackerOptions() const {
    return {.follow_children = options_.follow_children,
            .filter = options_.process_filter ? std::optional(ProcessFilter{}) : std::nullopt,
            .max_targets = options_.max_targets,
            .observer = Pid(getpid()),
            .observer_adopts_orphans = !options_.command.empty()};
  }

  Recorder::Options RecorderOptions() const {
    return {.epoch = options_.epoch, .duration = options_.duration};
  }

  void PrintSettings() const {
    std::string line;
    for (const Setting& setting : SettingsInForce(options_)) {
      line += fmt::format(" {}={}", setting.name, setting.value);
    }
    fmt::print(stderr, "recording:{}\n", line);
  }

  RecordOptions options_;
  Signals signals_;
  SystemClock clock_;
  ProcFs procfs_;
  std::optional<LaunchedCommand> command_;
  std::optional<Error> exec_failure_;
};

Status Validate(const RecordOptions& options) {
  if (options.pids.empty() == options.command.empty()) {
    return Fail(BadInput(
        "record", "",
        options.command.empty() ? "no target was given" : "both -p and a command were given",
        "give -p PID... or -- CMD ARGS..."));
  }
  if (options.epoch < std::chrono::milliseconds(10)) {
    return Fail(BadInput("use option", "--epoch " + FormatDuration(options.epoch),
                         "an epoch is at least 10ms"));
  }
  if (options.duration && *options.duration <= std::chrono::nanoseconds(0)) {
    return Fail(BadInput("use option", "--duration " + FormatDuration(*options.duration),
                         "nothing can be recorded in no time"));
  }
  if (options.max_targets == 0) {
    return Fail(BadInput("use option", "--max-targets 0", "nothing can be recorded of no process"));
  }
  if (options.sources.scan_interval < std::chrono::milliseconds(1)) {
    return Fail(BadInput("use option",
                         "--scan-interval " + FormatDuration(options.sources.scan_interval),
                         "a scan interval is at least 1ms"));
  }
  if (options.sources.max_overhead <= 0) {
    return Fail(BadInput("use option", "--max-overhead 0%", "nothing can be observed at no cost"));
  }
  return {};
}

}  // namespace

void AddRecordCommand(CLI::App& app, const std::vector<std::string>& command_after_dashes,
                      int& exit_status) {
  CLI::App* command = app.add_subcommand("record", "Records which pages a program accesses");
  auto options = std::make_shared<RecordOptions>();
  command
      ->add_option("-o,--output", options->output,
                   "Trace file to write; an existing one is kept as FILE.old")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("-p,--pid", options->pids, "Processes to observe, with their children")
      ->type_name("PID")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  AddDuration(*command, "--epoch", options->epoch, "Length of an epoch: one profile each");
  const auto read_duration = [options](const std::string& word) {
    const auto parsed = ParseDuration(word);
    if (!parsed) throw CLI::ValidationError("--duration", parsed.error().Message());
    options->duration = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--duration", read_duration,
          "Stop after this time; otherwise when the targets end, or at Ctrl-C")
      ->type_name("TIME");
  command
      ->add_option("--source", options->sources.names,
                   "What to observe with: auto takes the best of each kind that works here")
      ->delimiter(',')
      ->check(CLI::IsMember({"auto", "abit", "clock", "hw"}))
      ->capture_default_str();
  const std::map<std::string, AbitMode> modes{{"ladder", AbitMode::kLadder},
                                              {"plain", AbitMode::kPlain}};
  command
      ->add_option("--abit", options->sources.abit_mode,
                   "Accessed bits: ladder reads each cleared block several times at growing "
                   "delays; plain reads one bit per scan interval")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case))
      ->default_str("ladder");
  AddDuration(*command, "--scan-interval", options->sources.scan_interval,
              "Time between scans with --abit plain");
  AddShare(*command, "--max-overhead", options->sources.max_overhead,
           "CPU time the sources together may cost the targets");
  const std::map<std::string, unsigned> rates{{"1x", 1}, {"4x", 4}, {"8x", 8}};
  command
      ->add_option("--sample-rate", options->sources.sample_rate,
                   "Hardware sampler: 1x is one sample in 262144 operations")
      ->transform(CLI::CheckedTransformer(rates, CLI::ignore_case))
      ->default_str("1x");
  command
      ->add_option("--gate", options->sources.gate,
                   "Counters that switch sources off in quiet periods: auto, off, llc, tlb, "
                   "or llc,tlb")
      ->capture_default_str();
  command->add_flag("!--no-children", options->follow_children, "Observe the named processes only");
  command->add_flag("!--no-process-filter", options->process_filter,
                    "Observe children below 5% CPU and 10% memory, too");
  command
      ->add_option("--max-targets", options->max_targets,
                   "Observe at most this many processes, the busiest")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", options->sources.seed, "Seed of the scan order")
      ->capture_default_str();
  command->add_flag("-q,--quiet", options->quiet, "No progress line");
  command->footer(
      "Examples:\n"
      "  tmprof record -- ./program --its-own-options\n"
      "  tmprof record --duration 30s -o server.data -p $(pidof redis-server)");
  command->callback([options, &command_after_dashes, &exit_status] {
    options->command = command_after_dashes;
    if (auto status = Validate(*options); !status) {
      exit_status = ReportError(status.error());
      return;
    }
    Result<Signals> signals = Signals::Catch();
    exit_status =
        signals ? RecordSession(*options, *std::move(signals)).Run() : ReportError(signals.error());
  });
}

}  // namespace tmprof
