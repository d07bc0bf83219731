// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/working_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "rank/epoch_estimates.h"
#include "report/analysis/size_unit.h"

namespace tmprof {
namespace {

constexpr std::array<std::chrono::seconds, 8> kAges = {
    std::chrono::seconds(1),  std::chrono::seconds(5), std::chrono::seconds(10),
    std::chrono::seconds(30), std::chrono::minutes(1), std::chrono::minutes(5),
    std::chrono::minutes(30), std::chrono::hours(2)};
// Exact counts have a row for each epoch, which are then joined to so many.
constexpr std::size_t kMostRows = 32;
// Standard deviations on either side that hold 90 % of a normal distribution.
constexpr double kDeviations = 1.6449;
// Memory that the scanner cannot clear is of other kinds than the rest. So large a part of it makes
// the pages looked at a poor sample of all.
constexpr double kMostUnclearable = 0.05;
// Fewer blocks do not show how blocks differ.
constexpr std::size_t kFewestBlocks = 8;
constexpr std::uint64_t kBlockPages = 512;  // pages that a scanner clears and reads at once

// The time in which a target was there.
struct Life {
  MonotonicTime start;
  MonotonicTime end;

  bool Holds(std::chrono::nanoseconds age) const { return end - start >= age; }
  double SecondsWithin(MonotonicTime from, MonotonicTime to) const {
    return std::max(0.0, Seconds(std::min(end, to) - std::max(start, from)));
  }
  void Join(const Life& other) {
    start = std::min(start, other.start);
    end = std::max(end, other.end);
  }
};

using Lives = std::map<TargetId, Life>;

// Remembers when each row of a table was last seen accessed, and when each target was there.
class LastSeen {
 public:
  explicit LastSeen(const EvidenceTable& table) : table_(table), end_(table.size()) {}

  void Add(const EpochProfile& epoch) {
    for (const Target& target : epoch.targets) {
      const auto [known, is_new] = lives_.try_emplace(target.id, Life{epoch.start, epoch.end});
      // A process exits in the midst of an epoch. After its exit it accesses nothing, which does
      // not make its memory idle.
      if (!target.exited) known->second.end = epoch.end;
    }
    std::size_t row = 0;  // both ascend by key
    const PageColumns& pages = epoch.pages;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (!pages.WasSeenAccessed(i)) continue;
      const PageKey start = pages.key(i);
      const PageKey end{start.target, start.vpn + PageCount(pages.span_pages[i])};
      while (row < table_.size() && EndOf(table_, row) <= start) ++row;
      for (std::size_t at = row; at < table_.size() && table_.key[at] < end; ++at) {
        end_[at] = epoch.end;
      }
    }
  }

  // Returns the end of the last epoch that saw one of these pages accessed; nullopt: there is none.
  // The caller asks in ascending order.
  std::optional<MonotonicTime> Of(PageKey key, std::uint32_t pages) {
    while (at_ < table_.size() && EndOf(table_, at_) <= key) ++at_;
    const PageKey end{key.target, key.vpn + PageCount(pages)};
    std::optional<MonotonicTime> last;
    for (std::size_t row = at_; row < table_.size() && table_.key[row] < end; ++row) {
      last = std::max(last, end_[row]);
    }
    return last;
  }

  const Lives& lives() const { return lives_; }

 private:
  const EvidenceTable& table_;
  std::vector<std::optional<MonotonicTime>> end_;
  Lives lives_;
  std::size_t at_ = 0;
};

// Finds the epoch at whose end the most memory of the targets asked for was resident.
class MostResident {
 public:
  explicit MostResident(const WorkingSet& set) : set_(set) {}

  void Add(const EpochProfile& epoch) {
    std::map<TargetId, PageCount> of_target;
    PageCount sum;
    for (const Target& target : epoch.targets) {
      if (target.exited || !set_.totals.IsOf(target.id, set_.options.pid)) continue;
      if (!target.resident_pages) return;
      of_target[target.id] = *target.resident_pages;
      sum += *target.resident_pages;
    }
    if (of_target.empty() || (!most_.empty() && sum <= sum_)) return;
    most_ = std::move(of_target);
    sum_ = sum;
  }

  // Precondition: no two targets of `set` have a page in common.
  void Tell(const std::map<TargetId, double>& visited, WorkingSet& set) const {
    if (most_.empty()) return;
    set.resident = sum_;
    set.never_visited = PageCount(0);
    for (const auto& [target, resident] : most_) {
      const auto known = visited.find(target);
      const PageCount looked_at(
          known == visited.end() ? 0 : static_cast<std::uint64_t>(std::llround(known->second)));
      if (resident > looked_at) *set.never_visited += resident - looked_at;
    }
  }

 private:
  const WorkingSet& set_;
  std::map<TargetId, PageCount> most_;
  PageCount sum_;
};

// Adds up chances over pages, and their variance if they are independent.
struct ChanceSum {
  double pages = 0;
  double variance = 0;

