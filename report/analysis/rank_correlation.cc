// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace tmprof {
namespace {

// The values that entries are ranked by, in groups of equal value, ascending.
struct Groups {
  std::vector<std::size_t> group_of;  // one per entry
  std::vector<double> pages;          // one per group
  std::vector<double> rank;  // per group, the mean of its pages' ranks; the first page has rank 1

  double TiedPairs() const {
    double pairs = 0;
    for (const double n : pages) pairs += n * (n - 1) / 2;
    return pairs;
  }
};

Groups GroupBy(const std::vector<ScoredPages>& entries, double ScoredPages::* value) {
  std::vector<double> values;
  values.reserve(entries.size());
  for (const ScoredPages& entry : entries) values.push_back(entry.*value);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());

  Groups groups{.group_of = {}, .pages = std::vector<double>(values.size()), .rank = {}};
  groups.group_of.reserve(entries.size());
  for (const ScoredPages& entry : entries) {
    const auto at = std::ranges::lower_bound(values, entry.*value);
    groups.group_of.push_back(static_cast<std::size_t>(at - values.begin()));
    groups.pages[groups.group_of.back()] += entry.pages;
  }
  double before = 0;
  for (const double pages : groups.pages) {
    groups.rank.push_back(before + (pages + 1) / 2);
    before += pages;
  }
  return groups;
}

// Counts pages by score group. The sum over the groups below one takes log n steps (Fenwick, 1994).
class PageCounts {
 public:
  explicit PageCounts(std::size_t groups) : sums_(groups + 1) {}

  void Add(std::size_t group, double pages) {
    for (std::size_t i = group + 1; i < sums_.size(); i += i & -i) sums_[i] += pages;
    total_ += pages;
  }
  double Below(std::size_t group) const {
    double pages = 0;
    for (std::size_t i = group; i > 0; i -= i & -i) pages += sums_[i];
    return pages;
  }
  double total() const { return total_; }

 private:
  std::vector<double> sums_;
  double total_ = 0;
};

// Returns concordant pairs minus discordant ones. `entries` ascend by truth.
double NetPairs(const std::vector<ScoredPages>& entries, const Groups& scores) {
  PageCounts counts(scores.pages.size());  // pages of entries with a lower truth
  double net = 0;
  for (std::size_t start = 0; start < entries.size();) {
    std::size_t end = start;
    for (; end < entries.size() && entries[end].truth == entries[start].truth; ++end) {
      const std::size_t group = scores.group_of[end];
      const double above = counts.total() - counts.Below(group + 1);
      net += entries[end].pages * (counts.Below(group) - above);
    }
    for (; start < end; ++start) counts.Add(scores.group_of[start], entries[start].pages);
  }
  return net;
}

}  // namespace

std::optional<RankCorrelation> Correlate(std::vector<ScoredPages> entries) {
  std::ranges::sort(entries, std::less(), &ScoredPages::truth);
  const Groups truth = GroupBy(entries, &ScoredPages::truth);
  const Groups score = GroupBy(entries, &ScoredPages::score);
  if (truth.pages.size() < 2 || score.pages.size() < 2) return std::nullopt;

  double pages = 0;
  for (const double n : truth.pages) pages += n;
  const double mean_rank = (pages + 1) / 2;
  const auto variation = [mean_rank](const Groups& groups) {
    double sum = 0;
    for (std::size_t i = 0; i < groups.rank.size(); ++i) {
      const double off = groups.rank[i] - mean_rank;
      sum += groups.pages[i] * off * off;
    }
    return sum;
  };
  double covariation = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    covariation += entries[i].pages * (truth.rank[truth.group_of[i]] - mean_rank) *
                   (score.rank[score.group_of[i]] - mean_rank);
  }
  const double pairs = pages * (pages - 1) / 2;
  return RankCorrelation{
      .spearman_rho = covariation / std::sqrt(variation(truth) * variation(score)),
      .kendall_tau_b = NetPairs(entries, score) /
                       std::sqrt((pairs - truth.TiedPairs()) * (pairs - score.TiedPairs()))};
}

}  // namespace tmprof
