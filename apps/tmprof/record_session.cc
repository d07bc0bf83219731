// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/record_session.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/messages.h"
#include "apps/tmprof/recorded_objects.h"
#include "base/host/freed_memory.h"
#include "base/host/own_cpus.h"
#include "base/host/procfs.h"
#include "base/host/stop_signals.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "profiler/launched_command.h"
#include "profiler/progress_line.h"
#include "profiler/recorder.h"
#include "profiler/recording_outcome.h"
#include "profiler/recording_settings.h"
#include "profiler/session_description.h"
#include "profiler/session_facts.h"
#include "profiler/session_sources.h"
#include "profiler/sources/exact/exact_launch.h"
#include "profiler/sources/exact/truth_server.h"
#include "profiler/target_finder.h"
#include "profiler/target_tracker.h"
#include "proto/trace_file.h"
#include "proto/trace_output.h"

namespace tmprof {
namespace {

// An epoch waits so long for the counts of a traced process that is silent, as a stopped one is.
// They then join a later epoch.
constexpr std::chrono::seconds kExactPatience{5};
// `tmprof record` of one program took 182 MB of address space (x86-64, Linux 6.18). At 150 MB it
// measures no costs, at 100 MB it fails.
constexpr std::uint64_t kUsualAddressSpaceBytes = std::uint64_t{200} << 20;
constexpr std::chrono::milliseconds kExactServicePeriod{50};

std::vector<Setting> SettingsOf(const ObjectRecordingOptions& options) {
  std::vector<Setting> settings;
  if (options.objects) {
    settings = {{"objects", "on"},
                {"objects-from", FormatBytes(*options.from_bytes)},
                {"objects-interval", FormatBytes(*options.interval_bytes)}};
  }
  if (!options.advice.empty()) settings.push_back({"advice", options.advice});
  return settings;
}

// Whoever lacks address space is told only that there was no memory.
void WarnOfLimitedAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= kUsualAddressSpaceBytes)
    return;
  Warn(fmt::format(
      "address space is limited to {} (ulimit -v): a recording takes {}, and may fail or lack "
      "sources with less",
      FormatBytes(limit.rlim_cur), FormatBytes(kUsualAddressSpaceBytes)));
}

class RecordSession {
 public:
  RecordSession(RecordOptions options, StopSignals signals)
      : options_(std::move(options)), signals_(std::move(signals)) {}

  int Run() {
    const Status recorded = options_.is_exact() ? RecordExact() : Record();
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
    if (!recorded) return recorded.error().ExitStatus();
    if (command_status == kDone && outcome_ && !outcome_->saw_enough) return kSawLittle;
    return command_status;
  }

  const std::optional<EarlyEnd>& early_end() const { return early_end_; }

