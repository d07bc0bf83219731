// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "apps/tmprof/cli.h"
#include "apps/tmprof/freed_memory.h"
#include "apps/tmprof/launched_command.h"
#include "apps/tmprof/object_recorder.h"
#include "apps/tmprof/own_libraries.h"
#include "apps/tmprof/preloading.h"
#include "apps/tmprof/recording_outcome.h"
#include "apps/tmprof/session_facts.h"
#include "apps/tmprof/session_sources.h"
#include "apps/tmprof/signal_queue.h"
#include "apps/tmprof/source_choice.h"
#include "apps/tmprof/trace_output.h"
#include "apps/tmprof/version.h"
#include "base/human_units.h"
#include "mover/node_topology.h"
#include "objtrace/tracker/advice.h"
#include "profiler/own_cpus.h"
#include "profiler/procfs.h"
#include "profiler/recorder.h"
#include "profiler/source_kind.h"
#include "profiler/sources/exact/exact_launch.h"
#include "profiler/sources/exact/truth_server.h"
#include "profiler/target_tracker.h"
#include "proto/arena_advice.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

// Distances between sampled bytes are drawn with it as their mean, in 63 bits.
constexpr std::uint64_t kMostObjectsInterval = std::uint64_t{1} << 48;

struct RecordOptions {
  std::string output{kDefaultTrace};
  std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
  std::optional<std::chrono::nanoseconds> duration;
  SourceChoice sources;
  std::optional<std::uint64_t> epoch_instructions;  // of the exact tracer, like the next one
  std::optional<std::uint64_t> exact_llc_bytes;
  bool follow_children = true;
  bool process_filter = true;
  std::optional<std::size_t> max_targets;
  std::vector<int> pids;
  std::vector<std::string> command;
  bool objects = false;
  std::optional<std::uint64_t> objects_from_bytes = AllocationLogs::Options().threshold_bytes;
  std::optional<std::uint64_t> objects_interval_bytes = AllocationLogs::Options().interval_bytes;
  std::string advice;  // file; empty: objects lie where malloc(3) puts them
  bool quiet = false;

  bool exact() const {
    return std::ranges::find(sources.names, kExactSource.name) != sources.names.end();
  }
};

// How long the counts of a traced process that is silent, as a stopped one is, are waited for
// before an epoch is written without them. They then join a later epoch.
constexpr std::chrono::seconds kExactPatience{5};
constexpr std::chrono::milliseconds kExactServicePeriod{50};

struct StopRequest {
  int signal = 0;
  bool from_terminal = false;  // which has sent it to the whole foreground job
};

