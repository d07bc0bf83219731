// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/advised_locks.h"

#include <optional>
#include <string>
#include <utility>

#include "apps/command_line/messages.h"
#include "apps/command_line/terminal.h"
#include "locking/applied_locks.h"
#include "locking/lock_advice.h"
#include "locking/lock_advice_request.h"
#include "proto/trace.h"

namespace tmprof {

struct AdvisedLocks::State {
  bool wanted = false;
  LockAdviceRequest request;
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
  const Result<LockAdviceOptions> wanted = OptionsOf(s.request, request.rank, request.llc_bytes);
  if (!wanted) return Fail(wanted.error());
  Result<LockAdvice> advice = MakeLockAdvice(*trace, *wanted);
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
      .add_option("--limit", state_->request.limit,
                  "With --mlock: most memory to lock, or its share of the accessed")
      ->type_name("SIZE|SHARE")
      ->capture_default_str()
      ->needs(mlock);
  command
      .add_option(
          "--pid", state_->request.pid,
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
