// SPDX-License-Identifier: Apache-2.0
// How to ask the running daemon. Over its Unix stream socket goes one JSON object a line: requests
//   {"command": "status" | "targets", "format": "json" | "text"}   "json" unless given; "text"
//   takes
//                                   "columns": N, a width that its tables have to fit
//   {"command": "hot", "limit": N, "format": "json" | "text" | "binary", "columns": N}
//   {"command": "pause" | "resume" | "stop"}
//   {"command": "set", "settings": {NAME: VALUE, ...}}              values are text
// and to each an answer
//   {"ok": true, ...}       with "status", "targets" or "hot"; for "text" with "text"; for
//                           "binary" with "bytes": N, and N bytes follow the line
//   {"ok": false, "error": MESSAGE, "fault": {...}}

#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/result.h"
#include "base/text/format.h"
#include "base/unique_fd.h"

namespace tmprof {

// With the line feed; a longer one is refused.
inline constexpr std::size_t kMostRequestBytes = std::size_t{64} << 10;

// Returns one line and its line feed, ready for the socket. Bytes that are not UTF-8 become U+FFFD.
std::string JsonLine(const Json& json);

Json FailureAsJson(const Error& error);
// Returns the error of an answer that is not "ok".
Error ErrorOf(const Json& answer);

// A connection to the socket at `path`, blocking, on which each wait for the daemon ends after
// `patience` with EAGAIN.
Result<UniqueFd> ConnectToDaemon(const std::string& path, std::chrono::milliseconds patience);

struct DaemonAnswer {
  Json json;
  std::string bytes;  // those that follow its line
};

// Returns the daemon's answer, which is "ok". Its refusal is the error.
Result<DaemonAnswer> AskDaemonForBytes(const std::string& path, const Json& request,
                                       std::chrono::milliseconds patience);
// Returns the JSON of such an answer.
Result<Json> AskDaemon(const std::string& path, const Json& request,
                       std::chrono::milliseconds patience);

}  // namespace tmprof
