// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/access_ages.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tmprof {

bool AccessAges::Follows(MonotonicTime now) {
  if (asked_ && now - *asked_ <= kFollowedFor) return true;
  asked_.reset();
  seen_ = {};
  before_ = {};
  return false;
}

void AccessAges::AddEpoch(MonotonicTime end, std::vector<Span> accessed,
                          std::span<const TargetId> kept) {
  if (!std::ranges::is_sorted(accessed, {}, &Span::first)) {
    std::ranges::sort(accessed, {}, &Span::first);
  }
  before_.swap(seen_);
  seen_.clear();
  next_before_ = 0;
  for (const auto& [first, pages] : accessed) {
    if (!std::ranges::binary_search(kept, first.target)) continue;
    Seen seen{first, pages, end};
    if (!seen_.empty() && seen_.back().end() > first) {
      // A part of it was seen by another address in the same epoch.
      if (seen.end() <= seen_.back().end()) continue;
      seen.pages = static_cast<std::uint32_t>((seen.end().vpn - seen_.back().end().vpn).value());
      seen.key = seen_.back().end();
    }
    KeepBefore(seen.key, kept);
    for (; next_before_ < before_.size() && before_[next_before_].key < seen.end();
         ++next_before_) {
      Seen& old = before_[next_before_];
      if (old.end() <= seen.end()) continue;
      // The part behind the new span keeps its time.
      old.pages = static_cast<std::uint32_t>((old.end().vpn - seen.end().vpn).value());
      old.key = seen.end();
      break;
    }
    seen_.push_back(seen);
  }
  KeepBefore(std::nullopt, kept);
}

void AccessAges::KeepBefore(std::optional<PageKey> until, std::span<const TargetId> kept) {
  while (next_before_ < before_.size() && (!until || before_[next_before_].key < *until)) {
    Seen& old = before_[next_before_];
    const bool is_cut = until && old.end() > *until;
    if (std::ranges::binary_search(kept, old.key.target)) {
      seen_.push_back(old);
      if (is_cut) {
        seen_.back().pages = static_cast<std::uint32_t>((until->vpn - old.key.vpn).value());
      }
    }
    if (!is_cut) {
      ++next_before_;
      continue;
    }
    old.pages = static_cast<std::uint32_t>((old.end().vpn - until->vpn).value());
    old.key = *until;
  }
}

std::optional<MonotonicTime> AccessAges::LastSeen(PageKey first, PageCount pages) const {
  const PageKey end{first.target, first.vpn + pages};
  std::optional<MonotonicTime> last;
  // Spans are disjoint, so their ends ascend, too.
  for (auto seen = std::ranges::upper_bound(seen_, first, {}, &Seen::end);
       seen != seen_.end() && seen->key < end; ++seen) {
    last = std::max(last.value_or(seen->at), seen->at);
  }
  return last;
}

}  // namespace tmprof