 private:
  Status Record() {
    const MonotonicTime called = clock_.Now();
    WarnOfLimitedAddressSpace();
    KeepFreedMemory();
    if (auto status = procfs_.CheckNamespace(); !status) return status;
    TargetTracker tracker(procfs_, ProcessCpuTime, TrackerOptions());
    for (const int pid : options_.pids) {
      if (auto status = tracker.AddNamed(Pid(pid)); !status) return status;
    }
    if (options_.all) {
      if (auto status = FindAll(tracker); !status) return status;
    }

    if (auto status = PreloadTracker(); !status) return status;
    OwnCpus own_cpus(procfs_);
    own_cpus.MakeWayFor(tracker.tracked());  // costs are measured now, which takes CPU time
    const bool on_terminal = isatty(STDERR_FILENO) == 1 && !options_.quiet;
    if (on_terminal) SayWithoutWaiting("preparing: loading BPF programs and measuring their costs");
    Result<SessionSources> sources = OpenSources(options_.sources);
    if (on_terminal) SayWithoutWaiting(ProgressLine::kErase);
    if (!sources) return Fail(sources.error());
    for (const std::string& warning : sources->warnings) Warn(warning);

    Result<TraceOutput> output = TraceOutput::Prepare(options_.output, Warn);
    if (!output) return Fail(output.error());
    const std::vector<Setting> settings =
        SettingsInForce(options_, *sources, SettingsOf(options_.objects));
    TraceInfo info = DescribeSession(settings, options_.epoch, clock_.Now());
    info.calibration = sources->calibration;
    info.warnings = sources->warnings;
    Result<TraceWriter> writer = TraceWriter::Create(output->path(), info);
    if (!writer) {
      // Locked, it is another recorder's, which has begun since.
      if (writer.error().system_error != EWOULDBLOCK) output->Restore();
      return Fail(writer.error());
    }

    if (on_terminal && options_.tells_settings) Say(SettingsLine(settings, *sources));
    ProgressLine progress;
    PollWaiter waiter;
    SessionFacts facts(procfs_);
    bool begun = false;  // before, a held child is a copy of this process
    Recorder recorder(
        RecorderOptions(),
        {.clock = clock_,
         .waiter = waiter,
         .targets = tracker,
         .own_cpu_time = OwnCpuTime,
         .stop_requested = [this] { return ShouldStop(); },
         .stop_fds = {signals_.fd()},
         .gate = sources->gate,
         .on_targets =
             [&](const std::vector<TrackedProcess>& targets) {
               own_cpus.MakeWayFor(targets);
               if (begun) {
                 facts.SeeTargets(targets, tracker.resident(), tracker.left_out(),
                                  tracker.filtered(), clock_.Now());
                 objects_.SeeTargets(targets);
               }
             },
         .service =
             objects_.is_tracking() ? [this] { objects_.Service(); } : std::function<void()>(),
         .complete_epoch = objects_.is_tracking()
                               ? [this](EpochProfile& epoch) { objects_.Complete(epoch); }
                               : std::function<void(EpochProfile&)>(),
         .on_source_failure = [](const Error& error) { Warn(error.Message()); },
         .open_frames = [](const Target& target) { return OpenPagemap(target); }},
        std::move(sources->sources), std::move(sources->unavailable));
    if (auto status = Begin(tracker, recorder); !status) {
      command_.reset();  // a child that is still held would never end by itself
      output->Restore();
      return status;
    }
    output->Keep();
    starting_ = clock_.Now() - called;
    begun = true;
    const auto stopped = recorder.Run([&](const EpochProfile& epoch) -> Status {
      if (auto status = writer->Write(epoch); !status) return status;
      facts.Add(epoch);
      objects_.Add(epoch);
      const std::string line = progress.After(epoch);
      if (on_terminal) SayWithoutWaiting(line);
      return {};
    });
    if (on_terminal) SayWithoutWaiting(ProgressLine::kErase);
    facts.SeeLast(tracker.tracked());
    const RecordingOutcome outcome = Conclude(facts.Facts());
    const Status finished = writer->Finish(outcome);  // whatever has ended the recording
    if (const std::string refusal = objects_.Refusal(); !refusal.empty()) Warn(refusal);
    if (!stopped) return Fail(stopped.error());
    if (*stopped != Recorder::StopReason::kDuration) {
      early_end_ = {.after = facts.Facts().length,
                    .by_signal = *stopped == Recorder::StopReason::kRequested};
    }
    if (!finished) return finished;
    Close(outcome);
    return {};
  }

  Status FindAll(TargetTracker& tracker) {
    TargetFinder finder(procfs_, ProcessCpuTime, {.commands = {"*"}}, Pid(getpid()));
    const TargetFinder::Findings found = finder.Look(clock_.Now());
    const std::vector<Error> refused = tracker.Follow(found.targets);
    const std::size_t unseen = refused.size() + found.unreadable;
    if (unseen > 0) {
      Warn(fmt::format("{} of {} cannot be observed: {}", Grouped(unseen),
                       CountText(found.targets.size() + found.unreadable, "process", "processes"),
                       refused.empty() ? found.refusal->Message() : refused.front().Message()));
    }
    if (found.targets.size() > refused.size()) return {};
    return Fail(Error{.attempt = "find processes",
                      .object = "this machine",
                      .reason = "none can be observed",
                      .advice = "run as root, or name your own with -p PID"});
  }

  RecordingOutcome Conclude(RecordingFacts facts) {
    facts.trace = options_.output;
    facts.title = options_.title;
    facts.starting = starting_;
    facts.untracked = objects_.Untracked();
    facts.objects_missing = objects_.WhyNone(facts.untracked);
    RecordingOutcome outcome = OutcomeOf(facts);
    last_line_ = LastLineOf(facts, outcome);
    return outcome;
  }

  // The line that a recording ends with.
  void Close(const RecordingOutcome& outcome) {
    outcome_ = outcome;
    if (!outcome.saw_enough) {
      Warn(last_line_);
    } else if (!options_.quiet && options_.tells_settings) {
      Say(fmt::format("tmprof: {}\n", last_line_));
    }
  }

