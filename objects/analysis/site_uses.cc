// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/site_uses.h"

namespace tmprof {
namespace {

bool IsPlaceable(const TracedObject& object) {
  return object.kind == TracedKind::kAllocated && object.site != kUnknownSite;
}

}  // namespace

void SiteUses::See(const EpochProfile& epoch) {
  if (const Allocations* allocations = AllocationsOf(epoch)) {
    tracked_ = true;
    lost_ += allocations->lost;
    all_are_recorded_ = all_are_recorded_ && allocations->IsComplete();
    for (const ObjectSite& site : allocations->sites) frames_[site.id] = site.frames;
    for (const CodeFile& file : allocations->files) build_ids_[file.path] = file.build_id;
  }
  spans_.See(epoch);
  map_.See(epoch, true);
}

void SiteUses::Begin(const Target& /*target*/, TracedObject& object) {
  if (object.kind != TracedKind::kAllocated) return;
  all_are_recorded_ = all_are_recorded_ && object.site != kUnknownSite;
  if (!IsPlaceable(object)) return;
  SiteUse& site = sites_[object.site];
  site.objects += object.weight;
  site.live_objects += object.weight;
  site.live_bytes += static_cast<double>(object.bytes) * object.weight;
  if (site.live_bytes <= site.peak_bytes) return;
  site.peak_bytes = site.live_bytes;
  site.objects_at_peak = site.live_objects;
}

void SiteUses::End(const TracedObject& object, MonotonicTime /*end*/) {
  if (!IsPlaceable(object)) return;
  SiteUse& site = sites_[object.site];
  site.live_objects -= object.weight;
  site.live_bytes -= static_cast<double>(object.bytes) * object.weight;
}

void SiteUses::Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
                     double share) {
  if (!IsPlaceable(object)) return;
  const double weighed = share * EvidenceOf(pages, record);
  AddTo(spans_.Of(pages, record).shares,
        {.site = object.site, .recorded = weighed, .with_unrecorded = weighed * object.weight});
}

}  // namespace tmprof
