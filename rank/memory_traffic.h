// SPDX-License-Identifier: Apache-2.0
// Tells how often a program reaches memory at all. Placement changes a part of that.

#pragma once

#include <cstdint>
#include <optional>

#include "base/epoch_profile.h"

namespace tmprof {

// Returns whether the epoch has samples that show where time was spent.
bool HasSamplesOfTime(const EpochProfile& epoch);

struct SamplePairs {
  double samples = 0;  // samples of time, on all pages
  double pairs = 0;    // the first two of a page (base/sample_pairs.h)
  double of_one_line = 0;
};

// Misses that a counter counted without sampling any (base/sample_pairs.h).
struct CountedMisses {
  double misses = 0;
  double cpu_seconds = 0;  // CPU time of all targets while it counted
};

// Tells how many accesses to memory a sample stands for, and how samples of time are spread over
// lines.
class SampleScale {
 public:
  void Look(const EpochProfile& epoch);

  // Returns the value of the latest epoch that has one. nullopt: no epoch did, or the samples of
  // two samplers, or samples of time, were added up with them.
  std::optional<double> accesses_per_sample() const {
    return is_mixed_ ? std::nullopt : accesses_per_sample_;
  }
  // True if some samples show where time was spent.
  bool has_samples_of_time() const { return has_samples_of_time_; }
  const SamplePairs& pairs() const { return pairs_; }
  // nullopt: no epoch has a count.
  std::optional<CountedMisses> counted() const {
    return counted_.cpu_seconds > 0 ? std::optional(counted_) : std::nullopt;
  }

 private:
  std::optional<double> accesses_per_sample_;
  bool is_mixed_ = false;
  bool has_samples_of_time_ = false;
  SamplePairs pairs_;      // sums over all epochs, the latest of which count most
  CountedMisses counted_;  // sums over all epochs, the latest of which count most
};

class MemoryTraffic {
 public:
  void Look(const EpochProfile& epoch);

  struct Rate {
    // To memory, of CPU time of all targets. Accesses that no sampler sees (prefetches; stores, by
    // PEBS) are left out.
    double accesses_per_second = 0;
    std::optional<std::uint64_t> samples;  // that tell it; nullopt: a counter does
    // True if it is from a counter, which counts loads alone.
    bool is_counted() const { return !samples; }
  };
  // nullopt: no target ran while a sampler or a counter of misses was on, or no sampler reported
  // what a sample stands for.
  std::optional<Rate> Tell() const;
  // Returns the CPU time of all targets in all epochs, sampled or not.
  double cpu_seconds() const { return all_seconds_; }

 private:
  double all_seconds_ = 0;
  double accesses_ = 0;
  double samples_ = 0;
  double seconds_ = 0;  // CPU time of the targets with the sampler on
  CountedMisses counted_;
};

}  // namespace tmprof
