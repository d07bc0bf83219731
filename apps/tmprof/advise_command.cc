// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/ratio.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "locking/applied_locks.h"
#include "locking/lock_advice.h"
#include "objects/analysis/object_advice.h"
#include "objects/format/allocations_codec.h"
#include "objects/format/arena_advice.h"
#include "proto/trace.h"
#include "report/view.h"

namespace tmprof {
namespace {

struct AdviseOptions {
  std::string trace{kDefaultTrace};
  bool objects = false;
  bool mlock = false;
  std::string limit = "25%";        // with half, some programs lost by the locks (bench/mlock)
  std::optional<std::int32_t> pid;  // unset: the one with the most accesses
  bool apply = false;
  bool undo = false;
  std::string output;
  std::string placed_under;
  std::vector<std::string> counts;
  std::vector<std::string> ratios{"1/8", "1/16", "1/32", "1/64", "1/128"};
  double hot_share = ObjectAdviceOptions().hot_share;
  std::string room;  // empty: what the advice that it was placed by has, else kDefaultRoom
  std::vector<std::uint32_t> cold_nodes;
  std::string by;                          // empty: the weight decides
  std::string rank_weight;                 // empty: what the options of the advice say
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string rank_model = "rate";
  std::string format = "text";
  bool wide = false;
};

constexpr Ratio kDefaultRoom{.numerator = 1, .denominator = 8};  // the largest --ratio

// "200MiB" or "1/8".
Result<std::variant<std::uint64_t, Ratio>> ParseRoom(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text); bytes && *bytes > 0) return *bytes;
  if (const Result<Ratio> ratio = ParseRatio(text)) return *ratio;
  return Fail(BadInput("use option", fmt::format("--room {}", text),
                       "it is a size, such as 200MiB, or a part of the accessed pages, such as "
                       "1/8"));
}

Result<ObjectAdviceOptions> ObjectOptions(const AdviseOptions& options) {
  ObjectAdviceOptions advise{.hot_share = options.hot_share, .cold_nodes = options.cold_nodes};
  for (const std::string& text : options.ratios) {
    const Result<Ratio> ratio = ParseRatio(text);
    if (!ratio) return Fail(OfOption("--ratio", text, ratio.error()));
    advise.ratios.push_back(*ratio);
  }
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  advise.model = *model;
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(options.by);
  if (!by) return Fail(by.error());
  advise.by = *by;
  if (!options.rank_weight.empty()) {
    const Result<RankWeight> weight = ParseRankWeight(options.rank_weight);
    if (!weight) return Fail(weight.error());
    advise.weight = *weight;
  }
  if (!options.placed_under.empty()) {
    Result<ArenaAdvice> before = ReadAdvice(options.placed_under);
    if (!before) return Fail(before.error());
    advise.placed_under = *std::move(before);
  }
  // Packed, a program accesses fewer pages: a part of those would shrink from one turn to the next.
  if (!options.room.empty()) {
    const auto room = ParseRoom(options.room);
    if (!room) return Fail(room.error());
    advise.hot_room = *room;
  } else if (advise.placed_under && advise.placed_under->room_bytes.contains(kHotArena)) {
    advise.hot_room = advise.placed_under->room_bytes.at(kHotArena);
  } else {
    advise.hot_room = kDefaultRoom;
  }
  return advise;
}

// The advice that the recording was placed by must be given, too: a site that is packed with others
// of its kind cannot be distinguished from them.
void WarnOfPlacing(const TraceInfo& info, const AdviseOptions& options) {
  const auto recorded = std::ranges::find(info.settings, "advice", &Setting::name);
  if (recorded != info.settings.end() && options.placed_under.empty()) {
    Warn(fmt::format("'{}' was recorded with record --advice '{}': give that file with --advice",
                     options.trace, recorded->value));
  }
  if (recorded == info.settings.end() && !options.placed_under.empty()) {
    Warn(
        fmt::format("'{}' does not say that it was recorded with record --advice; what '{}' set "
                    "apart is taken to lie apart",
                    options.trace, options.placed_under));
  }
}

// "200MiB" or "50%".
Result<std::variant<std::uint64_t, double>> ParseLimit(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text)) return *bytes;
  const Result<double> share = ParseShare(text);
  if (share) return *share;
  return Fail(BadInput("use option", fmt::format("--limit {}", text),
                       "it is a size, such as 200MiB, or a share of the accessed memory, such as "
                       "50%"));
}

