// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/observed_pages.h"

#include <algorithm>
#include <iterator>

namespace tmprof {

void ObservedPages::SplitAt(PageKey at) {
  const auto after = spans_.lower_bound(at);
  if (after == spans_.begin()) return;
  const auto before = std::prev(after);
  Span& span = before->second;
  if (before->first.target != at.target || span.end <= at.vpn) return;
  spans_.emplace_hint(after, at, span);
  span.end = at.vpn;
}

void ObservedPages::See(PageKey first, PageCount pages, MonotonicTime end) {
  const PageKey behind{first.target, first.vpn + pages};
  SplitAt(first);
  SplitAt(behind);
  const auto next = spans_.erase(spans_.lower_bound(first), spans_.lower_bound(behind));
  if (next != spans_.begin()) {
    const auto before = std::prev(next);
    Span& span = before->second;
    if (before->first.target == first.target && span.end == first.vpn && span.last == end) {
      span.end = behind.vpn;
      return;
    }
  }
  spans_.emplace_hint(next, first, Span{.end = behind.vpn, .last = end});
}

std::uint64_t ObservedPages::BytesSince(TargetId target, std::uint64_t start, std::uint64_t end,
                                        MonotonicTime since) const {
  auto at = spans_.upper_bound({target, VpnOfAddress(start)});
  if (at != spans_.begin()) --at;
  std::uint64_t bytes = 0;
  for (; at != spans_.end(); ++at) {
    const auto& [first, span] = *at;
    if (first.target < target) continue;
    const std::uint64_t from = std::max(AddressOf(first.vpn), start);
    const std::uint64_t to = std::min(AddressOf(span.end), end);
    if (first.target != target || AddressOf(first.vpn) >= end) break;
    if (span.last > since && from < to) bytes += to - from;
  }
  return bytes;
}

}  // namespace tmprof
