// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/replay.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "policy/replay/footprint.h"

namespace tmprof {
namespace {

// 4 TiB of footprint: 8 GiB of placements. A damaged trace may claim any size.
constexpr PageCount kLargestFootprint{std::uint64_t{1} << 30};

// By footprint index.
using PageIndex = std::uint32_t;
constexpr PageIndex kOutside = std::numeric_limits<PageIndex>::max();

// One bit per (page, lane), the bits of one page together: 64 placements are kept and judged in one
// look at a page.
class Tier1 {
 public:
  Tier1(PageCount pages, std::size_t lanes)
      : words_((lanes + 63) / 64), bits_(pages.value() * words_, 0) {}

  std::size_t words() const { return words_; }
  std::uint64_t Word(std::uint64_t page, std::size_t word) const {
    return bits_[page * words_ + word];
  }
  bool Holds(std::uint64_t page, std::size_t lane) const {
    return (bits_[page * words_ + lane / 64] >> (lane % 64) & 1) != 0;
  }
  void Put(std::uint64_t page, std::size_t lane) {
    bits_[page * words_ + lane / 64] |= std::uint64_t{1} << (lane % 64);
  }
  void Remove(std::uint64_t page, std::size_t lane) {
    bits_[page * words_ + lane / 64] &= ~(std::uint64_t{1} << (lane % 64));
  }
  // Empties the lanes whose bits are set in `mask`, one word per 64 lanes.
  void Clear(const std::vector<std::uint64_t>& mask) {
    if (std::ranges::all_of(mask, [](std::uint64_t word) { return word == 0; })) return;
    for (std::size_t i = 0; i < bits_.size(); i += words_) {
      for (std::size_t w = 0; w < words_; ++w) bits_[i + w] &= ~mask[w];
    }
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// One epoch as the policies see it; kept while it is the past. The keys and spans are the ranker's,
// which keeps them as long.
struct Snapshot {
  std::span<const PageKey> key;
  std::span<const std::uint32_t> span_pages;
  std::vector<PageIndex> first_page;  // kOutside: not of the footprint
  std::vector<Scores> score;          // per rank source of the replay
  std::vector<Ranking> ranking;       // likewise, over the columns above

  std::size_t size() const { return key.size(); }
};

// One result in the making: its placement is one lane of Tier1.
struct Lane {
  const Policy* policy = nullptr;
  std::size_t rank = 0;  // index into Snapshot::ranking
  PageCount capacity;
  PageCount used;
  PageCount moved;
  double hit = 0;
};

class LaneResidency final : public Residency {
 public:
  LaneResidency(const Tier1& tier1, const Snapshot& snapshot, std::size_t lane)
      : tier1_(tier1), snapshot_(snapshot), lane_(lane) {}

  bool InTier1(std::size_t row) const override {
    const std::uint64_t first = snapshot_.first_page[row];
    for (std::uint64_t page = first; page < first + snapshot_.span_pages[row]; ++page) {
      if (!tier1_.Holds(page, lane_)) return false;
    }
    return true;
  }

 private:
  const Tier1& tier1_;
  const Snapshot& snapshot_;
  std::size_t lane_;
};

class Replayer {
 public:
  Replayer(const Footprint& footprint, const ReplayOptions& options)
      : footprint_(footprint),
        ranker_(options.ranker),
        sources_(options.ranks),
        tier1_(footprint.size(),
               options.policies.size() * options.ranks.size() * options.ratios.size()),
        appeared_(footprint.size().value(), false) {
    judge_ =
        static_cast<std::size_t>(std::ranges::find(sources_, options.judge) - sources_.begin());
    if (judge_ == sources_.size()) sources_.push_back(options.judge);
    for (const PolicyEntry* entry : options.policies) {
      policies_.push_back(entry->make());
      for (std::size_t rank = 0; rank < options.ranks.size(); ++rank) {
        for (const Ratio ratio : options.ratios) {
          lanes_.push_back({.policy = policies_.back().get(),
                            .rank = rank,
                            .capacity = CapacityAt(ratio, footprint.size())});
        }
      }
    }
  }

  void Play(const EpochProfile& epoch) {
    std::swap(past_, present_);
    ranker_.Absorb(epoch);
    TakeSnapshot();
    CarryOutPlans();
    PlaceNewPages();
    Judge();
    ++epochs_;
  }

  const std::vector<Lane>& lanes() const { return lanes_; }
  std::uint64_t epochs() const { return epochs_; }
  double weight_total() const { return weight_total_; }

 private:
  void TakeSnapshot() {
    const EvidenceTable& table = ranker_.table();
    present_.key = table.key;
    present_.span_pages = table.span_pages;
    present_.first_page.resize(table.size());
    Footprint::Walk walk(footprint_);
    outside_.clear();
    for (std::size_t row = 0; row < table.size(); ++row) {
      const auto index = walk.IndexOf(table.key[row], table.span_pages[row]);
      present_.first_page[row] = index ? static_cast<PageIndex>(*index) : kOutside;
      if (!index) outside_.push_back(row);
    }
    present_.score.resize(sources_.size());
    present_.ranking.resize(sources_.size());
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      ranker_.Score(sources_[s], present_.score[s]);
      for (const std::size_t row : outside_) present_.score[s][row] = 0;
      present_.ranking[s].Reset({present_.key, present_.span_pages, present_.score[s]});
    }
  }

  // What the policy of a lane knows now; nullptr: nothing.
  Snapshot* KnownTo(const Lane& lane) {
    switch (lane.policy->knowledge()) {
      case Knowledge::kNothing:
        return nullptr;
      case Knowledge::kPast:
        return epochs_ == 0 ? nullptr : &past_;
      case Knowledge::kPresent:
        return &present_;
    }
    return nullptr;
  }

  void CarryOutPlans() {
    // Lanes that their plan fills to the last page are emptied in one pass over all pages.
    std::vector<std::uint64_t> refilled(tier1_.words(), 0);
    wanted_.resize(lanes_.size());
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      wanted_[l].clear();
      Lane& lane = lanes_[l];
      Snapshot* known = KnownTo(lane);
      if (known == nullptr) continue;
      lane.policy->Choose(known->ranking[lane.rank], LaneResidency(tier1_, *known, l),
                          lane.capacity, wanted_[l]);
      const Incoming incoming = Count(*known, wanted_[l], l);
      const PageCount staying = incoming.in_tier1;
      const PageCount wanted = staying + incoming.moved + incoming.placed;
      TMPROF_CHECK(wanted <= lane.capacity);
      lane.moved += incoming.moved;
      if (wanted == lane.capacity) {
        lane.moved += lane.used - staying;
        lane.used = wanted;
        refilled[l / 64] |= std::uint64_t{1} << (l % 64);
        continue;
      }
      const PageCount in_use = lane.used + incoming.moved + incoming.placed;
      if (in_use > lane.capacity) MakeRoom(l, *known, in_use - lane.capacity);
      lane.used += incoming.moved + incoming.placed;
    }
    tier1_.Clear(refilled);
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (wanted_[l].empty()) continue;
      const Snapshot& known = *KnownTo(lanes_[l]);
      for (const std::uint32_t row : wanted_[l]) {
        const std::uint64_t first = known.first_page[row];
        for (std::uint64_t page = first; page < first + known.span_pages[row]; ++page) {
          tier1_.Put(page, l);
        }
      }
    }
  }

