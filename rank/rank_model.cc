// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "rank/block_factors.h"
#include "rank/hit_rate_curve.h"
#include "rank/memory_hit_rates.h"
#include "rank/memory_weights.h"
#include "rank/memory_worth.h"
#include "rank/rate_fit.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

bool IsNameOfFile(PageKey key) { return key.target >= SharedPages::kFirstFile; }

// One of two, the other with the chance `of_other`.
RateMoments Mixed(RateMoments one, RateMoments other, double of_other) {
  const double apart = other.mean - one.mean;
  return {.mean = one.mean + of_other * apart,
          .variance = (1 - of_other) * one.variance + of_other * other.variance +
                      of_other * (1 - of_other) * apart * apart};
}

// Parallel to the rows.
std::vector<RateMoments> RatesOf(const RatedRows& rated) {
  const std::vector<RateMoments> of_kind =
      MomentsOf(FitRates(rated.kinds).mixture, rated.kinds.size());
  std::vector<RateMoments> rates;
  rates.reserve(rated.rows.size());
  for (const RatedRow& row : rated.rows) {
    const RateMoments rate = of_kind[row.kind];
    rates.push_back(row.kind_since == RatedRow::kNone
                        ? rate
                        : Mixed(rate, of_kind[row.kind_since], row.chance));
  }
  return rates;
}

// `with_samples`: false where they are not of memory.
std::vector<MemoryRow> MemoryRowsOf(const RatedRows& rated, std::span<const RateMoments> rates,
                                    bool with_samples, const StreamShares& streams = {}) {
  const bool any_is_there = rated.any_is_there();
  std::vector<MemoryRow> rows;
  rows.reserve(rated.rows.size());
  for (std::size_t i = 0; i < rated.rows.size(); ++i) {
    const RatedRow& row = rated.rows[i];
    rows.push_back({.target = row.key.target,
                    .seen = {.rate = rates[i].mean,
                             .pages = static_cast<double>(row.pages),
                             .seconds = with_samples ? row.watched_seconds : 0,
                             .samples = with_samples ? row.samples : 0},
                    .looked_at = rated.kinds[row.kind].looked_at(),
                    .speed = row.is_there || !any_is_there ? row.remembered_cpu_seconds : 0,
                    .block = BlockOf(row.key, row.pages),
                    .hidden = kHiddenOfStream * streams.Of(row.key, PageCount(row.pages))});
  }
  LearnBlockFactors(rows);
  return rows;
}

std::vector<MemoryWeights::Weight> MemoryWeightsOf(std::span<const MemoryRow> rows,
                                                   std::span<const RateMoments> rates,
                                                   const MemoryScale& scale) {
  const MemoryWeights weights(rows, scale);
  std::vector<MemoryWeights::Weight> of_rows;
  of_rows.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    of_rows.push_back(weights.Of(rows[i]));
    if (weights.basis() == MemoryBasis::kSamples) continue;
    // A score errs as the rate does, and, unless each access is worth the same, as its worth.
    const double of_rate = std::sqrt(rates[i].variance) / rates[i].mean;
    double& relative_sd = of_rows.back().relative_sd;
    relative_sd =
        weights.basis() == MemoryBasis::kCacheModel ? std::hypot(relative_sd, of_rate) : of_rate;
  }
  return of_rows;
}

// Pages of a file, and the address at which a process shows them.
struct Shown {
  VpnRange pages;
  PageKey address;
};

// Returns the pages of a file that live processes show, each once. Ascending.
std::vector<Shown> ShownByLive(const PageMappers& mappers, TargetId name, const SharedPages& shared,
                               const std::vector<bool>& is_live) {
  std::vector<Shown> all;
  const auto file = std::ranges::lower_bound(mappers.files(), name, {}, &PageMappers::File::name);
  for (std::size_t m = file->first_mapper; m < file->end_mapper; ++m) {
    if (!is_live[m]) continue;
    const TargetId target = mappers.mappers()[m].target;
    for (const SharedPages::Part& part : shared.PartsOf(target)) {
      if (part.name.target != name) continue;
      all.push_back({.pages = {part.name.vpn, part.name.vpn + part.range.size()},
                     .address = {target, part.range.start}});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Shown& shown) { return shown.pages.start; });
  std::vector<Shown> apart;
  Vpn end;
  for (Shown& shown : all) {
    if (shown.pages.end <= end) continue;
    const Vpn start = std::max(shown.pages.start, end);
    shown.address.vpn = shown.address.vpn + (start - shown.pages.start);
    shown.pages.start = start;
    end = shown.pages.end;
    apart.push_back(shown);
  }
  return apart;
}

}  // namespace

