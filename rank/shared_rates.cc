// SPDX-License-Identifier: Apache-2.0

#include "rank/shared_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tmprof {
namespace {

// A mapper is taken to be as active as the average, as if so many accesses had been found where so
// many were expected.
constexpr double kAccessesAssumed = 1;
// The relative variance of an activity of which nothing is known.
constexpr double kVarianceAssumed = 1 / kAccessesAssumed;
constexpr int kMostRounds = 40;
constexpr double kSettled = 0.005;  // of an activity, from one round to the next

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
  const std::size_t count = activity_.size();
  std::vector<double> found(count);
  std::vector<double> expected(count);
  std::vector<bool> may_access(count);
  std::vector<bool> was_watched(count);
  for (const Seen& each : seen.seen) {
    may_access[each.mapper] = true;
    if (each.page_seconds > 0) was_watched[each.mapper] = true;
  }
  for (std::size_t m = 0; m < count; ++m) {
    if (!may_access[m]) {
      activity_[m] = 0;
    } else if (!was_watched[m]) {
      activity_[m] = 1;
    }
  }
  for (int round = 0; round < kMostRounds; ++round) {
    std::ranges::fill(found, 0.0);
    std::ranges::fill(expected, 0.0);
    for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
      double of_piece = 0;
      double seconds = 0;
      for (const Seen& each : seen.Of(piece)) {
        of_piece += each.found;
        seconds += activity_[each.mapper] * each.page_seconds;
      }
      if (of_piece <= 0 || seconds <= 0) continue;
      const double heat = of_piece / seconds;
      for (const Seen& each : seen.Of(piece)) {
        found[each.mapper] += each.found;
        expected[each.mapper] += heat * each.page_seconds;
      }
    }
    double change = 0;
    for (const PageMappers::File& file : mappers.files()) {
      double clock = 0;
      double cpu = 0;
      std::vector<double> next;
      for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
        if (!was_watched[m]) {
          next.push_back(0);
          continue;
        }
        next.push_back((found[m] + kAccessesAssumed) / (expected[m] + kAccessesAssumed));
        activity_variance_[m] = 1 / (found[m] + kAccessesAssumed);
        clock += next.back() * cpu_seconds[m];
        cpu += cpu_seconds[m];
      }
      const double scale = clock > 0 ? cpu / clock : 1;
      for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
        if (!was_watched[m]) continue;
        const double activity = scale * next[m - file.first_mapper];
        change = std::max(change, std::abs(std::log(activity / activity_[m])));
        activity_[m] = activity;
      }
    }
    if (change < kSettled) break;
  }
}

}  // namespace tmprof
