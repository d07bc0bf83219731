// SPDX-License-Identifier: Apache-2.0

#include "rank/known_evidence.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "rank/memory_traffic.h"
#include "rank/memory_worth.h"

namespace tmprof {

void KnownEvidence::Look(const EpochProfile& epoch) {
  ++epochs_;
  if (!epoch.pages.empty()) ++with_pages_;
  const auto any = [](const auto& counts) {
    return std::ranges::any_of(counts, [](std::uint64_t count) { return count > 0; });
  };
  bits_ = bits_ || any(epoch.pages.looks);
  double samples = 0;
  for (const auto* column : {&epoch.pages.load_samples, &epoch.pages.store_samples})
    samples = std::accumulate(column->begin(), column->end(), samples);
  samples_ = samples_ || samples > 0;
  const bool watched =
      epoch.sources.empty() || std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
        return source.role == SourceRole::kSamples && source.state == SourceState::kActive;
      });
  if (watched) samples_watched_ += samples;
  samples_of_time_ |= HasSamplesOfTime(epoch);
  LookAtSampled(epoch);
  samples_are_of_memory_ |= std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
    return source.samples_of == SampleSubject::kMemory;
  });
  const std::optional<PageColumns::Accesses>& accesses = epoch.pages.accesses;
  if (!accesses) return;
  if (!epoch.pages.empty()) ++with_accesses_;
  const bool any_access = any(accesses->loads) || any(accesses->stores);
  const auto count = [&](const auto& modelled, std::uint64_t& with, std::uint64_t& without) {
    if (modelled) {
      if (!epoch.pages.empty()) ++with;
    } else if (any_access) {
      ++without;
    }
  };
  count(accesses->llc_misses, with_misses_, without_misses_);
  count(accesses->stall_ns, with_stalls_, without_stalls_);
}

void KnownEvidence::LookAtSampled(const EpochProfile& epoch) {
  const bool may_be_sampled =
      epoch.sources.empty() || std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
        return source.role == SourceRole::kSamples;
      });
  // Samples of time count no misses, however many there are.
  if (samples_of_time_) evidence_ = {};
  if (enough_are_looked_at_ || samples_of_time_ || !(samples_ || may_be_sampled)) return;
  PartedEvidence of_epoch;
  of_epoch.Take(epoch);
  if (!evidence_.AddAlike(of_epoch)) {
    PartedEvidence both;
    both.Join(evidence_, Keeps(), of_epoch);
    both.Part();
    evidence_ = std::move(both);
  }
  enough_are_looked_at_ = SamplesOfLookedAt(evidence_.table()) >= MemoryWorth::kFewestSamples;
  if (enough_are_looked_at_) evidence_ = {};
}

RankSource KnownEvidence::Best() const {
  if (with_accesses_ > 0 && (with_accesses_ == with_pages_ || (!bits_ && !samples_))) {
    return RankSource::kTruth;
  }
  if (bits_ == samples_) return RankSource::kCombined;
  return bits_ ? RankSource::kReferences : RankSource::kSamples;
}

bool KnownEvidence::SamplesTellMemory() const {
  return WhySamplesTellNoMemory().empty() && samples_watched_ >= MemoryWorth::kFewestSamples &&
         enough_are_looked_at_;
}

bool KnownEvidence::TellsMemory(RankModel model) const {
  return model == RankModel::kRate && (models_cache_ ? WhyNoMemory().empty() : SamplesTellMemory());
}

RankBasis KnownEvidence::BasisFor(RankWeight weight, RankModel model, RankUse use) const {
  TellingEvidence evidence{.memory = TellsMemory(model),
                           .misses = TellsMisses(),
                           .memory_samples_alone = samples_ && !bits_ &&
                                                   SamplesAreOfMemoryAlone() && with_accesses_ == 0,
                           .accesses = Best()};
  if (!evidence.memory && !evidence.misses && !evidence.memory_samples_alone && epochs_ > 0) {
    evidence.why_no_memory =
        model == RankModel::kRate ? WhyMemoryIsNotTold() : "rank model sum estimates no rates";
  }
  return BasisOf(weight, evidence, use);
}