  // The program's own QEMU counts (profiler/sources/exact); here its counts only become epochs.
  Status RecordExact() {
    const MonotonicTime called = clock_.Now();
    KeepFreedMemory();
    exact::ExactOptions options = options_.tracing;
    options.epoch = options_.epoch;
    if (auto status = exact::CheckOptions(options); !status) return status;
    const auto tools = exact::FindExactTools();
    if (!tools) return Fail(tools.error());
    auto server = exact::TruthServer::Listen(procfs_);
    if (!server) return Fail(server.error());
    const auto memory = exact::MakeTracerMemory(options);
    if (!memory) return Fail(memory.error());
    if (auto status = PreloadTracker(); !status) return status;
    const MonotonicTime start = clock_.Now();
    auto arguments = exact::ArgumentsToTrace(options_.command, *tools, options, server->socket(),
                                             *memory, start, exact::TakeLoaderVariables());
    if (!arguments) {
      if (arguments.error().system_error) exec_failure_ = arguments.error();
      return Fail(arguments.error());
    }
    Result<TraceOutput> output = TraceOutput::Prepare(options_.output, Warn);
    if (!output) return Fail(output.error());
    Result<TraceWriter> writer = TraceWriter::Create(
        output->path(),
        DescribeSession(TracingSettingsInForce(options_, SettingsOf(options_.objects)),
                        options_.epoch, start));
    if (!writer) {
      if (writer.error().system_error != EWOULDBLOCK) output->Restore();
      return Fail(writer.error());
    }
    if (auto status = Launch(*std::move(arguments)); !status) {
      output->Restore();
      return status;
    }
    output->Keep();
    starting_ = clock_.Now() - called;
    const bool on_terminal = isatty(STDERR_FILENO) == 1 && !options_.quiet;
    ProgressLine progress(SourceRole::kTruth);
    SessionFacts facts(procfs_);
    Status written = WriteExactEpochs(*server, start, [&](const EpochProfile& epoch) -> Status {
      if (auto status = writer->Write(epoch); !status) return status;
      facts.Add(epoch);
      const std::string line = progress.After(epoch);
      if (on_terminal) SayWithoutWaiting(line);
      return {};
    });
    if (on_terminal) SayWithoutWaiting(ProgressLine::kErase);
    const RecordingOutcome outcome = Conclude(facts.Facts());
    const Status finished = writer->Finish(outcome);
    if (!written) return written;
    if (!finished) return finished;
    if (server->AnyEverConnected()) {
      Close(outcome);
      return {};
    }
    return Fail(Error{.attempt = "trace exactly",
                      .object = options_.command.front(),
                      .reason = "it ended before its tracer was heard of",
                      .advice = "run tmprof doctor, and see what QEMU has said above"});
  }

  Status PreloadTracker() {
    if (options_.command.empty()) return {};
    return objects_.Preload(options_.objects, options_.command.front());
  }

  Status Launch(std::vector<std::string> arguments) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto held = LaunchedCommand::Hold(std::move(arguments), signals_.mask_before());
    if (!held) return Fail(held.error());
    command_ = *std::move(held);
    return command_->Release();
  }

  // Until the program and all that it has started end, the time is up or the user has had enough.
  Status WriteExactEpochs(exact::TruthServer& server, MonotonicTime start,
                          const std::function<Status(const EpochProfile&)>& write) {
    const auto write_all = [&](const std::vector<EpochProfile>& epochs) -> Status {
      for (const EpochProfile& epoch : epochs) {
        if (options_.duration && epoch.start >= start + *options_.duration) break;
        if (auto status = write(epoch); !status) return status;
      }
      return {};
    };
    PollWaiter waiter;
    while (true) {
      // Asked first: what an ended program has sent is there by then.
      const bool ended = command_->Exited();
      const MonotonicTime now = clock_.Now();
      server.Service(now);
      for (const Error& fault : server.TakeComplaints()) Warn(fault.Message());
      // The epoch that ends in time is still on its way.
      const bool time_is_up =
          options_.duration && now - start >= *options_.duration + kExactServicePeriod;
      if (signals_.StopRequested() || time_is_up || (ended && !server.MayHearMore()))
        return write_all(server.TakeRest());
      if (auto status = write_all(server.TakeEpochs(now, kExactPatience)); !status) return status;
      std::vector<int> fds = server.PollFds();
      fds.push_back(signals_.fd());
      waiter.Wait(fds, kExactServicePeriod);
    }
  }

  // Sources are attached while a child still waits, so that nothing of the program escapes them.
  Status Begin(TargetTracker& tracker, Recorder& recorder) {
    if (options_.command.empty()) return recorder.Attach();
    // Orphans of the command come to us, so that they are still found as descendants.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto held = LaunchedCommand::Hold(options_.command, signals_.mask_before());
    if (!held) return Fail(held.error());
    command_ = *std::move(held);
    if (auto status = tracker.AddNamed(command_->pid()); !status) return status;
    if (auto status = recorder.Attach(); !status) return status;
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

  RecordOptions options_;
  StopSignals signals_;
  SystemClock clock_;
  ProcFs procfs_;
  RecordedObjects objects_{procfs_};
  std::optional<LaunchedCommand> command_;
  std::optional<Error> exec_failure_;
  std::chrono::nanoseconds starting_{0};
  std::optional<RecordingOutcome> outcome_;
  std::string last_line_;
  std::optional<EarlyEnd> early_end_;
};

}  // namespace

int Record(RecordOptions options, std::optional<EarlyEnd>* early) {
  Result<StopSignals> signals = StopSignals::Catch();
  if (!signals) return ReportError(signals.error());
  RecordSession session(std::move(options), *std::move(signals));
  const int status = session.Run();
  if (early != nullptr) *early = session.early_end();
  return status;
}

}  // namespace tmprof