  void Add(double of_pages, double chance) {
    pages += of_pages * chance;
    variance += of_pages * of_pages * chance * (1 - chance);
  }
};

// Tells how a share of the pages differs from block to block, because whole blocks are looked at.
class BlockShares {
 public:
  explicit BlockShares(std::size_t questions) : sums_(questions), of_block_(questions) {}

  void Add(PageKey key, double pages, std::span<const double> chances) {
    const std::pair block(key.target, key.vpn.value() / kBlockPages);
    if (block_ != block) EndBlock();
    block_ = block;
    block_pages_ += pages;
    for (std::size_t q = 0; q < of_block_.size(); ++q) of_block_[q] += pages * chances[q];
  }
  void EndBlock() {
    if (block_pages_ <= 0) return;
    ++blocks_;
    pages_ += block_pages_;
    squared_pages_ += block_pages_ * block_pages_;
    for (std::size_t q = 0; q < sums_.size(); ++q) {
      const double sum = std::exchange(of_block_[q], 0);
      sums_[q].sum += sum;
      sums_[q].squares += sum * sum;
      sums_[q].products += sum * block_pages_;
    }
    block_pages_ = 0;
  }

  std::size_t blocks() const { return blocks_; }
  // Returns the standard deviation of the share as an estimate of that of all blocks, if these were
  // drawn at random. It is that of a ratio (Cochran, "Sampling techniques", 1977, section 6.3).
  double Sd(std::size_t question) const {
    const Sums& sums = sums_[question];
    const double share = sums.sum / pages_;
    const double residual =
        sums.squares - 2 * share * sums.products + share * share * squared_pages_;
    const double n = static_cast<double>(blocks_);
    return std::sqrt(std::max(0.0, residual) * n / (n - 1)) / pages_;
  }

 private:
  struct Sums {
    double sum = 0;
    double squares = 0;
    double products = 0;
  };
  std::vector<Sums> sums_;
  std::vector<double> of_block_;
  double block_pages_ = 0;
  std::optional<std::pair<TargetId, std::uint64_t>> block_;
  std::size_t blocks_ = 0;
  double pages_ = 0;
  double squared_pages_ = 0;
};

// `most`: pages that are known to be no fewer. A part of `of` decides if the size is shown.
WorkingSet::Size SizeOf(double pages, double low, double high, double most, double of) {
  WorkingSet::Size size{.pages = pages,
                        .low = std::clamp(low, 0.0, pages),
                        .high = std::clamp(high, pages, std::max(most, pages))};
  size.is_told = size.high - size.low <= HitRate::kWidestTold * of;
  return size;
}

WorkingSet::Size Exactly(double pages) { return {.pages = pages, .low = pages, .high = pages}; }

// Sums up the chances of single rows, and counts pages of several mappers once.
class ChanceAdder {
 public:
  ChanceAdder(const WholeTrace& whole, const WorkingSet& set, LastSeen& seen)
      : whole_(whole),
        set_(set),
        seen_(seen),
        rates_(set.options.rates.size()),
        idle_(set.idle.size()),
        not_seen_(set.idle.size()),
        blocks_(rates_ + set.idle.size()) {}

  void Add(const RowChances& row) {
    const TargetId target = row.key.target;
    Chances chances{.life = seen_.lives().at(target),
                    .mappers = {target},
                    .reaches = row.chances->reaches,
                    .idle = row.chances->idle};
    const std::optional<MonotonicTime> last = seen_.Of(row.key, row.pages);
    for (std::size_t age = 0; age < idle_.size(); ++age) {
      const std::chrono::nanoseconds asked = set_.idle[age].age;
      const bool was_seen = last && *last > chances.life.end - asked;
      chances.not_seen.push_back(!was_seen);
      chances.was_there.push_back(chances.life.Holds(asked));
      if (was_seen) chances.idle[age] = 0;
    }
    const PageKey name = whole_.ranker.shared_pages().NameOf(row.key, PageCount(row.pages));
    if (name == row.key) {
      Sum(row.key, row.pages, chances);
      return;
    }
    const auto [known, is_new] = shared_.try_emplace({name, row.pages}, chances);
    if (is_new) {
      visited_of_[target] += row.pages;
    } else {
      is_shared_ = true;
      known->second.Join(chances);
    }
  }

  void Finish() {
    for (const auto& [name, chances] : shared_) SumIdle(name.second, chances);
    blocks_.EndBlock();
    std::vector<Life> lives;
    for (const auto& [target, pages] : own_pages_) lives.push_back(seen_.lives().at(target));
    for (const auto& [name, chances] : shared_) lives.push_back(chances.life);
    std::ranges::sort(lives, {}, &Life::start);
    for (const Life& life : lives) {
      if (peopled_.empty() || peopled_.back().end < life.start) {
        peopled_.push_back(life);
      } else {
        peopled_.back().Join(life);
      }
    }
  }

