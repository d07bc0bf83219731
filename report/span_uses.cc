// SPDX-License-Identifier: Apache-2.0

#include "report/span_uses.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

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

PageKey EndOf(const EvidenceTable& table, std::size_t row) {
  return {table.key[row].target, table.key[row].vpn + PageCount(table.span_pages[row])};
}

}  // namespace

double EvidenceOf(const PageColumns& pages, std::size_t record) {
  // Less than a single reference by more than epochs of a recording can add up to.
  constexpr double kNothingSeen = 1e-9;
  return static_cast<double>(pages.references[record]) +
         static_cast<double>(pages.load_samples[record]) +
         static_cast<double>(pages.store_samples[record]) + kNothingSeen;
}

void AddTo(std::vector<SiteShare>& shares, const SiteShare& added) {
  const auto at = std::ranges::lower_bound(shares, added.site, {}, &SiteShare::site);
  if (at == shares.end() || at->site != added.site) {
    shares.insert(at, added);
    return;
  }
  at->recorded += added.recorded;
  at->with_unrecorded += added.with_unrecorded;
}

void SpanUses::See(const EpochProfile& epoch) {
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    Of(epoch.pages, i).weight += EvidenceOf(epoch.pages, i);
  }
}

SpanUse& SpanUses::Of(const PageColumns& pages, std::size_t record) {
  const PageKey key = pages.key(record);
  const auto [at, is_new] = spans_.try_emplace({key, pages.span_pages[record]});
  if (is_new) {
    at->second.target = key.target;
    at->second.pages = {key.vpn, key.vpn + PageCount(pages.span_pages[record])};
  }
  return at->second;
}

std::vector<SpanUse> SpanUses::Take() {
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

std::vector<double> SpanAccesses(const std::vector<SpanUse>& spans, const EvidenceTable& table,
                                 const Scores& scores) {
  std::vector<double> accesses;
  accesses.reserve(spans.size());
  std::size_t first = 0;  // both ascend
  for (const SpanUse& span : spans) {
    while (first < table.size() && EndOf(table, first) <= PageKey{span.target, span.pages.start}) {
      ++first;
    }
    double sum = 0;
    for (std::size_t row = first;
         row < table.size() && table.key[row] < PageKey{span.target, span.pages.end}; ++row) {
      const Vpn from = std::max(table.key[row].vpn, span.pages.start);
      const Vpn to = std::min(EndOf(table, row).vpn, span.pages.end);
      sum += scores[row] * static_cast<double>((to - from).value()) / table.span_pages[row];
    }
    accesses.push_back(sum);
  }
  return accesses;
}

EpochAccesses::EpochAccesses(SpanUses& spans, const EvidenceTable& table, const Scores& scores) {
  const std::vector<SpanUse> uses = spans.Take();
  const std::vector<double> accesses = SpanAccesses(uses, table, scores);
  parts_.reserve(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    parts_.push_back({.target = uses[i].target,
                      .start = uses[i].pages.start,
                      .end = uses[i].pages.end,
                      .of_evidence = accesses[i] / uses[i].weight});
  }
}

double EpochAccesses::Of(const PageColumns& pages, std::size_t record) const {
  const PageKey start = pages.key(record);
  const Vpn end = start.vpn + PageCount(pages.span_pages[record]);
  auto part =
      std::ranges::lower_bound(parts_, std::tuple(start.target, start.vpn), {},
                               [](const Part& of) { return std::tuple(of.target, of.start); });
  double sum = 0;
  for (; part != parts_.end() && part->target == start.target && part->end <= end; ++part) {
    sum += part->of_evidence * static_cast<double>((part->end - part->start).value());
  }
  return sum * EvidenceOf(pages, record) / pages.span_pages[record];
}

}  // namespace tmprof
