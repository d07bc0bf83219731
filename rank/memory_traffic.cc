// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_traffic.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/sample_pairs.h"
#include "base/units.h"
#include "rank/target_times.h"

namespace tmprof {
namespace {

// Details of samplers: samples that were no access to memory at a known address.
constexpr std::array<std::string_view, 5> kDropped = {"served_by_cache", "not_demand", "uncached",
                                                      "unknown_source", "no_address"};

// Returns the first of them: two samplers at once would count the same accesses twice.
auto FindSampler(const std::vector<SourceStatus>& sources) {
  return std::ranges::find_if(sources, [](const SourceStatus& source) {
    return source.state == SourceState::kActive && source.accesses_per_sample;
  });
}

// Half of the pairs is forgotten when there are more, so that a daemon follows changes of programs.
constexpr double kMostPairs = 4096;

std::optional<double> DetailOf(const SourceStatus& source, std::string_view name) {
  const auto found = std::ranges::find(source.details, name, &NamedCount::name);
  if (found == source.details.end()) return std::nullopt;
  return static_cast<double>(found->count);
}

void AddPairs(const SourceStatus& source, SamplePairs& sum) {
  const std::optional<double> pairs = DetailOf(source, kPagePairs);
  const std::optional<double> of_one_line = DetailOf(source, kLinePairs);
  if (!pairs || !of_one_line) return;  // written by an older version
  sum.samples += static_cast<double>(source.observations.value_or(0));
  sum.pairs += *pairs;
  sum.of_one_line += *of_one_line;
  if (sum.pairs <= kMostPairs) return;
  for (double* each : {&sum.samples, &sum.pairs, &sum.of_one_line}) *each /= 2;
}

// Returns the CPU time that the targets used within the epoch.
double CpuSecondsOf(const EpochProfile& epoch) {
  if (epoch.targets.empty()) return Seconds(epoch.length());
  TargetTimes times;
  times.Add(epoch);
  double used = 0;
  for (const Target& target : epoch.targets) used += times.Of(target.id).cpu_seconds;
  return used;
}

// Adds the first count only: two counters at once would count the misses twice.
void AddCounted(const EpochProfile& epoch, CountedMisses& sum) {
  for (const SourceStatus& source : epoch.sources) {
    if (source.state != SourceState::kActive) continue;
    const std::optional<double> misses = DetailOf(source, kCountedMisses);
    if (!misses) continue;
    sum.misses += *misses;
    sum.cpu_seconds += source.duty_cycle.value_or(1.0) * CpuSecondsOf(epoch);
    return;
  }
}

// Half of the count is forgotten when its time is longer.
constexpr double kMostCountedSeconds = 60;

}  // namespace

bool HasSamplesOfTime(const EpochProfile& epoch) {
  return std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
    return source.samples_of == SampleSubject::kTime && source.state == SourceState::kActive &&
           source.observations != 0;
  });
}

void SampleScale::Look(const EpochProfile& epoch) {
  const auto samplers = std::ranges::count_if(epoch.sources, [](const SourceStatus& source) {
    return source.role == SourceRole::kSamples && source.state == SourceState::kActive;
  });
  has_samples_of_time_ |= HasSamplesOfTime(epoch);
  for (const SourceStatus& source : epoch.sources)
    if (source.state == SourceState::kActive) AddPairs(source, pairs_);
  AddCounted(epoch, counted_);
  if (counted_.cpu_seconds > kMostCountedSeconds)
    for (double* each : {&counted_.misses, &counted_.cpu_seconds}) *each /= 2;
  const auto sampler = FindSampler(epoch.sources);
  if (sampler == epoch.sources.end()) return;
  accesses_per_sample_ = static_cast<double>(*sampler->accesses_per_sample);
  is_mixed_ = is_mixed_ || samplers > 1;
}

void MemoryTraffic::Look(const EpochProfile& epoch) {
  AddCounted(epoch, counted_);
  const double used = CpuSecondsOf(epoch);
  all_seconds_ += used;
  const auto sampler = FindSampler(epoch.sources);
  if (sampler == epoch.sources.end() || !sampler->observations) return;
  const double duty = sampler->duty_cycle.value_or(1.0);
  // Lost samples are assumed to be of memory as often as the delivered ones.
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

std::optional<MemoryTraffic::Rate> MemoryTraffic::Tell() const {
  if (seconds_ <= 0 && counted_.cpu_seconds > 0)
    return Rate{.accesses_per_second = counted_.misses / counted_.cpu_seconds,
                .samples = std::nullopt};
  if (seconds_ <= 0) return std::nullopt;
  return Rate{.accesses_per_second = accesses_ / seconds_,
              .samples = static_cast<std::uint64_t>(samples_)};
}

}  // namespace tmprof
