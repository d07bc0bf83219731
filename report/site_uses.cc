// SPDX-License-Identifier: Apache-2.0

#include "report/site_uses.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

bool IsPlaceable(const TracedObject& object) {
  return object.kind == TracedKind::kAllocated && object.site != kUnknownSite;
}

// Epochs in which nothing was seen count where there are no others: less than a single reference by
// more than epochs of a recording can add up to.
double WeightOf(const PageColumns& pages, std::size_t record) {
  constexpr double kNothingSeen = 1e-9;
  return pages.references[record] + SamplesOf(pages, record) + kNothingSeen;
}

void AddPart(SpanUse& part, const SpanUse& whole) {
  const double share = part.page_count() / whole.page_count();
  part.weight += share * whole.weight;
  for (SiteShare added : whole.shares) {
    added.recorded *= share;
    added.with_unrecorded *= share;
    AddTo(part.shares, added);
  }
}

// Spans of which each but the first overlaps one before it.
void AppendParts(std::span<const SpanUse> spans, std::vector<SpanUse>& parts) {
  std::vector<Vpn> bounds;
  for (const SpanUse& span : spans) bounds.insert(bounds.end(), {span.pages.start, span.pages.end});
  std::ranges::sort(bounds);
  bounds.erase(std::ranges::unique(bounds).begin(), bounds.end());
  const std::size_t first = parts.size();
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    parts.push_back({.target = spans.front().target, .pages = {bounds[i], bounds[i + 1]}});
  }
  for (const SpanUse& span : spans) {
    auto bound = std::ranges::lower_bound(bounds, span.pages.start);
    for (; *bound < span.pages.end; ++bound) {
      AddPart(parts[first + static_cast<std::size_t>(bound - bounds.begin())], span);
    }
  }
}

}  // namespace

void AddTo(std::vector<SiteShare>& shares, const SiteShare& added) {
  const auto at = std::ranges::lower_bound(shares, added.site, {}, &SiteShare::site);
  if (at == shares.end() || at->site != added.site) {
    shares.insert(at, added);
    return;
  }
  at->recorded += added.recorded;
  at->with_unrecorded += added.with_unrecorded;
}

void SiteUses::See(const EpochProfile& epoch) {
  if (epoch.allocations) {
    tracked_ = true;
    lost_ += epoch.allocations->lost;
    all_are_recorded_ = all_are_recorded_ && epoch.allocations->IsComplete();
    for (const ObjectSite& site : epoch.allocations->sites) frames_[site.id] = site.frames;
  }
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    SpanOf(epoch.pages, i).weight += WeightOf(epoch.pages, i);
  }
  map_.See(epoch, true);
}

SpanUse& SiteUses::SpanOf(const PageColumns& pages, std::size_t record) {
  const PageKey key = pages.key(record);
  const auto [at, is_new] = spans_.try_emplace({key, pages.span_pages[record]});
  if (is_new) {
    at->second.target = key.target;
    at->second.pages = {key.vpn, key.vpn + PageCount(pages.span_pages[record])};
  }
  return at->second;
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
  const double weighed = share * WeightOf(pages, record);
  AddTo(SpanOf(pages, record).shares,
        {.site = object.site, .recorded = weighed, .with_unrecorded = weighed * object.weight});
}

std::vector<SpanUse> SiteUses::TakeSpans() {
  std::vector<SpanUse> spans;
  spans.reserve(spans_.size());
  for (auto& [key, use] : spans_) spans.push_back(std::move(use));
  spans_.clear();
  std::ranges::sort(spans, {}, [](const SpanUse& span) {
    return std::tuple(span.target, span.pages.start, span.pages.end);
  });
  std::vector<SpanUse> disjoint;
  disjoint.reserve(spans.size());
  for (std::size_t begin = 0; begin < spans.size();) {
    std::size_t end = begin + 1;
    Vpn reached = spans[begin].pages.end;
    for (; end < spans.size() && spans[end].target == spans[begin].target &&
           spans[end].pages.start < reached;
         ++end) {
      reached = std::max(reached, spans[end].pages.end);
    }
    if (end == begin + 1) {
      disjoint.push_back(std::move(spans[begin]));
    } else {
      AppendParts(std::span(spans).subspan(begin, end - begin), disjoint);
    }
    begin = end;
  }
  return disjoint;
}

}  // namespace tmprof