  // Where the pages of wanted spans are before the plan is carried out.
  struct Incoming {
    PageCount in_tier1;
    PageCount moved;   // in another tier
    PageCount placed;  // nowhere: they appear in this epoch
  };
  Incoming Count(const Snapshot& known, const std::vector<std::uint32_t>& wanted,
                 std::size_t lane) const {
    Incoming incoming;
    for (const std::uint32_t row : wanted) {
      const std::uint64_t first = known.first_page[row];
      for (std::uint64_t page = first; page < first + known.span_pages[row]; ++page) {
        PageCount& count = tier1_.Holds(page, lane) ? incoming.in_tier1
                           : appeared_[page]        ? incoming.moved
                                                    : incoming.placed;
        count += PageCount(1);
      }
    }
    return incoming;
  }

  // Evicts unwanted pages, worst first: those that the lane knows nothing of, one by one from the
  // highest index down; then spans, whole, in the opposite order of the ranking.
  void MakeRoom(std::size_t l, Snapshot& known, PageCount needed) {
    Lane& lane = lanes_[l];
    PageCount evicted;
    const auto evict = [&](std::uint64_t page) {
      if (!tier1_.Holds(page, l)) return;
      tier1_.Remove(page, l);
      evicted += PageCount(1);
    };

    std::vector<bool> is_known(appeared_.size(), false);
    for (std::size_t row = 0; row < known.size(); ++row) {
      if (known.first_page[row] == kOutside) continue;
      for (std::uint64_t i = 0; i < known.span_pages[row]; ++i) {
        is_known[known.first_page[row] + i] = true;
      }
    }
    for (std::uint64_t page = is_known.size(); page-- > 0 && evicted < needed;) {
      if (!is_known[page]) evict(page);
    }

    std::vector<bool> is_settled(known.size(), false);  // wanted, or its turn has come
    for (const std::uint32_t row : wanted_[l]) is_settled[row] = true;
    const auto evict_row = [&](std::size_t row) {
      if (is_settled[row] || known.first_page[row] == kOutside) return;
      is_settled[row] = true;
      for (std::uint64_t i = 0; i < known.span_pages[row]; ++i) evict(known.first_page[row] + i);
    };
    Ranking& ranking = known.ranking[lane.rank];
    for (std::size_t row = known.size(); row-- > 0 && evicted < needed;) {
      if (!(known.score[lane.rank][row] > 0)) evict_row(row);
    }
    for (std::size_t place = ranking.size(); place-- > 0 && evicted < needed;) {
      evict_row(ranking.Row(place));
    }
    TMPROF_CHECK(evicted >= needed);
    lane.used -= evicted;
    lane.moved += evicted;
  }

