// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_spans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "rank/rate_history.h"

namespace tmprof {

std::vector<SharedRates::Seen> SeenOf(const PageMappers& mappers, const EvidenceTable& table,
                                      RankSource source, const TargetTimes& times) {
  std::vector<double> found_by_bits(mappers.files().size());
  std::vector<double> samples(mappers.files().size());
  for (const PageMappers::Row& row : mappers.rows()) {
    const Evidence& evidence = table.evidence[row.row];
    const std::size_t file = mappers.mappers()[row.mapper].file;
    found_by_bits[file] += evidence.first_accesses + evidence.first_read_finds;
    samples[file] += evidence.samples();
  }
  std::vector<SharedRates::Seen> seen;
  seen.reserve(mappers.rows().size());
  for (const PageMappers::Row& row : mappers.rows()) {
    const Evidence& evidence = table.evidence[row.row];
    const PageMappers::Mapper& mapper = mappers.mappers()[row.mapper];
    // The kind of evidence that there is more of.
    if (source != RankSource::kSamples && found_by_bits[mapper.file] >= samples[mapper.file]) {
      seen.push_back({.found = evidence.first_accesses + evidence.first_read_finds,
                      .page_seconds = evidence.all_page_seconds_at_risk()});
    } else {
      seen.push_back(
          {.found = evidence.samples(),
           .page_seconds = times.Of(mapper.target).watched_seconds * table.span_pages[row.row]});
    }
  }
  return seen;
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
  rates_ = SharedRates(mappers_, SeenOf(mappers_, table, source, all_),
                       [this](TargetId target) { return all_.Of(target).cpu_seconds; });
  evidence_.resize(mappers_.pieces().size() * steps_.size());
  for (std::size_t i = 0; i < evidence_.size(); ++i) {
    evidence_[i].pages = mappers_.pieces()[i / steps_.size()].pages;
  }
}

bool SharedSpans::Take(std::size_t row, std::span<const Evidence> steps) {
  const std::vector<PageMappers::Row>& rows = mappers_.rows();
  while (next_ < rows.size() && rows[next_].row < row) ++next_;
  if (next_ == rows.size() || rows[next_].row != row) return false;
  const PageMappers::Row& of = rows[next_];
  for (std::uint32_t piece = of.first_piece; piece < of.end_piece; ++piece) {
    const double part_of_clock = rates_.PartOfClock(piece);
    if (part_of_clock <= 0) continue;
    const std::uint32_t pages = mappers_.pieces()[piece].pages;
    const double share = static_cast<double>(pages) / table_.span_pages[row];
    for (std::size_t s = 0; s < steps.size(); ++s) {
      Evidence part;
      part.Add(steps[s], share, share);
      RateEvidence evidence = view_.Of(part, pages, /*watched_seconds=*/0);
      evidence.ScaleTimes(rates_.Activity(of.mapper) / part_of_clock);
      evidence_[piece * steps.size() + s].Add(evidence);
    }
  }
  return true;
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
  for (std::size_t f = 0; f < mappers_.files().size(); ++f) {
    const PageMappers::File& file = mappers_.files()[f];
    history.BeginTarget(StepsOf(f, watched));
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      const auto rows = mappers_.RowsOf(piece);
      if (rates_.PartOfClock(piece) <= 0 ||
          std::ranges::none_of(rows, [this](std::uint32_t at) { return Sees(at); })) {
        continue;
      }
      const std::span<RateEvidence> steps =
          std::span(evidence_).subspan(piece * steps_.size(), steps_.size());
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
