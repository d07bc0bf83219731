// SPDX-License-Identifier: Apache-2.0
// Which pages were observed, and when last: what of an object's bytes was, while it lived.

#pragma once

#include <cstdint>
#include <map>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

class ObservedPages {
 public:
  // In an epoch that ended at `end`, which is no earlier than those seen before.
  void See(PageKey first, PageCount pages, MonotonicTime end);

  // Of the addresses [start, end), those on pages that were observed in an epoch which ended after
  // `since`.
  std::uint64_t BytesSince(TargetId target, std::uint64_t start, std::uint64_t end,
                           MonotonicTime since) const;

 private:
  struct Span {
    Vpn end;
    MonotonicTime last;
  };
  using Spans = std::map<PageKey, Span>;  // by their first page, disjoint

  // No span lies on both sides of `at`.
  void SplitAt(PageKey at);

  Spans spans_;
};

}  // namespace tmprof
