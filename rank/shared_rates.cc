// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tmprof {
namespace {

// A mapper is taken to be as active as the average, as if so many accesses had been found where so
// many were expected.
constexpr double kAccessesSupposed = 1;
// The relative variance of an activity of which nothing is known.
constexpr double kVarianceSupposed = 1 / kAccessesSupposed;
constexpr int kMostRounds = 40;
constexpr double kSettled = 0.005;  // of an activity, from one round to the next

// The part of a row's pages that the piece has.
double PartOf(const PageMappers& mappers, std::uint32_t at, std::size_t piece) {
  const PageMappers::Row& row = mappers.rows()[at];
  if (row.end_piece - row.first_piece == 1) return 1;
  double pages = 0;
  for (std::uint32_t p = row.first_piece; p < row.end_piece; ++p) {
    pages += mappers.pieces()[p].pages;
  }
  return mappers.pieces()[piece].pages / pages;
}

}  // namespace

SharedRates::SharedRates(const PageMappers& mappers, std::span<const Seen> seen,
                         const std::function<double(TargetId)>& cpu_seconds)
    : activity_(mappers.mappers().size(), 1.0),
      activity_variance_(mappers.mappers().size(), kVarianceSupposed),
      part_of_clock_(mappers.pieces().size()),
      variance_(mappers.pieces().size()) {
  std::vector<double> seconds;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    seconds.push_back(cpu_seconds(mapper.target));
  }
  LearnActivities(mappers, seen, seconds);
  for (std::size_t f = 0; f < mappers.files().size(); ++f) {
    const PageMappers::File& file = mappers.files()[f];
    double clock = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      clock += activity_[m] * seconds[m];
    }
    if (clock <= 0) continue;
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      double of_piece = 0;
      double watched = 0;
      const auto weight = [&](std::size_t mapper) { return activity_[mapper] * seconds[mapper]; };
      for (const std::uint32_t at : mappers.RowsOf(piece)) {
        const std::uint32_t mapper = mappers.rows()[at].mapper;
        of_piece += weight(mapper);
        watched += activity_[mapper] * PartOf(mappers, at, piece) * seen[at].page_seconds;
      }
      mappers.ForEachUnobserved(f, piece, [&](std::size_t mapper) { of_piece += weight(mapper); });
      part_of_clock_[piece] = of_piece / clock;
      if (of_piece <= 0) continue;
      // The estimate is accesses found / time watched x CPU time. A mapper's activity is in both
      // times, and its error counts so far as it has different parts of them.
      const auto add = [&](std::size_t mapper, double of_watched) {
        const double difference = weight(mapper) / of_piece - of_watched;
        variance_[piece] += difference * difference * activity_variance_[mapper];
      };
      for (const std::uint32_t at : mappers.RowsOf(piece)) {
        const std::uint32_t mapper = mappers.rows()[at].mapper;
        const double seconds_watched =
            activity_[mapper] * PartOf(mappers, at, piece) * seen[at].page_seconds;
        add(mapper, watched > 0 ? seconds_watched / watched : weight(mapper) / of_piece);
      }
      mappers.ForEachUnobserved(f, piece, [&](std::size_t mapper) { add(mapper, 0); });
    }
  }
}

// The likeliest activities and heats, by turns: given the one, the other is the accesses found over
// those expected.
void SharedRates::LearnActivities(const PageMappers& mappers, std::span<const Seen> seen,
                                  std::span<const double> cpu_seconds) {
  const std::size_t count = activity_.size();
  std::vector<double> found(count);
  std::vector<double> expected(count);
  std::vector<bool> has_rows(count);
  for (const PageMappers::Row& row : mappers.rows()) has_rows[row.mapper] = true;
  for (std::size_t m = 0; m < count; ++m) {
    // The page tables of a process that was looked at elsewhere show none of the file's pages.
    if (!has_rows[m] && mappers.mappers()[m].observed) activity_[m] = 0;
  }
  for (int round = 0; round < kMostRounds; ++round) {
    std::ranges::fill(found, 0.0);
    std::ranges::fill(expected, 0.0);
    for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
      double of_piece = 0;
      double seconds = 0;
      for (const std::uint32_t at : mappers.RowsOf(piece)) {
        const double part = PartOf(mappers, at, piece);
        of_piece += part * seen[at].found;
        seconds += part * activity_[mappers.rows()[at].mapper] * seen[at].page_seconds;
      }
      if (of_piece <= 0 || seconds <= 0) continue;
      const double heat = of_piece / seconds;
      for (const std::uint32_t at : mappers.RowsOf(piece)) {
        const std::uint32_t mapper = mappers.rows()[at].mapper;
        const double part = PartOf(mappers, at, piece);
        found[mapper] += part * seen[at].found;
        expected[mapper] += part * heat * seen[at].page_seconds;
      }
    }
    double change = 0;
    for (const PageMappers::File& file : mappers.files()) {
      double clock = 0;
      double cpu = 0;
      std::vector<double> next;
      for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
        if (!has_rows[m]) {
          next.push_back(0);
          continue;
        }
        next.push_back((found[m] + kAccessesSupposed) / (expected[m] + kAccessesSupposed));
        activity_variance_[m] = 1 / (found[m] + kAccessesSupposed);
        clock += next.back() * cpu_seconds[m];
        cpu += cpu_seconds[m];
      }
      const double scale = clock > 0 ? cpu / clock : 1;
      for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
        if (!has_rows[m]) continue;
        const double activity = scale * next[m - file.first_mapper];
        change = std::max(change, std::abs(std::log(activity / activity_[m])));
        activity_[m] = activity;
      }
    }
    if (change < kSettled) break;
  }
}

}  // namespace tmprof
