// SPDX-License-Identifier: Apache-2.0
// Finds another recorder that clears the accessed bits of the same processes: each then misses what
// the other has found, and shows too little.

#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tmprof::abit {

// Name of the thread that clears, in the form that the kernel shows (prctl(2), PR_SET_NAME).
inline constexpr std::string_view kScannerThread = "tmprof-abit";

// Set: another process whose name begins with "tmprof" has such a thread and watches one of
// `targets` by a pidfd, or may do so. In the namespace of PIDs that `proc` is of; `self` is the
// caller.
std::optional<std::string> OtherScannerOf(const std::set<Pid>& targets, Pid self,
                                          const std::filesystem::path& proc = "/proc");

}  // namespace tmprof::abit
