// SPDX-License-Identifier: Apache-2.0
// Formatted output whose failure stays in the stream, for ferror to tell: fmt::print would throw.

#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace tmprof::workload {

template <typename... Args>
void Print(std::FILE* out, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), out);
}

}  // namespace tmprof::workload
