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
// The relative variance of an unknown activity.
constexpr double kVarianceAssumed = 1 / kAccessesAssumed;
constexpr int kMostRounds = 40;
constexpr double kSettled = 0.005;  // change of an activity from one round to the next
// This many pieces of a file give the activities of 16 mappers to 3 % if each piece had one access.
constexpr std::size_t kMostPieces = 16'384;

// Walks along the pieces with the mappings that are open there.
class UnseenWalk {
 public:
  explicit UnseenWalk(std::span<const SharedRates::Edge> edges) : next_(edges) {}

  // apply(mapper, opens) for each edge up to the piece, which is no earlier one than before.
  template <typename Apply>
  void To(std::size_t piece, Apply apply) {
    for (; !next_.empty() && next_.front().piece <= piece; next_ = next_.subspan(1)) {
      apply(next_.front().mapper, next_.front().opens);
    }
  }

 private:
  std::span<const SharedRates::Edge> next_;
};

// A sum over open mappings. Without any it is 0, whatever rounding has left.
class OpenSum {
 public:
  void Add(double value, bool opens) {
    open_ += opens ? 1 : -1;
    sum_ = open_ == 0 ? 0 : std::max(0.0, sum_ + (opens ? value : -value));
  }
  double value() const { return sum_; }

 private:
  int open_ = 0;
  double sum_ = 0;
};

// The edges of a file.
std::span<const SharedRates::Edge> EdgesIn(const PageMappers::File& file,
                                           const SharedRates::SeenByPiece& seen) {
  const std::span<const SharedRates::Edge> edges = seen.unseen;
  const auto of_file = [&](const SharedRates::Edge& edge) { return edge.mapper < file.end_mapper; };
  const auto first = std::ranges::partition_point(
      edges, [&](const SharedRates::Edge& edge) { return edge.mapper < file.first_mapper; });
  const auto end = std::partition_point(first, edges.end(), of_file);
  return {first, end};
}

// Pieces that show how active mappers are beside each other: two of them were watched, and accesses
// were found.
std::vector<std::uint32_t> ThoseThatTell(const PageMappers::File& file,
                                         const SharedRates::SeenByPiece& seen) {
  std::vector<std::uint32_t> pieces;
  UnseenWalk walk(EdgesIn(file, seen));
  std::vector<std::uint32_t> open(file.end_mapper - file.first_mapper);
  std::size_t watched = 0;  // mappers
  for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
    walk.To(piece, [&](std::uint32_t mapper, bool opens) {
      if (seen.watched[mapper] <= 0) return;
      std::uint32_t& mappings = open[mapper - file.first_mapper];
      mappings += opens ? 1 : -1;
      if (mappings == (opens ? 1 : 0)) watched += opens ? 1 : -1;
    });
    double found = 0;
    std::optional<std::uint32_t> first;
    bool tells = watched > 1;
    for (const SharedRates::Seen& each : seen.Of(piece)) {
      found += each.found;
      if (each.is_unseen || each.page_seconds <= 0) continue;
      tells |= first ? *first != each.mapper
                     : watched == 1 && open[each.mapper - file.first_mapper] == 0;
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
    : unseen_(seen.unseen),
      activity_(mappers.mappers().size(), 1.0),
      activity_variance_(mappers.mappers().size(), kVarianceAssumed),
      part_of_clock_(mappers.pieces().size()),
      variance_(mappers.pieces().size()) {
  first_mapper_of_.push_back(0);
  for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
    for (const Seen& each : seen.Of(piece)) {
      if (!each.is_unseen) mapper_of_.push_back(each.mapper);
    }
    first_mapper_of_.push_back(mapper_of_.size());
  }
  for (std::size_t m = 0; m < start.size(); ++m) {
    if (start[m] > 0) activity_[m] = start[m];
  }
  std::vector<double> seconds;
  for (const PageMappers::Mapper& mapper : mappers.mappers()) {
    seconds.push_back(cpu_seconds(mapper.target));
  }
  LearnActivities(mappers, seen, seconds);
  for (std::size_t m = 0; m < seconds.size(); ++m) seconds[m] *= activity_[m];
  part_of_clock_ = SumByPiece(seconds);
  FindVariances(mappers, seen, seconds);
  for (const PageMappers::File& file : mappers.files()) {
    double clock = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) clock += seconds[m];
    for (std::size_t piece = file.first_piece; piece < file.end_piece; ++piece) {
      if (clock > 0) part_of_clock_[piece] /= clock;
    }
  }
}

