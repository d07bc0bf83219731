// SPDX-License-Identifier: Apache-2.0
// What the daemon says while it runs: a line for each event, to standard error.

#pragma once

#include <string_view>

#include "apps/tmprofd/config.h"

namespace tmprof {

// "tmprofd: warning: TEXT"; where the journal reads it, with the level as sd-daemon(3) marks it.
class Log {
 public:
  explicit Log(LogLevel level);
  void operator()(LogLevel level, std::string_view text) const;

 private:
  LogLevel level_;
  bool to_journal_;
};

}  // namespace tmprof
