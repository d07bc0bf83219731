// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace tmprof {
namespace {

// A mapper is taken to be as active as the average, as if so many accesses had been found where so
// many were expected.
constexpr double kAccessesAssumed = 1;
// The relative variance of an activity of which nothing is known.
constexpr double kVarianceAssumed = 1 / kAccessesAssumed;
constexpr int kMostRounds = 40;
constexpr double kSettled = 0.005;  // of an activity, from one round to the next
// Of a file. They tell the activities of 16 mappers to 3 % if one access was found on each.
constexpr std::size_t kMostPieces = 16'384;

// Pieces that tell how active mappers are beside each other: two of them were watched, and accesses
// were found.
std::vector<std::uint32_t> ThoseThatTell(const PageMappers::File& file,
                                         const SharedRates::SeenByPiece& seen) {
  std::vector<std::uint32_t> pieces;
  for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
    double found = 0;
    std::optional<std::uint32_t> first;
    bool tells = false;
    for (const SharedRates::Seen& each : seen.Of(piece)) {
      if (each.page_seconds <= 0) continue;
      found += each.found;
      tells |= first && *first != each.mapper;
      first = each.mapper;
    }
    if (tells && found > 0) pieces.push_back(static_cast<std::uint32_t>(piece));
  }
  if (pieces.size() <= kMostPieces) return pieces;
  for (std::size_t i = 0; i < kMostPieces; ++i) pieces[i] = pieces[i * pieces.size() / kMostPieces];
  pieces.resize(kMostPieces);
  return pieces;
}

}  // namespace

SharedRates::SharedRates(const PageMappers& mappers, const SeenByPiece& seen,
                         const std::function<double(TargetId)>& cpu_seconds,
                         std::span<const double> start)
    : activity_(mappers.mappers().size(), 1.0),
      activity_variance_(mappers.mappers().size(), kVarianceAssumed),
      part_of_clock_(mappers.pieces().size()),
      variance_(mappers.pieces().size()),
      first_mapper_of_(seen.first) {
  for (const Seen& each : seen.seen) mapper_of_.push_back(each.mapper);
  for (std::size_t m = 0; m < start.size(); ++m) {
    if (start[m] > 0) activity_[m] = start[m];
  }
  std::vector<double> seconds;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    seconds.push_back(cpu_seconds(mapper.target));
  }
  LearnActivities(mappers, seen, seconds);
  const auto weight = [&](std::size_t mapper) { return activity_[mapper] * seconds[mapper]; };
  for (const PageMappers::File& file : mappers.files()) {
    double clock = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) clock += weight(m);
    if (clock <= 0) continue;
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      double of_piece = 0;
      double watched = 0;
      for (const Seen& each : seen.Of(piece)) {
        of_piece += weight(each.mapper);
        watched += activity_[each.mapper] * each.page_seconds;
      }
      part_of_clock_[piece] = of_piece / clock;
      if (of_piece <= 0 || watched <= 0) continue;
      // The estimate is accesses found / time watched x CPU time. A mapper's activity is in both
      // times, and its error counts so far as it has different parts of them.
      for (const Seen& each : seen.Of(piece)) {
        const double difference =
            weight(each.mapper) / of_piece - activity_[each.mapper] * each.page_seconds / watched;
        variance_[piece] += difference * difference * activity_variance_[each.mapper];
      }
    }
  }
}

void SharedRates::ScaleClock(const PageMappers& mappers, std::size_t file, double factor) {
  const PageMappers::File& of = mappers.files()[file];
  for (std::size_t m = of.first_mapper; m < of.end_mapper; ++m) activity_[m] *= factor;
}

// The likeliest activities and heats, by turns: given the one, the other is the accesses found over
// those expected.
void SharedRates::LearnActivities(const PageMappers& mappers, const SeenByPiece& seen,
                                  std::span<const double> cpu_seconds) {
  std::vector<bool> may_access(activity_.size());
  for (const Seen& each : seen.seen) may_access[each.mapper] = true;
  for (const PageMappers::File& file : mappers.files()) {
    const std::vector<std::uint32_t> pieces = ThoseThatTell(file, seen);
    Learn(file, pieces, seen, cpu_seconds);
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (!may_access[m]) activity_[m] = 0;
    }
  }
}

void SharedRates::Learn(const PageMappers::File& file, std::span<const std::uint32_t> pieces,
                        const SeenByPiece& seen, std::span<const double> cpu_seconds) {
  struct Counts {
    double found = 0;
    double expected = 0;
    double information = 0;  // of the logarithm of the activity
    bool is_told = false;
  };
  std::vector<Counts> counts(file.end_mapper - file.first_mapper);
  const auto of = [&](std::size_t mapper) -> Counts& { return counts[mapper - file.first_mapper]; };
  std::size_t told = 0;
  for (const std::uint32_t piece : pieces) {
    for (const Seen& each : seen.Of(piece)) {
      Counts& mapper = of(each.mapper);
      if (each.page_seconds <= 0) continue;
      if (!std::exchange(mapper.is_told, true)) ++told;
      mapper.found += each.found;
    }
  }
  for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
    if (!of(m).is_told) activity_[m] = 1;
  }
  for (int round = 0; round < kMostRounds; ++round) {
    for (Counts& mapper : counts) mapper.expected = mapper.information = 0;
    for (const std::uint32_t piece : pieces) {
      double found = 0;
      double seconds = 0;
      for (const Seen& each : seen.Of(piece)) {
        found += each.found;
        seconds += activity_[each.mapper] * each.page_seconds;
      }
      const double heat = found / seconds;
      for (const Seen& each : seen.Of(piece)) {
        const double expected = heat * each.page_seconds;
        const double part = activity_[each.mapper] * each.page_seconds / seconds;
        of(each.mapper).expected += expected;
        of(each.mapper).information += activity_[each.mapper] * expected * (1 - part);
      }
    }
    double clock = 0;
    double cpu = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (!of(m).is_told) continue;
      const double activity =
          (of(m).found + kAccessesAssumed) / (of(m).expected + kAccessesAssumed);
      clock += activity * cpu_seconds[m];
      cpu += cpu_seconds[m];
    }
    const double scale = clock > 0 ? cpu / clock : 1;
    double change = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (!of(m).is_told) continue;
      const double activity =
          scale * (of(m).found + kAccessesAssumed) / (of(m).expected + kAccessesAssumed);
      change = std::max(change, std::abs(std::log(activity / activity_[m])));
      activity_[m] = activity;
    }
    if (change < kSettled) break;
  }
  // Given the accesses of a piece, the counts of its mappers are multinomial. Of their information
  // the diagonal is kept. If n mappers are told alike, what it leaves out is the factor n / (n -
  // 1).
  for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
    if (!of(m).is_told) continue;
    const double among = static_cast<double>(told) / static_cast<double>(told - 1);
    activity_variance_[m] = 1 / (among * of(m).information + kAccessesAssumed);
  }
}

}  // namespace tmprof
