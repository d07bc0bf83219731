// SPDX-License-Identifier: Apache-2.0
// The parts of commands that component objects/ has, for a build without it.

#include "apps/tmprof/advised_objects.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "apps/tmprof/converted_objects.h"
#include "apps/tmprof/recorded_objects.h"
#include "apps/tmprof/reported_objects.h"

namespace tmprof {
namespace {

constexpr const char* kObjects = "objects";

std::unexpected<Error> Lacks(const char* attempt, const std::string& object) {
  return Fail(BadInput(attempt, object, LacksComponent(kObjects)));
}

}  // namespace

bool HasObjects() { return false; }

void AddCcCommand(CLI::App& app, const std::vector<std::string>& /*launched*/, int& exit_status) {
  AddMissingCommand(app, "cc", kObjects, exit_status);
}

// record

void AddObjectRecordingOptions(CLI::App& command, ObjectRecordingOptions& /*options*/) {
  AddMissingFlag(command, "--objects", kObjects);
  for (const char* option : {"--objects-from", "--objects-interval", "--advice"}) {
    AddMissingOption(command, option, kObjects);
  }
}

Status CheckObjectRecording(const ObjectRecordingOptions& /*options*/) { return {}; }

struct RecordedObjects::State {};
RecordedObjects::RecordedObjects(const ProcFs& /*procfs*/) {}
RecordedObjects::~RecordedObjects() = default;
Status RecordedObjects::Preload(const ObjectRecordingOptions& /*options*/,
                                const std::string& /*program*/) {
  return {};
}
bool RecordedObjects::is_tracking() const { return false; }
void RecordedObjects::Service() {}
void RecordedObjects::Complete(EpochProfile& /*epoch*/) {}
void RecordedObjects::SeeTargets(const std::vector<TrackedProcess>& /*targets*/) {}
void RecordedObjects::Add(const EpochProfile& /*epoch*/) {}
std::string RecordedObjects::Refusal() const { return {}; }
UntrackedProcesses RecordedObjects::Untracked() const { return {}; }
std::string RecordedObjects::WhyNone(const UntrackedProcesses& /*untracked*/) const { return {}; }

// report

struct ReportedObjects::State {
  std::string folded;
  std::vector<std::string> counts;
};
ReportedObjects::ReportedObjects() : state_(std::make_unique<State>()) {}
ReportedObjects::~ReportedObjects() = default;
std::span<const View> ReportedObjects::views() const { return Views(); }
const std::string& ReportedObjects::folded() const { return state_->folded; }
const std::vector<std::string>& ReportedObjects::counts() const { return state_->counts; }
const ExtensionCodec* ReportedObjects::codec() const { return nullptr; }

void ReportedObjects::AddOptions(CLI::App& command, const std::string& /*group*/,
                                 const OfViews& /*of_views*/) {
  for (const char* option : {"--page", "--object", "--counts", "--folded", "--tier2"}) {
    AddMissingOption(command, option, kObjects);
  }
}

Result<int> ReportedObjects::Read(const std::string& /*by*/, ViewOptions& /*options*/) {
  return kDone;
}

bool ReportedObjects::IsProfile(const View& /*view*/, const std::string& /*file*/) const {
  return false;
}

Result<Rendered> ReportedObjects::RenderProfile(const CLI::App& /*command*/,
                                                const std::string& file,
                                                const ViewOptions& /*options*/,
                                                Format /*format*/) const {
  return Lacks("show object profile", file);
}

// advise

struct AdvisedObjects::State {};
AdvisedObjects::AdvisedObjects() = default;
AdvisedObjects::~AdvisedObjects() = default;
bool AdvisedObjects::is_wanted() const { return false; }

CLI::Option* AdvisedObjects::AddFlag(CLI::App& command) {
  return AddMissingFlag(command, "--objects", kObjects);
}

void AdvisedObjects::AddOptions(CLI::App& command, CLI::Option* /*flag*/, CLI::Option* /*locks*/) {
  for (const char* option :
       {"-o,--output", "--advice", "--counts", "--ratio", "--hot", "--room", "--cold-nodes"}) {
    AddMissingOption(command, option, kObjects);
  }
}

Result<int> AdvisedObjects::Advise(const AdviceRequest& /*request*/, Format /*format*/) const {
  return Lacks("advise", "--objects");
}

// convert

Result<int> ConvertObjects(const std::string& profile, const std::string& /*output*/) {
  return Lacks("convert", profile);
}

const ExtensionCodec* CodecOfObjects() { return nullptr; }

}  // namespace tmprof
