// SPDX-License-Identifier: Apache-2.0

#include "base/epoch_profile.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tmprof {

bool PageColumns::WasSeenAccessed(std::size_t i) const {
  const bool counted = accesses && (accesses->loads[i] | accesses->stores[i]) != 0;
  return counted || (references[i] | load_samples[i] | store_samples[i]) != 0;
}

void PageColumns::Reserve(std::size_t records) {
  target.reserve(records);
  vpn.reserve(records);
  span_pages.reserve(records);
  looks.reserve(records);
  references.reserve(records);
  first_accesses.reserve(records);
  time_at_risk.reserve(records);
  load_samples.reserve(records);
  store_samples.reserve(records);
  node.reserve(records);
}

namespace {

std::optional<AccessCounts> AccessesAt(const PageColumns& columns, std::size_t i) {
  if (!columns.accesses) return std::nullopt;
  const PageColumns::Accesses& accesses = *columns.accesses;
  AccessCounts counts{.loads = accesses.loads[i], .stores = accesses.stores[i]};
  if (accesses.llc_misses) counts.llc_misses = (*accesses.llc_misses)[i];
  if (accesses.dtlb_misses) counts.dtlb_misses = (*accesses.dtlb_misses)[i];
  if (accesses.hidden_misses) counts.hidden_misses = (*accesses.hidden_misses)[i];
  if (accesses.stall_ns) counts.stall_ns = (*accesses.stall_ns)[i];
  return counts;
}

// Precondition: `column` has `before` values, or gets as many here.
void AppendModelled(std::optional<std::vector<std::uint64_t>>& column, std::size_t before,
                    std::optional<std::uint64_t> value) {
  if (!column && value) column.emplace(before);
  if (column) column->push_back(value.value_or(0));
}

void AppendAccesses(PageColumns& columns, const std::optional<AccessCounts>& counts) {
  const std::size_t before = columns.size();
  if (!columns.accesses) {
    if (!counts) return;
    columns.accesses.emplace();
    columns.accesses->loads.resize(before);
    columns.accesses->stores.resize(before);
  }
  PageColumns::Accesses& accesses = *columns.accesses;
  const AccessCounts added = counts.value_or(AccessCounts{});
  accesses.loads.push_back(added.loads);
  accesses.stores.push_back(added.stores);
  AppendModelled(accesses.llc_misses, before, added.llc_misses);
  AppendModelled(accesses.dtlb_misses, before, added.dtlb_misses);
  AppendModelled(accesses.hidden_misses, before, added.hidden_misses);
  AppendModelled(accesses.stall_ns, before, added.stall_ns);
}

void AppendFindingReads(PageColumns& columns, const PageRecord& record) {
  if (!columns.finding_reads) {
    if (!TellsFindingReads(record)) return;
    PageColumns::FindingReads& reads = columns.finding_reads.emplace();
    reads.first_reads.resize(columns.size());
    reads.first_time.resize(columns.size());
    reads.later_time.resize(columns.size());
  }
  PageColumns::FindingReads& reads = *columns.finding_reads;
  reads.first_reads.push_back(record.first_read_finds);
  reads.first_time.push_back(record.first_read_time);
  reads.later_time.push_back(record.later_read_time);
}

void AppendNewVisits(PageColumns& columns, const PageRecord& record) {
  if (!columns.new_visits) {
    if (record.new_first_accesses == 0 && record.new_time_at_risk == LogDuration()) return;
    PageColumns::NewVisits& visits = columns.new_visits.emplace();
    visits.first_accesses.resize(columns.size());
    visits.time_at_risk.resize(columns.size());
    visits.later_time.resize(columns.size());
  }
  PageColumns::NewVisits& visits = *columns.new_visits;
  visits.first_accesses.push_back(record.new_first_accesses);
  visits.time_at_risk.push_back(record.new_time_at_risk);
  visits.later_time.push_back(record.new_later_read_time);
}

void AppendFastTries(PageColumns& columns, const PageRecord& record) {
  if (!columns.fast_tries) {
    if (record.fast_looks == 0) return;
    PageColumns::FastTries& tries = columns.fast_tries.emplace();
    tries.looks.resize(columns.size());
    tries.found.resize(columns.size());
    tries.time.resize(columns.size());
    tries.earlier.resize(columns.size());
    tries.earlier_time.resize(columns.size());
  }
  PageColumns::FastTries& tries = *columns.fast_tries;
  tries.looks.push_back(record.fast_looks);
  tries.found.push_back(record.fast_found);
  tries.time.push_back(record.fast_time);
  tries.earlier.push_back(record.fast_earlier);
  tries.earlier_time.push_back(record.fast_earlier_time);
}

}  // namespace

bool TellsFindingReads(const PageRecord& record) {
  return record.first_read_finds > 0 || record.later_read_time > LogDuration();
}