  // Precondition: Finish() was called.
  void Tell(const ChancesOverTime& over_time, WorkingSet& set) const {
    set.is_shared = is_shared_;
    double visited = 0;
    for (const auto& [target, pages] : visited_of_) visited += pages;
    set.visited = PageCount(static_cast<std::uint64_t>(std::llround(visited)));
    TargetTimes all;
    for (const StepChances& step : over_time.steps) all.Add(step.times);
    std::vector<WorkingSet::Size> sums(rates_);
    double ran_seconds = 0;
    double most_ran = 0;
    for (std::size_t s = 0; s < over_time.steps.size(); ++s) {
      const StepChances& step = over_time.steps[s];
      const double ran = PagesOfRunning(step, all);
      const double there = PeopledSeconds(step);
      WorkingSet::Row row{.start = step.start,
                          .end = step.end,
                          .any_ran = ran > 0,
                          .any_there = there > 0,
                          .at_least = {}};
      const double length = row.any_ran ? there : 0;
      ran_seconds += length;
      most_ran = std::max(most_ran, ran);
      for (std::size_t r = 0; r < rates_; ++r) {
        const std::size_t at = s * rates_ + r;
        row.at_least.push_back(Bounded(SumOver(step, at), over_time.bounds.reaches[at], ran, ran));
        sums[r].pages += length * row.at_least[r].pages;
        sums[r].low += length * row.at_least[r].low;
        sums[r].high += length * row.at_least[r].high;
      }
      set.rows.push_back(std::move(row));
    }
    if (ran_seconds <= 0) {
      set.rows.clear();
      set.idle.clear();
      return;
    }
    for (const WorkingSet::Size& sum : sums) {
      set.at_least.push_back(SizeOf(sum.pages / ran_seconds, sum.low / ran_seconds,
                                    sum.high / ran_seconds, most_ran, most_ran));
    }
    for (std::size_t age = 0; age < idle_.size(); ++age) {
      set.idle[age].size = Bounded(idle_[age], over_time.bounds.idle[age], not_seen_[age], visited);
      set.idle[age].not_seen = not_seen_[age];
    }
  }

  const BlockShares& blocks() const { return blocks_; }
  const std::map<TargetId, double>& visited_of() const { return visited_of_; }

 private:
  // Answers of one page. By age: idle, not_seen, was_there.
  struct Chances {
    Life life;
    std::vector<TargetId> mappers;
    std::vector<double> reaches;
    std::vector<double> idle;
    std::vector<bool> not_seen{};
    std::vector<bool> was_there{};  // any mapper was there for so long

    // Joins the chances of a page that another process maps, too. They are independent.
    void Join(const Chances& other) {
      life.Join(other.life);
      mappers.insert(mappers.end(), other.mappers.begin(), other.mappers.end());
      for (std::size_t i = 0; i < reaches.size(); ++i) {
        reaches[i] = 1 - (1 - reaches[i]) * (1 - other.reaches[i]);
      }
      for (std::size_t age = 0; age < idle.size(); ++age) {
        idle[age] *= other.idle[age];
        not_seen[age] = not_seen[age] && other.not_seen[age];
        was_there[age] = was_there[age] || other.was_there[age];
      }
    }
  };

  void Sum(PageKey key, std::uint32_t pages, const Chances& chances) {
    visited_of_[key.target] += pages;
    own_pages_[key.target] += pages;
    std::vector<ChanceSum>& sums = reaches_[key.target];
    sums.resize(chances.reaches.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].Add(pages, chances.reaches[i]);
    SumIdle(pages, chances);
    const std::size_t steps = chances.reaches.size() / rates_;
    std::vector<double> of_row(rates_);
    for (std::size_t i = 0; i < chances.reaches.size(); ++i) {
      of_row[i % rates_] += chances.reaches[i] / static_cast<double>(steps);
    }
    of_row.insert(of_row.end(), chances.idle.begin(), chances.idle.end());
    blocks_.Add(key, pages, of_row);
  }

  void SumIdle(double pages, const Chances& chances) {
    for (std::size_t age = 0; age < idle_.size(); ++age) {
      if (!chances.was_there[age]) continue;
      idle_[age].Add(pages, chances.idle[age]);
      if (chances.not_seen[age]) not_seen_[age] += pages;
    }
  }

  // Returns for how long any target was there in the step.
  double PeopledSeconds(const StepChances& step) const {
    double seconds = 0;
    for (const Life& life : peopled_) seconds += life.SecondsWithin(step.start, step.end);
    return seconds;
  }
  // Returns the part of that time that lies in one life.
  double ShareOf(const Life& life, const StepChances& step) const {
    const double seconds = PeopledSeconds(step);
    return seconds > 0 ? life.SecondsWithin(step.start, step.end) / seconds : 0;
  }

