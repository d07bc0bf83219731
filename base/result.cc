// SPDX-License-Identifier: Apache-2.0

#include "base/result.h"

#include <fmt/format.h>

#include <cstring>

namespace tmprof {

std::string ErrnoName(int system_error) {
  const char* name = strerrorname_np(system_error);
  return name == nullptr ? fmt::format("errno {}", system_error) : name;
}

std::string ErrnoText(int system_error) {
  const char* description = strerrordesc_np(system_error);
  if (description == nullptr) return ErrnoName(system_error);
  return fmt::format("{} ({})", ErrnoName(system_error), description);
}

std::string Error::Message() const { return advice.empty() ? Fact() : Fact() + "; " + advice; }

std::string Error::Fact() const {
  std::string text = fmt::format("cannot {} '{}'", attempt, object);
  if (object.empty()) text = fmt::format("cannot {}", attempt);
  if (system_error) text += ": " + ErrnoText(*system_error);
  if (!reason.empty()) text += ": " + reason;
  return text;
}

Error BadInput(std::string attempt, std::string object, std::string reason, std::string advice) {
  return Error{.kind = ErrorKind::kBadInput,
               .attempt = std::move(attempt),
               .object = std::move(object),
               .reason = std::move(reason),
               .advice = std::move(advice)};
}

Error Refused(std::string attempt, std::string object, int system_error, std::string advice) {
  return Error{.kind = ErrorKind::kRefused,
               .attempt = std::move(attempt),
               .object = std::move(object),
               .system_error = system_error,
               .advice = std::move(advice)};
}

}  // namespace tmprof
