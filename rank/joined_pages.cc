// SPDX-License-Identifier: Apache-2.0

#include "rank/joined_pages.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "rank/scores.h"
#include "rank/shared_spans.h"

namespace tmprof {
// Returns true if processes map other pages than before.
bool JoinedPages::FollowMappings(const EpochProfile& profile, const EvidenceTable& all) {
  shared_.AddEpoch(profile);
  if (shared_.empty()) return false;
  std::vector<TargetId> known;
  for (const Target& target : profile.targets) known.push_back(target.id);
  for (const PageKey key : all.key) {
    if (known.empty() || known.back() != key.target) known.push_back(key.target);
  }
  std::ranges::sort(known);
  shared_.KeepOnly(known);
  decltype(parts_) parts;
  for (const TargetId target : shared_.Mappers()) {
    for (const SharedPages::Part& part : shared_.PartsOf(target)) {
      parts.emplace_back(target, part.name.target, part.name.vpn, part.range.start, part.range.end);
    }
  }
  const bool changed = parts != parts_;
  parts_ = std::move(parts);
  return changed;
}

void JoinedPages::LearnRates(const EvidenceTable& all, const TargetTimes& times,
                             bool mappers_hold) {
  PageMappers replaced;
  if (!mappers_hold) {
    replaced = std::exchange(
        mappers_, shared_.empty() ? PageMappers() : PageMappers(all.key, all.span_pages, shared_));
  }
  const PageMappers& mappers_before = mappers_hold ? mappers_ : replaced;
  if (mappers_.empty()) {
    Clear(pages_);
    changes_ = {};
    places_.clear();
    times_.clear();
    return;
  }
  // Each mapper has the one before that is the same process in the same file.
  std::vector<std::optional<std::size_t>> same;
  std::vector<double> start;
  for (const PageMappers::Mapper& mapper : mappers_.mappers()) {
    same.push_back(mappers_before.Find(mappers_.files()[mapper.file].name, mapper.target));
    start.push_back(same.back() ? rates_.Activity(*same.back()) : 0);
  }
  const auto seconds = [&times](TargetId target) {
    return times.Of(target).remembered_cpu_seconds;
  };
  const SharedRates before = std::exchange(
      rates_, SharedRates(mappers_, SeenOf(mappers_, all, RankSource::kCombined, shared_, times),
                          seconds, start));
  // Evidence is kept in terms of a file's clock, whose unit must last.
  for (std::size_t f = 0; f < mappers_.files().size(); ++f) {
    const PageMappers::File& file = mappers_.files()[f];
    double clock_before = 0;
    double clock = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (!same[m]) continue;
      const double of_mapper = seconds(mappers_.mappers()[m].target);
      clock_before += before.Activity(*same[m]) * of_mapper;
      clock += rates_.Activity(m) * of_mapper;
    }
    if (clock_before > 0 && clock > 0) rates_.ScaleClock(mappers_, f, clock_before / clock);
  }
}

void JoinedPages::Forget() {
  is_fed_ = false;
  mappers_ = {};
  rates_ = {};
  Clear(pages_);
  changes_ = {};
  places_.clear();
  times_.clear();
}

void JoinedPages::Take(const EpochProfile& profile, const EvidenceTable& all,
                       const TargetTimes& times) {
  Forget();
  is_fed_ = true;
  FollowMappings(profile, all);
  LearnRates(all, times, /*mappers_hold=*/false);
  if (mappers_.empty()) return;
  pages_ = Join(all);
  FollowClocks(profile, Keeps(), times);
  FindPlaces();
}

void JoinedPages::Absorb(const EpochProfile& profile, const Epoch& epoch, const Keeps& keeps,
                         const Ages& ages, const TargetTimes& times, bool follow_changes,
                         Memory memory) {
  if (!is_fed_) {
    Take(profile, epoch.all, times);
    return;
  }
  const bool changed = FollowMappings(profile, epoch.all);
  const bool mappers_hold = !changed && epoch.older.key == epoch.all.key &&
                            epoch.older.span_pages == epoch.all.span_pages;
  LearnRates(epoch.all, times, mappers_hold);
  if (mappers_.empty()) return;
  if (changed) FollowPieces(epoch.older);

  Keeps keeps_of_files(keeps.of_others());
  Ages ages_of_files(ages.of_others());
  for (const PageMappers::File& file : mappers_.files()) {
    // Processes that run side by side do not make memory change faster.
    std::optional<double> age;
    Keep keep = keeps.of_others();
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      const TargetId target = mappers_.mappers()[m].target;
      const bool is_listed = std::ranges::binary_search(profile.targets, target, {}, &Target::id);
      if (!is_listed || (age && *age >= ages.Of(target))) continue;
      age = ages.Of(target);
      keep = keeps.Of(target);
    }
    keeps_of_files.Append(file.name, keep);
    // A file that no listed process maps ages like processes that are gone.
    if (age || memory == Memory::kOfProcesses) {
      ages_of_files.Append(file.name, age.value_or(ages.of_others()));
    }
  }
  if (memory == Memory::kLearned) {
    keeps_of_files = changes_.KeepsAfter(ages_of_files, /*lists_targets=*/true);
  }
  FollowClocks(profile, keeps_of_files, times);
  const EvidenceTable latest = Join(epoch.latest);
  EvidenceTable apart;
  tmprof::Join(pages_, keeps_of_files, latest, spare_, apart);
  // A region that has come to cover single pages takes their samples.
  std::size_t row = 0;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    while (EndOf(spare_, row) <= apart.key[i]) ++row;
    spare_.evidence[row].Add(apart.evidence[i], 1, 1);
  }
  if (follow_changes) {
    changes_.Absorb(pages_, keeps_of_files, latest, ages_of_files, spare_,
                    /*forgets_gone=*/memory == Memory::kLearned);
  }
  std::swap(pages_, spare_);
  FindPlaces();
}