  void PlaceNewPages() {
    for (std::size_t row = 0; row < present_.size(); ++row) {
      const std::uint64_t first = present_.first_page[row];
      if (first == kOutside) continue;
      const std::uint64_t end = first + present_.span_pages[row];
      new_pages_.clear();
      for (std::uint64_t page = first; page < end; ++page) {
        if (!appeared_[page]) new_pages_.push_back(page);
      }
      if (new_pages_.empty()) continue;
      for (std::size_t l = 0; l < lanes_.size(); ++l) PlaceTogether(l);
      for (const std::uint64_t page : new_pages_) appeared_[page] = true;
    }
  }

  // Puts the new pages of one span in tier 1, all or none.
  void PlaceTogether(std::size_t l) {
    Lane& lane = lanes_[l];
    if (lane.used == lane.capacity) return;
    PageCount missing;
    for (const std::uint64_t page : new_pages_) {
      if (!tier1_.Holds(page, l)) missing += PageCount(1);
    }
    if (missing > lane.capacity - lane.used) return;
    for (const std::uint64_t page : new_pages_) tier1_.Put(page, l);
    lane.used += missing;
  }

  void Judge() {
    const Scores& score = present_.score[judge_];
    for (std::size_t row = 0; row < present_.size(); ++row) {
      if (!(score[row] > 0)) continue;
      weight_total_ += score[row];
      const std::uint64_t first = present_.first_page[row];
      const std::uint64_t pages = present_.span_pages[row];
      const double weight = score[row] / static_cast<double>(pages);
      for (std::uint64_t page = first; page < first + pages; ++page) {
        for (std::size_t word = 0; word < tier1_.words(); ++word) {
          for (std::uint64_t bits = tier1_.Word(page, word); bits != 0; bits &= bits - 1) {
            lanes_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].hit += weight;
          }
        }
      }
    }
  }

  const Footprint& footprint_;
  Ranker ranker_;
  std::vector<RankSource> sources_;  // the ranks, and the judge if it is none of them
  std::size_t judge_ = 0;            // index into sources_
  std::vector<std::unique_ptr<const Policy>> policies_;
  std::vector<Lane> lanes_;
  Tier1 tier1_;
  std::vector<bool> appeared_;  // by footprint index
  Snapshot past_;
  Snapshot present_;
  std::vector<std::vector<std::uint32_t>> wanted_;  // per lane
  std::vector<std::size_t> outside_;  // rows of the present that are not of the footprint
  std::vector<std::uint64_t> new_pages_;
  std::uint64_t epochs_ = 0;
  double weight_total_ = 0;
};

Error NothingToReplay(std::string reason) {
  return BadInput("replay", "the trace", std::move(reason),
                  "record for longer, or a program that runs");
}

}  // namespace

Result<ReplayOutcome> Replay(const OpenTrace& open, const ReplayOptions& options) {
  ReplayOutcome outcome;
  Footprint footprint;
  {
    auto trace = open();
    if (!trace) return Fail(std::move(trace.error()));
    FootprintScan scan = ScanFootprint(**trace);
    if (scan.epochs == 0) {
      return Fail(scan.damage ? std::move(*scan.damage)
                              : NothingToReplay("it holds no complete epoch"));
    }
    if (scan.footprint.size() == PageCount(0)) {
      return Fail(NothingToReplay("no page was seen accessed in any of its " +
                                  std::to_string(scan.epochs) + " epochs"));
    }
    if (scan.footprint.size() > kLargestFootprint) {
      return Fail(BadInput("replay", "the trace",
                           "its footprint of " + std::to_string(scan.footprint.size().value()) +
                               " pages is more than the " +
                               std::to_string(kLargestFootprint.value()) + " that can be placed"));
    }
    footprint = std::move(scan.footprint);
  }

  auto trace = open();
  if (!trace) return Fail(std::move(trace.error()));
  Replayer replayer(footprint, options);
  EpochProfile epoch;
  while (true) {
    Result<bool> more = (*trace)->Next(epoch);
    if (!more) {
      outcome.damage = std::move(more.error());
      break;
    }
    if (!*more) break;
    replayer.Play(epoch);
  }

  auto lane = replayer.lanes().begin();
  const double total = replayer.weight_total();
  for (const PolicyEntry* policy : options.policies) {
    for (const RankSource rank : options.ranks) {
      for (const Ratio ratio : options.ratios) {
        outcome.results.push_back(
            {.policy = std::string(policy->name),
             .rank = rank,
             .judge = options.judge,
             .ratio = ratio,
             .capacity = lane->capacity,
             .epochs = replayer.epochs(),
             .hit_rate = total > 0 ? std::optional(std::min(1.0, lane->hit / total)) : std::nullopt,
             .weight_hit = lane->hit,
             .weight_total = total,
             .moved_pages = lane->moved});
        ++lane;
      }
    }
  }
  return outcome;
}

}  // namespace tmprof
