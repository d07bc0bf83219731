// SPDX-License-Identifier: Apache-2.0

#include "profiler/epoch_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/rung_blocks.h"

namespace tmprof {
namespace {

// A PageRecord whose times are still exact.
struct Contribution {
  PageRecord record;
  std::chrono::nanoseconds time_at_risk{0};
  std::chrono::nanoseconds first_read_time{0};
  std::chrono::nanoseconds later_read_time{0};
  std::chrono::nanoseconds fast_time{0};
  std::chrono::nanoseconds fast_earlier_time{0};
  std::chrono::nanoseconds new_time_at_risk{0};
  std::chrono::nanoseconds new_later_read_time{0};
  bool seen = false;
  bool region = false;
  std::optional<SeenFrame> frame;
  double owed = 0;  // first accesses that parts cut off should have had

  PageKey end() const { return {record.key.target, record.key.vpn + record.span}; }
  bool ReadsBits() const { return record.looks > 0 || record.fast_looks > 0 || seen; }
  bool HasEvidence() const {
    return record.looks > 0 || record.fast_looks > 0 || record.load_samples > 0 ||
           record.store_samples > 0 || record.accesses || seen;
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
                     .first_read_finds = reference.first_read_finds,
                     .node = reference.node,
                     .fast_looks = reference.fast_looks,
                     .fast_found = reference.fast_found,
                     .fast_earlier = reference.fast_earlier,
                     .new_first_accesses = reference.new_first_accesses},
          .time_at_risk = reference.time_at_risk,
          .first_read_time = reference.first_read_time,
          .later_read_time = reference.later_read_time,
          .fast_time = reference.fast_time,
          .fast_earlier_time = reference.fast_earlier_time,
          .new_time_at_risk = reference.new_time_at_risk,
          .new_later_read_time = reference.new_later_read_time,
          .seen = reference.seen,
          .region = reference.region,
          .frame = reference.frame};
}

Contribution FromSample(const SampleRecord& sample) {
  return {
      .record = {.key = sample.key, .load_samples = sample.loads, .store_samples = sample.stores}};
}

Contribution FromAccesses(const AccessRecord& accesses) {
  return {.record = {.key = accesses.key, .node = accesses.node, .accesses = accesses.counts}};
}

Contribution LayoutOnly(const ReferenceRecord& huge) {
  return {.record = {.key = huge.key, .span = huge.span, .node = huge.node}};
}

void AddKnown(std::optional<std::uint64_t>& sum, std::optional<std::uint64_t> more) {
  if (more) sum = sum.value_or(0) + *more;
}

void Join(Contribution& into, const Contribution& from) {
  AddSaturating(into.record.looks, from.record.looks);
  AddSaturating(into.record.references, from.record.references);
  AddSaturating(into.record.first_accesses, from.record.first_accesses);
  AddSaturating(into.record.first_read_finds, from.record.first_read_finds);
  AddSaturating(into.record.load_samples, from.record.load_samples);
  AddSaturating(into.record.store_samples, from.record.store_samples);
  Join(into.record.accesses, from.record.accesses);
  AddSaturating(into.record.fast_looks, from.record.fast_looks);
  AddSaturating(into.record.fast_found, from.record.fast_found);
  AddSaturating(into.record.fast_earlier, from.record.fast_earlier);
  AddSaturating(into.record.new_first_accesses, from.record.new_first_accesses);
  into.time_at_risk += from.time_at_risk;
  into.first_read_time += from.first_read_time;
  into.later_read_time += from.later_read_time;
  into.fast_time += from.fast_time;
  into.fast_earlier_time += from.fast_earlier_time;
  into.new_time_at_risk += from.new_time_at_risk;
  into.new_later_read_time += from.new_later_read_time;
  if (from.ReadsBits()) {
    const bool is_alike = from.record.key == into.record.key && from.end() == into.end();
    if (is_alike || !from.frame) {
      into.frame = from.frame;
    } else if (into.frame) {
      into.frame->is_shareable = false;
    }
  }
  into.seen |= from.seen;
  if (from.record.node) into.record.node = from.record.node;
  if (from.end() > into.end()) into.record.span = from.end().vpn - into.record.key.vpn;
}

// Cuts off the first `pages` of a region, with their share of what was seen. All that is cut off so
// far has its share of the first accesses to the nearest whole one, however small the parts. For
// parts it is unknown which reads found them, and when their visits began.
Contribution CutFront(Contribution& region, PageCount pages) {
  region.record.new_first_accesses = 0;
  region.new_time_at_risk = region.new_later_read_time = std::chrono::nanoseconds(0);
  region.record.first_read_finds = 0;
  region.first_read_time = region.later_read_time = std::chrono::nanoseconds(0);
  Contribution front = region;
  front.record.span = pages;
  const double left = region.record.first_accesses - region.owed;
  const double share =
      left * static_cast<double>(pages.value()) / static_cast<double>(region.record.span.value()) +
      region.owed;
  const double whole =
      std::clamp(std::round(share), 0.0, static_cast<double>(region.record.first_accesses));
  front.record.first_accesses = static_cast<std::uint32_t>(whole);
  region.owed = share - whole;
  region.record.first_accesses -= front.record.first_accesses;
  region.record.key.vpn = region.record.key.vpn + pages;
  region.record.span = region.record.span - pages;
  return front;
}

// True if `sample` says more about one page than the region's looks at random pages do.
bool Parts(const Contribution& sample, const Contribution& region) {
  return region.region && !sample.region && sample.record.looks == 0 &&
         sample.record.span == PageCount(1) && !sample.record.accesses;
}

bool Names(const std::vector<Target>& targets, TargetId id) {
  return std::ranges::binary_search(targets, id, {}, &Target::id);
}

// Keys ascending; of one key, the largest span first, so that it is what the others join.
bool LayoutOrder(const Contribution& a, const Contribution& b) {
  if (a.record.key != b.record.key) return a.record.key < b.record.key;
  return a.record.span > b.record.span;
}

// Leaves out blocks of targets that are not named.
void TakeRungs(std::vector<RungCounts> rungs, EpochProfile& profile) {
  for (RungCounts& counts : rungs) {
    KeepBlocks(counts,
               [&](std::size_t block) { return Names(profile.targets, counts.target[block]); });
    if (counts.blocks() > 0) profile.rungs.push_back(std::move(counts));
  }
}

}  // namespace

