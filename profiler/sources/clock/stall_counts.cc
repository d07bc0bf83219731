// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/stall_counts.h"

#include <algorithm>
#include <span>
#include <vector>

#include "profiler/sources/clock/straight_lines.h"

namespace tmprof {

void StallCounts::Add(Pid process, std::uint64_t ip) {
  OfProcess& of = processes_[process];
  if (++of.by_ip[ip] == 1 && ++addresses_ > kMostAddresses) {
    Clear();
    return;
  }
  ++of.unjudged[ip];
  ++of.samples;
}

void StallCounts::Forget(Pid process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  addresses_ -= found->second.by_ip.size();
  processes_.erase(found);
}

void StallCounts::Clear() {
  processes_.clear();
  addresses_ = 0;
}

std::optional<StallCounts::Counts> StallCounts::Take() {
  std::optional<Counts> counts;
  std::vector<Pid> full;
  for (auto& [process, of] : processes_) {
    if (of.samples < std::max(kFewestSamples, 2 * of.judged)) continue;
    const StraightLines lines(of.by_ip, [&](std::uint64_t address, std::span<std::uint8_t> into) {
      return api_->ReadMemory(process, address, into);
    });
    if (!counts) counts.emplace();
    for (const auto& [ip, samples] : of.unjudged) {
      counts->judged += static_cast<double>(samples);
      counts->stalls += static_cast<double>(samples) * lines.StallPart(ip);
    }
    of.unjudged.clear();
    of.judged = of.samples;
    if (of.samples >= kMostSamples) full.push_back(process);
  }
  for (const Pid process : full) Forget(process);
  return counts;
}

}  // namespace tmprof
