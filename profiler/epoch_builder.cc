// SPDX-License-Identifier: Apache-2.0

#include "profiler/epoch_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tmprof {
namespace {

// A PageRecord whose time at risk is still exact.
struct Contribution {
  PageRecord record;
  std::chrono::nanoseconds time_at_risk{0};

  PageKey end() const { return {record.key.target, record.key.vpn + record.span}; }
  bool HasEvidence() const {
    return record.looks > 0 || record.load_samples > 0 || record.store_samples > 0;
  }
};

void AddSaturating(std::uint32_t& sum, std::uint32_t more) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  sum = more > kMax - sum ? kMax : sum + more;
}

Contribution FromReference(const ReferenceRecord& reference) {
  return {.record = {.key = reference.key,
                     .span = reference.span,
                     .looks = reference.looks,
                     .references = reference.references,
                     .first_accesses = reference.first_accesses,
                     .node = reference.node},
          .time_at_risk = reference.time_at_risk};
}

Contribution FromSample(const SampleRecord& sample) {
  return {
      .record = {.key = sample.key, .load_samples = sample.loads, .store_samples = sample.stores}};
}

Contribution LayoutOnly(const ReferenceRecord& huge) {
  return {.record = {.key = huge.key, .span = huge.span, .node = huge.node}};
}

void Join(Contribution& into, const Contribution& from) {
  AddSaturating(into.record.looks, from.record.looks);
  AddSaturating(into.record.references, from.record.references);
  AddSaturating(into.record.first_accesses, from.record.first_accesses);
  AddSaturating(into.record.load_samples, from.record.load_samples);
  AddSaturating(into.record.store_samples, from.record.store_samples);
  into.time_at_risk += from.time_at_risk;
  if (from.record.node) into.record.node = from.record.node;
  if (from.end() > into.end()) into.record.span = from.end().vpn - into.record.key.vpn;
}

bool Names(const std::vector<Target>& targets, TargetId id) {
  return std::ranges::binary_search(targets, id, {}, &Target::id);
}

// Keys ascending; of one key, the largest span first, so that it is what the others join.
bool LayoutOrder(const Contribution& a, const Contribution& b) {
  if (a.record.key != b.record.key) return a.record.key < b.record.key;
  return a.record.span > b.record.span;
}

}  // namespace

EpochProfile BuildEpoch(EpochFrame frame, std::vector<SourceEpoch> sources) {
  EpochProfile profile{.index = frame.index,
                       .start = frame.start,
                       .end = frame.end,
                       .targets = std::move(frame.targets),
                       .profiler_cpu_time = frame.profiler_cpu_time};

  std::vector<Contribution> contributions;
  for (SourceEpoch& source : sources) {
    std::uint64_t orphans = 0;
    const auto take = [&](const Contribution& contribution, std::uint64_t observations) {
      if (Names(profile.targets, contribution.record.key.target)) {
        contributions.push_back(contribution);
      } else {
        orphans += observations;
      }
    };
    for (const ReferenceRecord& reference : source.references) {
      take(FromReference(reference), reference.looks);
    }
    for (const ReferenceRecord& huge : source.huge_spans) take(LayoutOnly(huge), 0);
    for (const SampleRecord& sample : source.samples) {
      take(FromSample(sample), std::uint64_t{sample.loads} + sample.stores);
    }
    if (orphans > 0) source.status.lost = source.status.lost.value_or(0) + orphans;
    profile.sources.push_back(std::move(source.status));
  }
  // Stable: of equal spans, the later source tells the node.
  std::ranges::stable_sort(contributions, LayoutOrder);

  profile.pages.Reserve(contributions.size());
  for (std::size_t i = 0; i < contributions.size();) {
    Contribution joined = contributions[i++];
    while (i < contributions.size() && contributions[i].record.key < joined.end()) {
      Join(joined, contributions[i++]);
    }
    if (!joined.HasEvidence()) continue;
    joined.record.time_at_risk = LogDuration::FromNanoseconds(joined.time_at_risk);
    Append(profile.pages, joined.record);
  }
  return profile;
}

}  // namespace tmprof
