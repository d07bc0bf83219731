// SPDX-License-Identifier: Apache-2.0
// Errors as values: what was attempted, on which object, what the system said, what to do.

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
  std::optional<int> system_error{};  // errno, where the system gave one
  std::string reason{};               // what is wrong, where errno does not say it
  std::string advice{};               // what would fix it; may be empty

  // One line without a trailing period:
  // "cannot open trace file 'x': ENOENT (No such file or directory); advice".
  std::string Message() const;
  // The same without the advice.
  std::string Fact() const;
  int ExitStatus() const { return kind == ErrorKind::kBadInput ? 2 : 1; }
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> Fail(Error error) { return std::unexpected<Error>(std::move(error)); }

// The two common shapes.
Error BadInput(std::string attempt, std::string object, std::string reason,
               std::string advice = {});
Error Refused(std::string attempt, std::string object, int system_error, std::string advice = {});

// "EACCES"; "errno 4242" for a number the C library does not know.
std::string ErrnoName(int system_error);
// "EACCES (Permission denied)"; "errno 4242" for a number the C library does not know.
std::string ErrnoText(int system_error);

}  // namespace tmprof
