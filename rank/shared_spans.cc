// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_spans.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "rank/rate_history.h"
#include "rank/resampling.h"

namespace tmprof {

namespace {

using LookedAt = std::map<TargetId, std::vector<VpnRange>>;

// The addresses of each process whose page tables were read, ascending and apart.
LookedAt FindLookedAt(const PageMappers& mappers, const EvidenceTable& table) {
  LookedAt looked_at;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    const auto [of_target, is_new] = looked_at.try_emplace(mapper.target);
    if (!is_new) continue;
    std::vector<VpnRange>& ranges = of_target->second;
    auto row = static_cast<std::size_t>(
        std::ranges::lower_bound(table.key, PageKey{mapper.target, Vpn(0)}) - table.key.begin());
    for (; row < table.size() && table.key[row].target == mapper.target; ++row) {
      if (table.evidence[row].looks <= 0) continue;
      const std::uint64_t first = table.key[row].vpn.value() / kBlockPages;
      const std::uint64_t last = (EndOf(table, row).vpn.value() - 1) / kBlockPages;
      const VpnRange blocks{Vpn(first * kBlockPages), Vpn((last + 1) * kBlockPages)};
      if (!ranges.empty() && blocks.start <= ranges.back().end) {
        ranges.back().end = std::max(ranges.back().end, blocks.end);
      } else {
        ranges.push_back(blocks);
      }
    }
  }
  return looked_at;
}

// The first range that ends behind the page.
auto RangeAt(const std::vector<VpnRange>& ranges, Vpn page) {
  return std::ranges::upper_bound(ranges, page, {}, &VpnRange::end);
}

bool WasLookedAt(const LookedAt& looked_at, PageKey page) {
  const auto of_target = looked_at.find(page.target);
  if (of_target == looked_at.end()) return false;
  const auto range = RangeAt(of_target->second, page.vpn);
  return range != of_target->second.end() && range->start <= page.vpn;
}

// Adds the edges of what the mappings of a file show and nobody looked at.
void AddUnseen(const PageMappers& mappers, const PageMappers::File& file, const SharedPages& shared,
               const LookedAt& looked_at, std::vector<SharedRates::Edge>& edges) {
  const auto first_edge = static_cast<std::ptrdiff_t>(edges.size());
  const std::span pieces =
      std::span(mappers.pieces()).subspan(file.first_piece, file.end_piece - file.first_piece);
  const auto piece_from = [&](Vpn page) {
    const auto piece = std::ranges::lower_bound(
        pieces, page, {}, [](const PageMappers::Piece& each) { return each.name.vpn; });
    return static_cast<std::uint32_t>(file.first_piece +
                                      static_cast<std::size_t>(piece - pieces.begin()));
  };
  for (auto mapper = static_cast<std::uint32_t>(file.first_mapper); mapper < file.end_mapper;
       ++mapper) {
    const TargetId target = mappers.mappers()[mapper].target;
    const auto of_target = looked_at.find(target);
    const auto add = [&](const SharedPages::Part& part, VpnRange unseen) {
      const std::uint32_t from = piece_from(part.name.vpn + (unseen.start - part.range.start));
      const std::uint32_t to = piece_from(part.name.vpn + (unseen.end - part.range.start));
      if (from == to) return;
      edges.push_back({.piece = from, .mapper = mapper, .opens = true});
      edges.push_back({.piece = to, .mapper = mapper, .opens = false});
    };
    for (const SharedPages::Part& part : shared.PartsOf(target)) {
      if (part.name.target != file.name) continue;
      VpnRange left = part.range;
      if (of_target != looked_at.end()) {
        const std::vector<VpnRange>& seen = of_target->second;
        for (auto range = RangeAt(seen, left.start); range != seen.end() && range->start < left.end;
             ++range) {
          if (left.start < range->start) add(part, {left.start, range->start});
          left.start = range->end;
        }
      }
      if (left.start < left.end) add(part, left);
    }
  }
  std::sort(edges.begin() + first_edge, edges.end(),
            [](const SharedRates::Edge& a, const SharedRates::Edge& b) {
              return std::tie(a.piece, a.opens, a.mapper) < std::tie(b.piece, b.opens, b.mapper);
            });
}

// Returns true for files in which accessed bits show the activities of mappers, instead of samples:
// there is more evidence of them.
std::vector<bool> GoesByBits(const PageMappers& mappers, const EvidenceTable& table,
                             RankSource source) {
  if (source == RankSource::kReferences || source == RankSource::kSamples) {
    return std::vector<bool>(mappers.files().size(), source == RankSource::kReferences);
  }
  const RateView bits(table, RankSource::kReferences);
  std::vector<double> more_bits(mappers.files().size());
  for (const PageMappers::Row& row : mappers.rows()) {
    const Evidence& evidence = table.evidence[row.row];
    const RateEvidence found = bits.Of(evidence, /*pages=*/1, /*watched_seconds=*/0);
    more_bits[mappers.mappers()[row.mapper].file] +=
        found.first_accesses + found.first_read_finds - evidence.samples();
  }
  std::vector<bool> goes_by_bits;
  for (const double more : more_bits) goes_by_bits.push_back(more >= 0);
  return goes_by_bits;
}

}  // namespace