  // Returns the pages of targets that used CPU time in the step, by the time that they were there.
  double PagesOfRunning(const StepChances& step, const TargetTimes& all) const {
    const auto ran = [&](TargetId target) { return all.In(step.times, target).cpu_seconds > 0; };
    double pages = 0;
    for (const auto& [target, own] : own_pages_) {
      if (ran(target)) pages += own * ShareOf(seen_.lives().at(target), step);
    }
    for (const auto& [name, chances] : shared_) {
      if (!std::ranges::any_of(chances.mappers, ran)) continue;
      pages += name.second * ShareOf(chances.life, step);
    }
    return pages;
  }

  // Sums up the answers to one question about the step, by the time that their targets were there.
  ChanceSum SumOver(const StepChances& step, std::size_t question) const {
    ChanceSum sum;
    for (const auto& [target, sums] : reaches_) {
      const double share = ShareOf(seen_.lives().at(target), step);
      sum.pages += share * sums[question].pages;
      sum.variance += share * share * sums[question].variance;
    }
    for (const auto& [name, chances] : shared_) {
      const double share = ShareOf(chances.life, step);
      sum.Add(share * name.second, chances.reaches[question]);
    }
    return sum;
  }

  // The fit may be wrong for all pages alike; what is left of each page's uncertainty is its own.
  static WorkingSet::Size Bounded(const ChanceSum& sum, const ShareBounds& bounds, double most,
                                  double of) {
    const double scatter = kDeviations * std::sqrt(sum.variance);
    // Bounds are of some of the pages, which may have more or less than their share.
    const double low =
        std::min(sum.pages - of * (bounds.value - bounds.low) - scatter, of * bounds.low);
    const double high =
        std::max(sum.pages + of * (bounds.high - bounds.value) + scatter, of * bounds.high);
    return SizeOf(sum.pages, low, high, most, of);
  }

