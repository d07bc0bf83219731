// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/advised_objects.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "apps/command_line/messages.h"
#include "apps/command_line/terminal.h"
#include "base/ratio.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "objects/analysis/object_advice.h"
#include "objects/format/allocations_codec.h"
#include "objects/format/arena_advice.h"
#include "objects/format/objects_file.h"
#include "proto/trace.h"
#include "report/view.h"

namespace tmprof {
namespace {

constexpr Ratio kDefaultRoom{.numerator = 1, .denominator = 8};  // the largest --ratio

// "200MiB" or "1/8".
Result<std::variant<std::uint64_t, Ratio>> ParseRoom(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text); bytes && *bytes > 0) return *bytes;
  if (const Result<Ratio> ratio = ParseRatio(text)) return *ratio;
  return Fail(BadInput("use option", fmt::format("--room {}", text),
                       "it is a size, such as 200MiB, or a part of the accessed pages, such as "
                       "1/8"));
}

}  // namespace

struct AdvisedObjects::State {
  bool wanted = false;
  std::string output;
  std::string placed_under;
  std::vector<std::string> counts;
  std::vector<std::string> ratios{"1/8", "1/16", "1/32", "1/64", "1/128"};
  double hot_share = ObjectAdviceOptions().hot_share;
  std::string room;  // empty: what the advice that it was placed by has, else kDefaultRoom
  std::vector<std::uint32_t> cold_nodes;

  Result<ObjectAdviceOptions> Options(const AdviceRequest& request) const;
  void WarnOfPlacing(const TraceInfo& info, const AdviceRequest& request) const;
};

Result<ObjectAdviceOptions> AdvisedObjects::State::Options(const AdviceRequest& request) const {
  ObjectAdviceOptions advise{.hot_share = hot_share, .cold_nodes = cold_nodes};
  for (const std::string& text : ratios) {
    const Result<Ratio> ratio = ParseRatio(text);
    if (!ratio) return Fail(OfOption("--ratio", text, ratio.error()));
    advise.ratios.push_back(*ratio);
  }
  const Result<RankModel> model = ParseRankModel(request.rank_model);
  if (!model) return Fail(model.error());
  advise.model = *model;
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(request.by);
  if (!by) return Fail(by.error());
  advise.by = *by;
  if (!request.rank_weight.empty()) {
    const Result<RankWeight> weight = ParseRankWeight(request.rank_weight);
    if (!weight) return Fail(weight.error());
    advise.weight = *weight;
  }
  if (!placed_under.empty()) {
    Result<ArenaAdvice> before = ReadAdvice(placed_under);
    if (!before) return Fail(before.error());
    advise.placed_under = *std::move(before);
  }
  // Packed, a program accesses fewer pages: a part of those would shrink from one turn to the next.
  if (!room.empty()) {
    const auto parsed = ParseRoom(room);
    if (!parsed) return Fail(parsed.error());
    advise.hot_room = *parsed;
  } else if (advise.placed_under && advise.placed_under->room_bytes.contains(kHotArena)) {
    advise.hot_room = advise.placed_under->room_bytes.at(kHotArena);
  } else {
    advise.hot_room = kDefaultRoom;
  }
  return advise;
}

// The advice that the recording was placed by must be given, too: a site that is packed with others
// of its kind cannot be distinguished from them.
void AdvisedObjects::State::WarnOfPlacing(const TraceInfo& info,
                                          const AdviceRequest& request) const {
  const auto recorded = std::ranges::find(info.settings, "advice", &Setting::name);
  if (recorded != info.settings.end() && placed_under.empty()) {
    Warn(fmt::format("'{}' was recorded with record --advice '{}': give that file with --advice",
                     request.trace, recorded->value));
  }
  if (recorded == info.settings.end() && !placed_under.empty()) {
    Warn(
        fmt::format("'{}' does not say that it was recorded with record --advice; what '{}' set "
                    "apart is taken to lie apart",
                    request.trace, placed_under));
  }
}

AdvisedObjects::AdvisedObjects() : state_(std::make_unique<State>()) {}
AdvisedObjects::~AdvisedObjects() = default;

bool AdvisedObjects::is_wanted() const { return state_->wanted; }

Status AdvisedObjects::Check() const {
  if (state_->hot_share > 0) return {};
  return Fail(
      BadInput("use option", "--hot 0", "it is a share of the accesses, above 0 and up to 100 %"));
}

Result<int> AdvisedObjects::Advise(const AdviceRequest& request, Format format) const {
  const State& s = *state_;
  Result<ObjectAdviceOptions> advise = s.Options(request);
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
  s.WarnOfPlacing(trace->info, request);
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
      .add_option("--advice", state_->placed_under,
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
      .add_option("--ratio", state_->ratios,
                  "Capacities of tier 1 to predict hit rates for, of accessed pages")
      ->delimiter(',')
      ->capture_default_str();
  AddShare(command, "--hot", state_->hot_share,
           "Share of the accesses whose hottest sites are packed together");
  command
      .add_option("--room", state_->room,
                  "Tier 1 for hot sites: a size, or a part of the accessed pages\n"
                  "The default is 1/8, or that of --advice. What is beyond is left to malloc.")
      ->type_name("SIZE|RATIO");
  command
      .add_option("--cold-nodes", state_->cold_nodes,
                  "NUMA nodes for cold objects, while they have room")
      ->delimiter(',')
      ->type_name("NODE")
      ->check(CLI::Range(0u, kMaxAdvisedNode));
}

}  // namespace tmprof
