// SPDX-License-Identifier: Apache-2.0
// Counts the clock samples in which a program waited (base/sample_pairs.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/units.h"
#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

class StallCounts {
 public:
  // Fewer samples of a process do not show what executing its code takes. They are judged later,
  // with those that follow. Later ones are judged when there are as many as before, because reading
  // and decoding the code takes some 10 us an address.
  static constexpr std::uint64_t kFewestSamples = 200;
  // A process starts anew after so many samples, which follows its phases.
  static constexpr std::uint64_t kMostSamples = 16'384;
  // Some 50 bytes each. All is forgotten when code has more addresses.
  static constexpr std::size_t kMostAddresses = 65'536;

  explicit StallCounts(PerfApi& api) : api_(&api) {}

  // Adds a sample of a process that executed at `ip`, with or without a data address.
  void Add(Pid process, std::uint64_t ip);
  // The process's code has changed, or it is gone.
  void Forget(Pid process);
  void Clear();

  struct Counts {
    double judged = 0;
    double stalls = 0;  // those of them that are stalls
  };
  // Judges the samples of processes that have enough. Reads their code. nullopt: none has.
  std::optional<Counts> Take();

 private:
  struct OfProcess {
    std::map<std::uint64_t, std::uint64_t> by_ip;     // all samples
    std::map<std::uint64_t, std::uint64_t> unjudged;  // those of them that were not judged yet
    std::uint64_t samples = 0;
    std::uint64_t judged = 0;
  };

  PerfApi* api_;
  std::unordered_map<Pid, OfProcess> processes_;
  std::size_t addresses_ = 0;  // of all processes
};

}  // namespace tmprof
