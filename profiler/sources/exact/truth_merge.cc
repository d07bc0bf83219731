// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_merge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/kept_groups.h"
#include "profiler/epoch_builder.h"

namespace tmprof::exact {
namespace {

std::optional<TargetId> SameProcess(const std::vector<Target>& targets, const Target& wanted) {
  for (const Target& target : targets) {
    const bool start_known = target.start_time_ticks != 0 && wanted.start_time_ticks != 0;
    if (target.pid == wanted.pid &&
        (!start_known || target.start_time_ticks == wanted.start_time_ticks))
      return target.id;
  }
  return std::nullopt;
}

// Unknown and some more is unknown.
void AddCount(std::optional<std::uint64_t>& sum, std::optional<std::uint64_t> more) {
  if (sum && more) {
    *sum += *more;
  } else {
    sum = std::nullopt;
  }
}

// A count that one of the two lacks is unknown for both.
void AddDetails(std::vector<NamedCount>& sums, const std::vector<NamedCount>& more) {
  std::vector<NamedCount> known;
  for (const NamedCount& sum : sums) {
    const auto found = std::ranges::find(more, sum.name, &NamedCount::name);
    if (found != more.end()) known.push_back({sum.name, sum.count + found->count});
  }
  sums = std::move(known);
}

void Add(PageRecord& to, const PageRecord& from) {
  Join(to.accesses, from.accesses);
  if (!to.node) to.node = from.node;
}

PageKey EndOf(const PageRecord& record) {
  return {record.key.target, record.key.vpn + record.span};
}

// Counts of the epochs that were added before are there already.
SourceStatus& SourceOf(EpochProfile& recorded, const SourceStatus& source) {
  const auto known = std::ranges::find_if(recorded.sources, [&](const SourceStatus& other) {
    return other.name == source.name && other.role == source.role;
  });
  if (known != recorded.sources.end()) {
    AddCount(known->observations, source.observations);
    AddCount(known->lost, source.lost);
    AddDetails(known->details, source.details);
    return *known;
  }
  return recorded.sources.emplace_back(source);
}

}  // namespace

void AddTruth(EpochProfile& recorded, const EpochProfile& truth) {
  std::map<TargetId, std::optional<TargetId>> id_of;
  for (const Target& target : truth.targets)
    id_of[target.id] = SameProcess(recorded.targets, target);

  std::uint64_t unknown = 0;
  std::vector<PageRecord> added;
  for (std::size_t i = 0; truth.pages.accesses && i < truth.pages.size(); ++i) {
    PageRecord record = RecordAt(truth.pages, i);
    if (const std::optional<TargetId> id = id_of[record.key.target]) {
      record.key.target = *id;
      added.push_back(record);
    } else {
      unknown += record.accesses->loads + record.accesses->stores;
    }
  }
  std::ranges::stable_sort(added, {}, &PageRecord::key);

  PageColumns merged;
  merged.Reserve(recorded.pages.size() + added.size());
  if (recorded.pages.new_visits) merged.new_visits.emplace();
  KeptGroups groups(recorded.pages, merged);
  auto next = added.begin();
  const auto append_before = [&](const PageKey& until) {
    for (; next != added.end() && next->key < until; ++next) {
      PageRecord record = *next;
      while (std::next(next) != added.end() && std::next(next)->key < EndOf(record))
        Add(record, *++next);
      Append(merged, record);
    }
  };
  for (std::size_t i = 0; i < recorded.pages.size(); ++i) {
    PageRecord record = RecordAt(recorded.pages, i);
    append_before(record.key);
    for (; next != added.end() && next->key < EndOf(record); ++next) Add(record, *next);
    Append(merged, record);
    groups.Keep(i);
  }
  append_before({TargetId(~TargetId::rep{0}), Vpn(~Vpn::rep{0})});
  recorded.pages = std::move(merged);

  for (const SourceStatus& source : truth.sources) {
    SourceStatus& status = SourceOf(recorded, source);
    if (unknown > 0 && status.lost) *status.lost += unknown;
  }
}

MergeResult MergeTruth(EpochStream& recorded, EpochProfile first, EpochStream& truth,
                       const std::function<void(const EpochProfile&)>& visit) {
  MergeResult result;
  EpochProfile waiting = std::move(first);
  bool more = true;
  const auto advance = [&] {
    const Result<bool> next = truth.Next(waiting);
    if (!next) result.truth.damage = next.error();
    more = next && *next;
  };
  const auto middle = [&] { return waiting.start + waiting.length() / 2; };
  result.recorded = ReadToEnd(recorded, [&](const EpochProfile& epoch) {
    for (; more && middle() < epoch.start; advance()) ++result.outside_recording;
    EpochProfile merged = epoch;
    if (!more || middle() >= epoch.end) ++result.without_truth;
    for (; more && middle() < epoch.end; advance()) AddTruth(merged, waiting);
    visit(merged);
  });
  for (; more; advance()) ++result.outside_recording;
  if (!result.truth.damage) result.truth = truth.End();
  return result;
}

}  // namespace tmprof::exact
