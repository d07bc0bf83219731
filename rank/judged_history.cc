// SPDX-License-Identifier: Apache-2.0

#include "rank/judged_history.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "rank/resampling.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// The largest part of all looks that probes from before their epoch may have: with more of them,
// the other looks are no fair sample.
constexpr double kMostBegunBefore = 0.1;
// Few pages that are judged in an epoch count as this part of the pages known.
constexpr double kLeastJudged = 1.0 / 64;
// A page that was seen to be slow soon leaves a choice. Entries of pages that stay have more
// weight, which makes history too high by about so much (hotset of bench/hit_rates: 0 to 5 points).
constexpr double kTooHigh = 0.02;

// Refits the rates of the pages within each choice separately from those outside of it. Posterior
// means under one prior for both would pull the chosen pages towards the mean of all.
class Judge {
 public:
  // Looks at similar pages of one target.
  struct Cell {
    std::size_t target;
    std::uint8_t choice;
    std::uint32_t kind;
    double looks = 0;
    double pages = 0;
  };
  struct Target {
    double cpu_seconds;
    double pages;
    std::vector<double> chosen;  // pages, by choice
  };

  Judge(std::vector<RateKind> kinds, std::vector<Target> targets, std::size_t choices)
      : kinds_(std::move(kinds)),
        fit_(FitRates(kinds_)),
        targets_(std::move(targets)),
        priors_(2 * choices, fit_.mixture.prior()) {}

  const RateFit& fit() const { return fit_; }

  // Returns one rate for each choice.
  std::vector<double> HitRates(const std::vector<Cell>& cells, const RateColumns& rates) {
    std::vector<double> result;
    for (std::size_t choice = 0; choice < priors_.size() / 2; ++choice) {
      double hit = 0;
      double all = 0;
      for (const bool inside : {true, false}) {
        const std::vector<double> mean = MeansOf(cells, choice, inside, rates);
        for (std::size_t t = 0; t < targets_.size(); ++t) {
          const Target& target = targets_[t];
          const double chosen = target.chosen[choice];
          const double pages = inside ? chosen : std::max(0.0, target.pages - chosen);
          const double accesses = target.cpu_seconds * pages * mean[t];
          all += accesses;
          if (inside) hit += accesses;
        }
      }
      result.push_back(all > 0 ? hit / all : 0);
    }
    return result;
  }

 private:
  // Returns the mean rate of each target's pages on one side.
  std::vector<double> MeansOf(const std::vector<Cell>& cells, std::size_t choice, bool inside,
                              const RateColumns& rates) {
    for (RateKind& kind : kinds_) kind.pieces = 0;
    for (const Cell& cell : cells) {
      if ((cell.choice <= choice) == inside) kinds_[cell.kind].pieces += cell.looks;
    }
    const bool any = std::ranges::any_of(kinds_, [](const RateKind& k) { return k.pieces > 0; });
    std::vector<double>& prior = priors_[2 * choice + (inside ? 1 : 0)];
    if (any) {
      fit_.mixture.FitPrior(kinds_, /*looked_at_only=*/true, prior, Rare::kKept);
      prior = fit_.mixture.prior();
    }
    double of_prior = 0;
    for (std::size_t j = 0; j < prior.size(); ++j) of_prior += prior[j] * rates.column(0)[j];

    std::vector<double> sum(targets_.size());
    std::vector<double> pages(targets_.size());
    for (const Cell& cell : cells) {
      if ((cell.choice <= choice) != inside || cell.pages == 0) continue;
      sum[cell.target] += cell.pages * fit_.mixture.Mean(cell.kind, rates.Of(kinds_[cell.kind]));
      pages[cell.target] += cell.pages;
    }
    for (std::size_t t = 0; t < sum.size(); ++t) {
      sum[t] = pages[t] > 0 ? sum[t] / pages[t] : of_prior;
    }
    return sum;
  }

