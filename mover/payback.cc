// SPDX-License-Identifier: Apache-2.0

#include "mover/payback.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tmprof {
namespace {

template <typename Span>
PageKey EndOf(const Span& span) {
  return {span.key.target, span.key.vpn + span.span};
}

// The part of `whole` that lies within `part`, in [0, 1].
template <typename Part>
double Share(const SeenSpan& whole, const Part& part) {
  const PageKey start = std::max(whole.key, part.key);
  const PageKey end = std::min(EndOf(whole), EndOf(part));
  return static_cast<double>((end.vpn - start.vpn).value()) /
         static_cast<double>(whole.span.value());
}

}  // namespace

Payback::Payback(std::size_t most_moves) : most_moves_(most_moves) { TMPROF_CHECK(most_moves > 0); }

Payback::Watched::iterator Payback::Settle(Watched::iterator watched, SettledCause cause) {
  SettledMove& move = watched->second;
  by_age_.erase({move.moved_in, move.key});
  move.cause = cause;
  settled_.push_back(move);
  return watched_.erase(watched);
}

void Payback::Note(const MoveOutcome& outcome, std::uint64_t epoch) {
  if (outcome.error != 0) return;
  const Move& move = outcome.move;
  auto at = watched_.lower_bound(move.key);
  if (at != watched_.begin() && EndOf(std::prev(at)->second) > move.key) --at;
  while (at != watched_.end() && at->first < EndOf(move)) at = Settle(at, SettledCause::kMoved);
  if (watched_.size() == most_moves_) {
    Settle(watched_.find(by_age_.begin()->second), SettledCause::kForgotten);
  }
  watched_.emplace(
      move.key,
      SettledMove{
          .key = move.key, .span = move.span, .from = move.from, .to = move.to, .moved_in = epoch});
  by_age_.emplace(epoch, move.key);
}

void Payback::Observe(std::uint64_t epoch, std::span<const SeenSpan> spans, Elsewhere elsewhere) {
  auto span = spans.begin();
  for (auto& [key, move] : watched_) {
    if (move.moved_in >= epoch) continue;  // in part of the epoch it was elsewhere
    ++move.epochs;
    while (span != spans.end() && EndOf(*span) <= key) ++span;
    bool known = elsewhere == Elsewhere::kUnseen;
    // The last of them may reach into the next move.
    for (auto within = span; within != spans.end() && within->key < EndOf(move); ++within) {
      const double share = Share(*within, move);
      move.seen += share * within->seen;
      move.weight += share * within->score;
      known = true;
    }
    if (known) ++move.epochs_known;
  }
}

void Payback::Forget(TargetId target) {
  auto at = watched_.lower_bound({target, Vpn(0)});
  while (at != watched_.end() && at->first.target == target) at = Settle(at, SettledCause::kGone);
}

void Payback::End() {
  for (auto at = watched_.begin(); at != watched_.end();) at = Settle(at, SettledCause::kEnd);
}

}  // namespace tmprof