// True: tmprof was told, as by nohup(1), to outlive its terminal.
bool HangupIsIgnored() {
  struct sigaction action{};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// SIGINT, SIGTERM, SIGHUP unless that is ignored, SIGCHLD, and SIGPIPE, which must not end a
// recording whose standard error nobody reads any more.
class Signals {
 public:
  static Result<Signals> Catch() {
    // A blocked signal would be queued though it is ignored.
    auto queue = HangupIsIgnored()
                     ? SignalQueue::Catch({SIGINT, SIGTERM, SIGCHLD, SIGPIPE})
                     : SignalQueue::Catch({SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGHUP});
    if (!queue) return Fail(queue.error());
    return Signals(*std::move(queue));
  }

  int fd() const { return queue_.fd(); }
  const sigset_t& mask_before() const { return queue_.mask_before(); }

  // The first signal that asked to stop, since the start.
  const std::optional<StopRequest>& StopRequested() {
    while (const auto info = queue_.Next()) {
      const bool asks_to_stop = info->ssi_signo != SIGCHLD && info->ssi_signo != SIGPIPE;
      if (asks_to_stop && !stop_request_) {
        stop_request_ = {.signal = static_cast<int>(info->ssi_signo),
                         .from_terminal = info->ssi_code == SI_KERNEL};
      }
    }
    return stop_request_;
  }
  // Signals act from here on as they would without us. Those that came before are forgotten: a
  // pending SIGPIPE would end this process now.
  void Restore() {
    (void)StopRequested();
    queue_.Restore();
  }

 private:
  explicit Signals(SignalQueue queue) : queue_(std::move(queue)) {}

  SignalQueue queue_;
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

std::vector<Setting> SettingsInForce(const RecordOptions& options, const SessionSources& opened) {
  std::string sources;
  for (const std::string& name : options.sources.names)
    sources += (sources.empty() ? "" : ",") + name;
  std::vector<Setting> settings{{"source", sources},
                                {"abit", AbitText(opened.abit)},
                                {"epoch", FormatDuration(options.epoch)},
                                {"max-overhead", FormatShare(options.sources.max_overhead)},
                                {"sample-rate", fmt::format("{}x", options.sources.sample_rate)},
                                {"gate", options.sources.gate},
                                {"ageing", std::string(Name(options.sources.ageing))},
                                {"process-filter", options.process_filter ? "on" : "off"},
                                {"children", options.follow_children ? "on" : "off"},
                                {"seed", std::to_string(options.sources.seed)}};
  if (options.sources.abit.mode == abit::ScanOptions::Mode::kPlain &&
      options.sources.abit.looked != abit::Looked::kRegions) {
    settings.push_back({"scan-interval", FormatDuration(options.sources.scan_interval)});
  }
  if (options.sources.abit.looked != abit::Looked::kFull) {
    const RegionBounds& regions = options.sources.regions;
    settings.push_back({"region-monitoring", FormatDuration(regions.monitoring)});
    settings.push_back({"region-aggregation", FormatDuration(regions.aggregation)});
    settings.push_back({"region-update", FormatDuration(regions.update)});
    settings.push_back({"min-regions", std::to_string(regions.min_regions)});
    settings.push_back({"max-regions", std::to_string(regions.max_regions)});
  }
  if (options.duration) {
    settings.push_back({"duration", FormatDuration(*options.duration)});
  }
  if (options.objects) {
    settings.push_back({"objects", "on"});
    settings.push_back({"objects-from", FormatBytes(*options.objects_from_bytes)});
    settings.push_back({"objects-interval", FormatBytes(*options.objects_interval_bytes)});
  }
  if (!options.advice.empty()) settings.push_back({"advice", options.advice});
  if (options.max_targets) {
    settings.push_back({"max-targets", std::to_string(*options.max_targets)});
  }
  if (opened.assumed_ns_per_look) {
    settings.push_back(
        {"ns-per-look", fmt::format("{:.0f} (assumed)", *opened.assumed_ns_per_look)});
  }
  if (const auto assumed = opened.calibration.assumed_ns_per_point) {
    settings.push_back({"ns-per-point", fmt::format("{:.0f} (assumed)", *assumed)});
  }
  return settings;
}

std::vector<Setting> ExactSettingsInForce(const RecordOptions& options) {
  std::vector<Setting> settings{{"source", std::string(kExactSource.name)}};
  if (options.epoch_instructions) {
    settings.push_back({"epoch-instructions", std::to_string(*options.epoch_instructions)});
  } else {
    settings.push_back({"epoch", FormatDuration(options.epoch)});
  }
  if (options.exact_llc_bytes)
    settings.push_back({"exact-llc", FormatBytes(*options.exact_llc_bytes)});
  if (options.duration) settings.push_back({"duration", FormatDuration(*options.duration)});
  if (!options.advice.empty()) settings.push_back({"advice", options.advice});
  return settings;
}

// None where the kernel does not say.
std::vector<std::vector<NodeId>> TiersOfHost() {
  const Result<NodeTopology> topology = ReadNodeTopology();
  return topology ? NodesByTier(*topology) : std::vector<std::vector<NodeId>>{};
}

TraceInfo DescribeSession(const RecordOptions& options, std::vector<Setting> settings,
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
          .calibration = {},
          .settings = std::move(settings),
          .tiers = TiersOfHost(),
          .warnings = {}};
}

TraceInfo DescribeSession(const RecordOptions& options, const SessionSources& sources,
                          MonotonicTime start) {
  TraceInfo info = DescribeSession(options, SettingsInForce(options, sources), start);
  info.calibration = sources.calibration;
  info.warnings = sources.warnings;
  return info;
}

// Of counts some of which may be unknown.
class KnownSum {
 public:
  void Add(std::optional<std::uint64_t> count) {
    if (count) {
      sum_ += *count;
    } else {
      complete_ = false;
    }
  }
  std::string Text() const {
    if (complete_) return FormatCount(sum_);
    return sum_ == 0 ? "unknown" : "at least " + FormatCount(sum_);
  }

 private:
  std::uint64_t sum_ = 0;
  bool complete_ = true;
};

// One line on a terminal, rewritten each epoch.
class Progress {
 public:
  // `counted`: the role whose observations are shown.
  explicit Progress(bool enabled, SourceRole counted = SourceRole::kSamples)
      : enabled_(enabled), counted_(counted) {}

  void Show(const EpochProfile& epoch) {
    KnownSum samples;
    for (const SourceStatus& source : epoch.sources) {
      if (source.state == SourceState::kUnavailable) continue;
      if (source.role == counted_) samples.Add(source.observations);
      lost_.Add(source.lost);
    }
    if (!enabled_) return;
    const double own_share =
        std::chrono::duration<double>(epoch.profiler_cpu_time) / epoch.length() * 100;
    SayWithoutWaiting(fmt::format(
        "\repoch {:4}  page records {:>9}  {} {:>7}  lost {}  own CPU {:.1f} %\x1b[K", epoch.index,
        FormatCount(epoch.pages.size()), what(), samples.Text(), lost_.Text(), own_share));
  }

  // Takes the line away.
  void Close() const {
    if (enabled_) SayWithoutWaiting("\r\x1b[K");
  }

 private:
  std::string_view what() const { return counted_ == SourceRole::kTruth ? "accesses" : "samples"; }

  bool enabled_;
  SourceRole counted_;
  KnownSum lost_;
};

class RecordSession {
 public:
  RecordSession(RecordOptions options, Signals signals)
      : options_(std::move(options)), signals_(std::move(signals)) {}

  int Run() {
    const Status recorded = options_.exact() ? RecordExact() : Record();
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

 private:
  Status Record() {
    KeepFreedMemory();
    if (auto status = procfs_.CheckNamespace(); !status) return status;
    TargetTracker tracker(procfs_, ProcessCpuTime, TrackerOptions());
    for (const int pid : options_.pids) {
      if (auto status = tracker.AddNamed(Pid(pid)); !status) return status;
    }

    if (auto status = PreloadTracker(); !status) return status;
    OwnCpus own_cpus(procfs_);
    own_cpus.MakeWayFor(tracker.tracked());  // costs are measured now, which takes CPU time
    const bool on_terminal = isatty(STDERR_FILENO) == 1 && !options_.quiet;
    if (on_terminal) SayWithoutWaiting("preparing: loading BPF programs and measuring their costs");
    Result<SessionSources> sources = OpenSources(options_.sources);
    if (on_terminal) SayWithoutWaiting("\r\x1b[K");
    if (!sources) return Fail(sources.error());
    for (const std::string& warning : sources->warnings) Warn(warning);

    Result<TraceOutput> output = TraceOutput::Prepare(options_.output);
    if (!output) return Fail(output.error());
    Result<TraceWriter> writer =
        TraceWriter::Create(output->path(), DescribeSession(options_, *sources, clock_.Now()));
    if (!writer) {
      // Locked, it is another recorder's, which has begun since.
      if (writer.error().system_error != EWOULDBLOCK) output->Restore();
      return Fail(writer.error());
    }

    if (on_terminal) PrintSettings(*sources);
    Progress progress(on_terminal);
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
                 facts.SeeTargets(targets, tracker.resident(), tracker.left_out(), clock_.Now());
               }
             },
         .service = objects_ ? [this] { objects_->Service(); } : std::function<void()>(),
         .complete_epoch = objects_ ? [this](EpochProfile& epoch) { objects_->Complete(epoch); }
                                    : std::function<void(EpochProfile&)>(),
         .on_source_failure = [](const Error& error) { Warn(error.Message()); }},
        std::move(sources->sources), std::move(sources->unavailable));
    if (auto status = Begin(tracker, recorder); !status) {
      command_.reset();  // a child that is still held would never end by itself
      output->Restore();
      return status;
    }
    output->Keep();
    begun = true;
    const auto stopped = recorder.Run([&](const EpochProfile& epoch) -> Status {
      if (auto status = writer->Write(epoch); !status) return status;
      facts.Add(epoch);
      progress.Show(epoch);
      return {};
    });
    progress.Close();
    const RecordingOutcome outcome = Conclude(facts.Facts());
    const Status finished = writer->Finish(outcome);  // whatever has ended the recording
    if (objects_ && objects_->refused() > 0) {
      Warn(fmt::format("{} processes' allocations were not tracked: {} has no room for 2 MiB each",
                       objects_->refused(), AllocationLogs::Options().parent.string()));
    }
    if (!stopped) return Fail(stopped.error());
    if (!finished) return finished;
    Close(outcome);
    return {};
  }

  RecordingOutcome Conclude(RecordingFacts facts) const {
    facts.trace = options_.output;
    facts.objects_missing = WhyNoObjects();
    return OutcomeOf(facts);
  }

  // The line that a recording ends with.
  void Close(const RecordingOutcome& outcome) {
    outcome_ = outcome;
    if (!outcome.saw_enough) {
      Warn(outcome.text);
    } else if (!options_.quiet) {
      Say(fmt::format("tmprof: {}\n", outcome.text));
    }
  }

  // The program's own QEMU counts (profiler/sources/exact); here its counts only become epochs.
  Status RecordExact() {
    KeepFreedMemory();
    const exact::ExactOptions options{.epoch = options_.epoch,
                                      .epoch_instructions = options_.epoch_instructions,
                                      .llc_bytes = options_.exact_llc_bytes};
    if (auto status = exact::CheckOptions(options); !status) return status;
    const auto tools = exact::FindExactTools();
    if (!tools) return Fail(tools.error());
    auto server = exact::TruthServer::Listen(procfs_);
    if (!server) return Fail(server.error());
    if (auto status = PreloadTracker(); !status) return status;
    const MonotonicTime start = clock_.Now();
    auto arguments = exact::ArgumentsToTrace(options_.command, *tools, options, server->socket(),
                                             start, exact::TakeLoaderVariables());
    if (!arguments) {
      if (arguments.error().system_error) exec_failure_ = arguments.error();
      return Fail(arguments.error());
    }
    Result<TraceOutput> output = TraceOutput::Prepare(options_.output);
    if (!output) return Fail(output.error());
    Result<TraceWriter> writer = TraceWriter::Create(
        output->path(), DescribeSession(options_, ExactSettingsInForce(options_), start));
    if (!writer) {
      if (writer.error().system_error != EWOULDBLOCK) output->Restore();
      return Fail(writer.error());
    }
    if (auto status = Launch(*std::move(arguments)); !status) {
      output->Restore();
      return status;
    }
    output->Keep();
    Progress progress(isatty(STDERR_FILENO) == 1 && !options_.quiet, SourceRole::kTruth);
    SessionFacts facts(procfs_);
    Status written = WriteExactEpochs(*server, start, [&](const EpochProfile& epoch) -> Status {
      if (auto status = writer->Write(epoch); !status) return status;
      facts.Add(epoch);
      progress.Show(epoch);
      return {};
    });
    progress.Close();
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

  // What all programs that this process starts from now on preload: it tells of allocations, and
  // places them. To be called before there are threads.
  Status PreloadTracker() {
    if (!options_.objects && options_.advice.empty()) return {};
    constexpr const char* kTracker = "libtmprof_allocations.so";
    const auto libraries = FindOwnLibraries(
        options_.objects ? "tmprof record --objects" : "tmprof record --advice", {kTracker});
    if (!libraries) return Fail(libraries.error());
    if (options_.objects) {
      Result<ObjectRecorder> objects =
          ObjectRecorder::Create({.threshold_bytes = *options_.objects_from_bytes,
                                  .interval_bytes = *options_.objects_interval_bytes});
      if (!objects) return Fail(objects.error());
      objects_ = *std::move(objects);
      setenv(objtrace::kTrackVariable, objects_->request().c_str(), 1);
    }
    if (!options_.advice.empty()) {
      // The program may begin in another folder.
      const auto path = std::filesystem::absolute(options_.advice).string();
      setenv(objtrace::kAdviceVariable, path.c_str(), 1);
    }
    const char* path = std::getenv("PATH");
    not_preloaded_ = WhyNotPreloaded(options_.command.front(), path != nullptr ? path : "",
                                     *libraries / kTracker);
    if (not_preloaded_) {
      Warn(fmt::format("{} is without effect on the program: {}",
                       options_.objects ? "--objects" : "--advice", not_preloaded_->why));
    }
    if (!not_preloaded_ || not_preloaded_->is_harmless) Preload(PreloadName(*libraries, kTracker));
    return {};
  }

  static void Preload(const std::string& library) {
    constexpr const char* kPreload = "LD_PRELOAD";
    const char* before = std::getenv(kPreload);
    const std::string others =
        before != nullptr && *before != '\0' ? ":" + std::string(before) : "";
    setenv(kPreload, (library + others).c_str(), 1);
  }

  // The reason is empty if some process's allocations were tracked, or nobody asked for them.
  std::string WhyNoObjects() const {
    if (!objects_ || objects_->tracked_any()) return {};
    if (not_preloaded_) return not_preloaded_->why;
    if (objects_->refused() > 0) return "there was no room for it in memory";
    return "no process loaded the tracker in the time of the recording";
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

  void PrintSettings(const SessionSources& sources) const {
    std::string line;
    for (const Setting& setting : SettingsInForce(options_, sources)) {
      line += fmt::format(" {}={}", setting.name, setting.value);
    }
    std::string chosen;
    for (const auto& source : sources.sources) {
      chosen += (chosen.empty() ? "" : ",") + std::string(source->name());
    }
    if (!chosen.empty()) line += " chosen=" + chosen;
    const auto measured = [&line](std::string_view name, std::optional<double> ns) {
      if (ns) line += fmt::format(" {}={:.0f}", name, *ns);
    };
    measured("ns-per-set", sources.calibration.ns_per_set);
    measured("ns-per-look", sources.calibration.ns_per_look);
    measured("ns-per-sample", sources.calibration.ns_per_sample);
    measured("ns-per-point", sources.calibration.ns_per_point);
    Say(fmt::format("recording:{}\n", line));
  }

  RecordOptions options_;
  Signals signals_;
  SystemClock clock_;
  ProcFs procfs_;
  std::optional<ObjectRecorder> objects_;
  std::optional<LaunchedCommand> command_;
  std::optional<Error> exec_failure_;
  std::optional<NotPreloaded> not_preloaded_;
  std::optional<RecordingOutcome> outcome_;
};

// An option that takes one of these names; the first is the default, and `value` holds it.
template <typename Value>
void AddChoice(CLI::App& command, const std::string& flag, Value& value,
               const std::vector<std::pair<std::string, Value>>& choices,
               const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.push_back(name);
  const auto read = [&value, choices](const std::string& word) {
    const auto chosen = std::ranges::find(choices, word, &std::pair<std::string, Value>::first);
    value = chosen->second;  // the check comes first
  };
  command.add_option_function<std::string>(flag, read, description)
      ->check(CLI::IsMember(names))
      ->default_str(names.front());
}

Status ValidateExact(const RecordOptions& options) {
  if (!options.exact()) {
    for (const auto& [option, given] :
         {std::pair("--epoch-instructions", options.epoch_instructions.has_value()),
          std::pair("--exact-llc", options.exact_llc_bytes.has_value())}) {
      if (given) return Fail(BadInput("use option", option, "it is for --source exact"));
    }
    return {};
  }
  if (options.sources.names.size() > 1) {
    return Fail(BadInput("use option", "--source exact",
                         "it runs the program in its own way, and no other source with it"));
  }
  if (!options.pids.empty()) {
    return Fail(BadInput("use option", "--source exact",
                         "a program that already runs cannot be traced exactly",
                         "let tmprof start it: tmprof record --source exact -- CMD ARGS..."));
  }
  return {};
}

// What would change nothing is refused: who gives it expects that it does. `given`: whether an
// option stands on the command line.
Status ValidateEffect(const RecordOptions& options,
                      const std::function<bool(const char* option)>& given) {
  const auto names_any = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(options.sources.names, [&](const std::string& name) {
      return name == "auto" || std::ranges::find(names, name) != names.end();
    });
  };
  const auto refuse = [](std::string option, std::string reason, std::string fix) {
    return Fail(BadInput("use option", std::move(option), std::move(reason), std::move(fix)));
  };
  constexpr std::array kOfRegions = {"--region-monitoring", "--region-aggregation",
                                     "--region-update", "--min-regions", "--max-regions"};
  const AbitChoice& abit = options.sources.abit;
  if (!names_any({kAbitBpfSource.name, kDriverSource.name})) {
    std::vector<const char*> of_bits{"--abit", "--scan-interval", "--ageing"};
    of_bits.insert(of_bits.end(), kOfRegions.begin(), kOfRegions.end());
    for (const char* option : of_bits) {
      if (!given(option)) continue;
      return refuse(option,
                    fmt::format("no source of --source {} reads accessed bits",
                                fmt::join(options.sources.names, ",")),
                    fmt::format("leave it out, or add {} or {} to --source", kAbitBpfSource.name,
                                kDriverSource.name));
    }
  }
  if (given("--ageing") &&
      (abit.looked == abit::Looked::kRegions || !names_any({kAbitBpfSource.name}))) {
    return refuse("--ageing", "no whole process is cleared by regions or the driver",
                  fmt::format("leave it out, or use --abit full or auto with --source {}",
                              kAbitBpfSource.name));
  }
  if (abit.looked == abit::Looked::kFull) {
    for (const char* option : kOfRegions) {
      if (!given(option)) continue;
      return refuse(option, fmt::format("--abit {} has no regions", AbitText(abit)),
                    "give --abit regions or --abit auto, too, or leave it out");
    }
  }
  const bool scans_plainly =
      abit.looked != abit::Looked::kRegions && abit.mode == abit::ScanOptions::Mode::kPlain;
  if (given("--scan-interval") && !scans_plainly) {
    return refuse("--scan-interval",
                  fmt::format("--abit {} makes no scan at an interval", AbitText(abit)),
                  abit.looked == abit::Looked::kRegions
                      ? "of regions, --region-monitoring is the interval"
                      : fmt::format("give --abit {},plain, too, or leave it out",
                                    abit.looked == abit::Looked::kAuto ? "auto" : "full"));
  }
  return {};
}

