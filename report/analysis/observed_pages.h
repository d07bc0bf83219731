// SPDX-License-Identifier: Apache-2.0
// Remembers which pages were observed, and when last. It shows which bytes of an object were
// observed while it lived.

#pragma once

#include <cstdint>
#include <map>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

class ObservedPages {
 public:
  // Notes pages that were observed in an epoch that ended at `end`. Precondition: `end` does not
  // descend.
  void See(PageKey first, PageCount pages, MonotonicTime end);

  // Returns how many bytes of [start, end) are on pages that were observed in an epoch that ended
  // after `since`.
  std::uint64_t BytesSince(TargetId target, std::uint64_t start, std::uint64_t end,
                           MonotonicTime since) const;

 private:
  struct Span {
    Vpn end;
    MonotonicTime last;
  };
  using Spans = std::map<PageKey, Span>;  // key: the first page; disjoint

  // Splits spans: afterwards no span lies on both sides of `at`.
  void SplitAt(PageKey at);

  Spans spans_;
};

}  // namespace tmprof