std::vector<double> SharedRates::SumByPiece(std::span<const double> by_mapper) const {
  std::vector<double> sums(part_of_clock_.size());
  UnseenWalk walk(unseen_);
  OpenSum unseen;
  for (std::size_t piece = 0; piece < sums.size(); ++piece) {
    walk.To(piece, [&](std::uint32_t mapper, bool opens) { unseen.Add(by_mapper[mapper], opens); });
    sums[piece] = unseen.value();
    for (std::size_t i = first_mapper_of_[piece]; i < first_mapper_of_[piece + 1]; ++i) {
      sums[piece] += by_mapper[mapper_of_[i]];
    }
  }
  return sums;
}

// The estimate of a piece is accesses found / time watched x CPU time. A mapper's activity is in
// both times, and its error counts so far as it has different parts of them.
// `clock`: each mapper's activity x CPU time. part_of_clock_ has its sum by piece.
void SharedRates::FindVariances(const PageMappers& mappers, const SeenByPiece& seen,
                                std::span<const double> clock) {
  UnseenWalk walk(seen.unseen);
  OpenSum watched_sum;   // sum of activity x time, a page
  OpenSum clock_square;  // sum of products, times the variance of the activity
  OpenSum clock_watched;
  OpenSum watched_square;
  for (std::size_t piece = 0; piece < variance_.size(); ++piece) {
    walk.To(piece, [&](std::uint32_t mapper, bool opens) {
      const double watched = activity_[mapper] * seen.watched[mapper];
      const double variance = activity_variance_[mapper];
      watched_sum.Add(watched, opens);
      clock_square.Add(clock[mapper] * clock[mapper] * variance, opens);
      clock_watched.Add(clock[mapper] * watched * variance, opens);
      watched_square.Add(watched * watched * variance, opens);
    });
    const double pages = mappers.pieces()[piece].pages;
    const double of_piece = part_of_clock_[piece];
    double watched = watched_sum.value() * pages;
    for (const Seen& each : seen.Of(piece)) {
      if (!each.is_unseen) watched += activity_[each.mapper] * each.page_seconds;
    }
    if (of_piece <= 0) continue;
    const double per_watched = watched > 0 ? 1 / watched : 0;
    const double per_page_watched = pages * per_watched;
    double variance =
        std::max(0.0, clock_square.value() / (of_piece * of_piece) -
                          2 * clock_watched.value() * per_page_watched / of_piece +
                          watched_square.value() * per_page_watched * per_page_watched);
    for (const Seen& each : seen.Of(piece)) {
      if (each.is_unseen) continue;
      const double difference =
          clock[each.mapper] / of_piece - activity_[each.mapper] * each.page_seconds * per_watched;
      variance += difference * difference * activity_variance_[each.mapper];
    }
    variance_[piece] = variance;
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
  for (const Edge& edge : seen.unseen) may_access[edge.mapper] = true;
  for (const PageMappers::File& file : mappers.files()) {
    Learn(mappers, file, seen, cpu_seconds);
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (!may_access[m]) activity_[m] = 0;
    }
  }
}

