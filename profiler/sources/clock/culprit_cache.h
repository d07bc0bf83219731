// SPDX-License-Identifier: Apache-2.0
// Decoded culprits by process and instruction address.

#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/units.h"
#include "profiler/sources/clock/operand_decoder.h"
#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

// Code that is rewritten in place, without a new executable mapping, is not noticed: a JIT that
// does so may yield stale culprits until its process is forgotten.
class CulpritCache {
 public:
  // Some 80 bytes each; a process seldom has more than a few thousand hot addresses.
  static constexpr std::size_t kMaxEntries = 65'536;

  explicit CulpritCache(PerfApi& api) : api_(&api) {}

  // Reads and decodes the code around `ip` on the first call for it.
  const Culprit& Find(Pid process, std::uint64_t ip);
  // The code of `process` has changed, or it is gone.
  void Forget(Pid process);
  void Clear();

  std::size_t size() const { return entries_; }
  std::uint64_t decoded() const { return decoded_; }  // decodings so far

 private:
  PerfApi* api_;
  std::unordered_map<Pid, std::unordered_map<std::uint64_t, Culprit>> by_process_;
  std::size_t entries_ = 0;
  std::uint64_t decoded_ = 0;
};

}  // namespace tmprof