std::string KnownEvidence::WhyMemoryIsNotTold() const {
  if (with_accesses_ > 0 && !bits_) return "accesses were counted without a model of a cache";
  std::string reason = WhyNoMemory();
  if (!reason.empty()) return reason;
  return fmt::format("fewer than {:.0f} samples tell of pages whose accessed bits were read",
                     MemoryWorth::kFewestSamples);
}

std::string KnownEvidence::WhySamplesTellNoMemory() const {
  if (!bits_) return "no accessed bit was read";
  if (!samples_) return "no access to memory was sampled";
  if (samples_watched_ == 0) return "no sampler was on in the epochs that have samples";
  if (samples_of_time_) return "its samples tell where time was spent, not which accesses missed";
  return "";
}

std::string KnownEvidence::WhyNoMemory() const {
  return models_cache_ && bits_ ? "" : WhySamplesTellNoMemory();
}

Status KnownEvidence::Require(RankSource source, std::string attempted, std::string object) const {
  if (source == RankSource::kMemory && epochs_ > 0) {
    std::string reason = WhyNoMemory();
    if (reason.empty()) return {};
    return Fail(BadInput(
        std::move(attempted), std::move(object), std::move(reason),
        bits_ ? "accesses to memory are sampled by 'tmprof record --source' with driver, ibs "
                "or pebs, without clock; without them --llc models a cache of that size"
              : "'tmprof doctor' tells which sources read accessed bits here"));
  }
  if (source == RankSource::kStall && epochs_ > 0)
    return RequireStalls(std::move(attempted), std::move(object));
  if (source != RankSource::kMisses || epochs_ == 0) return {};
  if (without_misses_ == 0 && with_misses_ > 0) return {};
  std::string reason =
      without_misses_ > 0
          ? fmt::format(
                "{} of its {} epochs counted accesses without a model of a cache: their "
                "misses are unknown, not 0",
                without_misses_, epochs_)
          : std::string("none of its epochs counted misses");
  return Fail(BadInput(std::move(attempted), std::move(object), std::move(reason),
                       "a cache is modelled by 'tmprof record --source exact --exact-llc SIZE' and "
                       "by the machine of 'testbed/vm --tiersim'"));
}

Status KnownEvidence::RequireStalls(std::string attempted, std::string object) const {
  if (without_stalls_ == 0 && with_stalls_ > 0) return {};
  std::string reason;
  if (without_stalls_ > 0) {
    reason = fmt::format(
        "{} of its {} epochs counted accesses without a model of stalls: how long these waited is "
        "unknown, not 0",
        without_stalls_, epochs_);
  } else if (samples_of_time_) {
    reason =
        "its samples of time also fall where a program executes, and it does not say which of them "
        "are stalls";
  } else {
    reason = "none of its epochs tells how long accesses stalled the program";
  }
  return Fail(BadInput(
      std::move(attempted), std::move(object), std::move(reason),
      "stalls are modelled by 'tmprof record --source exact --exact-llc SIZE --exact-stalls TIME'; "
      "without them use memory, by which all accesses to memory count alike"));
}

Result<RankBasis> KnownEvidence::Choose(const RankChoice& asked, RankModel model, RankUse use,
                                        std::string attempted, std::string object) const {
  RankBasis basis = asked.evidence
                        ? RankBasis{.source = *asked.evidence, .weight = WeightOf(*asked.evidence)}
                        : BasisFor(asked.weight, model, use);
  if (asked.evidence == RankSource::kSamples && SamplesAreOfMemoryAlone())
    basis.weight = RankWeight::kMemory;
  attempted += fmt::format(" by {}", Name(basis.source));
  if (Status known = Require(basis.source, std::move(attempted), std::move(object)); !known) {
    return Fail(std::move(known.error()));
  }
  return basis;
}

}  // namespace tmprof