void SharedRates::Learn(const PageMappers& mappers, const PageMappers::File& file,
                        const SeenByPiece& seen, std::span<const double> cpu_seconds) {
  const std::vector<std::uint32_t> pieces = ThoseThatTell(file, seen);
  struct Counts {
    double found = 0;
    double expected = 0;
    double information = 0;    // information on the logarithm of the activity
    std::int64_t watched = 0;  // on so many pieces
  };
  std::vector<Counts> counts(file.end_mapper - file.first_mapper);
  const auto of = [&](std::size_t mapper) -> Counts& { return counts[mapper - file.first_mapper]; };
  const std::span<const Edge> edges = EdgesIn(file, seen);
  UnseenWalk whole(edges);
  for (std::size_t i = 0; i <= pieces.size(); ++i) {
    whole.To(i < pieces.size() ? pieces[i] : file.end_piece, [&](std::uint32_t mapper, bool opens) {
      if (seen.watched[mapper] <= 0) return;
      const auto left = static_cast<std::int64_t>(pieces.size() - i);
      of(mapper).watched += opens ? left : -left;
    });
    if (i == pieces.size()) break;
    for (const Seen& each : seen.Of(pieces[i])) {
      of(each.mapper).found += each.found;
      if (!each.is_unseen && each.page_seconds > 0) ++of(each.mapper).watched;
    }
  }
  std::size_t told = 0;
  for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
    if (of(m).watched > 0) {
      ++told;
    } else {
      activity_[m] = 1;
    }
  }
  for (int round = 0; round < kMostRounds; ++round) {
    for (Counts& mapper : counts) mapper.expected = mapper.information = 0;
    UnseenWalk walk(edges);
    OpenSum watched;  // activity x time, a page
    // Sums over the pieces so far: a mapping that is open expects the difference from edge to edge.
    double heats = 0;
    double heats_by_part = 0;
    const auto cross = [&](std::uint32_t mapper, bool opens) {
      const double time = seen.watched[mapper];
      const double of_mapper = activity_[mapper] * time;
      watched.Add(of_mapper, opens);
      if (time <= 0) return;
      const double sign = opens ? -1 : 1;
      of(mapper).expected += sign * time * heats;
      of(mapper).information += sign * of_mapper * (heats - of_mapper * heats_by_part);
    };
    for (const std::uint32_t piece : pieces) {
      walk.To(piece, cross);
      const double pages = mappers.pieces()[piece].pages;
      double found = 0;
      double seconds = watched.value() * pages;
      for (const Seen& each : seen.Of(piece)) {
        found += each.found;
        if (!each.is_unseen) seconds += activity_[each.mapper] * each.page_seconds;
      }
      const double heat = found / seconds;
      heats += heat * pages;
      heats_by_part += heat * pages * pages / seconds;
      for (const Seen& each : seen.Of(piece)) {
        if (each.is_unseen) continue;
        const double expected = heat * each.page_seconds;
        const double part = activity_[each.mapper] * each.page_seconds / seconds;
        of(each.mapper).expected += expected;
        of(each.mapper).information += activity_[each.mapper] * expected * (1 - part);
      }
    }
    walk.To(file.end_piece, cross);
    double clock = 0;
    double cpu = 0;
    const auto told_by = [](const Counts& mapper) {
      return (mapper.found + kAccessesAssumed) /
             (std::max(0.0, mapper.expected) + kAccessesAssumed);
    };
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (of(m).watched == 0) continue;
      clock += told_by(of(m)) * cpu_seconds[m];
      cpu += cpu_seconds[m];
    }
    const double scale = clock > 0 ? cpu / clock : 1;
    double change = 0;
    for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
      if (of(m).watched == 0) continue;
      const double activity = scale * told_by(of(m));
      change = std::max(change, std::abs(std::log(activity / activity_[m])));
      activity_[m] = activity;
    }
    if (change < kSettled) break;
  }
  // Given the accesses of a piece, the counts of its mappers are multinomial. Of their information
  // the diagonal is kept. If n mappers are told alike, what it leaves out is the factor n / (n -
  // 1).
  for (std::size_t m = file.first_mapper; m < file.end_mapper; ++m) {
    if (of(m).watched == 0) continue;
    const double among = static_cast<double>(told) / static_cast<double>(told - 1);
    activity_variance_[m] = 1 / (among * std::max(0.0, of(m).information) + kAccessesAssumed);
  }
}

}  // namespace tmprof
