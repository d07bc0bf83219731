// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/reported_objects.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "apps/command_line/messages.h"
#include "apps/tmprof/cli.h"
#include "base/host/node_list.h"
#include "base/text/addresses.h"
#include "objects/analysis/object_annotator.h"
#include "objects/analysis/object_views.h"
#include "objects/format/allocations_codec.h"
#include "objects/format/objects_file.h"

namespace tmprof {
namespace {

// "2,3" or "2-3", as the kernel writes lists of nodes.
Result<std::vector<NodeId>> ParseNodes(const std::string& text) {
  std::optional<std::vector<NodeId>> nodes = ParseNodeList(text);
  if (nodes && !nodes->empty()) return *std::move(nodes);
  return Fail(BadInput("use option", "--tier2 " + text, "it is not a list of NUMA nodes",
                       "write 2,3 or 2-3"));
}

}  // namespace

struct ReportedObjects::State {
  std::string page;
  std::string object;
  std::vector<std::string> counts;
  std::string folded;
  std::string tier2;
  std::shared_ptr<ObjectViewOptions> options = std::make_shared<ObjectViewOptions>();
  ObjectAnnotator annotator;
  std::vector<View> views;
};

ReportedObjects::ReportedObjects() : state_(std::make_unique<State>()) {
  state_->views.assign(Views().begin(), Views().end());
  state_->views.push_back(ObjectsView(state_->options));
}

ReportedObjects::~ReportedObjects() = default;

std::span<const View> ReportedObjects::views() const { return state_->views; }
const std::string& ReportedObjects::folded() const { return state_->folded; }
const std::vector<std::string>& ReportedObjects::counts() const { return state_->counts; }

void ReportedObjects::AddOptions(CLI::App& command, const std::string& group,
                                 const OfViews& of_views) {
  command
      .add_option("--page", state_->page,
                  of_views("page", "Show the page with this address, and its objects", ""))
      ->type_name("ADDRESS")
      ->group(group);
  command
      .add_option("--object", state_->object,
                  of_views("object", "Show the pages of the object that has this address", ""))
      ->type_name("ADDRESS")
      ->group(group);
  command
      .add_option("--counts", state_->counts,
                  of_views("counts", "Object profiles of recorded processes, built by 'tmprof cc'",
                           "The view adds what they counted of each object, and where that lay."))
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--folded", state_->folded,
                  of_views("folded", "Write stacks into this file, for flame graphs",
                           "Stacks have their accesses; of traces, references and samples."))
      ->type_name("OUT")
      ->group(group);
  command
      .add_option("--tier2", state_->tier2,
                  of_views("tier2", "NUMA nodes of slow memory, to show each row's share in",
                           "The default is the nodes below tier 1 on the recording machine."))
      ->type_name("NODE,...")
      ->group(group);
}

Result<int> ReportedObjects::Read(const std::string& by, ViewOptions& options) {
  State& s = *state_;
  if (!by.empty()) {
    const Result<ObjectsBy> parsed = ParseObjectsBy(by);
    if (!parsed) return Fail(parsed.error());
    s.options->by = *parsed;
  }
  if (!s.page.empty()) {
    const Result<std::uint64_t> address = ParseAddress("--page", s.page);
    if (!address) return Fail(address.error());
    s.options->page = VpnOfAddress(*address);
  }
  if (!s.object.empty()) {
    const Result<std::uint64_t> address = ParseAddress("--object", s.object);
    if (!address) return Fail(address.error());
    options.object = *address;
  }
  if (!s.tier2.empty()) {
    Result<std::vector<NodeId>> nodes = ParseNodes(s.tier2);
    if (!nodes) return Fail(std::move(nodes.error()));
    s.options->tier2 = *std::move(nodes);
  }
  int exit_status = kDone;
  for (const std::string& file : s.counts) {
    const Result<StreamEnd> end = s.options->counts.Add(file);
    if (!end) return Fail(end.error());
    exit_status = std::max(exit_status, WarnOfObjectsEnd(*end, file, "reported"));
  }
  if (s.options->counts.MayCountTwice()) WarnOfCountingTwice();
  s.options->folded = !s.folded.empty();
  s.annotator = ObjectAnnotator(s.options->counts);
  options.annotator = &s.annotator;
  return exit_status;
}

const ExtensionCodec* ReportedObjects::codec() const { return &AllocationsCodec(); }

bool ReportedObjects::IsProfile(const View& view, const std::string& file) const {
  return !view.by_evidence && IsObjectProfile(file);
}

Result<Rendered> ReportedObjects::RenderProfile(const CLI::App& command, const std::string& file,
                                                const ViewOptions& options, Format format) const {
  if (!state_->counts.empty()) {
    return Fail(BadInput("use option", "--counts", "it is for a trace, and FILE has counts itself",
                         "name the trace as FILE"));
  }
  for (const char* option : {"--pid", "--epochs", "--page", "--tier2", "--llc", "--rank-weight"}) {
    if (command.count(option) > 0) {
      return Fail(BadInput("use option", option, "an object profile is of one process as it ended",
                           "it is for traces of 'tmprof record --objects'"));
    }
  }
  if (!state_->folded.empty()) {
    if (auto status = RefuseToOverwrite(std::filesystem::path(file), state_->folded); !status) {
      return Fail(status.error());
    }
  }
  Result<ObjectsReader> profile = ObjectsReader::Open(file);
  if (!profile) return Fail(ExplainRefusal(profile.error(), file));
  return RenderObjectProfile(*profile, std::filesystem::path(file).filename().string(),
                             *state_->options, options, format);
}

}  // namespace tmprof
