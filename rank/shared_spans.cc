// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_spans.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "rank/rate_history.h"

namespace tmprof {

namespace {

constexpr std::uint64_t kPagesOfTable = 512;  // of one page table

// A mapping of a file.
struct Shown {
  std::uint32_t mapper;
  TargetId target;
  SharedPages::Part part;
  // The last page table that was asked for, and the answer.
  std::optional<Vpn> block = std::nullopt;
  bool was_looked_at = false;

  Vpn AddressOf(Vpn page) const { return part.range.start + (page - part.name.vpn); }
  bool Shows(Vpn page) const {
    return part.name.vpn <= page && page < part.name.vpn + part.range.size();
  }
};

std::vector<Shown> MappingsOf(const PageMappers& mappers, const PageMappers::File& file,
                              const SharedPages& shared) {
  std::vector<Shown> mappings;
  for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
    const TargetId target = mappers.mappers()[m].target;
    for (const SharedPages::Part& part : shared.PartsOf(target)) {
      if (part.name.target != file.name) continue;
      mappings.push_back({.mapper = static_cast<std::uint32_t>(m), .target = target, .part = part});
    }
  }
  return mappings;
}

// Returns true if the page's page table was read.
bool WasLookedAt(const EvidenceTable& table, Shown& mapping, Vpn page) {
  const Vpn address = mapping.AddressOf(page);
  const Vpn block(address.value() / kPagesOfTable * kPagesOfTable);
  if (mapping.block == block) return mapping.was_looked_at;
  mapping.block = block;
  mapping.was_looked_at = false;
  const PageKey start{mapping.target, block};
  const PageKey end{mapping.target, block + PageCount(kPagesOfTable)};
  auto row =
      static_cast<std::size_t>(std::ranges::lower_bound(table.key, start) - table.key.begin());
  if (row > 0 && start < EndOf(table, row - 1)) --row;
  for (; row < table.size() && table.key[row] < end; ++row) {
    if (table.evidence[row].looks > 0) return mapping.was_looked_at = true;
  }
  return false;
}

// For each file: true if accessed bits tell the activities of its mappers. Of two kinds of evidence
// that one is taken that there is more of.
std::vector<bool> GoesByBits(const PageMappers& mappers, const EvidenceTable& table,
                             RankSource source) {
  if (source != RankSource::kCombined) {
    return std::vector<bool>(mappers.files().size(), source == RankSource::kReferences);
  }
  std::vector<double> more_bits(mappers.files().size());
  for (const PageMappers::Row& row : mappers.rows()) {
    const Evidence& evidence = table.evidence[row.row];
    more_bits[mappers.mappers()[row.mapper].file] +=
        evidence.first_accesses + evidence.first_read_finds - evidence.samples();
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
  SharedRates::SeenByPiece by_piece;
  by_piece.first.push_back(0);
  for (std::size_t f = 0; f < mappers.files().size(); ++f) {
    const PageMappers::File& file = mappers.files()[f];
    std::vector<Shown> mappings = MappingsOf(mappers, file, shared);
    std::vector<double> watched;  // by mapper of the file
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      watched.push_back(times.Of(mappers.mappers()[m].target).watched_seconds);
    }
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      const PageMappers::Piece& of = mappers.pieces()[piece];
      const auto rows = mappers.RowsOf(piece);
      auto at = rows.begin();
      for (Shown& mapping : mappings) {
        if (!mapping.Shows(of.name.vpn)) continue;
        SharedRates::Seen seen{.mapper = mapping.mapper};
        if (!goes_by_bits[f]) {
          seen.page_seconds = watched[mapping.mapper - file.first_mapper] * of.pages;
        }
        const auto key = [&] { return table.key[mappers.rows()[*at].row]; };
        while (at != rows.end() && key() < PageKey{mapping.target, mapping.part.range.start}) ++at;
        if (at != rows.end() && key() < PageKey{mapping.target, mapping.part.range.end}) {
          const std::uint32_t row = mappers.rows()[*at].row;
          const Evidence& evidence = table.evidence[row];
          const double part = static_cast<double>(of.pages) / table.span_pages[row];
          if (goes_by_bits[f]) {
            seen.found = part * (evidence.first_accesses + evidence.first_read_finds);
            seen.page_seconds = part * evidence.all_page_seconds_at_risk();
          } else {
            seen.found = part * evidence.samples();
          }
        } else if (source != RankSource::kSamples && WasLookedAt(table, mapping, of.name.vpn)) {
          continue;
        }
        by_piece.seen.push_back(seen);
      }
      by_piece.first.push_back(static_cast<std::uint32_t>(by_piece.seen.size()));
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

  // By step. A row may hold several pieces.
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
  std::optional<std::size_t> row_;  // that evidence_ is of
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
    history.BeginTarget(StepsOf(f, watched));
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      const auto rows = mappers_.RowsOf(piece);
      if (rates_.PartOfClock(piece) <= 0 ||
          std::ranges::none_of(rows, [this](std::uint32_t at) { return Sees(at); })) {
        continue;
      }
      Join(piece, walks, steps);
      for (std::size_t s = 0; s < steps.size(); ++s) {
        steps[s].seconds_watched =
            view_.Of({}, mappers_.pieces()[piece].pages, watched[s]).seconds_watched;
      }
      history.AddSpan(steps);
      piece_of_.push_back(static_cast<std::uint32_t>(piece));
    }
  }
}

}  // namespace tmprof
