// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/messages.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "base/text/format.h"

namespace tmprof {
namespace {

// `file`: "trace file 'x'"; `why` it may have no end frame.
int WarnOf(const StreamEnd& end, std::string_view file, std::string_view why,
           std::string_view done) {
  if (end.damage) {
    Warn(fmt::format("{}; {} is what comes before", end.damage->Message(), done));
  } else if (end.finished == false) {
    const std::string where =
        end.byte_offset ? fmt::format(" at byte offset {}", *end.byte_offset) : "";
    Warn(fmt::format("{} ends{} without an end frame: {}; {} is what comes before", file, where,
                     why, done));
  }
  return end.damage ? kDamaged : 0;
}

}  // namespace

// fmt::print throws if a write fails.
void Say(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void SayWithoutWaiting(std::string_view text) {
  pollfd standard_error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&standard_error, 1, 0) > 0 && (standard_error.revents & POLLOUT) != 0) Say(text);
}

int ReportError(const Error& error) {
  Say(fmt::format("tmprof: {}\n", Printable(error.Message())));
  return error.ExitStatus();
}

void Warn(std::string_view message) {
  Say(fmt::format("tmprof: warning: {}\n", Printable(message)));
}

int WarnOfEnd(const StreamEnd& end, std::string_view path, std::string_view done) {
  return WarnOf(end, fmt::format("trace file '{}'", path),
                "the recorder was stopped before it could finish, and its open epoch is lost",
                done);
}

int WarnOfLedgerEnd(const StreamEnd& end, std::string_view path, std::string_view done) {
  return WarnOf(end, fmt::format("ledger file '{}'", path),
                "the daemon still runs, or was stopped before it could finish", done);
}

void WarnOfCountingTwice() {
  Warn(
      "a forked child's file has what its parent counted before the fork, too: where both are "
      "given, that counts twice");
}

int WarnOfObjectsEnd(const StreamEnd& end, std::string_view path, std::string_view done) {
  return WarnOf(end, fmt::format("object profile '{}'", path),
                "the program was stopped while it wrote it", done);
}

Error OfTrace(std::string_view path, Error fault) {
  if (fault.object == "the trace") fault.object = path;
  return fault;
}

Status WriteOut(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return Fail(Refused("write to", "standard output", errno));
  }
  return {};
}

Result<int> Answer(std::string_view text, int exit_status) {
  if (auto written = WriteOut(text); !written) return Fail(std::move(written.error()));
  return exit_status;
}

Result<int> AnswerText(std::string_view text, TextWidth width, int exit_status) {
  return Answer(Fitted(text, width), exit_status);
}

int ExitStatusOf(const Result<int>& answered) {
  return answered ? *answered : ReportError(answered.error());
}

}  // namespace tmprof