Ranker::Options Ranker::DefaultOptions(RankModel model) {
  if (model == RankModel::kSum) return {.model = model};
  return {.model = model, .memory = Memory::kLearned};
}

Ranker::Ranker(const Options& options) { Configure(options); }

void Ranker::Configure(const Options& options) {
  TMPROF_CHECK(options.memory != Memory::kHalfLife || options.half_life.count() > 0);
  TMPROF_CHECK(options.memory != Memory::kLearned ||
               (options.model == RankModel::kRate && options.follow_changes));
  if (options.model != options_.model || options.memory != options_.memory ||
      options.follow_changes != options_.follow_changes) {
    pages_.Forget();
  }
  options_ = options;
  if (!FollowsChanges()) changes_ = {};
  if (!options_.llc_bytes) streams_ = {};
}

bool Ranker::IsLive(TargetId target) const {
  return live_.empty() || std::ranges::binary_search(live_, target);
}

bool Ranker::FollowsChanges() const {
  return options_.model == RankModel::kRate && options_.memory != Memory::kThisEpoch &&
         options_.follow_changes;
}

Keeps Ranker::KeepsAfter(const Ages& ages, bool lists_targets) const {
  switch (options_.memory) {
    case Memory::kThisEpoch:
      break;
    case Memory::kHalfLife:
      return tmprof::KeepsAfter(ages, Seconds(options_.half_life));
    case Memory::kLearned:
      return changes_.KeepsAfter(ages, lists_targets);
  }
  return Keeps({.evidence = 0, .accesses = 0});
}

void Ranker::Absorb(const EpochProfile& profile) {
  const bool remembers = options_.memory != Memory::kThisEpoch && last_end_;
  const Ages ages = AgesAfter(profile, last_end_);
  const Keeps keeps = remembers ? KeepsAfter(ages, !profile.targets.empty())
                                : Keeps({.evidence = 0, .accesses = 0});
  last_end_ = profile.end;
  scale_.Look(profile);
  if (const auto resident = ResidentPages(profile)) resident_ = resident;
  live_.clear();
  for (const Target& target : profile.targets) {
    if (target.resident_pages) resident_of_[target.id] = *target.resident_pages;
    if (!target.exited) live_.push_back(target.id);
  }
  // A process that has exited has no memory. If all have, the last live ones count.
  if (!live_.empty())
    std::erase_if(resident_of_, [this](const auto& of) { return !IsLive(of.first); });
  if (options_.llc_bytes && options_.memory != Memory::kThisEpoch) {
    streams_.Age(keeps);
    if (!live_.empty()) streams_.ForgetAllBut(live_);
    streams_.Look(profile);
  }
  times_.Fade(keeps);
  times_.Add(profile);
  if (!remembers) {
    changes_ = {};
    spare_.Take(profile);
    if (options_.model == RankModel::kRate) pages_.Take(profile, spare_.spans(), times_);
  } else {
    latest_.Take(profile);
    spare_.Join(evidence_, keeps, latest_);
    if (FollowsChanges()) {
      changes_.Absorb(evidence_.spans(), keeps, latest_.spans(), ages, spare_.spans(),
                      /*forgets_gone=*/options_.memory == Memory::kLearned);
    }
    if (options_.model == RankModel::kRate) {
      pages_.Absorb(profile,
                    {.older = evidence_.spans(), .latest = latest_.spans(), .all = spare_.spans()},
                    keeps, ages, times_, options_.follow_changes,
                    options_.memory == Memory::kLearned ? JoinedPages::Memory::kLearned
                                                        : JoinedPages::Memory::kOfProcesses);
    }
  }
  spare_.Part();
  std::swap(evidence_, spare_);
}

Scores Ranker::Score(RankSource source) const {
  Scores scores;
  Score(source, scores);
  return scores;
}

