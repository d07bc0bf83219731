// SPDX-License-Identifier: Apache-2.0
// Remembers when each page was last seen accessed, while somebody asks for it.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// It takes 24 bytes a span and one merge an epoch. Both are spent only for a minute after the last
// question.
class AccessAges {
 public:
  static constexpr std::chrono::seconds kFollowedFor{60};

  struct Span {
    PageKey first;
    std::uint32_t pages = 0;
  };

  // Has accesses followed from the next epoch on, until kFollowedFor after `now`.
  void Ask(MonotonicTime now) { asked_ = now; }
  // Returns if the accesses of an epoch that ends at `now` are wanted. If not, all are forgotten.
  bool Follows(MonotonicTime now);
  // Takes the spans that were accessed in an epoch with this end, and forgets those of targets that
  // are not in `kept`, which ascend. Spans may have any order, and overlap.
  void AddEpoch(MonotonicTime end, std::vector<Span> accessed, std::span<const TargetId> kept);

  // Returns the end of the last epoch in which any of these pages was seen accessed. nullopt: none
  // was seen since accesses are followed.
  std::optional<MonotonicTime> LastSeen(PageKey first, PageCount pages) const;
  std::size_t size() const { return seen_.size(); }

 private:
  struct Seen {
    PageKey key;
    std::uint32_t pages = 0;
    MonotonicTime at;
    PageKey end() const { return {key.target, key.vpn + PageCount(pages)}; }
  };
  // Moves what was seen before `until`, of targets in `kept`, from `before_` to `seen_`.
  void KeepBefore(std::optional<PageKey> until, std::span<const TargetId> kept);

  std::optional<MonotonicTime> asked_;  // nullopt: nobody asks
  std::vector<Seen> seen_;              // ascending, disjoint
  std::vector<Seen> before_;            // those until the last epoch, while they are merged
  std::size_t next_before_ = 0;
};

}  // namespace tmprof
