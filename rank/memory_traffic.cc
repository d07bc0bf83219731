// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_traffic.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "rank/target_times.h"

namespace tmprof {
namespace {

// Details of samplers: what was sampled and was no access to memory at a known address.
constexpr std::array<std::string_view, 5> kDropped = {"served_by_cache", "not_demand", "uncached",
                                                      "unknown_source", "no_address"};

}  // namespace

void MemoryTraffic::Look(const EpochProfile& epoch) {
  // Two samplers at once would tell the same accesses twice.
  const auto sampler = std::ranges::find_if(epoch.sources, [](const SourceStatus& source) {
    return source.state == SourceState::kActive && source.accesses_per_sample &&
           source.observations;
  });
  if (sampler == epoch.sources.end()) return;
  const double duty = sampler->duty_cycle.value_or(1.0);
  TargetTimes times;
  times.Add(epoch);
  double used = epoch.targets.empty() ? Seconds(epoch.length()) : 0;
  for (const Target& target : epoch.targets) used += times.Of(target.id).cpu_seconds;
  // The lost samples are taken to be of memory as often as the delivered ones.
  const auto counted = static_cast<double>(*sampler->observations);
  double delivered = counted;
  for (const NamedCount& each : sampler->details) {
    if (std::ranges::count(kDropped, each.name) > 0) delivered += static_cast<double>(each.count);
  }
  const auto lost = static_cast<double>(sampler->lost.value_or(0));
  const double taken = delivered > 0 ? counted * (1 + lost / delivered) : 0;
  accesses_ += taken * static_cast<double>(*sampler->accesses_per_sample);
  samples_ += static_cast<double>(*sampler->observations);
  seconds_ += duty * used;
}

std::optional<MemoryTraffic::Told> MemoryTraffic::Tell() const {
  if (seconds_ <= 0) return std::nullopt;
  return Told{.accesses_per_second = accesses_ / seconds_,
              .samples = static_cast<std::uint64_t>(samples_)};
}

}  // namespace tmprof
