// SPDX-License-Identifier: Apache-2.0
// The line about a recording's progress, which a terminal rewrites after each epoch.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/epoch_profile.h"

namespace tmprof {

// Adds up counts, some of which may be unknown.
class KnownSum {
 public:
  void Add(std::optional<std::uint64_t> count);
  std::string Text() const;  // "12", "at least 12", "unknown"

 private:
  std::uint64_t sum_ = 0;
  bool complete_ = true;
};

class ProgressLine {
 public:
  // Takes the line away.
  static constexpr std::string_view kErase = "\r\x1b[K";

  // `counted`: the role whose observations are shown.
  explicit ProgressLine(SourceRole counted = SourceRole::kSamples) : counted_(counted) {}

  // Returns the line after another epoch, which replaces the one before. It counts losses of all
  // epochs.
  std::string After(const EpochProfile& epoch);

 private:
  SourceRole counted_;
  KnownSum lost_;
};

}  // namespace tmprof