  std::vector<RateKind> kinds_;
  RateFit fit_;
  std::vector<Target> targets_;
  // Priors of the last estimate: outside and inside each choice.
  std::vector<std::vector<double>> priors_;
};

// Returns the first page of the group of so many pages that holds this one.
PageKey GroupOf(PageKey key, std::uint64_t pages) {
  return {key.target, Vpn(key.vpn.value() / pages * pages)};
}

// Returns blocks with pages that were looked at for no time, because a probe from before the epoch
// had already found them. The other pages of such a block were selected for being slow.
std::vector<PageKey> BlocksBegunBefore(const EvidenceTable& epoch, const RateView& view) {
  std::vector<PageKey> blocks;
  for (std::size_t row = 0; row < epoch.size(); ++row) {
    if (epoch.evidence[row].looks <= 0 || view.TellsOfBits(epoch.evidence[row])) continue;
    const PageKey block = GroupOf(epoch.key[row], kBlockPages);
    if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
  }
  return blocks;
}

RateEvidence TriesOf(const Evidence& evidence) {
  return {.fast_looks = evidence.fast_looks,
          .fast_found = evidence.fast_found,
          .fast_seconds = evidence.fast_seconds,
          .fast_earlier = evidence.fast_earlier,
          .fast_earlier_seconds = evidence.fast_earlier_seconds};
}

// Returns, for each choice, the smaller of two numbers of groups: those looked at within it, and
// those outside of it.
std::vector<std::size_t> GroupsOnEitherSide(std::span<const std::uint32_t> group_of,
                                            std::span<const std::uint8_t> choice_of,
                                            std::size_t choices) {
  std::vector<std::size_t> least;
  for (std::size_t choice = 0; choice < choices; ++choice) {
    constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();
    std::size_t groups[2] = {};
    std::uint32_t last[2] = {kNoGroup, kNoGroup};
    for (std::size_t i = 0; i < group_of.size(); ++i) {
      const std::size_t side = choice_of[i] <= choice ? 1 : 0;
      groups[side] += last[side] != group_of[i];
      last[side] = group_of[i];
    }
    least.push_back(std::min(groups[0], groups[1]));
  }
  return least;
}

}  // namespace