Result<int> AdviseOnLocks(const AdviseOptions& options, const Trace& trace, Format format) {
  LockAdviceOptions wanted;
  auto limit = ParseLimit(options.limit);
  if (!limit) return Fail(std::move(limit.error()));
  wanted.limit = *limit;
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  wanted.model = *model;
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(options.by);
  if (!by) return Fail(by.error());
  wanted.by = *by;
  if (!options.rank_weight.empty()) {
    const Result<RankWeight> weight = ParseRankWeight(options.rank_weight);
    if (!weight) return Fail(weight.error());
    wanted.weight = *weight;
  }
  if (options.llc_bytes &&
      (wanted.by ? *wanted.by != RankSource::kMemory : wanted.weight != RankWeight::kMemory)) {
    return Fail(BadInput("use option", "--llc", "accesses that a cache serves count, too",
                         "add --rank-weight memory to leave them out"));
  }
  if (options.pid) wanted.pid = Pid(*options.pid);
  Result<LockAdvice> advice = MakeLockAdvice(trace, wanted);
  if (!advice) return Fail(std::move(advice.error()));
  const int exit_status = WarnOfEnd(advice->totals.end, options.trace, "advised on");
  std::optional<Error> cut_short;
  if (options.apply || options.undo) {
    auto applied =
        ApplyLocks(*advice, options.trace, options.undo ? LockChange::kUnlock : LockChange::kLock);
    if (!applied) return Fail(std::move(applied.error()));
    advice->applied = std::move(applied->done);
    cut_short = std::move(applied->cut_short);
  }
  const TextWidth width = OutputWidth(options.wide);
  Result<int> written = format == Format::kJson
                            ? Answer(LockAdviceJson(*advice), exit_status)
                            : AnswerText(LockAdviceText(*advice, width), width, exit_status);
  // Locks that were made before the error stay, and are reported.
  if (written && cut_short) return Fail(*std::move(cut_short));
  return written;
}

Result<int> Advise(const AdviseOptions& options) {
  if (!options.objects && !options.mlock) {
    return Fail(BadInput("advise", "", "it was not said on what",
                         "--objects advises on which allocations to place together, --mlock on "
                         "which memory to lock"));
  }
  if (options.hot_share <= 0) {
    return Fail(BadInput("use option", "--hot 0",
                         "it is a share of the accesses, above 0 and up to 100 %"));
  }
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  if (options.mlock) {
    Result<Trace> trace = OpenTraceFile(options.trace);
    if (!trace) return Fail(trace.error());
    trace->llc_bytes = options.llc_bytes;
    return AdviseOnLocks(options, *trace, *format);
  }
  Result<ObjectAdviceOptions> advise = ObjectOptions(options);
  if (!advise) return Fail(advise.error());
  if (IsObjectProfile(options.trace)) {
    return Fail(BadInput("advise on", options.trace,
                         "its program was built to count accesses, and another build's calls are "
                         "elsewhere",
                         fmt::format("record the program as it is, and name that trace: tmprof "
                                     "record --objects -- CMD; tmprof advise --objects TRACE "
                                     "--counts {}",
                                     options.trace)));
  }
  Result<Trace> trace = OpenTraceFile(options.trace, &AllocationsCodec());
  if (!trace) return Fail(trace.error());
  trace->llc_bytes = options.llc_bytes;
  if (!options.output.empty()) {
    if (auto status = RefuseToOverwrite(*trace, options.output); !status)
      return Fail(status.error());
    for (const std::string& file : options.counts) {
      const Status other = RefuseToOverwrite(std::filesystem::path(file), options.output);
      if (!other) return Fail(other.error());
    }
  }
  int exit_status = kDone;
  for (const std::string& file : options.counts) {
    const Result<StreamEnd> end = advise->counts.Add(file);
    if (!end) return Fail(end.error());
    exit_status = std::max(exit_status, WarnOfObjectsEnd(*end, file, "advised by"));
  }
  if (advise->counts.MayCountTwice()) WarnOfCountingTwice();
  WarnOfPlacing(trace->info, options);
  const Result<ObjectAdvice> advice = MakeObjectAdvice(*trace, *advise);
  if (!advice) return Fail(advice.error());
  exit_status = std::max(exit_status, WarnOfEnd(advice->totals.end, options.trace, "advised on"));
  if (!options.output.empty()) {
    if (!advice->tracked) {
      return Fail(BadInput("advise on", options.trace, "nobody tracked allocations in it",
                           "record the program with tmprof record --objects"));
    }
    if (auto status = WriteFile(options.output, ObjectAdviceFile(*advice)); !status)
      return Fail(status.error());
  }
  if (*format == Format::kJson) return Answer(ObjectAdviceJson(*advice), exit_status);
  const TextWidth width = OutputWidth(options.wide);
  return AnswerText(ObjectAdviceText(*advice, width), width, exit_status);
}

}  // namespace

void AddAdviseCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "advise", "Advises what to place together or to lock in memory, and estimates the gain");
  auto options = std::make_shared<AdviseOptions>();
  command
      ->add_option("FILE,-i,--input", options->trace,
                   "Trace file\nWith --objects, it is a trace of 'tmprof record --objects'.")
      ->capture_default_str();
  CLI::Option* objects =
      command->add_flag("--objects", options->objects,
                        "Advise which allocation sites to pack together as hot or cold");
  CLI::Option* mlock =
      command
          ->add_flag("--mlock", options->mlock, "Advise which memory of a process to lock in RAM")
          ->excludes(objects);
  command
      ->add_option("--limit", options->limit,
                   "With --mlock: most memory to lock, or its share of the accessed")
      ->type_name("SIZE|SHARE")
      ->capture_default_str()
      ->needs(mlock);
  command
      ->add_option(
          "--pid", options->pid,
          "With --mlock: process to advise for\nThe default is the process with the most accesses.")
      ->type_name("PID")
      ->check(CLI::PositiveNumber)
      ->needs(mlock);
  CLI::Option* apply = command->add_flag(
      "--apply", options->apply,
      "With --mlock: lock it now in the recorded process\n"
      "The process must still run. One of its threads is stopped for some ms to make the calls.");
  apply->needs(mlock);
  command
      ->add_flag("--undo", options->undo, "With --mlock: unlock what --apply locked by this trace")
      ->needs(mlock)
      ->excludes(apply);
  command
      ->add_option("-o,--output", options->output,
                   "Write the advice into this file, for 'tmprof record --advice'\n"
                   "Programs that preload libtmprof_allocations read it, too.")
      ->type_name("FILE")
      ->excludes(mlock);
  command
      ->add_option("--advice", options->placed_under,
                   "Advice that the recorded program was placed by\n"
                   "Its judgements stand. Sites that it set apart are now known.")
      ->type_name("FILE");
  command
      ->add_option("--counts", options->counts,
                   "With --objects: object profiles of the program, built by 'tmprof cc'\n"
                   "Their counts say which sites are hot, so that none has to be set apart.")
      ->type_name("FILE")
      ->needs(objects);
  command
      ->add_option("--ratio", options->ratios,
                   "Capacities of tier 1 to predict hit rates for, of accessed pages")
      ->delimiter(',')
      ->capture_default_str();
  AddShare(*command, "--hot", options->hot_share,
           "Share of the accesses whose hottest sites are packed together");
  command
      ->add_option("--room", options->room,
                   "Tier 1 for hot sites: a size, or a part of the accessed pages\n"
                   "The default is 1/8, or that of --advice. What is beyond is left to malloc.")
      ->type_name("SIZE|RATIO");
  command
      ->add_option("--cold-nodes", options->cold_nodes,
                   "NUMA nodes for cold objects, while they have room")
      ->delimiter(',')
      ->type_name("NODE")
      ->check(CLI::Range(0u, kMaxAdvisedNode));
  CLI::Option* weight =
      AddRankWeight(*command, options->rank_weight, "default memory; with --mlock accesses");
  command->add_option("--by", options->by, "Evidence to use, instead of --rank-weight")
      ->check(OneOf({"references", "samples", "combined", "memory", "truth", "misses"}))
      ->excludes(weight);
  AddLlc(*command, options->llc_bytes);
  AddRankModel(*command, options->rank_model);
  command->add_option("--format", options->format, "Format of the output")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
  AddWide(*command, options->wide);
  command->footer(
      "A page tells how hot it is, but not which of its objects are hot. Sites that share their "
      "pages are set apart first, and are known from the second recording on; or from the first "
      "one, by what another build of the program counted (--counts).\n\n"
      "Examples:\n"
      "  tmprof record --objects --objects-interval 4KiB -o first.data ./program\n"
      "  tmprof advise --objects first.data -o first.advice\n"
      "  tmprof record --objects --advice first.advice -o second.data ./program\n"
      "  tmprof advise --objects second.data --advice first.advice -o last.advice\n"
      "  tmprof record --advice last.advice ./program\n"
      "  tmprof advise --objects first.data --counts tmprof-4711.objects\n"
      "  tmprof record --abit regions -d 10 -p 4711\n"
      "  tmprof advise --mlock --limit 30% --apply");
  command->callback([options, &exit_status] { exit_status = ExitStatusOf(Advise(*options)); });
}

}  // namespace tmprof
