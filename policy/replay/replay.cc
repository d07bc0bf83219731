// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "policy/pieces.h"
#include "policy/replay/footprint.h"
#include "policy/replay/page_bits.h"
#include "policy/replay/shared_rows.h"
#include "rank/memory_traffic.h"

namespace tmprof {
namespace {

// 4 TiB of footprint need 8 GiB of weights. A damaged trace may claim any size.
constexpr PageCount kLargestFootprint{std::uint64_t{1} << 30};

// Index of a page in the footprint.
using PageIndex = std::uint32_t;
constexpr PageIndex kOutside = std::numeric_limits<PageIndex>::max();

// One epoch as the policies see it. It is kept while it is the past.
struct Snapshot {
  std::vector<std::uint32_t> span_pages;  // empty: each is one base page
  std::vector<PageIndex> first_page;      // kOutside: not in the footprint
  std::vector<Scores> score;              // per rank source of the replay
  std::vector<Ranking> ranking;           // per rank source, over the columns above

  std::size_t size() const { return first_page.size(); }
  PageCount PagesOf(std::size_t row) const {
    return PageCount(span_pages.empty() ? 1 : span_pages[row]);
  }
  // Calls visit(page) for each page of a row that is in the footprint.
  template <typename Visit>
  void ForEachPage(std::size_t row, Visit visit) const {
    const std::uint64_t first = first_page[row];
    const std::uint64_t end = first + PagesOf(row).value();
    for (std::uint64_t page = first; page < end; ++page) visit(page);
  }
};

// One result under construction.
struct Lane {
  const Policy* policy = nullptr;
  std::size_t rank = 0;  // index into Snapshot::ranking
  PageCount capacity;
  PageBits tier1;
  PageCount used;  // pages of tier1
  PageCount moved;
  double hit = 0;
  double total = 0;  // weight that could be hit
};

class LaneResidency final : public Residency {
 public:
  LaneResidency(const PageBits& tier1, const Snapshot& snapshot)
      : tier1_(tier1), snapshot_(snapshot) {}

  void InTier1(std::span<const std::uint32_t> rows,
               std::vector<std::uint8_t>& answers) const override {
    answers.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bool all = true;
      snapshot_.ForEachPage(rows[i], [&](std::uint64_t page) { all &= tier1_.Holds(page); });
      answers[i] = all ? 1 : 0;
    }
  }

 private:
  const PageBits& tier1_;
  const Snapshot& snapshot_;
};

class Replayer {
 public:
  // Precondition: the options name ranks and a judge. `by_samples`: the judge kMemory uses the
  // samples of each epoch.
  Replayer(const Footprint& footprint, const ReplayOptions& options,
           const std::vector<PageCount>& capacities, bool by_samples)
      : footprint_(footprint),
        by_samples_(by_samples),
        piece_(PieceOf(footprint.size())),
        counts_only_(options.ranker.model == RankModel::kSum &&
                     options.ranker.memory == Ranker::Memory::kThisEpoch),
        ranker_(options.ranker),
        sources_(options.ranks),
        appeared_(footprint.size()),
        refilled_(footprint.size()),
        weight_(footprint.size().value()) {
    judge_ =
        static_cast<std::size_t>(std::ranges::find(sources_, *options.judge) - sources_.begin());
    if (judge_ == sources_.size()) sources_.push_back(*options.judge);
    for (const PolicyEntry* entry : options.policies) {
      policies_.push_back(entry->make());
      for (std::size_t rank = 0; rank < options.ranks.size(); ++rank) {
        for (const PageCount capacity : capacities) {
          largest_capacity_ = std::max(largest_capacity_, capacity);
          lanes_.push_back({.policy = policies_.back().get(),
                            .rank = rank,
                            .capacity = capacity,
                            .tier1 = PageBits(footprint.size())});
        }
      }
    }
  }

  void Play(const EpochProfile& epoch) {
    std::swap(past_, present_);
    TakeSnapshot(epoch);
    for (Lane& lane : lanes_) CarryOutPlan(lane);
    PlaceNewPages();
    Judge(epoch);
    ++epochs_;
  }

  const std::vector<Lane>& lanes() const { return lanes_; }
  std::uint64_t epochs() const { return epochs_; }