void Ranker::Score(RankSource source, Scores& scores, std::vector<RowlessScore>* rowless) const {
  if (rowless) rowless->clear();
  if (IsEstimated(options_.model, source)) {
    EstimateByRate(source, {.scores = scores, .rowless = rowless});
  } else {
    ScoreByCounts(table(), source, scores);
  }
}

Estimates Ranker::Estimate(RankSource source) const {
  if (!IsEstimated(options_.model, source)) {
    return EstimateByCounts(table(), source);
  }
  Estimates estimates;
  EstimateByRate(source, {.scores = estimates.score, .relative_sd = &estimates.relative_sd});
  return estimates;
}

void Ranker::EstimateByRate(RankSource source, Asked asked) const {
  // Samples alone know no regions.
  if (!evidence_.is_parted() || source == RankSource::kSamples) {
    EstimateByRate(table(), source, asked);
    return;
  }
  EstimateByRate(evidence_.WholeSpans(), source, asked);
  evidence_.ShareOut(SharedBy(source), asked.scores, asked.relative_sd);
}

bool Ranker::JoinsRowsOf(const EvidenceTable& table) const {
  // Joined rows are those of whole spans. Samples alone tell pages within regions apart.
  return !pages_.empty() && table.size() == evidence_.spans().size();
}

void Ranker::RateShared(const RateView& view, RateKinds& sorter, RatedRows& rated) const {
  const PageMappers& mappers = pages_.mappers();
  const std::vector<double> running = pages_.Running();
  const std::vector<double> watched = pages_.Watched();
  TargetTime clock;
  std::optional<std::size_t> file;
  std::optional<std::uint32_t> last;
  const SuspectedChanges& suspected = pages_.suspected();
  std::size_t suspect = 0;
  for (const JoinedPages::Place& place : pages_.places()) {
    const std::uint32_t page = place.page;
    const double part_of_clock = pages_.PartOfClock(page);
    const Evidence& evidence = pages_.pages().evidence[page];
    if (last == page || part_of_clock <= 0 || !view.Sees(evidence)) continue;
    last = page;
    const PageKey key = pages_.pages().key[page];
    if (!file || mappers.files()[*file].name != key.target) {
      file = file ? *file + 1 : 0;
      while (mappers.files()[*file].name != key.target) ++*file;
      clock = pages_.Clock(*file);
    }
    const std::uint32_t pages = pages_.pages().span_pages[page];
    const auto kind = [&](const Evidence& of) {
      RateEvidence rate = view.Of(of, pages, /*watched_seconds=*/0);
      rate.ScaleTimes(1 / part_of_clock);
      rate.seconds_watched = view.Of({}, pages, watched[page] / part_of_clock).seconds_watched;
      return rate;
    };
    RatedRow& row =
        rated.rows.emplace_back(RatedRow{.key = key,
                                         .row = page,
                                         .pages = pages,
                                         .kind = sorter.Add(kind(evidence)),
                                         .found_untimed = view.FoundUntimed(evidence),
                                         .cpu_seconds = clock.cpu_seconds,
                                         .remembered_cpu_seconds = clock.remembered_cpu_seconds,
                                         .score_seconds = running[page] / part_of_clock,
                                         .samples = evidence.samples(),
                                         .watched_seconds = watched[page] / part_of_clock});
    while (suspect < suspected.since.size() && suspected.since.key[suspect] < key) ++suspect;
    if (view.uses_bits() && suspect < suspected.since.size() &&
        suspected.since.key[suspect] == key) {
      RateEvidence since = kind(suspected.since.evidence[suspect]);
      since.samples = since.seconds_watched = 0;
      row.kind_since = sorter.Add(since);
      row.chance = suspected.chance[suspect];
    }
  }
}

