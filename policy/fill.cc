// SPDX-License-Identifier: Apache-2.0

#include "policy/fill.h"

namespace tmprof {

void FillBest(Ranking& ranking, const Residency& residency, PageCount capacity,
              std::vector<std::uint32_t>& wanted) {
  const ScoredSpans& spans = ranking.spans();
  PageCount room = capacity;
  const auto take = [&](std::size_t row) {
    const PageCount pages(spans.span_pages[row]);
    if (pages > room) return;
    wanted.push_back(static_cast<std::uint32_t>(row));
    room -= pages;
  };
  wanted.clear();
  std::vector<std::size_t> elsewhere;  // of the tie being filled
  for (std::size_t place = 0; room > PageCount(0);) {
    std::size_t row = ranking.Row(place);
    if (row == Ranking::kNone) return;
    const double density = ranking.Density(row);
    elsewhere.clear();
    do {
      if (residency.InTier1(row)) {
        take(row);
      } else {
        elsewhere.push_back(row);
      }
      row = ranking.Row(++place);
    } while (room > PageCount(0) && row != Ranking::kNone && ranking.Density(row) == density);
    for (const std::size_t other : elsewhere) take(other);
  }
}

}  // namespace tmprof