  const WholeTrace& whole_;
  const WorkingSet& set_;
  LastSeen& seen_;
  std::size_t rates_;
  std::vector<ChanceSum> idle_;
  std::vector<double> not_seen_;
  // Pages that have no other name are summed here: row-major, a row of rates for each step.
  std::map<TargetId, std::vector<ChanceSum>> reaches_;
  std::map<TargetId, double> own_pages_;
  std::map<TargetId, double> visited_of_;  // pages, also those of files, each of one target
  std::map<std::pair<PageKey, std::uint32_t>, Chances> shared_;
  bool is_shared_ = false;
  std::vector<Life> peopled_;  // times in which any target was there, ascending, disjoint
  BlockShares blocks_;
};

// Adds sizes of the resident memory, if pages that were not visited are like those that were.
void ScaleToResident(const BlockShares& blocks, WorkingSet& set) {
  const auto visited = static_cast<double>(set.visited.value());
  const auto resident = static_cast<double>(set.resident->value());
  const double of_unvisited = static_cast<double>(set.never_visited->value()) / resident;
  const double scale = 1 / (1 - of_unvisited);
  const auto scaled = [&](const WorkingSet::Size& size, std::size_t question) {
    const double all = scale * visited;
    const double scatter = kDeviations * all * blocks.Sd(question) * std::sqrt(of_unvisited);
    return SizeOf(scale * size.pages, scale * size.low - scatter, scale * size.high + scatter, all,
                  all);
  };
  WorkingSet::OfResident of_resident;
  for (const WorkingSet::Size& size : set.at_least) {
    of_resident.at_least.push_back(scaled(size, of_resident.at_least.size()));
  }
  for (const WorkingSet::Idle& idle : set.idle) {
    of_resident.idle.push_back(scaled(idle.size, set.at_least.size() + of_resident.idle.size()));
  }
  set.of_resident = std::move(of_resident);
}

// Says why pages that nobody looked at may differ from those that were; empty: they may not.
std::string WhyNoResident(const WorkingSet& set, std::size_t blocks) {
  if (set.is_exact) return "every access was counted";
  if (set.whole_regions) return "regions were looked at, and which of their pages exist is unknown";
  if (set.is_shared) return "several processes map the same pages";
  if (!set.resident) return "the trace does not tell how much memory is resident";
  for (const SourceTotal& source : set.totals.sources) {
    const auto unclearable = source.Detail("unclearable_pages");
    if (unclearable && static_cast<double>(*unclearable) >
                           kMostUnclearable * static_cast<double>(set.resident->value())) {
      return "much memory cannot be looked at";
    }
  }
  if (*set.never_visited >= *set.resident || blocks < kFewestBlocks)
    return "too few places were looked at";
  return "";
}

// Adds a row of exact counts for each epoch.
Result<StreamEnd> AddExactRows(const Trace& trace, const WholeTrace& whole, WorkingSet& set) {
  EpochEstimates estimates(whole.ranker, *set.options.by);
  return ReadEpochs(trace, set.options.epochs, [&](const EpochProfile& epoch) {
    estimates.See(epoch);
    const EvidenceTable& table = estimates.table();
    TargetTimes times;
    times.Add(epoch);
    WorkingSet::Row row{.start = epoch.start, .end = epoch.end, .any_ran = false, .at_least = {}};
    std::vector<double> pages(set.options.rates.size());
    std::map<std::pair<PageKey, std::uint32_t>, double> shared;  // key to the highest rate
    const auto add = [&](double rate, std::uint32_t span) {
      for (std::size_t r = 0; r < pages.size(); ++r) {
        if (rate >= set.options.rates[r]) pages[r] += span;
      }
    };
    for (const EpochEstimates::TargetRows& rows : estimates.targets()) {
      const double cpu_seconds = times.Of(rows.target).cpu_seconds;
      if (cpu_seconds <= 0 || !set.totals.IsOf(rows.target, set.options.pid)) continue;
      row.any_ran = true;
      for (std::size_t i = rows.first; i < rows.end; ++i) {
        const double rate = estimates.StepScore(i) / table.span_pages[i] / cpu_seconds;
        const PageKey name =
            whole.ranker.shared_pages().NameOf(table.key[i], PageCount(table.span_pages[i]));
        if (name == table.key[i]) {
          add(rate, table.span_pages[i]);
        } else {
          double& highest = shared[{name, table.span_pages[i]}];
          highest = std::max(highest, rate);
        }
      }
    }
    for (const auto& [name, rate] : shared) add(rate, name.second);
    for (const double size : pages) row.at_least.push_back(Exactly(size));
    set.rows.push_back(std::move(row));
  });
}

// Returns the mean over successive rows, by the time that each holds.
WorkingSet::Row MeanOf(std::span<const WorkingSet::Row> rows) {
  WorkingSet::Row mean{.start = rows.front().start,
                       .end = rows.back().end,
                       .any_ran = false,
                       .at_least = std::vector<WorkingSet::Size>(rows.front().at_least.size())};
  mean.any_there =
      std::ranges::any_of(rows, [](const WorkingSet::Row& row) { return row.any_there; });
  double seconds = 0;
  for (const WorkingSet::Row& row : rows) {
    if (!row.any_ran) continue;
    mean.any_ran = true;
    const double length = Seconds(row.end - row.start);
    seconds += length;
    for (std::size_t r = 0; r < mean.at_least.size(); ++r) {
      mean.at_least[r].pages += length * row.at_least[r].pages;
    }
  }
  for (WorkingSet::Size& size : mean.at_least) {
    size = Exactly(seconds > 0 ? size.pages / seconds : 0);
  }
  return mean;
}

void JoinRows(WorkingSet& set) {
  if (set.rows.empty()) return;
  const WorkingSet::Row mean = MeanOf(set.rows);
  if (mean.any_ran) set.at_least = mean.at_least;
  const std::size_t together = CeilDivide(set.rows.size(), kMostRows);
  std::vector<WorkingSet::Row> joined;
  for (std::size_t i = 0; i < set.rows.size(); i += together) {
    const std::size_t count = std::min(together, set.rows.size() - i);
    joined.push_back(MeanOf(std::span(set.rows).subspan(i, count)));
  }
  set.rows = std::move(joined);
}

// Returns the pages of each target that were accessed. A page of several counts for one of them.
std::map<TargetId, double> TellExactIdle(const WholeTrace& whole, LastSeen& seen, WorkingSet& set) {
  const EvidenceTable& table = whole.ranker.table();
  struct Page {
    std::vector<bool> idle;
    std::vector<bool> was_there;
  };
  std::map<std::pair<PageKey, std::uint32_t>, Page> shared;
  std::map<TargetId, double> visited_of;
  const auto add = [&](double pages, const Page& page) {
    for (std::size_t age = 0; age < page.idle.size(); ++age) {
      if (page.idle[age] && page.was_there[age]) set.idle[age].not_seen += pages;
    }
  };
  for (std::size_t row = 0; row < table.size(); ++row) {
    const PageKey key = table.key[row];
    const std::uint32_t pages = table.span_pages[row];
    if (!set.totals.IsOf(key.target, set.options.pid)) continue;
    const std::optional<MonotonicTime> last = seen.Of(key, pages);
    if (!last) continue;
    const Life& life = seen.lives().at(key.target);
    Page page;
    for (const WorkingSet::Idle& each : set.idle) {
      page.idle.push_back(*last <= life.end - each.age);
      page.was_there.push_back(life.Holds(each.age));
    }
    const PageKey name = whole.ranker.shared_pages().NameOf(key, PageCount(pages));
    if (name == key) {
      visited_of[key.target] += pages;
      add(pages, page);
      continue;
    }
    const auto [known, is_new] = shared.try_emplace({name, pages}, page);
    if (is_new) visited_of[key.target] += pages;
    set.is_shared = set.is_shared || !is_new;
    for (std::size_t age = 0; age < page.idle.size(); ++age) {
      known->second.idle[age] = known->second.idle[age] && page.idle[age];
      known->second.was_there[age] = known->second.was_there[age] || page.was_there[age];
    }
  }
  for (const auto& [name, page] : shared) add(name.second, page);
  for (WorkingSet::Idle& each : set.idle) each.size = Exactly(each.not_seen);
  double visited = 0;
  for (const auto& [target, pages] : visited_of) visited += pages;
  set.visited = PageCount(static_cast<std::uint64_t>(visited));
  return visited_of;
}

}  // namespace