RatedRows Ranker::Rate(const EvidenceTable& table, RankSource source) const {
  const RateView view(table, source);
  RateKinds sorter;
  RatedRows rated;
  const bool joins = JoinsRowsOf(table);
  std::size_t next_shared = 0;
  TargetTime time;
  bool any_time = false;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (!view.Sees(table.evidence[row])) continue;
    if (joins && pages_.mappers().IsShared(row, next_shared)) continue;
    const PageKey key = table.key[row];
    if (!any_time || time.target != key.target) {
      time = times_.Of(key.target);
      time.target = key.target;
      any_time = true;
    }
    const std::uint32_t pages = table.span_pages[row];
    rated.rows.push_back(
        {.key = key,
         .row = static_cast<std::uint32_t>(row),
         .pages = pages,
         .kind = sorter.Add(view.Of(table.evidence[row], pages, time.watched_seconds)),
         .found_untimed = view.FoundUntimed(table.evidence[row]),
         .cpu_seconds = time.cpu_seconds,
         .remembered_cpu_seconds = time.remembered_cpu_seconds,
         .score_seconds = time.cpu_seconds,
         .is_there = time.cpu_seconds > 0 || IsLive(key.target),
         .samples = table.evidence[row].samples(),
         .watched_seconds = time.watched_seconds});
  }

  static const SuspectedChanges kNone;
  const SuspectedChanges& suspected = source == RankSource::kSamples ? kNone : changes_.suspected();
  const RateView bits(table, RankSource::kReferences);
  auto row = rated.rows.begin();
  for (std::size_t s = 0; s < suspected.since.size(); ++s) {
    const std::uint32_t kind = sorter.Add(
        bits.Of(suspected.since.evidence[s], suspected.since.span_pages[s], /*watched_seconds=*/0));
    while (row != rated.rows.end() && row->key < suspected.since.key[s]) ++row;
    if (row == rated.rows.end() || row->key != suspected.since.key[s]) continue;
    row->kind_since = kind;
    row->chance = suspected.chance[s];
  }
  if (joins) RateShared(view, sorter, rated);
  rated.kinds = std::move(sorter).Take();
  return rated;
}

// A page that several processes map counts for each of them as resident. Unknown pages are taken to
// be shared as often as the known pages of their process.
std::vector<UnknownPages> Ranker::UnknownBeside(const EvidenceTable& table,
                                                RankSource source) const {
  const RateView view(table, source);
  const bool joins = JoinsRowsOf(table);
  std::size_t next_shared = 0;
  std::map<TargetId, double> own;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (!view.Sees(table.evidence[row])) continue;
    if (joins && pages_.mappers().IsShared(row, next_shared)) continue;
    own[table.key[row].target] += table.span_pages[row];
  }
  // The rest of a target's resident pages may be shared. The largest such rest is the least number
  // of shared pages that were touched. Each target is taken to have touched known and unknown ones
  // alike.
  std::map<TargetId, double> mapped;  // known pages of targets that share pages
  std::map<TargetId, double> shared;
  double touched = joins ? pages_.known_pages() : 0;
  for (const auto& [target, resident] : resident_of_) {
    const double known = joins ? pages_.MappedBy(target) : 0;
    if (known <= 0) continue;
    mapped[target] = known;
    shared[target] = std::max(static_cast<double>(resident.value()) - own[target], 0.0);
    touched = std::max(touched, shared[target]);
  }
  double of_all_mappers = 0;
  for (auto& [target, pages] : shared) {
    pages = std::min(mapped[target], pages * pages_.known_pages() / touched);
    of_all_mappers += pages;
  }
  const double mappers =
      joins ? std::max(of_all_mappers / std::max(pages_.known_pages(), 1.0), 1.0) : 1;
  std::vector<UnknownPages> unknown;
  for (const auto& [target, resident] : resident_of_) {
    const double known = own[target] + shared[target];
    const double pages = static_cast<double>(resident.value()) - known;
    const double seconds = times_.Of(target).remembered_cpu_seconds;
    if (pages <= 0 || seconds <= 0) continue;
    const double counted =
        known > 0 ? (own[target] + shared[target] / mappers) / known : 1 / mappers;
    unknown.push_back({.target = target,
                       .pages = pages * counted,
                       .remembered_cpu_seconds = seconds,
                       .are_as_all = shared[target] > 0});
  }
  return unknown;
}

std::vector<UnknownPages> Ranker::PagesUnknown(RankSource source) const {
  if (!IsEstimated(options_.model, source)) return {};
  return UnknownBeside(evidence_.WholeSpans(), source);
}