void JudgedHistory::Add(const EvidenceTable& epoch, Visits visits, const TargetTimes& times,
                        const ChosenSpans& chosen) {
  if (chosen.key.empty()) return;
  std::map<TargetId, double> weight_of;  // at first, the fewest pages that count as judged
  for (std::size_t i = 0; i < chosen.key.size();) {
    const TargetId target = chosen.key[i].target;
    const double seconds = times.Of(target).cpu_seconds;
    TargetPages& of_target = At(target);
    double pages = 0;
    of_target.cpu_seconds += seconds;
    for (; i < chosen.key.size() && chosen.key[i].target == target; ++i) {
      pages += chosen.span_pages[i];
      for (std::size_t choice = chosen.first_choice[i]; choice < choices_; ++choice) {
        of_target.chosen_seconds[choice] += seconds * chosen.span_pages[i];
      }
    }
    of_target.pages = std::max(of_target.pages, pages);
    weight_of[target] = kLeastJudged * pages;
  }

  const RateView view(epoch, RankSource::kReferences);
  const std::vector<PageKey> begun_before =
      visits == Visits::kNew ? std::vector<PageKey>{} : BlocksBegunBefore(epoch, view);
  // A first pass over all pages probes many in an epoch, and before it little was known. Each epoch
  // has the weight of its CPU time, however many pages were probed in it.
  std::map<TargetId, double> judged;
  for (std::size_t row = 0; row < epoch.size(); ++row) {
    if (epoch.evidence[row].looks > 0 && view.TellsOfBits(epoch.evidence[row]) &&
        !std::ranges::binary_search(begun_before, GroupOf(epoch.key[row], kBlockPages)))
      judged[epoch.key[row].target] += epoch.span_pages[row];
  }
  for (const auto& [target, pages] : judged) {
    double& weight = weight_of[target];
    weight = times.Of(target).cpu_seconds / std::max(pages, weight);
  }

  std::size_t at = 0;
  for (std::size_t row = 0; row < epoch.size(); ++row) {
    const PageKey key = epoch.key[row];
    const double pages = epoch.span_pages[row];
    if (epoch.evidence[row].looks <= 0) {
      const auto visited = latest_.find(key);
      if (visited != latest_.end() && visited->second.evidence.pages == pages)
        visited->second.evidence.Add(TriesOf(epoch.evidence[row]));
      continue;
    }
    if (std::ranges::binary_search(begun_before, GroupOf(key, kBlockPages))) {
      pages_begun_before_ += epoch.span_pages[row];
      continue;
    }
    pages_judged_ += epoch.span_pages[row];
    if (!view.TellsOfBits(epoch.evidence[row])) continue;
    while (at < chosen.key.size() &&
           PageKey{chosen.key[at].target, chosen.key[at].vpn + PageCount(chosen.span_pages[at])} <=
               key) {
      ++at;
    }
    const bool is_known = at < chosen.key.size() && chosen.key[at] <= key;
    const Visited visited{
        .evidence = view.Of(epoch.evidence[row], pages, /*watched_seconds=*/0),
        .choice = is_known ? chosen.first_choice[at] : static_cast<std::uint8_t>(choices_),
        .visits = 1,
        .weight = weight_of[key.target]};
    const auto [latest, is_new] = latest_.try_emplace(key, visited);
    if (is_new) continue;
    Visited& before = latest->second;
    if (before.choice == visited.choice && before.evidence.pages == pages) {
      before.evidence.Add(visited.evidence);
      before.visits += 1;
      before.weight += visited.weight;
    } else {
      Book(key, before);
      before = visited;
    }
  }
  if (entries_.size() >= compact_at_) Compact();
}

void JudgedHistory::Book(PageKey key, const Visited& visited) {
  entries_.push_back({.group = GroupOf(key, group_pages_),
                      .kind = kinds_.Add(visited.evidence),
                      .choice = visited.choice,
                      .pages = visited.visits * visited.evidence.pages,
                      .weight = visited.weight,
                      .weighted = visited.weight * visited.evidence.pages});
  squared_weights_ += visited.weight * visited.weight;
}

void JudgedHistory::Compact() {
  group_pages_ = kBlockPages;
  for (Entry& entry : entries_) entry.group = GroupOf(entry.group, group_pages_);
  const auto order = [](const Entry& entry) {
    return std::tuple(entry.group, entry.choice, entry.kind);
  };
  std::ranges::sort(entries_, {}, order);
  std::vector<Entry> merged;
  for (const Entry& entry : entries_) {
    if (!merged.empty() && order(merged.back()) == order(entry)) {
      merged.back().pages += entry.pages;
      merged.back().weight += entry.weight;
      merged.back().weighted += entry.weighted;
    } else {
      merged.push_back(entry);
    }
  }
  entries_ = std::move(merged);
  compact_at_ = std::max(compact_at_, 2 * entries_.size());
}

JudgedHistory::TargetPages& JudgedHistory::At(TargetId target) {
  auto at = std::ranges::lower_bound(targets_, target, {}, &TargetPages::target);
  if (at == targets_.end() || at->target != target) {
    at = targets_.insert(at, {.target = target});
    at->chosen_seconds.resize(choices_);
  }
  return *at;
}