 private:
  void TakeSnapshot(const EpochProfile& epoch) {
    present_.score.resize(sources_.size());
    shared_pages_.AddEpoch(epoch);
    shared_rows_.Clear();
    if (counts_only_) {
      const PageColumns& pages = epoch.pages;
      FindPages(pages.span_pages, [&pages](std::size_t row) { return pages.key(row); });
      for (std::size_t s = 0; s < sources_.size(); ++s) {
        ScoreByCounts(epoch, sources_[s], present_.score[s]);
        ShareOut(pages.span_pages, present_.score[s]);
      }
    } else {
      ranker_.Absorb(epoch);
      const EvidenceTable& table = ranker_.table();
      FindPages(table.span_pages, [&table](std::size_t row) { return table.key[row]; });
      for (std::size_t s = 0; s < sources_.size(); ++s) {
        ranker_.Score(sources_[s], present_.score[s]);
        ShareOut(table.span_pages, present_.score[s]);
      }
    }
    JoinMappers();
    present_.ranking.resize(sources_.size());
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      for (const std::size_t row : outside_) present_.score[s][row] = 0;
      present_.ranking[s].Reset({present_.span_pages, present_.score[s]},
                                largest_capacity_.value());
    }
  }

  // Finds the pages of each row. A row is a span, or a piece of one that may be placed in part.
  template <typename KeyOfRow>
  void FindPages(const std::vector<std::uint32_t>& span_pages, KeyOfRow key) {
    outside_.clear();
    whole_of_.clear();
    bool base_pages_only = true;
    bool in_pieces = false;
    for (const std::uint32_t pages : span_pages) {
      base_pages_only &= pages == 1;
      in_pieces |= IsInPieces(PageCount(pages), piece_);
    }
    present_.span_pages.clear();
    if (in_pieces) {
      FindPieces(span_pages, key);
      return;
    }
    present_.first_page.resize(span_pages.size());
    Footprint::Walk walk(footprint_);
    for (std::size_t row = 0; row < span_pages.size(); ++row)
      present_.first_page[row] =
          Place(row, walk, key(row), span_pages[row], NameOf(key(row), span_pages[row]));
    if (!base_pages_only) present_.span_pages = span_pages;
  }

  template <typename KeyOfRow>
  void FindPieces(const std::vector<std::uint32_t>& span_pages, KeyOfRow key) {
    present_.first_page.clear();
    Footprint::Walk walk(footprint_);
    for (std::size_t row = 0; row < span_pages.size(); ++row) {
      const PageKey whole = key(row);
      // A span that is shared only in part counts for its own process, as it does in the footprint.
      const PageKey name = NameOf(whole, span_pages[row]);
      ForEachPiece({whole.vpn, whole.vpn + PageCount(span_pages[row])}, piece_,
                   [&](VpnRange piece) {
                     const std::uint64_t pages = piece.size().value();
                     const PageCount before = piece.start - whole.vpn;
                     present_.first_page.push_back(Place(present_.first_page.size(), walk,
                                                         {whole.target, piece.start}, pages,
                                                         {name.target, name.vpn + before}));
                     present_.span_pages.push_back(static_cast<std::uint32_t>(pages));
                     whole_of_.push_back(row);
                   });
    }
  }

  PageKey NameOf(PageKey key, std::uint64_t pages) const {
    return shared_pages_.empty() ? key : shared_pages_.NameOf(key, PageCount(pages));
  }

  PageIndex Place(std::size_t row, Footprint::Walk& walk, PageKey key, std::uint64_t pages,
                  PageKey name) {
    std::optional<std::uint64_t> index;
    if (name == key) {
      index = walk.IndexOf(key, pages);
    } else if (const auto shared = footprint_.IndexOf(SharedPages::LastingName(name), pages)) {
      shared_rows_.Take(row, *shared, pages);
    }
    if (!index) outside_.push_back(row);
    return index ? static_cast<PageIndex>(*index) : kOutside;
  }

  // Appends the rows of shared pages. Among themselves they ascend.
  void JoinMappers() {
    if (shared_rows_.empty()) return;
    shared_rows_.Cut();
    for (Scores& score : present_.score) shared_rows_.AppendScores(score);
    if (present_.span_pages.empty()) present_.span_pages.resize(present_.first_page.size(), 1);
    for (const SharedRows::Piece& piece : shared_rows_.pieces()) {
      present_.first_page.push_back(static_cast<PageIndex>(piece.first));
      present_.span_pages.push_back(static_cast<std::uint32_t>(piece.pages));
    }
  }

  // Turns scores of the profile's spans into scores of the rows.
  void ShareOut(const std::vector<std::uint32_t>& span_pages, Scores& score) {
    if (whole_of_.empty()) return;
    std::swap(score, score_of_wholes_);
    score.resize(whole_of_.size());
    for (std::size_t row = 0; row < whole_of_.size(); ++row) {
      const std::size_t whole = whole_of_[row];
      score[row] = score_of_wholes_[whole] * present_.span_pages[row] / span_pages[whole];
    }
  }