void Ranker::EstimateByRate(const EvidenceTable& table, RankSource source, Asked asked) const {
  Scores& scores = asked.scores;
  std::vector<double>* const relative_sd = asked.relative_sd;
  scores.assign(table.size(), 0.0);
  if (relative_sd) relative_sd->assign(table.size(), std::numeric_limits<double>::infinity());
  const RatedRows rated = Rate(table, source);
  if (rated.kinds.empty()) return;
  const std::vector<RateMoments> rates = RatesOf(rated);
  std::vector<MemoryWeights::Weight> memory;  // if the source is kMemory
  if (source == RankSource::kMemory)
    memory = MemoryWeightsOf(MemoryRowsOf(rated, rates, SamplesAreOfMemory(), streams_.Shares()),
                             rates, ScaleOfMemory());
  PageEstimates shared(JoinsRowsOf(table) ? pages_.pages().size() : 0);
  for (std::size_t i = 0; i < rated.rows.size(); ++i) {
    const RatedRow& row = rated.rows[i];
    const double of_page = memory.empty() ? rates[i].mean : memory[i].mean;
    const PageEstimate estimate{.score = row.pages * row.score_seconds * of_page,
                                .relative_sd = memory.empty()
                                                   ? std::sqrt(rates[i].variance) / rates[i].mean
                                                   : memory[i].relative_sd};
    if (IsNameOfFile(row.key)) {
      shared[row.row] = estimate;
      continue;
    }
    scores[row.row] = estimate.score;
    if (relative_sd && estimate.score > 0) (*relative_sd)[row.row] = estimate.relative_sd;
  }
  if (!shared.empty()) ShareOut(table, source, shared, asked);
}

std::vector<bool> Ranker::LiveMappers() const {
  std::vector<bool> is_live;
  for (const PageMappers::Mapper& mapper : pages_.mappers().mappers()) {
    is_live.push_back(std::ranges::binary_search(live_, mapper.target));
  }
  return is_live;
}

// Shares out the estimates of pages() to the rows of their mappers: of live ones, if there are any,
// and of these to those that the source sees.
void Ranker::ShareOut(const EvidenceTable& table, RankSource source, const PageEstimates& shared,
                      Asked asked) const {
  const RateView view(table, source);
  const PageMappers& mappers = pages_.mappers();
  const std::vector<bool> is_live = LiveMappers();
  std::vector<double> now;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    now.push_back(times_.Of(mapper.target).cpu_seconds);
  }
  constexpr int kLive = 2;
  const auto precedence = [&](std::uint32_t at) {
    const PageMappers::Row& row = mappers.rows()[at];
    return (is_live[row.mapper] ? kLive : 0) + (view.Sees(table.evidence[row.row]) ? 1 : 0);
  };
  std::vector<PlaceScore> without_live;
  for (const JoinedPages::Place& place : pages_.places()) {
    const PageEstimate& page = shared[place.page];
    if (page.score <= 0) continue;
    const double score = page.score * static_cast<double>(pages_.PagesAt(place).size().value()) /
                         pages_.pages().span_pages[place.page];
    const double variance =
        page.relative_sd * page.relative_sd + pages_.rates().Variance(place.piece);
    int most = 0;
    for (const std::uint32_t at : mappers.RowsOf(place.piece)) {
      most = std::max(most, precedence(at));
    }
    if (most < kLive && asked.rowless) without_live.emplace_back(place, score);
    ForEachShare(
        mappers, pages_.rates(), place.piece, [&](std::uint32_t mapper) { return now[mapper]; },
        [&](std::uint32_t at) { return precedence(at) == most; },
        [&](std::uint32_t at, double share, double share_variance) {
          const std::uint32_t row = mappers.rows()[at].row;
          const double more = share * score;
          if (more <= 0) return;
          double& sum = asked.scores[row];
          if (asked.relative_sd) {
            const double sd = std::sqrt(variance + share_variance);
            double& relative_sd = (*asked.relative_sd)[row];
            const double before = sum > 0 ? sum * relative_sd : 0;
            relative_sd = (before + more * sd) / (sum + more);
          }
          sum += more;
        });
  }
  if (!without_live.empty()) FindAddresses(without_live, is_live, *asked.rowless);
}