std::vector<std::optional<HitRate>> JudgedHistory::Estimate(
    std::span<const UnknownPages> unknown) const {
  if (!latest_.empty()) {
    JudgedHistory all = *this;
    for (const auto& [key, visited] : all.latest_) all.Book(key, visited);
    all.latest_.clear();
    return all.Estimate(unknown);
  }
  std::vector<std::optional<HitRate>> result(choices_);
  if (entries_.empty()) return result;
  std::vector<Entry> entries = entries_;
  std::ranges::stable_sort(entries, {}, &Entry::group);

  std::vector<Judge::Target> targets;
  std::map<TargetId, std::size_t> number_of;
  double cpu_seconds = 0;
  for (const TargetPages& each : targets_) {
    number_of[each.target] = targets.size();
    targets.push_back({each.cpu_seconds, each.pages, each.chosen_seconds});
    for (double& chosen : targets.back().chosen) {
      chosen = each.cpu_seconds > 0 ? chosen / each.cpu_seconds : 0;
    }
    cpu_seconds += each.cpu_seconds;
  }
  for (const UnknownPages& each : unknown) {
    if (const auto known = number_of.find(each.target); known != number_of.end())
      targets[known->second].pages += each.pages;
  }
  if (cpu_seconds <= 0) return result;

  std::vector<PageKey> keys;
  std::vector<Judge::Cell> cells;
  std::vector<std::size_t> cell_of;
  std::map<std::tuple<std::size_t, std::uint8_t, std::uint32_t>, std::size_t> number_of_cell;
  std::erase_if(entries, [&](const Entry& e) { return !number_of.contains(e.group.target); });
  if (entries.empty()) return result;
  for (const Entry& entry : entries) {
    const std::size_t target = number_of.at(entry.group.target);
    keys.push_back(entry.group);
    const auto [cell, is_new] =
        number_of_cell.try_emplace({target, entry.choice, entry.kind}, cells.size());
    if (is_new) cells.push_back({target, entry.choice, entry.kind});
    cell_of.push_back(cell->second);
  }

  double weights = 0;
  for (const Entry& entry : entries) weights += entry.weight;
  if (weights <= 0) return result;
  // So many entries of equal weight would say as much (Kish).
  const double scale = weights / squared_weights_;

  RateKinds kinds = kinds_;
  Judge judge(std::move(kinds).Take(), std::move(targets), choices_);
  const PageGroups groups(keys);
  const auto weigh = [&](std::span<const double> times) {
    for (Judge::Cell& cell : cells) cell.looks = cell.pages = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const double weight = times[groups.of_row()[i]];
      cells[cell_of[i]].looks += weight * scale * entries[i].weight;
      cells[cell_of[i]].pages += weight * scale * entries[i].weighted;
    }
  };
  std::vector<HitRate> rates = WithIntervals(
      [&](std::span<const double> times) {
        weigh(times);
        return judge.HitRates(cells, RateColumns(judge.fit().mixture.rates()));
      },
      groups.size());
  weigh(std::vector<double>(groups.size(), 1.0));
  WidenByUntoldRates(
      judge.fit(), [&](const RateColumns& columns) { return judge.HitRates(cells, columns); },
      rates);
  std::vector<std::uint8_t> choice_of;
  for (const Entry& entry : entries) choice_of.push_back(entry.choice);
  const std::vector<std::size_t> least = GroupsOnEitherSide(groups.of_row(), choice_of, choices_);
  for (std::size_t choice = 0; choice < choices_; ++choice) {
    double looked_at = 0;
    double chosen = 0;
    for (const Entry& entry : entries) looked_at += entry.choice <= choice ? entry.pages : 0;
    for (const TargetPages& each : targets_) {
      if (each.cpu_seconds > 0) chosen += each.chosen_seconds[choice] / each.cpu_seconds;
    }
    const bool enough =
        least[choice] >= kLeastGroups && looked_at >= chosen &&
        pages_begun_before_ <= kMostBegunBefore * (pages_judged_ + pages_begun_before_);
    rates[choice].low = std::max(0.0, rates[choice].low - kTooHigh);
    result[choice] = enough ? rates[choice] : HitRate{.value = rates[choice].value};
  }
  return result;
}

}  // namespace tmprof
