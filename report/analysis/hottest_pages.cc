// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hottest_pages.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/check.h"

namespace tmprof {

DistinctPages::DistinctPages(const WholeTrace& whole, bool (*counts)(const Evidence& evidence))
    : table_(whole.ranker.table()), all_(table_, whole.ranker.shared_pages()) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < table_.size(); ++row) {
    if (counts(table_.evidence[row])) rows.push_back(row);
  }
  all_.ForEach(rows, [this](std::size_t span) {
    spans_.push_back(span);
    pages_.push_back(static_cast<double>(all_.PagesOf(table_, span).value()));
  });
}

PageCount DistinctPages::size() const {
  PageCount sum;
  for (const double of_span : pages_) sum += PageCount(static_cast<std::uint64_t>(of_span));
  return sum;
}

Scores DistinctPages::Sum(const Scores& by_row) const {
  Scores sums;
  sums.reserve(spans_.size());
  for (const std::size_t span : spans_) {
    double& sum = sums.emplace_back(0.0);
    all_.ForEachRow(table_, span,
                    [&](std::size_t row, double part, Vpn) { sum += part * by_row[row]; });
  }
  return sums;
}

HottestPages::HottestPages(const DistinctPages& pages, const Scores& by_row) {
  const Scores scores = pages.Sum(by_row);
  spans_.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    spans_.push_back({.pages = pages.pages()[i], .score = scores[i]});
  }
  // Spans that are equally hot stay in the order of their addresses.
  std::ranges::stable_sort(spans_, std::greater(),
                           [](const Span& span) { return span.score / span.pages; });
  for (const Span& span : spans_) total_score_ += span.score;
}

std::vector<double> HottestPages::SharesHeldBy(std::span<const double> numbers_of_pages) const {
  TMPROF_CHECK(total_score_ > 0);
  std::vector<double> held;
  double pages_before = 0;
  double score_before = 0;
  auto at = spans_.begin();
  for (const double wanted : numbers_of_pages) {
    while (at != spans_.end() && pages_before + at->pages <= wanted) {
      pages_before += at->pages;
      score_before += at->score;
      ++at;
    }
    const double part = at == spans_.end() ? 0 : at->score * (wanted - pages_before) / at->pages;
    held.push_back(std::min(1.0, (score_before + part) / total_score_));
  }
  return held;
}

}  // namespace tmprof