SharedRates::SeenByPiece SeenOf(const PageMappers& mappers, const EvidenceTable& table,
                                RankSource source, const SharedPages& shared,
                                const TargetTimes& times) {
  const std::vector<bool> goes_by_bits = GoesByBits(mappers, table, source);
  const RateView bits(table, RankSource::kReferences);
  const LookedAt looked_at =
      source == RankSource::kSamples ? LookedAt() : FindLookedAt(mappers, table);
  SharedRates::SeenByPiece by_piece;
  by_piece.first.push_back(0);
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    by_piece.watched.push_back(goes_by_bits[mapper.file] ? 0
                                                         : times.Of(mapper.target).watched_seconds);
  }
  for (std::size_t f = 0; f < mappers.files().size(); ++f) {
    const PageMappers::File& file = mappers.files()[f];
    AddUnseen(mappers, file, shared, looked_at, by_piece.unseen);
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      const PageMappers::Piece& of = mappers.pieces()[piece];
      for (const std::uint32_t at : mappers.RowsOf(piece)) {
        const PageMappers::Row& row = mappers.rows()[at];
        const PageKey key = table.key[row.row];
        const Vpn address = key.vpn + (of.name.vpn - mappers.pieces()[row.first_piece].name.vpn);
        const Evidence& evidence = table.evidence[row.row];
        SharedRates::Seen seen{.mapper = row.mapper,
                               .is_unseen = !WasLookedAt(looked_at, {key.target, address})};
        const double part = static_cast<double>(of.pages) / table.span_pages[row.row];
        if (!goes_by_bits[f]) {
          seen.found = part * evidence.samples();
          seen.page_seconds = by_piece.watched[row.mapper] * of.pages;
        } else if (!seen.is_unseen) {
          const RateEvidence told = bits.Of(evidence, /*pages=*/1, /*watched_seconds=*/0);
          seen.found = part * (told.first_accesses + told.first_read_finds);
          seen.page_seconds = part * (told.seconds_at_risk + told.first_read_seconds);
          if (seen.page_seconds <= 0) seen.found = 0;
        }
        by_piece.seen.push_back(seen);
      }
      by_piece.first.push_back(by_piece.seen.size());
    }
  }
  return by_piece;
}

SharedSpans::SharedSpans(const EvidenceTable& table, RankSource source, const SharedPages& shared,
                         const TargetTimes& all, std::vector<Step> steps)
    : table_(table),
      view_(table, source),
      all_(all),
      steps_(std::move(steps)),
      mappers_(table.key, table.span_pages, shared) {
  if (mappers_.empty()) return;
  for (const PageMappers::Mapper& mapper : mappers_.mappers()) {
    all_cpu_seconds_.push_back(all_.Of(mapper.target).cpu_seconds);
  }
  for (const Step& step : steps_) {
    for (const PageMappers::Mapper& mapper : mappers_.mappers()) {
      cpu_seconds_.push_back(all_.In(*step.times, mapper.target).cpu_seconds);
    }
  }
  rates_ = SharedRates(mappers_, SeenOf(mappers_, table, source, shared, all_),
                       [this](TargetId target) { return all_.Of(target).cpu_seconds; }, {});
}

// The evidence of the rows of one mapping, which ascend with the pieces of its file.
class SharedSpans::MappingWalk {
 public:
  explicit MappingWalk(std::span<const Step> steps) : evidence_(steps.size()) {
    for (const Step& step : steps) {
      walks_.push_back(
          {EvidenceWalk(step.evidence->spans()), EvidenceWalk(step.evidence->pages())});
    }
  }

  // Returns evidence by step. A row may hold several pieces.
  std::span<const Evidence> Of(const EvidenceTable& table, std::size_t row) {
    if (row_ == row) return evidence_;
    row_ = row;
    for (std::size_t s = 0; s < walks_.size(); ++s) {
      evidence_[s] = {};
      for (EvidenceWalk& walk : walks_[s]) {
        walk.SkipBefore(table.key[row]);
        walk.AddWithin(table.key[row], table.span_pages[row], evidence_[s]);
      }
    }
    return evidence_;
  }

