// SPDX-License-Identifier: Apache-2.0
// Tells if epochs have the evidence that a ranking or a judge needs.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "rank/parted_evidence.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"

namespace tmprof {

class KnownEvidence {
 public:
  // `models_cache`: a model of the last-level cache estimates which accesses reach memory if too
  // few of them were sampled.
  explicit KnownEvidence(bool models_cache = false) : models_cache_(models_cache) {}

  void Look(const EpochProfile& epoch);

  // Refuses misses if accesses were counted without a cache model, or were not counted: they are
  // then unknown, not 0. Refuses stalls if they were not modelled for all counted accesses. Refuses
  // accesses to memory if no accessed bits were read. Without a model of the cache, also refuses
  // them if none were sampled or if samples of time are among them. Other evidence has no such
  // gaps. If there is no epoch, nothing is refused.
  Status Require(RankSource source, std::string attempted, std::string object) const;

  // Returns the source to use unless another one is requested. It is exact accesses if all epochs
  // with pages have them, else accessed bits, samples or both, else exact accesses of some epochs.
  RankSource Best() const;
  // True if enough accesses to memory, of pages whose accessed bits were read at some time, were
  // sampled to estimate what access rates are worth.
  bool SamplesTellMemory() const;
  // True if samples do, or a cache is modelled, and the rank model estimates rates.
  bool TellsMemory(RankModel model) const;
  // Returns the basis of a ranking by the weight. Require() may refuse it for kStall.
  RankBasis BasisFor(RankWeight weight, RankModel model, RankUse use) const;
  // Returns the basis of the choice. Refuses what Require() refuses. The error names the attempt.
  Result<RankBasis> Choose(const RankChoice& asked, RankModel model, RankUse use,
                           std::string attempted, std::string object) const;

 private:
  // Counts samples of pages whose accessed bits were read, up to the number needed.
  void LookAtSampled(const EpochProfile& epoch);
  bool SamplesAreOfMemoryAlone() const { return samples_are_of_memory_ && !samples_of_time_; }
  bool TellsMisses() const { return with_misses_ > 0 && with_misses_ == with_pages_; }
  Status RequireStalls(std::string attempted, std::string object) const;
  std::string WhySamplesTellNoMemory() const;  // empty: accesses to memory were sampled
  std::string WhyNoMemory() const;             // empty: they are known
  std::string WhyMemoryIsNotTold() const;

  bool models_cache_;
  std::uint64_t epochs_ = 0;
  std::uint64_t with_misses_ = 0;     // epochs in which they are known
  std::uint64_t without_misses_ = 0;  // epochs with accesses, and no model
  std::uint64_t with_stalls_ = 0;     // epochs in which stalls are known
  std::uint64_t without_stalls_ = 0;  // epochs with accesses, and no model of stalls
  std::uint64_t with_pages_ = 0;
  std::uint64_t with_accesses_ = 0;     // epochs of those with pages
  bool bits_ = false;                   // were read
  bool samples_ = false;                // were taken
  double samples_watched_ = 0;          // time of epochs with a sampler on
  bool samples_of_time_ = false;        // some samples are
  bool samples_are_of_memory_ = false;  // a sampler of accesses to memory was there
  bool enough_are_looked_at_ = false;   // samples of pages whose accessed bits were read
  PartedEvidence evidence_;             // evidence of all epochs, until they are enough
};

}  // namespace tmprof