  // Returns the epoch that the lane's policy knows now; null: none.
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

  void CarryOutPlan(Lane& lane) {
    Snapshot* known = KnownTo(lane);
    if (known == nullptr) return;
    lane.policy->Choose(known->ranking[lane.rank], LaneResidency(lane.tier1, *known), lane.capacity,
                        wanted_);
    PageCount wanted;
    for (const std::uint32_t row : wanted_) wanted += known->PagesOf(row);
    TMPROF_CHECK(wanted <= lane.capacity);
    if (wanted == lane.capacity) {
      Refill(lane, *known);
    } else {
      MoveIn(lane, *known);
    }
  }

  // Carries out a plan that takes every page of tier 1: no unwanted page stays there.
  void Refill(Lane& lane, const Snapshot& known) {
    refilled_.Clear();
    PageCount staying;
    for (const std::uint32_t row : wanted_) {
      known.ForEachPage(row, [&](std::uint64_t page) {
        refilled_.Put(page);
        if (lane.tier1.Holds(page)) {
          staying += PageCount(1);
        } else if (appeared_.Holds(page)) {
          lane.moved += PageCount(1);
        }
      });
    }
    std::swap(lane.tier1, refilled_);
    lane.moved += lane.used - staying;
    lane.used = lane.capacity;
  }

  void MoveIn(Lane& lane, Snapshot& known) {
    PageCount incoming;
    for (const std::uint32_t row : wanted_) {
      known.ForEachPage(row, [&](std::uint64_t page) {
        if (lane.tier1.Holds(page)) return;
        incoming += PageCount(1);
        if (appeared_.Holds(page)) lane.moved += PageCount(1);  // else it appears in this epoch
      });
    }
    const PageCount in_use = lane.used + incoming;
    if (in_use > lane.capacity) MakeRoom(lane, known, in_use - lane.capacity);
    for (const std::uint32_t row : wanted_) {
      known.ForEachPage(row, [&](std::uint64_t page) { lane.tier1.Put(page); });
    }
    lane.used += incoming;
  }