PageRecord RecordAt(const PageColumns& columns, std::size_t i) {
  PageRecord record{.key = columns.key(i),
                    .span = PageCount(columns.span_pages[i]),
                    .looks = columns.looks[i],
                    .references = columns.references[i],
                    .first_accesses = columns.first_accesses[i],
                    .time_at_risk = columns.time_at_risk[i],
                    .load_samples = columns.load_samples[i],
                    .store_samples = columns.store_samples[i],
                    .node = columns.node[i],
                    .accesses = AccessesAt(columns, i)};
  if (columns.finding_reads) {
    record.first_read_finds = columns.finding_reads->first_reads[i];
    record.first_read_time = columns.finding_reads->first_time[i];
    record.later_read_time = columns.finding_reads->later_time[i];
  }
  if (columns.fast_tries) {
    record.fast_looks = columns.fast_tries->looks[i];
    record.fast_found = columns.fast_tries->found[i];
    record.fast_time = columns.fast_tries->time[i];
    record.fast_earlier = columns.fast_tries->earlier[i];
    record.fast_earlier_time = columns.fast_tries->earlier_time[i];
  }
  if (columns.new_visits) {
    record.new_first_accesses = columns.new_visits->first_accesses[i];
    record.new_time_at_risk = columns.new_visits->time_at_risk[i];
    record.new_later_read_time = columns.new_visits->later_time[i];
  }
  return record;
}

void Append(PageColumns& columns, const PageRecord& record) {
  if (!columns.empty()) {
    const std::size_t last = columns.size() - 1;
    const PageKey past_last{columns.target[last],
                            columns.vpn[last] + PageCount(columns.span_pages[last])};
    TMPROF_CHECK(record.key >= past_last);
  }
  TMPROF_CHECK(record.span > PageCount(0) && record.references <= record.looks);
  TMPROF_CHECK(record.span.value() <= std::numeric_limits<std::uint32_t>::max());
  TMPROF_CHECK(record.first_read_finds <= record.first_accesses);
  TMPROF_CHECK(record.fast_found <= record.fast_looks);
  TMPROF_CHECK(record.new_first_accesses <= record.first_accesses);
  TMPROF_CHECK(record.new_time_at_risk > LogDuration() ||
               (record.new_first_accesses == 0 && record.new_later_read_time == LogDuration()));
  AppendAccesses(columns, record.accesses);
  AppendFindingReads(columns, record);
  AppendFastTries(columns, record);
  if (columns.same_as) columns.same_as->push_back(static_cast<std::uint32_t>(columns.size()));
  AppendNewVisits(columns, record);
  columns.target.push_back(record.key.target);
  columns.vpn.push_back(record.key.vpn);
  columns.span_pages.push_back(static_cast<std::uint32_t>(record.span.value()));
  columns.looks.push_back(record.looks);
  columns.references.push_back(record.references);
  columns.first_accesses.push_back(record.first_accesses);
  columns.time_at_risk.push_back(record.time_at_risk);
  columns.load_samples.push_back(record.load_samples);
  columns.store_samples.push_back(record.store_samples);
  columns.node.push_back(record.node);
}

std::optional<PageCount> ResidentPages(const EpochProfile& epoch) {
  std::optional<PageCount> sum;
  for (const Target& target : epoch.targets) {
    if (target.exited) continue;
    if (!target.resident_pages) return std::nullopt;
    sum = sum.value_or(PageCount(0)) + *target.resident_pages;
  }
  return sum;
}

const Mapping* FindMapping(const Target& target, Vpn vpn) {
  const auto after = std::ranges::upper_bound(
      target.mappings, vpn, {}, [](const Mapping& mapping) { return mapping.range.start; });
  if (after == target.mappings.begin()) return nullptr;
  const Mapping& candidate = *std::prev(after);
  return candidate.range.Contains(vpn) ? &candidate : nullptr;
}

std::string_view Name(SourceRole role) {
  switch (role) {
    case SourceRole::kReferences:
      return "references";
    case SourceRole::kSamples:
      return "samples";
    case SourceRole::kTruth:
      return "truth";
  }
  return "invalid";
}

std::string_view Name(SourceState state) {
  switch (state) {
    case SourceState::kActive:
      return "active";
    case SourceState::kGated:
      return "gated";
    case SourceState::kUnavailable:
      return "unavailable";
  }
  return "invalid";
}

std::string_view Name(SampleSubject subject) {
  switch (subject) {
    case SampleSubject::kMemory:
      return "memory";
    case SampleSubject::kTime:
      return "time";
  }
  return "invalid";
}

std::string_view Name(MappingKind kind) {
  switch (kind) {
    case MappingKind::kAnonymous:
      return "anon";
    case MappingKind::kHeap:
      return "heap";
    case MappingKind::kStack:
      return "stack";
    case MappingKind::kFile:
      return "file";
    case MappingKind::kShared:
      return "shared";
    case MappingKind::kSpecial:
      return "special";
  }
  return "invalid";
}

}  // namespace tmprof
