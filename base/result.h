// SPDX-License-Identifier: Apache-2.0
// Errors are values: the attempt, its object, the system's answer, and advice.

#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tmprof {

enum class ErrorKind {
  kBadInput,  // the user's arguments or a file's contents; exit status 2
  kRefused,   // the world said no: kernel, permission, disk, a vanished process; exit status 1
};

struct Error {
  ErrorKind kind = ErrorKind::kRefused;
  std::string attempt;                // "open trace file", an infinitive
  std::string object;                 // "tmprof.data", "PID 4711 (redis-server)"
  std::optional<int> system_error{};  // errno, if the system gave one
  std::string reason{};               // the fault, if errno does not say it
  std::string advice{};               // how to fix it; may be empty

  // Returns one line without a trailing period: "cannot open trace file 'x': ENOENT (No such file
  // or directory); advice".
  std::string Message() const;
  // Returns Message() without the advice.
  std::string Fact() const;
  int ExitStatus() const { return kind == ErrorKind::kBadInput ? 2 : 1; }
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> Fail(Error error) { return std::unexpected<Error>(std::move(error)); }

// These make the two common kinds.
Error BadInput(std::string attempt, std::string object, std::string reason,
               std::string advice = {});
Error Refused(std::string attempt, std::string object, int system_error, std::string advice = {});

// Returns "EACCES"; "errno 4242" for a number the C library does not know.
std::string ErrnoName(int system_error);
// Returns "EACCES (Permission denied)"; "errno 4242" for a number the C library does not know.
std::string ErrnoText(int system_error);

}  // namespace tmprof