Result<WorkingSet> MakeWorkingSet(const Trace& trace, const WorkingSetOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, RankModel::kRate, options.epochs);
  if (!whole) return Fail(whole.error());
  // Memory that only a cache serves is in use, too.
  if (Status chosen = ChooseBasis(*whole, {RankWeight::kAccesses, options.by}, "tell working sets");
      !chosen) {
    return Fail(std::move(chosen.error()));
  }
  const RankSource by = whole->totals.basis.source;
  if (Status known = RequireAccesses(*whole, by, "tell working sets by samples"); !known) {
    return Fail(known.error());
  }
  WorkingSet set{.totals = whole->totals, .options = options, .is_exact = IsExact(by)};
  set.options.by = by;
  LastSeen seen(whole->ranker.table());
  MostResident most_resident(set);
  const Result<StreamEnd> end = ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) {
    seen.Add(epoch);
    most_resident.Add(epoch);
  });
  if (!end) return Fail(end.error());
  RateQuestions questions{.rates = options.rates, .ages = {}, .ends = {}};
  std::chrono::nanoseconds longest{0};
  for (const auto& [target, life] : seen.lives()) {
    if (!set.totals.IsOf(target, options.pid)) continue;
    questions.ends[target] = life.end;
    longest = std::max(longest, life.end - life.start);
  }
  for (const std::chrono::seconds age : kAges) {
    if (age > longest) break;
    set.idle.push_back({.age = age, .size = {}});
    questions.ages.push_back(age);
  }
  if (set.is_exact) {
    const Result<StreamEnd> rows = AddExactRows(trace, *whole, set);
    if (!rows) return Fail(rows.error());
    JoinRows(set);
    const std::map<TargetId, double> visited_of = TellExactIdle(*whole, seen, set);
    if (!set.is_shared) most_resident.Tell(visited_of, set);
    set.why_no_resident = WhyNoResident(set, 0);
    return set;
  }
  for (const std::uint32_t pages : whole->ranker.table().span_pages) {
    set.whole_regions = set.whole_regions || !IsOneEntry(pages);
  }
  ChanceAdder adder(*whole, set, seen);
  const ChancesOverTime over_time =
      whole->ranker.EstimateChances(by, questions, [&](const RowChances& row) { adder.Add(row); });
  adder.Finish();
  adder.Tell(over_time, set);
  if (!set.is_shared) most_resident.Tell(adder.visited_of(), set);
  set.why_no_resident = WhyNoResident(set, adder.blocks().blocks());
  if (set.why_no_resident.empty() && !set.at_least.empty()) ScaleToResident(adder.blocks(), set);
  return set;
}

namespace {

// Sizes of one table share a unit and its decimals.
struct SizeFormat {
  SizeUnit unit;
  int decimals = 1;

  std::string operator()(double count) const {
    return fmt::format("{:.{}f}", count / unit.pages, decimals);
  }
  // "12.5 [10.1, 14.0]"
  std::string WithInterval(const WorkingSet::Size& size) const {
    return fmt::format("{} [{}, {}]", size.is_told ? (*this)(size.pages) : "?", (*this)(size.low),
                       (*this)(size.high));
  }
};

SizeFormat FormatOf(double pages) {
  const SizeUnit unit = SizeUnitOf(pages);
  return {.unit = unit, .decimals = pages / unit.pages < 10 ? 2 : 1};
}

double LargestOf(const WorkingSet& set) {
  const PageCount rest = set.of_resident ? *set.never_visited : PageCount(0);
  return static_cast<double>((set.visited + rest).value());
}

std::string RateText(double rate) { return fmt::format("{:g}", rate); }

std::string WhatWasVisited(const WorkingSet& set) {
  std::string text = fmt::format("{}: {} ({})", set.is_exact ? "accessed" : "looked at",
                                 HumanSize(set.visited), CountText(set.visited));
  if (!set.resident) {
    return text + (set.is_shared ? "; resident: unknown, as several processes map the same pages\n"
                                 : "; resident: unknown\n");
  }
  text += fmt::format("; at most {} resident at a time\n", HumanSize(*set.resident));
  const PageCount rest = *set.never_visited;
  if (rest == PageCount(0)) return text;
  text += set.is_exact
              ? fmt::format("never accessed: {}, not in these tables\n", HumanSize(rest))
              : fmt::format("never looked at: {}; unknown, so neither in use nor idle below\n",
                            HumanSize(rest));
  return text;
}

// A size has columns of the memory looked at and, if it is known, of all that is resident.
std::vector<TextTable::Column> SizeColumns(const WorkingSet& set, const SizeFormat& format) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  const char* const interval = set.is_exact ? "" : " [90 % interval]";
  std::vector<TextTable::Column> columns = {
      {std::string(format.unit.name) + interval, kRight, kKey}, {"share"}};
  if (set.of_resident) columns.push_back({fmt::format("{} of resident", format.unit.name)});
  return columns;
}
void AddSize(const WorkingSet& set, const SizeFormat& format, const WorkingSet::Size& size,
             const WorkingSet::Size* of_resident, std::vector<std::string>& cells) {
  cells.push_back(set.is_exact ? format(size.pages) : format.WithInterval(size));
  const auto visited = static_cast<double>(set.visited.value());
  cells.push_back(size.is_told && visited > 0 ? Percent(size.pages / visited) : "? %");
  if (of_resident != nullptr) cells.push_back(format.WithInterval(*of_resident));
}