void Ranker::FindAddresses(const std::vector<PlaceScore>& places, const std::vector<bool>& is_live,
                           std::vector<RowlessScore>& rowless) const {
  const PageMappers& mappers = pages_.mappers();
  std::vector<Shown> shown;
  std::size_t at = 0;
  std::optional<TargetId> file;
  for (const auto& [place, score] : places) {
    const TargetId name = mappers.pieces()[place.piece].name.target;
    const VpnRange pages = pages_.PagesAt(place);
    if (file != name) {
      file = name;
      shown = ShownByLive(mappers, name, pages_.shared_pages(), is_live);
      at = 0;
    }
    while (at < shown.size() && shown[at].pages.end <= pages.start) ++at;
    if (at == shown.size() || pages.start < shown[at].pages.start) continue;
    const PageKey first = shown[at].address;
    rowless.push_back({.key = {first.target, first.vpn + (pages.start - shown[at].pages.start)},
                       .pages = pages.size(),
                       .score = score});
  }
}

Ranker::PageScores Ranker::ScoreByPage(RankSource source) const {
  PageScores by_page{.key = table().key, .span_pages = table().span_pages, .score = Score(source)};
  if (pages_.empty()) return by_page;
  const PageMappers mappers(table().key, table().span_pages, pages_.shared_pages());
  std::size_t kept = 0;
  std::size_t next_shared = 0;
  Scores of_pieces(mappers.pieces().size());
  for (std::size_t row = 0; row < table().size(); ++row) {
    if (!mappers.IsShared(row, next_shared)) {
      by_page.key[kept] = by_page.key[row];
      by_page.span_pages[kept] = by_page.span_pages[row];
      by_page.score[kept++] = by_page.score[row];
      continue;
    }
    const PageMappers::Row& joined = mappers.rows()[next_shared];
    for (std::uint32_t piece = joined.first_piece; piece < joined.end_piece; ++piece) {
      of_pieces[piece] +=
          by_page.score[row] * mappers.pieces()[piece].pages / by_page.span_pages[row];
    }
  }
  by_page.key.resize(kept);
  by_page.span_pages.resize(kept);
  by_page.score.resize(kept);
  for (std::size_t piece = 0; piece < of_pieces.size(); ++piece) {
    by_page.key.push_back(mappers.pieces()[piece].name);
    by_page.span_pages.push_back(mappers.pieces()[piece].pages);
    by_page.score.push_back(of_pieces[piece]);
  }
  return by_page;
}

MemoryScale Ranker::ScaleOfMemory() const {
  if (!options_.llc_bytes) return ScaleOf(scale_, std::nullopt, PageCount(0), std::nullopt);
  const PageCount looked_at =
      PagesLookedAt(evidence_.spans(), [this](TargetId target) { return IsLive(target); });
  return ScaleOf(scale_, options_.llc_bytes, looked_at, resident_);
}

bool Ranker::TellsMemory() const {
  if (options_.model != RankModel::kRate) return false;
  if (options_.llc_bytes) return KnowsBits();
  if (!scale_.accesses_per_sample() || !SamplesAreOfMemory()) return false;
  return SamplesOfLookedAt(evidence_.spans()) >= MemoryWorth::kFewestSamples;
}

bool Ranker::KnowsBits() const {
  return std::ranges::any_of(evidence_.spans().evidence,
                             [](const Evidence& of) { return of.looks > 0; });
}

bool Ranker::MemorySamplesAlone() const {
  return scale_.accesses_per_sample() && SamplesAreOfMemory() && !KnowsBits() &&
         std::ranges::any_of(table().evidence, [](const Evidence& of) { return of.samples() > 0; });
}

PageCount Ranker::PagesOfHitRates(RankSource source) const {
  if (!IsEstimated(options_.model, source)) return PageCount(0);
  return Rate(evidence_.WholeSpans(), source).pages();
}

std::vector<HitRates> Ranker::HitRatesAt(RankSource source, std::span<const PageCount> capacities,
                                         std::vector<UnknownPages> unknown) const {
  if (!IsEstimated(options_.model, source)) return {};
  RatedRows rated = Rate(evidence_.WholeSpans(), source);
  rated.unknown = std::move(unknown);
  if (source != RankSource::kMemory) return HitRatesOf(rated, capacities);
  return MemoryHitRatesOf(rated, MemoryRowsOf(rated, RatesOf(rated), SamplesAreOfMemory()),
                          ScaleOfMemory(), capacities);
}

}  // namespace tmprof
