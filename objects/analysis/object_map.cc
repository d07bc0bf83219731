// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_map.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "objects/analysis/objects.h"

namespace tmprof {
namespace {

std::uint64_t StartOf(const PageColumns& pages, std::size_t record) {
  return pages.vpn[record].value() * kBasePageBytes;
}

std::uint64_t EndOf(const PageColumns& pages, std::size_t record) {
  return (pages.vpn[record].value() + pages.span_pages[record]) * kBasePageBytes;
}

TracedKind KindOf(FixedKind kind) {
  switch (kind) {
    case FixedKind::kVariable:
      return TracedKind::kVariable;
    case FixedKind::kData:
      return TracedKind::kData;
    case FixedKind::kStack:
      break;
  }
  return TracedKind::kStack;
}

TracedObject ObjectOf(const AllocationEvent& event, TracedKind kind) {
  return {.kind = kind,
          .target = event.target,
          .start = event.address,
          .bytes = event.bytes,
          .weight = std::max(event.weight, 1.0),
          .site = event.site,
          .birth = event.time,
          .since = event.time};
}

// Objects of a lower layer lie within memory of the next one and take their shares first.
int LayerOf(TracedKind kind) {
  if (kind == TracedKind::kMapped) return 2;
  return kind == TracedKind::kAllocated ? 1 : 0;
}
constexpr int kLayers = 3;

// Returns the first record of the target whose span ends above `address`.
std::size_t FirstFrom(const PageColumns& pages, TargetId target, std::uint64_t address) {
  std::size_t first = 0;
  std::size_t last = pages.size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    const bool is_before =
        std::tuple(pages.target[middle], EndOf(pages, middle)) <= std::tuple(target, address);
    (is_before ? first : last) = is_before ? middle + 1 : middle;
  }
  return first;
}

}  // namespace

std::string_view NameOf(TracedKind kind) {
  switch (kind) {
    case TracedKind::kAllocated:
      return "allocated";
    case TracedKind::kMapped:
      return "mapped";
    case TracedKind::kVariable:
      return "variable";
    case TracedKind::kData:
      return "data";
    case TracedKind::kStack:
      break;
  }
  return "stack";
}

std::string SiteText(TracedKind kind, const ObjectSite& site, std::size_t most_frames) {
  const std::string name = Printable(site.name);
  if (kind == TracedKind::kStack) {
    return site.thread ? fmt::format("thread {} {}", site.thread->value(), name) : "thread unknown";
  }
  if (name.empty()) return FramesText(site.frames, most_frames);
  const std::string file = site.frames.empty() ? "unknown" : FileName(site.frames[0].module);
  return fmt::format("{} of {}{}", name, Printable(file),
                     kind == TracedKind::kData ? ", no symbol" : "");
}

double SamplesOf(const PageColumns& pages, std::size_t record) {
  return static_cast<double>(pages.load_samples[record]) +
         static_cast<double>(pages.store_samples[record]);
}

void ObjectMap::See(const EpochProfile& epoch, bool to_be_shared) {
  present_.clear();
  if (const Allocations* allocations = AllocationsOf(epoch)) {
    for (const AllocationEvent& event : allocations->events) {
      const auto target = std::ranges::lower_bound(epoch.targets, event.target, {}, &Target::id);
      if (target == epoch.targets.end() || target->id != event.target) continue;
      if (visitor_.Follows(*target)) Apply(epoch, *target, event);
    }
    for (const FixedEvent& event : allocations->fixed) {
      const auto target = std::ranges::lower_bound(epoch.targets, event.target, {}, &Target::id);
      if (target == epoch.targets.end() || target->id != event.target) continue;
      if (visitor_.Follows(*target)) Apply(epoch, *target, event);
    }
  }
  if (to_be_shared) {
    Each([&](const TracedObject& object) { Stay(epoch, object, epoch.end); });
    ShareAll(epoch);
  }
  visitor_.EndEpoch(epoch);
  for (const Target& target : epoch.targets) {
    const auto living = live_.find(target.id);
    if (!target.exited || living == live_.end()) continue;
    living->second.Each([&](const TracedObject& object) { visitor_.End(object, epoch.end); });
    live_.erase(living);
  }
}

void ObjectMap::Apply(const EpochProfile& epoch, const Target& target,
                      const AllocationEvent& event) {
  switch (event.kind) {
    case AllocationKind::kAllocated:
      return Begin(epoch, target, ObjectOf(event, TracedKind::kAllocated));
    case AllocationKind::kFreed:
      return End(epoch, event.target, TracedKind::kAllocated, event.address, event.time);
    case AllocationKind::kMapped:
      Unmap(epoch, event);  // MAP_FIXED replaces mappings
      return Begin(epoch, target, ObjectOf(event, TracedKind::kMapped));
    case AllocationKind::kUnmapped:
      return Unmap(epoch, event);
  }
}