std::string SizesText(const WorkingSet& set, const SizeFormat& format, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::vector<TextTable::Column> columns = {{"accesses/s of a page", kRight, kKey}};
  for (const TextTable::Column& column : SizeColumns(set, format)) columns.push_back(column);
  TextTable table(columns);
  for (std::size_t r = 0; r < set.at_least.size(); ++r) {
    std::vector<std::string> cells = {">= " + RateText(set.options.rates[r])};
    AddSize(set, format, set.at_least[r], set.of_resident ? &set.of_resident->at_least[r] : nullptr,
            cells);
    table.AddRow(std::move(cells));
  }
  return table.Text(width);
}

std::string OverTimeText(const WorkingSet& set, const SizeFormat& format, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  if (set.rows.size() == 1) return "No change of rates over time was found.\n";
  std::vector<TextTable::Column> columns = {{"seconds", kRight, kKey}};
  for (const double rate : set.options.rates) {
    columns.push_back({fmt::format("{} >= {}/s", format.unit.name, RateText(rate))});
  }
  TextTable table(columns);
  for (const WorkingSet::Row& row : set.rows) {
    std::vector<std::string> cells = {fmt::format("{:.1f}-{:.1f}",
                                                  Seconds(row.start - set.totals.start),
                                                  Seconds(row.end - set.totals.start))};
    for (const WorkingSet::Size& size : row.at_least) {
      if (!row.any_ran) {
        cells.push_back(row.any_there ? "rests" : "not there");
      } else if (set.is_exact) {
        cells.push_back(format(size.pages));
      } else {
        const double reach = std::max(size.high - size.pages, size.pages - size.low);
        cells.push_back(size.is_told ? fmt::format("{} ± {}", format(size.pages), format(reach))
                                     : "?");
      }
    }
    table.AddRow(std::move(cells));
  }
  return table.Text(width);
}

std::string IdleText(const WorkingSet& set, const SizeFormat& format, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  if (set.idle.empty()) return "Idle memory: no process was there for a second.\n";
  std::string text = "Idle memory: not accessed for so long, at the end of its process's epochs\n";
  std::vector<TextTable::Column> columns = {{"idle time", kRight, kKey}};
  for (const TextTable::Column& column : SizeColumns(set, format)) columns.push_back(column);
  if (!set.is_exact) columns.push_back({fmt::format("{} not seen", format.unit.name)});
  TextTable table(columns);
  for (std::size_t age = 0; age < set.idle.size(); ++age) {
    std::vector<std::string> cells = {">= " + AgeText(set.idle[age].age)};
    AddSize(set, format, set.idle[age].size,
            set.of_resident ? &set.of_resident->idle[age] : nullptr, cells);
    if (!set.is_exact) cells.push_back(format(set.idle[age].not_seen));
    table.AddRow(std::move(cells));
  }
  text += table.Text(width);
  if (!set.is_exact) {
    text += "not seen: looked at, and not seen accessed for so long; no more can be idle\n";
  }
  return text;
}

bool IsAllTold(const WorkingSet& set) {
  const auto told = [](const WorkingSet::Size& size) { return size.is_told; };
  return std::ranges::all_of(set.at_least, told) &&
         std::ranges::all_of(set.idle, told, &WorkingSet::Idle::size) &&
         (!set.of_resident || (std::ranges::all_of(set.of_resident->at_least, told) &&
                               std::ranges::all_of(set.of_resident->idle, told)));
}

std::vector<std::string> NotesOf(const WorkingSet& set) {
  std::vector<std::string> notes = Caveats(set.totals, *set.options.by);
  if (set.whole_regions) notes.push_back("all pages of a region count alike");
  if (!set.of_resident && !set.is_exact) {
    notes.push_back("sizes of all resident memory are not told: " + set.why_no_resident);
  }
  return notes;
}

}  // namespace

