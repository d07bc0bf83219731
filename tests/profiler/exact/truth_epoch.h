// SPDX-License-Identifier: Apache-2.0
// Epochs of a truth stream, as a decoder gives them.

#pragma once

#include <chrono>
#include <cstdint>

#include "profiler/sources/exact/truth_decoder.h"

namespace tmprof::exact {

inline MonotonicTime At(std::int64_t ns) { return MonotonicTime(std::chrono::nanoseconds(ns)); }

// An epoch of one process and, if it has loads, of one page.
inline TruthEpoch Epoch(std::uint64_t index, std::int64_t start, std::int64_t end, int pid,
                        std::uint64_t vpn, std::uint64_t loads) {
  TruthEpoch epoch{.index = index, .start = At(start), .end = At(end)};
  epoch.targets.push_back({.number = 0, .pid = Pid(pid), .start_time_ticks = 5, .name = "p"});
  if (loads > 0) epoch.pages.push_back({.target = 0, .vpn = Vpn(vpn), .counts = {.loads = loads}});
  return epoch;
}

}  // namespace tmprof::exact
