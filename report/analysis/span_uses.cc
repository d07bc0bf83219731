// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/span_uses.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

// Calls `visit` for the fewest nodes of a binary tree that together cover its leaves [first, last):
// at most twice the logarithm of their number. The root is node 1, the children of node n are 2 n
// and 2 n + 1, and leaf i is node `leaves` + i.
//
// Sums of many spans over many parts are kept in such trees. Differences of running sums would lose
// parts that were hardly seen beside parts that were seen often.
template <typename Visit>
void EachNodeOver(std::size_t leaves, std::size_t first, std::size_t last, Visit visit) {
  for (first += leaves, last += leaves; first < last; first /= 2, last /= 2) {
    if (first % 2 == 1) visit(first++);
    if (last % 2 == 1) visit(--last);
  }
}

// A use that is spread evenly over pages.
struct PageUse {
  double weight = 0;
  std::vector<SiteShare> shares;

  void Add(double times, double more_weight, const std::vector<SiteShare>& more) {
    weight += times * more_weight;
    for (SiteShare added : more) {
      added.recorded *= times;
      added.with_unrecorded *= times;
      AddTo(shares, added);
    }
  }
};

// Appends the disjoint parts of these spans. Each span but the first overlaps an earlier one.
void AppendParts(std::span<const SpanUse> spans, std::vector<SpanUse>& parts) {
  std::vector<Vpn> bounds;
  for (const SpanUse& span : spans) bounds.insert(bounds.end(), {span.pages.start, span.pages.end});
  std::ranges::sort(bounds);
  bounds.erase(std::ranges::unique(bounds).begin(), bounds.end());
  const auto place = [&](Vpn bound) {
    return static_cast<std::size_t>(std::ranges::lower_bound(bounds, bound) - bounds.begin());
  };
  const std::size_t count = bounds.size() - 1;
  std::vector<PageUse> nodes(2 * count);
  for (const SpanUse& span : spans) {
    EachNodeOver(count, place(span.pages.start), place(span.pages.end), [&](std::size_t node) {
      nodes[node].Add(1 / span.page_count(), span.weight, span.shares);
    });
  }
  for (std::size_t node = 2; node < nodes.size(); ++node) {
    nodes[node].Add(1, nodes[node / 2].weight, nodes[node / 2].shares);
  }
  for (std::size_t i = 0; i < count; ++i) {
    SpanUse part{.target = spans.front().target, .pages = {bounds[i], bounds[i + 1]}};
    PageUse use;
    use.Add(part.page_count(), nodes[count + i].weight, nodes[count + i].shares);
    part.weight = use.weight;
    part.shares = std::move(use.shares);
    parts.push_back(std::move(part));
  }
}

}  // namespace

double EvidenceOf(const PageColumns& pages, std::size_t record) {
  // A weight so far below a single reference that all epochs of a recording cannot add up to one.
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
  of_evidence_.resize(2 * uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    parts_.push_back({uses[i].target, uses[i].pages.start});
    of_evidence_[uses.size() + i] = accesses[i] / uses[i].weight * uses[i].page_count();
  }
  for (std::size_t node = uses.size(); node-- > 1;) {
    of_evidence_[node] = of_evidence_[2 * node] + of_evidence_[2 * node + 1];
  }
}

double EpochAccesses::Of(const PageColumns& pages, std::size_t record) const {
  const PageKey start = pages.key(record);
  const PageKey end{start.target, start.vpn + PageCount(pages.span_pages[record])};
  const auto first = std::ranges::lower_bound(parts_, start);
  const auto last = std::lower_bound(first, parts_.end(), end);
  double sum = 0;
  EachNodeOver(parts_.size(), static_cast<std::size_t>(first - parts_.begin()),
               static_cast<std::size_t>(last - parts_.begin()),
               [&](std::size_t node) { sum += of_evidence_[node]; });
  return sum * EvidenceOf(pages, record) / pages.span_pages[record];
}

}  // namespace tmprof