Status Validate(const RecordOptions& options,
                const std::function<bool(const char* option)>& given) {
  if (auto status = ValidateExact(options); !status) return status;
  if (auto status = ValidateEffect(options, given); !status) return status;
  if (options.pids.empty() == options.command.empty()) {
    return Fail(BadInput(
        "record", "",
        options.command.empty() ? "no target was given" : "both -p and a command were given",
        "give -p PID... or -- CMD ARGS..."));
  }
  if (options.objects && (options.command.empty() || options.exact())) {
    return Fail(BadInput("use option", "--objects",
                         options.exact() ? "a program traced exactly preloads nothing"
                                         : "a program that already runs preloads nothing",
                         "let tmprof start it: tmprof record --objects -- CMD ARGS..."));
  }
  if (!options.advice.empty()) {
    if (options.command.empty()) {
      return Fail(BadInput("use option", "--advice", "a program that already runs preloads nothing",
                           "let tmprof start it: tmprof record --advice FILE -- CMD ARGS..."));
    }
    if (auto advice = ReadAdvice(options.advice); !advice) return Fail(advice.error());
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
  if (auto regions = RegionParams(options.sources.regions); !regions)
    return Fail(std::move(regions.error()));
  if (options.sources.max_overhead < kLeastOverhead) {
    return Fail(BadInput("use option",
                         "--max-overhead " + FormatShare(options.sources.max_overhead),
                         "the least that can be planned with is " + FormatShare(kLeastOverhead)));
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
      ->check(WholeNumber(1));
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
  std::vector<std::string> source_names{"auto"};
  for (const SourceKind& kind : kSourceKinds) source_names.emplace_back(kind.name);
  command
      ->add_option("--source", options->sources.names,
                   "What to observe with: auto takes the best of each kind that works here")
      ->delimiter(',')
      ->check(CLI::IsMember(source_names))
      ->capture_default_str();
  command
      ->add_option("--epoch-instructions", options->epoch_instructions,
                   "With --source exact: an epoch is this many executed instructions")
      ->type_name("N")
      ->check(WholeNumber(1));
  AddBytes(*command, "--exact-llc", options->exact_llc_bytes,
           "With --source exact: model a last-level cache of this size, and count its misses");
  const auto read_abit = [options](const std::string& words) {
    const auto parsed = ParseAbit(words);
    if (!parsed) throw CLI::ValidationError("--abit", parsed.error().Message());
    options->sources.abit = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--abit", read_abit,
          "Accessed bits of what: full, every page; regions, one page of each region, at a bounded "
          "cost; auto, every page until that takes too long, then regions, the driver's where it "
          "is loaded. And how: ladder reads several times "
          "after each clear, at growing delays; plain reads one bit, after the scan interval or, "
          "of regions, the monitoring interval. Both: regions,plain. regions alone is plain by the "
          "driver's own thread where it is loaded, else ladder; the first line says which was "
          "chosen")
      ->type_name("WORDS")
      ->default_str(AbitText({}));
  AddDuration(*command, "--scan-interval", options->sources.scan_interval,
              "Time between scans with --abit full,plain");
  AddDuration(*command, "--region-monitoring", options->sources.regions.monitoring,
              "With --abit regions: least time between two steps, each a look at all regions");
  AddDuration(*command, "--region-aggregation", options->sources.regions.aggregation,
              "With --abit regions: least time between two adaptations; 10 monitoring intervals or "
              "more");
  AddDuration(*command, "--region-update", options->sources.regions.update,
              "With --abit regions: least time between two looks at the mappings; an aggregation "
              "interval or more");
  command
      ->add_option("--min-regions", options->sources.regions.min_regions,
                   "With --abit regions: least regions of a process, from 3 to 1000")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  command
      ->add_option("--max-regions", options->sources.regions.max_regions,
                   "With --abit regions: most regions of a process; a monitoring interval has 1us "
                   "or more for each")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  std::vector<std::pair<std::string, abit::AgeingUse>> ageing_uses;
  for (const abit::AgeingUse use : abit::kAgeingUses) ageing_uses.emplace_back(Name(use), use);
  AddChoice(*command, "--ageing", options->sources.ageing, ageing_uses,
            "Memory cgroups to age for shared memory that clear_refs does not reach");
  AddShare(*command, "--max-overhead", options->sources.max_overhead,
           "CPU time the sources together may cost the targets; the first visit to all pages may "
           "borrow what 5 s of it earn (at 1% 0.05 s): who ends early does not get it back");
  AddChoice<unsigned>(*command, "--sample-rate", options->sources.sample_rate,
                      {{"1x", 1}, {"4x", 4}, {"8x", 8}},
                      "Hardware sampler: 1x is one sample in 16384 accesses to memory");
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
      ->check(WholeNumber(1));
  command
      ->add_option("--seed", options->sources.seed,
                   "Seed of the scan order and of what is looked at of regions; 0: the driver's "
                   "regions by chance")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command->add_flag("--objects", options->objects,
                    "Track what the command and its children allocate, with the calls that do, by "
                    "a library that they preload, and name the variables and thread stacks on "
                    "pages that they access");
  AddBytes(*command, "--objects-from", options->objects_from_bytes,
           "With --objects: track each allocation from this size up, a million at once")
      ->default_str(FormatBytes(*options->objects_from_bytes));
  AddBytes(*command, "--objects-interval", options->objects_interval_bytes,
           "With --objects: of smaller ones, track one in this many bytes of them; 0: none")
      ->check([](const std::string& word) -> std::string {
        const auto bytes = ParseBytes(word);
        return bytes && *bytes > kMostObjectsInterval ? "use 256 TiB at most" : "";
      })
      ->default_str(FormatBytes(*options->objects_interval_bytes));
  command
      ->add_option("--advice", options->advice,
                   "Have the command and its children place what they allocate by this file of "
                   "tmprof advise, by a library that they preload")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet,
                    "No progress line, and no line at the end of a recording that saw enough");
  command->footer(
      "Examples:\n"
      "  tmprof record -- ./program --its-own-options\n"
      "  tmprof record --duration 30s -o server.data -p $(pidof redis-server)\n"
      "  tmprof record --objects -- ./program\n"
      "  tmprof record --abit regions --max-overhead 2% -- ./program-of-many-gigabytes\n"
      "  tmprof record --source exact --exact-llc 8MiB -- ./program");
  command->callback([command, options, &command_after_dashes, &exit_status] {
    options->command = command_after_dashes;
    const auto given = [command](const char* option) { return command->count(option) > 0; };
    if (auto status = Validate(*options, given); !status) {
      exit_status = ReportError(status.error());
      return;
    }
    Result<Signals> signals = Signals::Catch();
    exit_status =
        signals ? RecordSession(*options, *std::move(signals)).Run() : ReportError(signals.error());
  });
}

}  // namespace tmprof