 private:
  std::vector<std::array<EvidenceWalk, 2>> walks_;
  std::vector<Evidence> evidence_;
  std::optional<std::size_t> row_;  // row of evidence_
};

void SharedSpans::Join(std::size_t piece, MappingWalks& walks,
                       std::span<RateEvidence> steps) const {
  const PageMappers::Piece& of = mappers_.pieces()[piece];
  std::ranges::fill(steps, RateEvidence{.pages = static_cast<double>(of.pages)});
  for (const std::uint32_t at : mappers_.RowsOf(piece)) {
    const PageMappers::Row& held = mappers_.rows()[at];
    const PageKey key = table_.key[held.row];
    const Vpn name = mappers_.pieces()[held.first_piece].name.vpn;
    const PageKey base{key.target, Vpn(key.vpn.value() - name.value())};  // modulo 2^64
    MappingWalk& walk = walks.try_emplace(base, steps_).first->second;
    const std::span<const Evidence> of_row = walk.Of(table_, held.row);
    const double share = static_cast<double>(of.pages) / table_.span_pages[held.row];
    for (std::size_t s = 0; s < steps.size(); ++s) {
      Evidence part;
      part.Add(of_row[s], share, share);
      RateEvidence evidence = view_.Of(part, of.pages, /*watched_seconds=*/0);
      evidence.ScaleTimes(rates_.Activity(held.mapper) / rates_.PartOfClock(piece));
      steps[s].Add(evidence);
    }
  }
}

TargetSteps SharedSpans::StepsOf(std::size_t file, std::vector<double>& watched) const {
  TargetSteps steps;
  watched.clear();
  double age = 0;
  for (const Step& step : steps_) {
    const TargetTime clock =
        rates_.Clock(mappers_, file, [&](TargetId target) { return all_.In(*step.times, target); });
    steps.cpu_seconds.push_back(clock.cpu_seconds);
    watched.push_back(clock.watched_seconds);
    // Processes that run side by side do not make memory change faster.
    std::optional<double> aged;
    for (std::size_t m = mappers_.files()[file].first_mapper; m < mappers_.files()[file].end_mapper;
         ++m) {
      const TargetId target = mappers_.mappers()[m].target;
      if (all_.In(*step.times, target).cpu_seconds <= 0) continue;
      aged = std::max(aged, std::optional(step.ages->Of(target)));
    }
    const double of_step = aged.value_or(step.ages->of_others());
    steps.middles.push_back(age + of_step / 2);
    age += of_step;
  }
  return steps;
}

void SharedSpans::AddTo(RateHistory& history) {
  std::vector<double> watched;
  std::vector<RateEvidence> steps(steps_.size());
  for (std::size_t f = 0; f < mappers_.files().size(); ++f) {
    const PageMappers::File& file = mappers_.files()[f];
    MappingWalks walks;
    TargetSteps clock = StepsOf(f, watched);
    const Sampled of_file{
        .row = {.target = file.name,
                .seen = {.seconds = std::accumulate(watched.begin(), watched.end(), 0.0)},
                .looked_at = false},
        .cpu_seconds = std::accumulate(clock.cpu_seconds.begin(), clock.cpu_seconds.end(), 0.0)};
    history.BeginTarget(std::move(clock));
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      const auto rows = mappers_.RowsOf(piece);
      if (rates_.PartOfClock(piece) <= 0 ||
          std::ranges::none_of(rows, [this](std::uint32_t at) { return Sees(at); })) {
        continue;
      }
      Join(piece, walks, steps);
      Sampled& sampled = sampled_.emplace_back(of_file);
      const std::uint32_t pages = mappers_.pieces()[piece].pages;
      sampled.row.seen.pages = pages;
      for (const std::uint32_t at : rows) {
        const std::uint32_t row = mappers_.rows()[at].row;
        sampled.row.seen.samples += table_.evidence[row].samples() * pages / table_.span_pages[row];
      }
      for (std::size_t s = 0; s < steps.size(); ++s) {
        sampled.row.looked_at |= steps[s].looked_at();
        steps[s].seconds_watched = view_.Of({}, pages, watched[s]).seconds_watched;
      }
      history.AddSpan(steps);
      piece_of_.push_back(static_cast<std::uint32_t>(piece));
    }
  }
}

}  // namespace tmprof
