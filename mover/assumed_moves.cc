// SPDX-License-Identifier: Apache-2.0

#include "mover/assumed_moves.h"

#include <algorithm>
#include <iterator>

namespace tmprof {
namespace {

// Returns the parts of `runs` that lie within any of `present`. Both ascend.
std::vector<PlacedRun> Present(const std::vector<PlacedRun>& runs,
                               const std::vector<PlacedRun>& present) {
  std::vector<PlacedRun> left;
  auto next = present.begin();
  for (const PlacedRun& run : runs) {
    while (next != present.end() && next->pages.end <= run.pages.start) ++next;
    for (auto at = next; at != present.end() && at->pages.start < run.pages.end; ++at) {
      PlacedRun part = run;
      part.pages = {std::max(run.pages.start, at->pages.start),
                    std::min(run.pages.end, at->pages.end)};
      left.push_back(part);
    }
  }
  return left;
}

Vpn EndOfLeaf(Vpn vpn, PageCount leaf) {
  return Vpn((vpn.value() + leaf.value() - 1) / leaf.value() * leaf.value());
}

}  // namespace

Result<std::vector<PlacedRun>> AssumedMoves::Locate(Pid pid, VpnRange range,
                                                    std::span<const VpnRange> joint) {
  auto real = real_->Locate(pid, range, joint);
  const auto known = ids_.find(pid);
  if (!real || known == ids_.end()) return real;
  const TargetId target = known->second;
  // Pages that left memory come back at a place of the kernel's choice.
  const std::vector<PlacedRun> to = Present(moved_.to.Within(target, range), *real);
  if (!moved_.to.RunsOf(target).empty()) {
    const std::vector<PlacedRun> from = Present(moved_.from.Within(target, range), *real);
    moved_.to.Learn(target, range, to);
    moved_.from.Learn(target, range, from);
  }
  if (to.empty()) return real;
  // A leaf is where its first page is.
  std::vector<PlacedRun> assumed;
  const auto add = [&assumed](PlacedRun run, Vpn start, Vpn end, NodeId node) {
    if (start >= end) return;
    run.pages = {start, end};
    run.node = node;
    assumed.push_back(run);
  };
  auto next = to.begin();
  for (const PlacedRun& run : *real) {
    Vpn done = run.pages.start;
    for (; next != to.end() && next->pages.start < run.pages.end; ++next) {
      const Vpn start = std::max(done, EndOfLeaf(next->pages.start, run.leaf));
      const Vpn end = std::min(EndOfLeaf(next->pages.end, run.leaf), run.pages.end);
      if (start >= end) continue;
      add(run, done, start, run.node);
      add(run, start, end, next->node);
      done = end;
    }
    add(run, done, run.pages.end, run.node);
  }
  return assumed;
}

void AssumedMoves::Follow(std::span<const SurveyedTarget> targets) {
  for (const auto& [pid, id] : ids_) {
    const auto stays = std::ranges::lower_bound(targets, id, {}, &SurveyedTarget::id);
    if (stays != targets.end() && stays->id == id) continue;
    moved_.to.Forget(id);
    moved_.from.Forget(id);
  }
  ids_.clear();
  for (const SurveyedTarget& target : targets) {
    ids_[target.pid] = target.id;
    moved_.to.KeepOnly(target.id, target.mapped);
    moved_.from.KeepOnly(target.id, target.mapped);
  }
}

void AssumedMoves::Rename(std::span<const Renamed> pages) {
  moved_.to.Rename(pages);
  moved_.from.Rename(pages);
}

void AssumedMoves::Suppose(TargetId target, VpnRange pages, NodeId from, NodeId to,
                           PageCount leaf) {
  // Pages that were moved before in the simulation were never really on `from`.
  std::vector<PlacedRun> origins;
  Vpn done = pages.start;
  for (const PlacedRun& before : moved_.from.Within(target, pages)) {
    if (done < before.pages.start) {
      origins.push_back({{done, before.pages.start}, from, leaf});
    }
    origins.push_back(before);
    done = before.pages.end;
  }
  if (done < pages.end) origins.push_back({{done, pages.end}, from, leaf});
  moved_.from.Learn(target, pages, origins);
  moved_.to.Learn(target, pages, std::vector{PlacedRun{pages, to, leaf}});
}

std::vector<TargetId> AssumedMoves::Targets() const {
  std::vector<TargetId> targets;
  for (const auto& [pid, id] : ids_) targets.push_back(id);
  return targets;
}

void AssumedMoves::Undo(PlacementMap& map) {
  for (const TargetId target : Targets()) {
    for (const auto& [start, run] : moved_.from.RunsOf(target)) {
      std::vector<PlacedRun> known = map.Within(target, run.pages);
      for (PlacedRun& back : known) back.node = run.node;
      map.Learn(target, run.pages, known);
    }
  }
  moved_ = {};
}

std::int64_t AssumedMoves::PagesGained(NodeId node) const {
  std::int64_t gained = 0;
  for (const TargetId target : Targets()) {
    for (const auto& [start, run] : moved_.from.RunsOf(target)) {
      if (run.node == node) gained += static_cast<std::int64_t>(run.pages.size().value());
    }
    for (const auto& [start, run] : moved_.to.RunsOf(target)) {
      if (run.node == node) gained -= static_cast<std::int64_t>(run.pages.size().value());
    }
  }
  return gained;
}

}  // namespace tmprof
