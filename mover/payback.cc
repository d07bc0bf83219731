// SPDX-License-Identifier: Apache-2.0

#include "mover/payback.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tmprof {
namespace {

PageKey EndOf(PageKey first, PageCount span) { return {first.target, first.vpn + span}; }

}  // namespace

double ShareWithin(const SeenSpan& whole, PageKey start, PageKey end) {
  start = std::max(whole.key, start);
  end = std::min(EndOf(whole.key, whole.span), end);
  return static_cast<double>((end.vpn - start.vpn).value()) /
         static_cast<double>(whole.span.value());
}

Payback::Payback(std::size_t most_moves) : most_moves_(most_moves) { TMPROF_CHECK(most_moves > 0); }

Payback::Watched::iterator Payback::Settle(Watched::iterator watched, SettledCause cause) {
  SettledMove& move = watched->second;
  by_age_.erase({move.moved_in, watched->first});
  const auto of_target = watched_of_.find(move.key.target);
  if (--of_target->second == 0) watched_of_.erase(of_target);
  move.cause = cause;
  settled_.push_back(move);
  return watched_.erase(watched);
}

void Payback::Note(const MoveOutcome& outcome, std::uint64_t epoch) {
  if (outcome.error != 0) return;
  const Move& move = outcome.move;
  const PageKey page = move.page();
  const PageKey end = EndOf(page, move.span);
  const auto end_of = [](const Watched::value_type& watched) {
    return EndOf(watched.first, watched.second.span);
  };
  auto at = watched_.lower_bound(page);
  if (at != watched_.begin() && end_of(*std::prev(at)) > page) --at;
  while (at != watched_.end() && at->first < end) at = Settle(at, SettledCause::kMoved);
  if (watched_.size() == most_moves_) {
    Settle(watched_.find(by_age_.begin()->second), SettledCause::kForgotten);
  }
  watched_.emplace(
      page,
      SettledMove{
          .key = move.key, .span = move.span, .from = move.from, .to = move.to, .moved_in = epoch});
  by_age_.emplace(epoch, page);
  ++watched_of_[move.key.target];
}

void Payback::Observe(std::uint64_t epoch, std::span<const SeenSpan> spans, Elsewhere elsewhere,
                      const PageOwners& owners) {
  auto span = spans.begin();
  for (auto& [page, move] : watched_) {
    if (move.moved_in >= epoch) continue;  // it was elsewhere for part of the epoch
    ++move.epochs;
    if (!owners.KeepsName({move.key, move.span}, page)) continue;
    while (span != spans.end() && EndOf(span->key, span->span) <= page) ++span;
    bool known = elsewhere == Elsewhere::kUnseen;
    const PageKey end = EndOf(page, move.span);
    // The last of them may reach into the next move.
    for (auto within = span; within != spans.end() && within->key < end; ++within) {
      const double share = ShareWithin(*within, page, end);
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