  // Evicts unwanted pages, worst first. Pages of which the lane knows nothing go first, one by one
  // from the highest index down. Whole spans follow in the opposite order of the ranking.
  void MakeRoom(Lane& lane, Snapshot& known, PageCount needed) {
    PageCount evicted;
    const auto evict = [&](std::uint64_t page) {
      if (!lane.tier1.Holds(page)) return;
      lane.tier1.Remove(page);
      evicted += PageCount(1);
    };

    PageBits is_known(footprint_.size());
    for (std::size_t row = 0; row < known.size(); ++row) {
      if (known.first_page[row] == kOutside) continue;
      known.ForEachPage(row, [&](std::uint64_t page) { is_known.Put(page); });
    }
    for (std::uint64_t page = footprint_.size().value(); page-- > 0 && evicted < needed;) {
      if (!is_known.Holds(page)) evict(page);
    }

    std::vector<bool> is_settled(known.size(), false);  // wanted, or considered already
    for (const std::uint32_t row : wanted_) is_settled[row] = true;
    const auto evict_row = [&](std::size_t row) {
      if (is_settled[row] || known.first_page[row] == kOutside) return;
      is_settled[row] = true;
      known.ForEachPage(row, evict);
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
    if (appeared_pages_ == footprint_.size()) return;
    for (std::size_t row = 0; row < present_.size(); ++row) {
      if (present_.first_page[row] == kOutside) continue;
      new_pages_.clear();
      present_.ForEachPage(row, [this](std::uint64_t page) {
        if (!appeared_.Holds(page)) new_pages_.push_back(page);
      });
      if (new_pages_.empty()) continue;
      for (Lane& lane : lanes_) PlaceTogether(lane);
      for (const std::uint64_t page : new_pages_) appeared_.Put(page);
      appeared_pages_ += PageCount(new_pages_.size());
    }
  }

  // Puts the new pages of one span in tier 1, all or none.
  void PlaceTogether(Lane& lane) {
    if (lane.used == lane.capacity) return;
    PageCount missing;
    for (const std::uint64_t page : new_pages_) {
      if (!lane.tier1.Holds(page)) missing += PageCount(1);
    }
    if (missing > lane.capacity - lane.used) return;
    for (const std::uint64_t page : new_pages_) lane.tier1.Put(page);
    lane.used += missing;
  }

  void Judge(const EpochProfile& epoch) {
    const double total = WeighPages();
    if (by_samples_) TakeSamples(epoch);
    for (Lane& lane : lanes_) {
      // A policy that knew the samples of this epoch is judged by the expectation from all evidence
      // instead.
      if (by_samples_ && lane.policy->knowledge() != Knowledge::kPresent) {
        for (const auto& [page, accesses] : sampled_) {
          lane.total += accesses;
          if (lane.tier1.Holds(page)) lane.hit += accesses;
        }
        continue;
      }
      double hit = 0;
      lane.tier1.ForEach([&](std::uint64_t page) { hit += weight_[page]; });
      lane.hit += hit;
      lane.total += total;
    }
  }

  // Overwrites weight_ and returns the sum of the weights.
  double WeighPages() {
    const Scores& score = present_.score[judge_];
    double total = 0;
    double* next = weight_.data();  // rows ascend, but for those of forked pages, which come last
    for (std::size_t row = 0; row < present_.size(); ++row) {
      if (present_.first_page[row] == kOutside) continue;
      double* const first = weight_.data() + present_.first_page[row];
      if (next < first) std::fill(next, first, 0.0);
      const std::uint64_t pages = present_.PagesOf(row).value();
      next = std::max(next, std::fill_n(first, pages, score[row] / static_cast<double>(pages)));
      total += score[row];
    }
    std::fill(next, weight_.data() + weight_.size(), 0.0);
    return total;
  }

  // Takes the epoch's samples. Those of a span are spread evenly over its pages.
  void TakeSamples(const EpochProfile& epoch) {
    const PageColumns& pages = epoch.pages;
    scale_.Look(epoch);
    const double accesses_per_sample = scale_.accesses_per_sample().value_or(1);
    sampled_.clear();
    for (std::size_t row = 0; row < pages.size(); ++row) {
      const double samples =
          static_cast<double>(pages.load_samples[row]) + pages.store_samples[row];
      if (samples <= 0) continue;
      const std::uint64_t span = pages.span_pages[row];
      const PageKey name = shared_pages_.NameOf(pages.key(row), PageCount(span));
      const auto first = footprint_.IndexOf(SharedPages::LastingName(name), span);
      if (!first) continue;
      const double accesses = accesses_per_sample * samples / static_cast<double>(span);
      for (std::uint64_t page = *first; page < *first + span; ++page)
        sampled_.emplace_back(page, accesses);
    }
  }

  const Footprint& footprint_;
  bool by_samples_;
  PageCount piece_;
  bool counts_only_;  // a profile's scores are its own counts, and no evidence is kept
  Ranker ranker_;
  std::vector<RankSource> sources_;  // the ranks, and the judge if it is not one of them
  std::size_t judge_ = 0;            // index into sources_
  std::vector<std::unique_ptr<const Policy>> policies_;
  std::vector<Lane> lanes_;
  PageCount largest_capacity_;
  PageBits appeared_;
  PageCount appeared_pages_;
  Snapshot past_;
  Snapshot present_;
  // Reused from call to call.
  std::vector<std::uint32_t> wanted_;
  PageBits refilled_;
  std::vector<double> weight_;  // index: footprint index
  // Used with the judge kMemory: footprint indexes, and the accesses to memory that samples of the
  // present epoch stand for.
  std::vector<std::pair<std::uint64_t, double>> sampled_;
  SampleScale scale_;
  std::vector<std::size_t> outside_;  // rows of the present epoch that are not in the footprint
  // The profile's span that each row of the present epoch is a piece of. Empty: the spans are the
  // rows.
  std::vector<std::size_t> whole_of_;
  Scores score_of_wholes_;
  SharedPages shared_pages_;  // those of the present epoch
  SharedRows shared_rows_;    // those of the present epoch
  std::vector<std::uint64_t> new_pages_;
  std::uint64_t epochs_ = 0;
};

Error NothingToReplay(std::string reason) {
  return BadInput("replay", "the trace", std::move(reason),
                  "record for longer, or a program that runs");
}

// Returns the references and samples that a judge uses. nullopt: it counted all accesses.
std::optional<std::uint64_t> ObservationsOf(RankSource judge, bool by_samples,
                                            const FootprintScan& scan) {
  switch (judge) {
    case RankSource::kReferences:
      return scan.references;
    case RankSource::kSamples:
      return scan.samples;
    case RankSource::kCombined:
      return scan.references + scan.samples;
    case RankSource::kMemory:
      return by_samples ? scan.samples : scan.references + scan.samples;
    case RankSource::kTruth:
    case RankSource::kMisses:
    case RankSource::kStall:
      break;
  }
  return std::nullopt;
}

// Returns how many pages ratios are parts of.
Result<PageCount> WholeOf(RatioOf of, const FootprintScan& scan) {
  if (of == RatioOf::kFootprint) return scan.footprint.size();
  if (scan.resident && *scan.resident > PageCount(0)) return *scan.resident;
  return Fail(BadInput("take ratios of resident memory", "the trace",
                       "it does not tell how much memory was resident",
                       "use '--of footprint', or '--fast' with a size"));
}

}  // namespace