void Join(std::optional<AccessCounts>& into, const std::optional<AccessCounts>& from) {
  if (!from) return;
  if (!into) into.emplace();
  into->loads += from->loads;
  into->stores += from->stores;
  AddKnown(into->llc_misses, from->llc_misses);
  AddKnown(into->dtlb_misses, from->dtlb_misses);
  AddKnown(into->hidden_misses, from->hidden_misses);
  AddKnown(into->stall_ns, from->stall_ns);
}

EpochProfile BuildEpoch(EpochFrame frame, std::vector<SourceEpoch> sources,
                        std::vector<std::optional<SeenFrame>>* frames) {
  EpochProfile profile{.index = frame.index,
                       .start = frame.start,
                       .end = frame.end,
                       .targets = std::move(frame.targets),
                       .profiler_cpu_time = frame.profiler_cpu_time};

  std::size_t most = 0;
  for (const SourceEpoch& source : sources)
    most += source.references.size() + source.huge_spans.size() + source.samples.size() +
            source.accesses.size();
  std::vector<Contribution> contributions;
  contributions.reserve(most);
  for (SourceEpoch& source : sources) {
    const auto own_start = static_cast<std::ptrdiff_t>(contributions.size());
    std::uint64_t orphans = 0;
    const auto take = [&](const Contribution& contribution, std::uint64_t observations) {
      if (Names(profile.targets, contribution.record.key.target)) {
        contributions.push_back(contribution);
      } else {
        orphans += observations;
      }
    };
    for (const ReferenceRecord& reference : source.references) {
      take(FromReference(reference), reference.looks * reference.span.value());
    }
    for (const ReferenceRecord& huge : source.huge_spans) take(LayoutOnly(huge), 0);
    for (const SampleRecord& sample : source.samples) {
      take(FromSample(sample), std::uint64_t{sample.loads} + sample.stores);
    }
    for (const AccessRecord& accesses : source.accesses) {
      take(FromAccesses(accesses), accesses.counts.loads + accesses.counts.stores);
    }
    // Unknown and some more is unknown.
    if (source.status.lost) *source.status.lost += orphans;
    if (orphans > 0) source.status.details.push_back({"without_target", orphans});
    profile.sources.push_back(std::move(source.status));
    if (source.tells_new_visits && !profile.pages.new_visits) profile.pages.new_visits.emplace();
    TakeRungs(std::move(source.rungs), profile);
    // Stable: of equal spans, the later source gives the node. Most come in order already.
    const auto own = contributions.begin() + own_start;
    if (!std::is_sorted(own, contributions.end(), LayoutOrder))
      std::stable_sort(own, contributions.end(), LayoutOrder);
    std::inplace_merge(contributions.begin(), own, contributions.end(), LayoutOrder);
  }

  profile.pages.Reserve(contributions.size());
  if (frames != nullptr) frames->clear();
  const auto append = [&profile, frames](Contribution& whole) {
    if (!whole.HasEvidence()) return;
    whole.record.time_at_risk = LogDuration::FromNanoseconds(whole.time_at_risk);
    whole.record.first_read_time = LogDuration::FromNanoseconds(whole.first_read_time);
    whole.record.later_read_time = LogDuration::FromNanoseconds(whole.later_read_time);
    whole.record.fast_time = LogDuration::FromNanoseconds(whole.fast_time);
    whole.record.fast_earlier_time = LogDuration::FromNanoseconds(whole.fast_earlier_time);
    whole.record.new_time_at_risk = LogDuration::FromNanoseconds(whole.new_time_at_risk);
    whole.record.new_later_read_time = LogDuration::FromNanoseconds(whole.new_later_read_time);
    Append(profile.pages, whole.record);
    if (frames != nullptr) frames->push_back(whole.region ? std::nullopt : whole.frame);
  };
  const auto deliver = [&append](Contribution& whole) {
    const std::uint64_t pages = whole.record.span.value();
    // Part of a region that has the size of a huge page would be taken for one.
    if (whole.region && pages > 1 && IsOneEntry(pages)) {
      Contribution half = CutFront(whole, PageCount(pages / 2));
      append(half);
    }
    append(whole);
  };
  for (std::size_t i = 0; i < contributions.size();) {
    Contribution joined = contributions[i++];
    while (i < contributions.size() && contributions[i].record.key < joined.end()) {
      if (!Parts(contributions[i], joined)) {
        Join(joined, contributions[i++]);
        continue;
      }
      const PageKey sampled = contributions[i].record.key;
      if (joined.record.key < sampled) {
        Contribution before = CutFront(joined, sampled.vpn - joined.record.key.vpn);
        deliver(before);
      }
      // The rest of the region may begin with that page itself.
      Contribution page = CutFront(joined, PageCount(1));
      while (i < contributions.size() && contributions[i].record.key == sampled)
        Join(page, contributions[i++]);
      deliver(page);
      if (joined.record.span == PageCount(0)) break;
    }
    if (joined.record.span > PageCount(0)) deliver(joined);
  }
  return profile;
}

}  // namespace tmprof