double JoinedPages::ActivityOf(TargetId file, TargetId target) const {
  const std::optional<std::size_t> mapper = mappers_.Find(file, target);
  return mapper ? rates_.Activity(*mapper) : 1;
}

EvidenceTable JoinedPages::Join(const EvidenceTable& table) const {
  const PageMappers mappers(table.key, table.span_pages, shared_);
  std::vector<double> activity;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    activity.push_back(ActivityOf(mappers.files()[mapper.file].name, mapper.target));
  }
  EvidenceTable pages;
  for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
    const PageMappers::Piece& of = mappers.pieces()[piece];
    Evidence sum;
    for (const std::uint32_t at : mappers.RowsOf(piece)) {
      const PageMappers::Row& row = mappers.rows()[at];
      const double part = static_cast<double>(of.pages) / table.span_pages[row.row];
      Evidence evidence;
      evidence.Add(table.evidence[row.row], part, part);
      evidence.ScaleTimes(activity[row.mapper]);
      sum.Add(evidence, 1, 1);
    }
    Push(pages, of.name, of.pages, sum);
  }
  return pages;
}

// Drops pages that no longer have several mappers. Pages that were one process's until now have
// older evidence, too.
void JoinedPages::FollowPieces(const EvidenceTable& older) {
  EvidenceTable kept;
  EvidenceWalk pages(pages_);
  for (std::uint32_t piece = 0; piece < mappers_.pieces().size();) {
    const PageKey start = mappers_.pieces()[piece].name;
    PageKey end = start;
    for (; piece < mappers_.pieces().size() && mappers_.pieces()[piece].name == end; ++piece) {
      end = EndOfPiece(piece);
    }
    pages.SkipBefore(start);
    pages.EmitBefore(end, kept);
  }
  const EvidenceTable joined = Join(older);
  EvidenceWalk missing(joined);
  Clear(spare_);
  for (std::size_t row = 0; row < kept.size(); ++row) {
    missing.EmitBefore(kept.key[row], spare_);
    Push(spare_, kept.key[row], kept.span_pages[row], kept.evidence[row]);
    missing.SkipBefore(EndOf(kept, row));
  }
  if (joined.size() > 0) missing.EmitBefore(EndOf(joined, joined.size() - 1), spare_);
  changes_.Follow(pages_, spare_);
  std::swap(pages_, spare_);
}

// Fades evidence by the file's age, and the time in which it was gathered.
void JoinedPages::FollowClocks(const EpochProfile& profile, const Keeps& keeps_of_files,
                               const TargetTimes& times) {
  TargetTimes latest;
  latest.Add(profile);
  decltype(times_) now;
  for (const PageMappers::File& file : mappers_.files()) {
    const double keep = keeps_of_files.Of(file.name).evidence;
    const auto first = times_.lower_bound({file.name, TargetId(0)});
    const bool is_known = first != times_.end() && first->first.first == file.name;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      const TargetId target = mappers_.mappers()[m].target;
      // A new mapper spent no earlier time on this file.
      TargetTime time = is_known ? times.In(latest, target) : times.Of(target);
      if (const auto before = times_.find({file.name, target}); before != times_.end()) {
        time.watched_seconds += keep * before->second.watched_seconds;
        time.remembered_cpu_seconds += keep * before->second.remembered_cpu_seconds;
      }
      now.emplace_hint(now.end(), std::pair(file.name, target), time);
    }
  }
  times_ = std::move(now);
}

TargetTime JoinedPages::Clock(std::size_t file) const {
  const TargetId name = mappers_.files()[file].name;
  return rates_.Clock(mappers_, file, [&](TargetId target) { return times_.at({name, target}); });
}