std::string_view Name(RatioOf of) { return of == RatioOf::kFootprint ? "footprint" : "resident"; }

Result<RatioOf> ParseRatioOf(std::string_view text) {
  for (const RatioOf of : {RatioOf::kFootprint, RatioOf::kResident}) {
    if (text == Name(of)) return of;
  }
  return Fail(
      BadInput("take ratios of", std::string(text), "no such whole", "use footprint or resident"));
}

Result<ReplayOutcome> Replay(const OpenTrace& open, const ReplayOptions& asked) {
  ReplayOptions options = asked;
  ReplayOutcome outcome;
  Footprint footprint;
  bool by_samples = false;
  double cpu_seconds = 0;
  std::vector<PageCount> capacities = options.sizes;
  {
    auto trace = open();
    if (!trace) return Fail(std::move(trace.error()));
    const bool models_cache = options.ranker.llc_bytes.has_value();
    FootprintScan scan = ScanFootprint(**trace, models_cache);
    if (scan.epochs == 0) {
      return Fail(scan.end.damage ? std::move(*scan.end.damage)
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
    const RankModel model = options.ranker.model;
    if (options.ranks.empty()) {
      options.ranks.push_back(scan.known.BasisFor(options.weight, model, RankUse::kPlace).source);
    }
    outcome.basis = options.judge
                        ? RankBasis{.source = *options.judge, .weight = WeightOf(*options.judge)}
                        : scan.known.BasisFor(options.weight, model, RankUse::kShow);
    const RankSource judge = outcome.basis.source;
    for (const RankSource source : options.ranks) {
      if (auto known =
              scan.known.Require(source, fmt::format("rank by {}", Name(source)), "the trace");
          !known) {
        return Fail(std::move(known.error()));
      }
    }
    if (auto known =
            scan.known.Require(judge, fmt::format("judge by {}", Name(judge)), "the trace");
        !known) {
      return Fail(std::move(known.error()));
    }
    outcome.judge = judge;
    const bool goes_by_memory =
        judge == RankSource::kMemory || std::ranges::count(options.ranks, RankSource::kMemory) > 0;
    outcome.models_memory = models_cache && goes_by_memory && !scan.known.SamplesTellMemory();
    by_samples = judge == RankSource::kMemory && !outcome.models_memory;
    outcome.observations = ObservationsOf(judge, by_samples, scan);
    outcome.memory = scan.traffic.Tell();
    cpu_seconds = scan.traffic.cpu_seconds();
    options.judge = judge;
    if (!options.ratios.empty()) {
      const Result<PageCount> whole = WholeOf(options.ratio_of, scan);
      if (!whole) return Fail(whole.error());
      outcome.whole = *whole;
    }
    for (const Ratio ratio : options.ratios) {
      capacities.push_back(CapacityAt(ratio, outcome.whole));
    }
    footprint = std::move(scan.footprint);
  }

  auto trace = open();
  if (!trace) return Fail(std::move(trace.error()));
  Replayer replayer(footprint, options, capacities, by_samples);
  outcome.end = ReadToEnd(**trace, [&](const EpochProfile& epoch) { replayer.Play(epoch); });

  auto lane = replayer.lanes().begin();
  for (const PolicyEntry* policy : options.policies) {
    for (const RankSource rank : options.ranks) {
      for (std::size_t i = 0; i < capacities.size(); ++i) {
        outcome.results.push_back(
            {.policy = std::string(policy->name),
             .rank = rank,
             .judge = outcome.judge,
             .ratio = options.ratios.empty() ? std::nullopt : std::optional(options.ratios[i]),
             .capacity = lane->capacity,
             .epochs = replayer.epochs(),
             .hit_rate = lane->total > 0 ? std::optional(std::min(1.0, lane->hit / lane->total))
                                         : std::nullopt,
             .weight_hit = lane->hit,
             .weight_total = lane->total,
             .moved_pages = lane->moved});
        ++lane;
      }
    }
  }
  if (outcome.models_memory && outcome.judge == RankSource::kMemory && cpu_seconds > 0 &&
      !outcome.results.empty()) {
    outcome.modelled_per_second = outcome.results.front().weight_total / cpu_seconds;
  }
  return outcome;
}

}  // namespace tmprof
