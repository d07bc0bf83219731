// SPDX-License-Identifier: Apache-2.0
// Messages of the commands of `tmprof`, and the streams they go to. They are apart from cli.h so
// that their users need not compile CLI11.

#pragma once

#include <string_view>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/text/text_table.h"

namespace tmprof {

// Writes `text` to standard error. A standard error that takes nothing, such as a terminal that is
// gone, changes nothing else.
void Say(std::string_view text);
// Say(), but this skips the text instead of waiting for room, as at a terminal that Ctrl-S has
// stopped.
void SayWithoutWaiting(std::string_view text);

// Exit status of a command that did all it was asked for.
inline constexpr int kDone = 0;

// Exit status of a command that answered from a damaged file, by what comes before the damage.
inline constexpr int kDamaged = 4;

// "tmprof: MESSAGE" on standard error; returns the error's exit status. This and Warn() escape what
// a terminal would act on: files and programs can have any name.
int ReportError(const Error& error);
void Warn(std::string_view message);
// Warns where the trace at `path` is damaged or was not finished. `done`: what was done with its
// epochs, "replayed". Returns the exit status: 0, or kDamaged.
[[nodiscard]] int WarnOfEnd(const StreamEnd& end, std::string_view path, std::string_view done);
// The same of a ledger, which may also have been read while it is being written.
[[nodiscard]] int WarnOfLedgerEnd(const StreamEnd& end, std::string_view path,
                                  std::string_view done);
[[nodiscard]] int WarnOfObjectsEnd(const StreamEnd& end, std::string_view path,
                                   std::string_view done);
// Warns of object profiles that ObjectProfiles::MayCountTwice() tells of.
void WarnOfCountingTwice();

// Names the file in an error of what reads a trace without knowing where it is.
Error OfTrace(std::string_view path, Error fault);

// Writes all of `text` to standard output, flushed; an error names it.
Status WriteOut(std::string_view text);
// WriteOut(), which returns `exit_status` where all was written.
Result<int> Answer(std::string_view text, int exit_status);
// Answer() with text for people, whose lines are fitted to `width`.
Result<int> AnswerText(std::string_view text, TextWidth width, int exit_status);
// The exit status of a command: its own, or that of its error, which is reported.
int ExitStatusOf(const Result<int>& answered);

}  // namespace tmprof