std::vector<double> JoinedPages::OnClock(double TargetTime::* time) const {
  std::vector<double> by_mapper;
  for (std::size_t m = 0; m < mappers_.mappers().size(); ++m) {
    const PageMappers::Mapper& mapper = mappers_.mappers()[m];
    const TargetId file = mappers_.files()[mapper.file].name;
    by_mapper.push_back(rates_.Activity(m) * (times_.at({file, mapper.target}).*time));
  }
  return MeanByPage(rates_.SumByPiece(by_mapper));
}

std::vector<double> JoinedPages::Running() const { return OnClock(&TargetTime::cpu_seconds); }
std::vector<double> JoinedPages::Watched() const { return OnClock(&TargetTime::watched_seconds); }

void JoinedPages::FindPlaces() {
  places_.clear();
  std::size_t page = 0;
  for (std::uint32_t piece = 0; piece < mappers_.pieces().size(); ++piece) {
    const PageKey end = EndOfPiece(piece);
    while (page < pages_.size() && EndOf(pages_, page) <= mappers_.pieces()[piece].name) {
      ++page;
    }
    for (std::size_t at = page; at < pages_.size() && pages_.key[at] < end; ++at) {
      places_.push_back({.piece = piece, .page = static_cast<std::uint32_t>(at)});
    }
  }
  part_of_clock_ = OnClock(&TargetTime::remembered_cpu_seconds);
  std::size_t at = 0;
  for (std::size_t file = 0; file < mappers_.files().size(); ++file) {
    const double clock = Clock(file).remembered_cpu_seconds;
    const TargetId name = mappers_.files()[file].name;
    while (at < pages_.size() && pages_.key[at].target < name) part_of_clock_[at++] = 0;
    for (; at < pages_.size() && pages_.key[at].target == name; ++at) {
      part_of_clock_[at] = clock > 0 ? part_of_clock_[at] / clock : 0;
    }
  }
}

PageKey JoinedPages::EndOfPiece(std::uint32_t piece) const {
  const PageMappers::Piece& of = mappers_.pieces()[piece];
  return {of.name.target, of.name.vpn + PageCount(of.pages)};
}

double JoinedPages::MappedBy(TargetId target) const {
  double known = 0;
  for (const SharedPages::Part& part : shared_.PartsOf(target)) {
    const PageKey end{part.name.target, part.name.vpn + part.range.size()};
    auto row = static_cast<std::size_t>(std::ranges::lower_bound(pages_.key, part.name) -
                                        pages_.key.begin());
    // A span may begin before the part.
    if (row > 0 && EndOf(pages_, row - 1) > part.name) --row;
    for (; row < pages_.size() && pages_.key[row] < end; ++row) {
      const PageKey from = std::max(pages_.key[row], part.name);
      const PageKey to = std::min(EndOf(pages_, row), end);
      known += static_cast<double>((to.vpn - from.vpn).value());
    }
  }
  return known;
}

double JoinedPages::known_pages() const {
  return std::accumulate(pages_.span_pages.begin(), pages_.span_pages.end(), 0.0);
}

VpnRange JoinedPages::PagesAt(Place place) const {
  return {std::max(mappers_.pieces()[place.piece].name.vpn, pages_.key[place.page].vpn),
          std::min(EndOfPiece(place.piece).vpn, EndOf(pages_, place.page).vpn)};
}

std::vector<double> JoinedPages::MeanByPage(std::span<const double> by_piece) const {
  std::vector<double> mean(pages_.size());
  std::vector<double> pages(pages_.size());
  for (const Place& place : places_) {
    const auto within = static_cast<double>(PagesAt(place).size().value());
    mean[place.page] += within * by_piece[place.piece];
    pages[place.page] += within;
  }
  for (std::size_t at = 0; at < mean.size(); ++at) {
    if (pages[at] > 0) mean[at] /= pages[at];
  }
  return mean;
}

EvidenceTable JoinedPages::ByPage(EvidenceTable table, const TargetTimes& all,
                                  TargetTimes& times) const {
  if (empty()) return table;
  const PageMappers mappers(table.key, table.span_pages, shared_);
  EvidenceTable by_page;
  std::size_t next_shared = 0;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (mappers.IsShared(row, next_shared)) continue;
    Push(by_page, table.key[row], table.span_pages[row], table.evidence[row]);
  }
  const EvidenceTable pages = Join(table);
  std::size_t at = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    while (at < pages_.size() && EndOf(pages_, at) <= pages.key[i]) ++at;
    const bool is_known = at < pages_.size() && pages_.key[at] < EndOf(pages, i);
    if (!is_known || PartOfClock(at) <= 0) continue;
    Evidence evidence = pages.evidence[i];
    evidence.ScaleTimes(1 / PartOfClock(at));
    Push(by_page, pages.key[i], pages.span_pages[i], evidence);
  }
  const TargetTimes of_processes = times;
  for (std::size_t file = 0; file < mappers_.files().size(); ++file) {
    times.Set(rates_.Clock(mappers_, file,
                           [&](TargetId target) { return all.In(of_processes, target); }));
  }
  return by_page;
}

}  // namespace tmprof