std::string AgeText(std::chrono::nanoseconds age) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  if (seconds % 3600 == 0) return fmt::format("{} h", seconds / 3600);
  if (seconds % 60 == 0) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} s", seconds);
}

std::string WorkingSetText(const WorkingSet& set, TextWidth width) {
  std::string text = fmt::format(
      "Working set: memory whose pages get at least so many accesses in a second of\n"
      "their process's CPU time, by {}{}\n",
      TextOf(set.totals.basis),
      set.options.pid ? fmt::format(", of PID {}", set.options.pid->value()) : "");
  text += WhatWasVisited(set);
  if (set.at_least.empty()) {
    text += "Nothing is known of any page.\n";
  } else {
    const SizeFormat format = FormatOf(LargestOf(set));
    text += "\n" + SizesText(set, format, width) + "\n" + OverTimeText(set, format, width) + "\n" +
            IdleText(set, format, width);
    if (!IsAllTold(set)) text += "?: too little was seen to tell\n";
    if (set.of_resident) {
      text += "of resident: if memory that was not looked at is like the rest\n";
    }
  }
  for (const std::string& note : NotesOf(set)) text += "note: " + note + "\n";
  return text;
}

namespace {

Json SizeJson(const WorkingSet::Size& size) {
  return {{"pages", size.pages}, {"low", size.low}, {"high", size.high}, {"told", size.is_told}};
}

Json RatesJson(const WorkingSet& set, const std::vector<WorkingSet::Size>& sizes) {
  Json rows = Json::array();
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    Json row = SizeJson(sizes[r]);
    row["at_least_per_s"] = set.options.rates[r];
    rows.push_back(std::move(row));
  }
  return rows;
}

Json IdleJson(const WorkingSet& set) {
  Json rows = Json::array();
  for (std::size_t age = 0; age < set.idle.size(); ++age) {
    const WorkingSet::Idle& idle = set.idle[age];
    Json row = SizeJson(idle.size);
    row["age_s"] = Seconds(idle.age);
    row["not_seen_pages"] = idle.not_seen;
    row["of_resident"] = set.of_resident ? SizeJson(set.of_resident->idle[age]) : Json(nullptr);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string WorkingSetJson(const WorkingSet& set) {
  Json over_time = Json::array();
  for (const WorkingSet::Row& row : set.rows) {
    over_time.push_back(
        {{"start_s", Seconds(row.start - set.totals.start)},
         {"end_s", Seconds(row.end - set.totals.start)},
         {"ran", row.any_there ? Json(row.any_ran) : Json()},
         {"working_set", row.any_ran ? RatesJson(set, row.at_least) : Json::array()}});
  }
  return JsonText(WithEnd(
      {{"view", "wss"},
       {"trace", set.totals.trace},
       {"by", Name(*set.options.by)},
       {"rank_weight", Name(set.totals.basis.weight)},
       {"pid", set.options.pid ? Json(set.options.pid->value()) : Json(nullptr)},
       {"epochs", set.totals.epochs},
       {"unit", ScoreUnit(set.totals, RankModel::kRate, *set.options.by) + " per CPU second"},
       {"exact", set.is_exact},
       {"visited_pages", set.visited.value()},
       {"resident_pages", OrNull(set.resident)},
       {"never_visited_pages", OrNull(set.never_visited)},
       {"working_set", RatesJson(set, set.at_least)},
       {"working_set_of_resident",
        set.of_resident ? RatesJson(set, set.of_resident->at_least) : Json(nullptr)},
       {"idle", IdleJson(set)},
       {"over_time", std::move(over_time)},
       {"start_monotonic_s", Seconds(set.totals.start.time_since_epoch())},
       {"notes", NotesOf(set)}},
      set.totals.end, set.totals.lost_epochs));
}

std::string WorkingSetCsv(const WorkingSet& set) {
  std::string csv = CsvLine({"what", "start_s", "end_s", "at_least_per_s", "idle_s", "pages",
                             "low_pages", "high_pages", "told"});
  const auto add = [&](std::string what, std::string start, std::string end, std::string rate,
                       std::string age, const WorkingSet::Size& size) {
    csv += CsvLine({std::move(what), std::move(start), std::move(end), std::move(rate),
                    std::move(age), Exact(size.pages), Exact(size.low), Exact(size.high),
                    size.is_told ? "true" : "false"});
  };
  for (const WorkingSet::Row& row : set.rows) {
    if (!row.any_ran) continue;
    for (std::size_t r = 0; r < row.at_least.size(); ++r) {
      add("working set", Exact(Seconds(row.start - set.totals.start)),
          Exact(Seconds(row.end - set.totals.start)), Exact(set.options.rates[r]), "",
          row.at_least[r]);
    }
  }
  for (const WorkingSet::Idle& idle : set.idle) {
    add("idle", "", "", "", Exact(Seconds(idle.age)), idle.size);
  }
  return csv;
}

}  // namespace tmprof
