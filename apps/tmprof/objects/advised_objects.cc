// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/advised_objects.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/command_line/messages.h"
#include "apps/command_line/terminal.h"
#include "objects/analysis/object_advice.h"
#include "objects/analysis/object_advice_request.h"
#include "objects/format/allocations_codec.h"
#include "objects/format/arena_advice.h"
#include "objects/format/objects_file.h"
#include "proto/trace.h"
#include "report/view.h"

namespace tmprof {

struct AdvisedObjects::State {
  bool wanted = false;
  std::string output;
  std::vector<std::string> counts;
  ObjectAdviceRequest request;
};

AdvisedObjects::AdvisedObjects() : state_(std::make_unique<State>()) {}
AdvisedObjects::~AdvisedObjects() = default;

bool AdvisedObjects::is_wanted() const { return state_->wanted; }

Result<int> AdvisedObjects::Advise(const AdviceRequest& request, Format format) const {
  const State& s = *state_;
  Result<ObjectAdviceOptions> advise = OptionsOf(s.request, request.rank);
  if (!advise) return Fail(advise.error());
  if (IsObjectProfile(request.trace)) {
    return Fail(BadInput("advise on", request.trace,
                         "its program was built to count accesses, and another build's calls are "
                         "elsewhere",
                         fmt::format("record the program as it is, and name that trace: tmprof "
                                     "record --objects -- CMD; tmprof advise --objects TRACE "
                                     "--counts {}",
                                     request.trace)));
  }
  Result<Trace> trace = OpenTraceFile(request.trace, &AllocationsCodec());
  if (!trace) return Fail(trace.error());
  trace->llc_bytes = request.llc_bytes;
  if (!s.output.empty()) {
    if (auto status = RefuseToOverwrite(*trace, s.output); !status) return Fail(status.error());
    for (const std::string& file : s.counts) {
      const Status other = RefuseToOverwrite(std::filesystem::path(file), s.output);
      if (!other) return Fail(other.error());
    }
  }
  int exit_status = kDone;
  for (const std::string& file : s.counts) {
    const Result<StreamEnd> end = advise->counts.Add(file);
    if (!end) return Fail(end.error());
    exit_status = std::max(exit_status, WarnOfObjectsEnd(*end, file, "advised by"));
  }
  if (advise->counts.MayCountTwice()) WarnOfCountingTwice();
  if (const auto warning = WarningOfPlacing(trace->info, request.trace, s.request.placed_under)) {
    Warn(*warning);
  }
  const Result<ObjectAdvice> advice = MakeObjectAdvice(*trace, *advise);
  if (!advice) return Fail(advice.error());
  exit_status = std::max(exit_status, WarnOfEnd(advice->totals.end, request.trace, "advised on"));
  if (!s.output.empty()) {
    if (!advice->tracked) {
      return Fail(BadInput("advise on", request.trace, "nobody tracked allocations in it",
                           "record the program with tmprof record --objects"));
    }
    if (auto status = WriteFile(s.output, ObjectAdviceFile(*advice)); !status)
      return Fail(status.error());
  }
  if (format == Format::kJson) return Answer(ObjectAdviceJson(*advice), exit_status);
  const TextWidth width = OutputWidth(request.wide);
  return AnswerText(ObjectAdviceText(*advice, width), width, exit_status);
}

CLI::Option* AdvisedObjects::AddFlag(CLI::App& command) {
  return command.add_flag("--objects", state_->wanted,
                          "Advise which allocation sites to pack together as hot or cold");
}

void AdvisedObjects::AddOptions(CLI::App& command, CLI::Option* flag, CLI::Option* locks) {
  command
      .add_option("-o,--output", state_->output,
                  "Write the advice into this file, for 'tmprof record --advice'\n"
                  "Programs that preload libtmprof_allocations read it, too.")
      ->type_name("FILE")
      ->excludes(locks);
  command
      .add_option("--advice", state_->request.placed_under,
                  "Advice that the recorded program was placed by\n"
                  "Its judgements stand. Sites that it set apart are now known.")
      ->type_name("FILE");
  command
      .add_option("--counts", state_->counts,
                  "With --objects: object profiles of the program, built by 'tmprof cc'\n"
                  "Their counts say which sites are hot, so that none has to be set apart.")
      ->type_name("FILE")
      ->needs(flag);
  command
      .add_option("--ratio", state_->request.ratios,
                  "Capacities of tier 1 to predict hit rates for, of accessed pages")
      ->delimiter(',')
      ->capture_default_str();
  AddShare(command, "--hot", state_->request.hot_share,
           "Share of the accesses whose hottest sites are packed together");
  command
      .add_option("--room", state_->request.room,
                  "Tier 1 for hot sites: a size, or a part of the accessed pages\n"
                  "The default is 1/8, or that of --advice. What is beyond is left to malloc.")
      ->type_name("SIZE|RATIO");
  command
      .add_option("--cold-nodes", state_->request.cold_nodes,
                  "NUMA nodes for cold objects, while they have room")
      ->delimiter(',')
      ->type_name("NODE")
      ->check(CLI::Range(0u, kMaxAdvisedNode));
}

}  // namespace tmprof
