// SPDX-License-Identifier: Apache-2.0
// Infers from one process's accesses to shared memory those of another. It is derived in
// docs/design/sharing.md. Only rank/ uses it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "rank/page_mappers.h"
#include "rank/target_times.h"

namespace tmprof {

// A second of a process's CPU time holds so many accesses to a page as the page's heat times the
// process's activity in the file. A file has a clock: the CPU time of its mappers, each weighed by
// its activity. In terms of that clock, all mappers' evidence is of one rate.
class SharedRates {
 public:
  // A row holds the evidence of a mapper's accesses to a piece.
  struct Seen {
    std::uint32_t mapper = 0;
    // An open Edge holds the mapper on this piece, and the time watched, too.
    bool is_unseen = false;
    double found = 0;         // accesses
    double page_seconds = 0;  // CPU time of the mapper in which they were looked for; 0: never
  };
  // The start or the end of a run of pieces that a mapping shows, but in whose page table nobody
  // looked for them.
  struct Edge {
    std::uint32_t piece = 0;
    std::uint32_t mapper = 0;
    bool opens = false;
  };
  // The evidence of accesses to all pieces. A mapping that shows a piece has a Seen or an open Edge
  // there, unless it is known to have no page.
  struct SeenByPiece {
    std::vector<Seen> seen;
    std::vector<std::size_t> first;  // one per piece, and one more: places in `seen`
    std::vector<Edge> unseen;        // ascending by piece; they close what they open
    // Each mapper has the time in which samples that show its activity watched each page.
    std::vector<double> watched;

    std::span<const Seen> Of(std::size_t piece) const {
      return std::span(seen).subspan(first[piece], first[piece + 1] - first[piece]);
    }
  };

  SharedRates() = default;
  // `cpu_seconds`: of each target, over all that was seen. `start`: activities that are near, by
  // mapper, or empty.
  SharedRates(const PageMappers& mappers, const SeenByPiece& seen,
              const std::function<double(TargetId)>& cpu_seconds, std::span<const double> start);

  // Returns the activity of a mapper. Until ScaleClock() it is 1 on average over the CPU time of a
  // file's mappers.
  double Activity(std::size_t mapper) const { return activity_[mapper]; }
  // Counts the file's clock in another unit.
  void ScaleClock(const PageMappers& mappers, std::size_t file, double factor);
  // Returns, for each piece, the sum of a mapper's value over the mappings that may have accessed
  // it.
  std::vector<double> SumByPiece(std::span<const double> by_mapper) const;
  // The part of the file's clock that runs for the mappers of the piece. It is 0 if none ran, and
  // above 1 if a process maps the piece twice.
  double PartOfClock(std::size_t piece) const { return part_of_clock_[piece]; }
  // The relative variance of the piece's accesses that the activities leave.
  double Variance(std::size_t piece) const { return variance_[piece]; }
  double ActivityVariance(std::size_t mapper) const {
    return activity_variance_[mapper];
  }  // relative

  // The file's clock, of the times of its mappers.
  template <typename TimeOf>
  TargetTime Clock(const PageMappers& mappers, std::size_t file, TimeOf time_of) const {
    TargetTime clock{.target = mappers.files()[file].name};
    for (std::size_t m = mappers.files()[file].first_mapper; m < mappers.files()[file].end_mapper;
         ++m) {
      const TargetTime time = time_of(mappers.mappers()[m].target);
      clock.cpu_seconds += activity_[m] * time.cpu_seconds;
      clock.watched_seconds += activity_[m] * time.watched_seconds;
      clock.remembered_cpu_seconds += activity_[m] * time.remembered_cpu_seconds;
    }
    return clock;
  }

 private:
  void LearnActivities(const PageMappers& mappers, const SeenByPiece& seen,
                       std::span<const double> cpu_seconds);
  // Learns the activities in a file from some of its pieces.
  void Learn(const PageMappers& mappers, const PageMappers::File& file, const SeenByPiece& seen,
             std::span<const double> cpu_seconds);
  void FindVariances(const PageMappers& mappers, const SeenByPiece& seen,
                     std::span<const double> clock);

  std::vector<std::uint32_t> mapper_of_;  // the rows' mappers, except for those that an edge holds
  std::vector<std::size_t> first_mapper_of_;  // one per piece, and one more: places in mapper_of_
  std::vector<Edge> unseen_;
  std::vector<double> activity_;           // one per mapper
  std::vector<double> activity_variance_;  // relative
  std::vector<double> part_of_clock_;      // one per piece
  std::vector<double> variance_;
};

// Visits the rows that hold a piece with the part that each has of its accesses: visit(index of
// rows(), part, relative variance of the part). `cpu_seconds` of the mappers decide who accessed
// it. Parts add up to 1 over the rows for which `takes_part` is true. If there is none, nothing is
// visited.
template <typename CpuSeconds, typename TakesPart, typename Visit>
void ForEachShare(const PageMappers& mappers, const SharedRates& rates, std::size_t piece,
                  CpuSeconds cpu_seconds, TakesPart takes_part, Visit visit) {
  double all = 0;
  double variance = 0;
  std::size_t rows = 0;
  const auto weight = [&](std::uint32_t at) {
    const std::uint32_t mapper = mappers.rows()[at].mapper;
    return rates.Activity(mapper) * cpu_seconds(mapper);
  };
  for (const std::uint32_t at : mappers.RowsOf(piece)) {
    if (!takes_part(at)) continue;
    const double of_row = weight(at);
    all += of_row;
    variance += of_row * of_row * rates.ActivityVariance(mappers.rows()[at].mapper);
    ++rows;
  }
  if (all > 0) variance /= all * all;
  for (const std::uint32_t at : mappers.RowsOf(piece)) {
    if (!takes_part(at)) continue;
    if (all <= 0) {
      visit(at, 1.0 / static_cast<double>(rows), 0.0);
      continue;
    }
    // The row's own activity is in its weight, and in the sum of all.
    const double part = weight(at) / all;
    const double own = rates.ActivityVariance(mappers.rows()[at].mapper);
    visit(at, part, std::max(0.0, variance + own * (1 - 2 * part)));
  }
}

}  // namespace tmprof
