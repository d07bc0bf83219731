// SPDX-License-Identifier: Apache-2.0
// Ranked pages: each page appears once, under the address by which it is moved.

#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"
#include "mover/page_owners.h"
#include "rank/evidence.h"
#include "rank/rank_model.h"

namespace tmprof {

struct RankedRow {
  VpnRange pages;
  double score = 0;  // score of all its pages, as are the samples
  double samples = 0;
  bool looked_at = false;
};

// Calls `take(first, pages, parts)` for each stretch of pages that the same parts hold, ascending.
// Parts have a `key` and `pages`; they ascend by key and may overlap.
template <typename Part, typename Take>
void ForEachStretch(std::span<const Part> parts, Take take) {
  const auto end_of = [](const Part& part) {
    return PageKey{part.key.target, part.key.vpn + part.pages};
  };
  std::vector<Part> open;
  PageKey done;
  for (std::size_t next = 0; next < parts.size() || !open.empty();) {
    if (open.empty()) {
      // Parts are mostly alike: all mappers have the page, and nothing else of it.
      std::size_t alike = next + 1;
      while (alike < parts.size() && parts[alike].key == parts[next].key &&
             parts[alike].pages == parts[next].pages) {
        ++alike;
      }
      if (alike == parts.size() || parts[alike].key >= end_of(parts[next])) {
        take(parts[next].key, parts[next].pages, parts.subspan(next, alike - next));
        next = alike;
        continue;
      }
    }
    if (open.empty()) done = parts[next].key;
    for (; next < parts.size() && parts[next].key == done; ++next) open.push_back(parts[next]);
    PageKey end = end_of(*std::ranges::min_element(open, {}, end_of));
    if (next < parts.size()) end = std::min(end, parts[next].key);
    take(done, end.vpn - done.vpn, std::span<const Part>(open));
    std::erase_if(open, [&](const Part& part) { return end_of(part) == end; });
    done = end;
  }
}

class RankedRows {
 public:
  // Reads both from now on, until the next call; `scores` is parallel to the table. Rows of pages
  // that several mappings hold become one row, with the sum of their scores and samples, as do
  // those of `rowless`.
  void Take(const EvidenceTable& table, const Scores& scores, const PageOwners& owners,
            std::span<const RowlessScore> rowless = {});

  // The rows of one target, ascending; they do not overlap.
  class Cursor {
   public:
    bool AtEnd() const { return !is_in_table_ && !is_in_merged_; }
    // Precondition: not at the end.
    const RankedRow& operator*() const { return row_; }
    const RankedRow* operator->() const { return &row_; }
    void Next();

   private:
    friend class RankedRows;
    Cursor(const RankedRows& rows, TargetId target);
    void Settle();

    const RankedRows* rows_;
    TargetId target_;
    std::size_t in_table_;  // the next row of either
    std::size_t in_merged_;
    bool is_in_table_ = false;  // the current row; at the end neither
    bool is_in_merged_ = false;
    RankedRow row_;
  };
  Cursor Of(TargetId target) const { return {*this, target}; }

 private:
  struct Part {
    PageKey key;
    PageCount pages;
    double score;
    double samples;
    bool looked_at;
    Part Of(PageKey first, PageCount some) const;
  };

  const EvidenceTable* table_ = nullptr;
  const Scores* scores_ = nullptr;
  std::vector<bool> replaced_;  // rows of the table; empty: none
  std::vector<Part> parts_;     // parts of those, sorted by name
  std::vector<Part> merged_;    // which take their place; ascending, disjoint
};

}  // namespace tmprof
