// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/recorded_objects.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "apps/command_line/messages.h"
#include "apps/tmprof/cli.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "objects/commands/object_recorder.h"
#include "objects/commands/own_libraries.h"
#include "objects/commands/preloading.h"
#include "objects/format/arena_advice.h"
#include "objects/tracker/advice.h"
#include "profiler/tracker_coverage.h"

namespace tmprof {
namespace {

// Distances between sampled bytes are drawn with it as their mean, in 63 bits.
constexpr std::uint64_t kMostObjectsInterval = std::uint64_t{1} << 48;

void AddToPreloaded(const std::string& library) {
  constexpr const char* kPreload = "LD_PRELOAD";
  const char* before = std::getenv(kPreload);
  const std::string others = before != nullptr && *before != '\0' ? ":" + std::string(before) : "";
  setenv(kPreload, (library + others).c_str(), 1);
}

}  // namespace

void AddObjectRecordingOptions(CLI::App& command, ObjectRecordingOptions& options) {
  const std::string group = "Objects";
  options.from_bytes = AllocationLogs::Options().threshold_bytes;
  options.interval_bytes = AllocationLogs::Options().interval_bytes;
  command
      .add_flag("--objects", options.objects,
                "Record what the program allocates, and where in its code\n"
                "The program and its children preload a library that tracks their allocations. "
                "Variables and thread stacks on accessed pages are named, too.")
      ->group(group);
  AddBytes(command, "--objects-from", options.from_bytes,
           "With --objects: track every allocation of this size or more\n"
           "At most a million allocations are tracked at once.")
      ->default_str(FormatBytes(*options.from_bytes))
      ->group(group);
  AddBytes(command, "--objects-interval", options.interval_bytes,
           "With --objects: track one smaller allocation per this many bytes; 0B for none")
      ->check([](const std::string& word) -> std::string {
        const auto bytes = ParseBytes(word);
        return bytes && *bytes > kMostObjectsInterval ? "use 256 TiB at most" : "";
      })
      ->default_str(FormatBytes(*options.interval_bytes))
      ->group(group);
  command
      .add_option("--advice", options.advice,
                  "Place what the program allocates by this file of 'tmprof advise'\n"
                  "The program and its children preload a library that does it.")
      ->type_name("FILE")
      ->group(group);
}

Status CheckObjectRecording(const ObjectRecordingOptions& options) {
  if (options.advice.empty()) return {};
  if (auto advice = ReadAdvice(options.advice); !advice) return Fail(advice.error());
  return {};
}

struct RecordedObjects::State {
  explicit State(const ProcFs& given) : procfs(given) {}

  const ProcFs& procfs;
  std::optional<ObjectRecorder> recorder;
  std::optional<TrackerCoverage> coverage;  // with `recorder`
  std::optional<NotPreloaded> not_preloaded;

  // Returns why a process that has loaded the tracker is not tracked; empty: nothing is known.
  std::string WhyNotTracked(Pid pid) const {
    const auto its = procfs.PidNamespace(pid);
    if (!its || its == procfs.PidNamespace(Pid(getpid()))) return {};
    const Result<std::string> program = procfs.Executable(pid);
    return fmt::format(
        "'{}' runs in a PID namespace of its own, where the tracker has another number for it",
        program ? *program : "a program");
  }
};

RecordedObjects::RecordedObjects(const ProcFs& procfs) : state_(std::make_unique<State>(procfs)) {}

RecordedObjects::~RecordedObjects() = default;

Status RecordedObjects::Preload(const ObjectRecordingOptions& options, const std::string& program) {
  if (!options.objects && options.advice.empty()) return {};
  State& s = *state_;
  constexpr const char* kTracker = "libtmprof_allocations.so";
  const auto libraries = FindOwnLibraries(
      options.objects ? "tmprof record --objects" : "tmprof record --advice", {kTracker});
  if (!libraries) return Fail(libraries.error());
  if (options.objects) {
    Result<ObjectRecorder> recorder = ObjectRecorder::Create(
        {.threshold_bytes = *options.from_bytes, .interval_bytes = *options.interval_bytes});
    if (!recorder) return Fail(recorder.error());
    s.recorder = *std::move(recorder);
    setenv(objtrace::kTrackVariable, s.recorder->request().c_str(), 1);
    s.coverage.emplace(
        kTracker,
        [&s, tracker = *libraries / kTracker](const TrackedProcess& target, bool has_tracker) {
          if (has_tracker) return s.WhyNotTracked(target.pid);
          const auto why =
              WhyNotPreloadedBy(s.procfs, {target.pid, target.start_time_ticks}, tracker);
          return why ? why->why : std::string();
        },
        [&s](const TrackedProcess& target) {
          return s.procfs.Executable(target.pid).value_or("");
        });
  }
  if (!options.advice.empty()) {
    // The program may begin in another folder.
    const auto path = std::filesystem::absolute(options.advice).string();
    setenv(objtrace::kAdviceVariable, path.c_str(), 1);
  }
  const char* path = std::getenv("PATH");
  s.not_preloaded = WhyNotPreloaded(program, path != nullptr ? path : "", *libraries / kTracker);
  if (s.not_preloaded) {
    Warn(fmt::format("{} is without effect on the program: {}",
                     options.objects ? "--objects" : "--advice", s.not_preloaded->why));
  }
  if (!s.not_preloaded || s.not_preloaded->is_harmless) {
    AddToPreloaded(PreloadName(*libraries, kTracker));
  }
  return {};
}

bool RecordedObjects::is_tracking() const { return state_->recorder.has_value(); }

void RecordedObjects::Service() {
  if (state_->recorder) state_->recorder->Service();
}

void RecordedObjects::Complete(EpochProfile& epoch) {
  if (state_->recorder) state_->recorder->Complete(epoch);
}

void RecordedObjects::SeeTargets(const std::vector<TrackedProcess>& targets) {
  if (state_->coverage) state_->coverage->SeeTargets(targets);
}

void RecordedObjects::Add(const EpochProfile& epoch) {
  if (state_->coverage) state_->coverage->Add(epoch);
}

std::string RecordedObjects::Refusal() const {
  if (!state_->recorder || state_->recorder->refused() == 0) return {};
  return fmt::format("allocations of {} were not tracked: {} has no room for their logs",
                     CountText(state_->recorder->refused(), "process", "processes"),
                     AllocationLogs::Options().parent.string());
}

UntrackedProcesses RecordedObjects::Untracked() const {
  return state_->coverage ? state_->coverage->Untracked() : UntrackedProcesses{};
}

std::string RecordedObjects::WhyNone(const UntrackedProcesses& untracked) const {
  const State& s = *state_;
  if (!s.recorder || s.recorder->tracked_any()) return {};
  if (s.not_preloaded) return s.not_preloaded->why;
  if (!untracked.why.empty()) return untracked.why;
  if (s.recorder->refused() > 0) return "there was no room for it in memory";
  return "no process loaded the tracker in the time of the recording";
}

}  // namespace tmprof