void ObjectMap::Apply(const EpochProfile& epoch, const Target& target, const FixedEvent& event) {
  const TracedKind kind = KindOf(event.kind);
  if (event.ends) return End(epoch, event.target, kind, event.address, event.time);
  TracedObject object{.kind = kind,
                      .target = event.target,
                      .start = event.address,
                      .bytes = event.bytes,
                      .site = event.site,
                      .birth = event.time,
                      .since = event.time};
  const TracedObject* found = FindFixed(event);
  if (found == nullptr) return Begin(epoch, target, object);
  const TracedObject before = *found;
  Stay(epoch, before, event.time);
  object.birth = before.birth;
  object.label = before.label;
  Objects& fixed = live_[event.target].fixed;
  fixed.erase(before.start);
  fixed.insert_or_assign(object.start, object);
  visitor_.Resize(before, object);
}

TracedObject* ObjectMap::FindFixed(const FixedEvent& event) {
  Objects& fixed = live_[event.target].fixed;
  auto at = fixed.upper_bound(event.address);
  if (at != fixed.begin() && std::prev(at)->second.end() > event.address) --at;
  for (; at != fixed.end() && at->first < event.address + event.bytes; ++at) {
    if (at->second.site == event.site && at->second.kind == KindOf(event.kind)) return &at->second;
  }
  return nullptr;
}

void ObjectMap::Begin(const EpochProfile& epoch, const Target& target, TracedObject object) {
  End(epoch, object.target, object.kind, object.start, object.since);
  visitor_.Begin(target, object);
  live_[object.target].Of(object.kind)[object.start] = object;
}

void ObjectMap::End(const EpochProfile& epoch, TargetId target, TracedKind kind,
                    std::uint64_t address, MonotonicTime end) {
  Objects& objects = live_[target].Of(kind);
  const auto found = objects.find(address);
  if (found == objects.end()) return;
  Stay(epoch, found->second, end);
  visitor_.End(found->second, end);
  objects.erase(found);
}

// Unmaps a part of what is mapped. The rest stays.
void ObjectMap::Unmap(const EpochProfile& epoch, const AllocationEvent& event) {
  Objects& objects = live_[event.target].mapped;
  const std::uint64_t end = event.address + event.bytes;
  std::vector<TracedObject> cut;
  auto at = objects.upper_bound(event.address);
  if (at != objects.begin() && std::prev(at)->second.end() > event.address) --at;
  for (; at != objects.end() && at->first < end; ++at) cut.push_back(at->second);
  for (const TracedObject& object : cut) {
    if (object.start >= event.address && object.end() <= end) {
      End(epoch, object.target, TracedKind::kMapped, object.start, event.time);
      continue;
    }
    Stay(epoch, object, event.time);
    objects.erase(object.start);
    if (object.start < event.address) {
      TracedObject& before = objects[object.start] = object;
      before.bytes = event.address - object.start;
      before.since = event.time;
    }
    if (object.end() > end) {
      TracedObject& after = objects[end] = object;
      after.start = end;
      after.bytes = object.end() - end;
      after.since = event.time;
    }
  }
}

void ObjectMap::Stay(const EpochProfile& epoch, const TracedObject& object, MonotonicTime until) {
  const MonotonicTime from = std::max(object.since, epoch.start);
  const MonotonicTime to = std::min(until, epoch.end);
  if (from < to) present_.push_back({.object = object, .from = from, .to = to});
}

void ObjectMap::ShareAll(const EpochProfile& epoch) {
  std::vector<double> taken(epoch.pages.size());
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Presence& presence : present_) {
      if (LayerOf(presence.object.kind) == layer) ShareOf(presence, epoch, taken);
    }
  }
}

void ObjectMap::ShareOf(const Presence& presence, const EpochProfile& epoch,
                        std::vector<double>& taken) {
  const PageColumns& pages = epoch.pages;
  const TracedObject& object = presence.object;
  const auto time = std::chrono::duration<double>(presence.to - presence.from) /
                    std::chrono::duration<double>(epoch.length());
  for (std::size_t i = FirstFrom(pages, object.target, object.start); i < pages.size(); ++i) {
    const std::uint64_t start = StartOf(pages, i);
    const std::uint64_t end = EndOf(pages, i);
    if (pages.target[i] != object.target || start >= object.end()) break;
    const std::uint64_t overlap = std::min(end, object.end()) - std::max(start, object.start);
    double share = static_cast<double>(overlap) / static_cast<double>(end - start) * time;
    share = std::min(share, std::max(1 - taken[i], 0.0));
    taken[i] += share;
    visitor_.Share(pages, i, object, share);
  }
}

const TracedObject* ObjectMap::Largest(TargetId target, std::uint64_t start,
                                       std::uint64_t end) const {
  const auto living = live_.find(target);
  if (living == live_.end()) return nullptr;
  const TracedObject* largest = nullptr;
  std::uint64_t most = 0;
  for (const Objects* objects :
       {&living->second.fixed, &living->second.allocated, &living->second.mapped}) {
    if (objects == &living->second.mapped && largest != nullptr) break;
    auto at = objects->upper_bound(start);
    if (at != objects->begin()) --at;
    for (; at != objects->end() && at->first < end; ++at) {
      const TracedObject& object = at->second;
      const std::uint64_t from = std::max(start, object.start);
      const std::uint64_t to = std::min(end, object.end());
      if (from >= to || to - from <= most) continue;
      most = to - from;
      largest = &object;
    }
  }
  return largest;
}

}  // namespace tmprof
