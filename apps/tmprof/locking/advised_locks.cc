// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/advised_locks.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/command_line/messages.h"
#include "apps/command_line/terminal.h"
#include "base/text/human_units.h"
#include "locking/applied_locks.h"
#include "locking/lock_advice.h"
#include "proto/trace.h"

namespace tmprof {
namespace {

// "200MiB" or "50%".
Result<std::variant<std::uint64_t, double>> ParseLimit(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text)) return *bytes;
  const Result<double> share = ParseShare(text);
  if (share) return *share;
  return Fail(BadInput("use option", fmt::format("--limit {}", text),
                       "it is a size, such as 200MiB, or a share of the accessed memory, such as "
                       "50%"));
}

}  // namespace

struct AdvisedLocks::State {
  bool wanted = false;
  std::string limit = "25%";        // with half, some programs lost by the locks (bench/mlock)
  std::optional<std::int32_t> pid;  // unset: the one with the most accesses
  bool apply = false;
  bool undo = false;
};

AdvisedLocks::AdvisedLocks() : state_(std::make_unique<State>()) {}
AdvisedLocks::~AdvisedLocks() = default;

bool AdvisedLocks::is_wanted() const { return state_->wanted; }

Result<int> AdvisedLocks::Advise(const AdviceRequest& request, Format format) const {
  const State& s = *state_;
  Result<Trace> trace = OpenTraceFile(request.trace);
  if (!trace) return Fail(trace.error());
  trace->llc_bytes = request.llc_bytes;
  LockAdviceOptions wanted;
  auto limit = ParseLimit(s.limit);
  if (!limit) return Fail(std::move(limit.error()));
  wanted.limit = *limit;
  const Result<RankModel> model = ParseRankModel(request.rank_model);
  if (!model) return Fail(model.error());
  wanted.model = *model;
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(request.by);
  if (!by) return Fail(by.error());
  wanted.by = *by;
  if (!request.rank_weight.empty()) {
    const Result<RankWeight> weight = ParseRankWeight(request.rank_weight);
    if (!weight) return Fail(weight.error());
    wanted.weight = *weight;
  }
  if (request.llc_bytes &&
      (wanted.by ? *wanted.by != RankSource::kMemory : wanted.weight != RankWeight::kMemory)) {
    return Fail(BadInput("use option", "--llc", "accesses that a cache serves count, too",
                         "add --rank-weight memory to leave them out"));
  }
  if (s.pid) wanted.pid = Pid(*s.pid);
  Result<LockAdvice> advice = MakeLockAdvice(*trace, wanted);
  if (!advice) return Fail(std::move(advice.error()));
  const int exit_status = WarnOfEnd(advice->totals.end, request.trace, "advised on");
  std::optional<Error> cut_short;
  if (s.apply || s.undo) {
    auto applied =
        ApplyLocks(*advice, request.trace, s.undo ? LockChange::kUnlock : LockChange::kLock);
    if (!applied) return Fail(std::move(applied.error()));
    advice->applied = std::move(applied->done);
    cut_short = std::move(applied->cut_short);
  }
  const TextWidth width = OutputWidth(request.wide);
  Result<int> written = format == Format::kJson
                            ? Answer(LockAdviceJson(*advice), exit_status)
                            : AnswerText(LockAdviceText(*advice, width), width, exit_status);
  // Locks that were made before the error stay, and are reported.
  if (written && cut_short) return Fail(*std::move(cut_short));
  return written;
}

CLI::Option* AdvisedLocks::AddOptions(CLI::App& command, CLI::Option* objects) {
  CLI::Option* mlock =
      command
          .add_flag("--mlock", state_->wanted, "Advise which memory of a process to lock in RAM")
          ->excludes(objects);
  command
      .add_option("--limit", state_->limit,
                  "With --mlock: most memory to lock, or its share of the accessed")
      ->type_name("SIZE|SHARE")
      ->capture_default_str()
      ->needs(mlock);
  command
      .add_option(
          "--pid", state_->pid,
          "With --mlock: process to advise for\nThe default is the process with the most accesses.")
      ->type_name("PID")
      ->check(CLI::PositiveNumber)
      ->needs(mlock);
  CLI::Option* apply = command.add_flag(
      "--apply", state_->apply,
      "With --mlock: lock it now in the recorded process\n"
      "The process must still run. One of its threads is stopped for some ms to make the calls.");
  apply->needs(mlock);
  command
      .add_flag("--undo", state_->undo, "With --mlock: unlock what --apply locked by this trace")
      ->needs(mlock)
      ->excludes(apply);
  return mlock;
}

}  // namespace tmprof
