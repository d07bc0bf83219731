// SPDX-License-Identifier: Apache-2.0

#include "mover/move_calibration.h"

#include <iterator>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr double kSecondsOfNs = 1e-9;

PageKey PastPages(PageKey first, PageCount span) { return {first.target, first.vpn + span}; }

}  // namespace

MoveCalibration::MoveCalibration(std::size_t most_moves) : most_moves_(most_moves) {
  TMPROF_CHECK(most_moves > 0);
}

void MoveCalibration::Moved(const Move& move) {
  const PageKey page = move.page();
  const PageKey end = PastPages(page, move.span);
  auto at = watched_.lower_bound(page);
  if (at != watched_.begin()) {
    const auto before = std::prev(at);
    if (PastPages(before->first, before->second.span) > page) at = before;
  }
  while (at != watched_.end() && at->first < end) at = watched_.erase(at);
}

void MoveCalibration::Promoted(const Move& move, std::chrono::nanoseconds decided_over,
                               double gap_ns, std::uint64_t epoch) {
  TMPROF_CHECK(decided_over.count() > 0 && gap_ns > 0);
  Moved(move);
  if (watched_.size() == most_moves_) return;
  const double per_second = move.score / std::chrono::duration<double>(decided_over).count();
  watched_[move.page()] = {.key = move.key,
                           .span = move.span,
                           .moved_in = epoch,
                           .predicted_per_second = per_second * gap_ns * kSecondsOfNs,
                           .gap_ns = gap_ns};
}

void MoveCalibration::Observe(std::uint64_t epoch, std::chrono::nanoseconds length,
                              std::span<const SeenSpan> spans, Payback::Elsewhere elsewhere,
                              const PageOwners& owners) {
  auto span = spans.begin();
  for (auto watched = watched_.begin(); watched != watched_.end();) {
    const PageKey page = watched->first;
    Watched& move = watched->second;
    if (move.moved_in >= epoch) {  // it was elsewhere for part of the epoch
      ++watched;
      continue;
    }
    const PageKey end = PastPages(page, move.span);
    while (span != spans.end() && PastPages(span->key, span->span) <= page) ++span;
    double score = 0;
    double recorded = 0;  // pages
    // The last of them may reach into the next move.
    for (auto within = span; within != spans.end() && within->key < end; ++within) {
      const double share = ShareWithin(*within, page, end);
      score += share * within->score;
      recorded += share * static_cast<double>(within->span.value());
    }
    double known = elsewhere == Payback::Elsewhere::kUnseen
                       ? 1
                       : recorded / static_cast<double>(move.span.value());
    if (!owners.KeepsName({move.key, move.span}, page)) known = 0;
    if (known > 0) {
      savings_.promotions += move.was_known ? 0 : 1;
      move.was_known = true;
      savings_.predicted_seconds +=
          known * move.predicted_per_second * std::chrono::duration<double>(length).count();
      savings_.realised_seconds += score * move.gap_ns * kSecondsOfNs;
    }
    move.watched += length;
    watched = move.watched >= kPaybackTime ? watched_.erase(watched) : std::next(watched);
  }
}

void MoveCalibration::Forget(TargetId target) {
  auto at = watched_.lower_bound({target, Vpn(0)});
  while (at != watched_.end() && at->first.target == target) at = watched_.erase(at);
}

}  // namespace tmprof
