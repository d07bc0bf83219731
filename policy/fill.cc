// SPDX-License-Identifier: Apache-2.0

#include "policy/fill.h"

#include <cstddef>
#include <span>

namespace tmprof {

namespace {

// Moves resident rows to the front, stably. It has no unpredictable branch: residents may be
// anywhere in a tie.
void ResidentsFirst(std::span<const std::uint32_t> rows, const std::vector<std::uint8_t>& in_tier1,
                    std::vector<std::uint32_t>& ordered) {
  ordered.resize(rows.size());
  std::size_t residents = 0;
  for (const std::uint8_t resident : in_tier1) residents += resident;
  std::uint32_t* const starts[] = {ordered.data() + residents, ordered.data()};
  std::size_t taken[] = {0, 0};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint8_t resident = in_tier1[i];
    starts[resident][taken[resident]++] = rows[i];
  }
}

}  // namespace

void FillBest(Ranking& ranking, const Residency& residency, PageCount capacity,
              std::vector<std::uint32_t>& wanted) {
  const ScoredSpans& spans = ranking.spans();
  PageCount room = capacity;
  wanted.clear();
  std::vector<std::uint8_t> in_tier1;
  std::vector<std::uint32_t> ordered;
  for (std::size_t tie = 0; room > PageCount(0); ++tie) {
    std::span<const std::uint32_t> rows = ranking.Tie(tie);
    if (rows.empty()) return;
    if (rows.size() > 1) {
      residency.InTier1(rows, in_tier1);
      ResidentsFirst(rows, in_tier1, ordered);
      rows = ordered;
    }
    for (const std::uint32_t row : rows) {
      const PageCount pages = spans.SpanOf(row);
      if (pages > room) continue;
      wanted.push_back(row);
      room -= pages;
    }
  }
}

}  // namespace tmprof
