// SPDX-License-Identifier: Apache-2.0

#include "mover/move_planner.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::size_t kUnplaced = static_cast<std::size_t>(-1);

// What may give way: a span, or what is left of it.
struct Resident {
  std::size_t row;
  PageCount left;
};

PageCount LessOrNone(PageCount pages, PageCount less) {
  return pages > less ? pages - less : PageCount(0);
}

double Density(const PlacedSpan& span) {
  return span.score / static_cast<double>(span.span.value());
}

bool MayGo(const PlacedSpan& span, NodeId to) {
  return span.binding == nullptr || span.binding->MayMove(span.key.vpn, span.node, to);
}

// What is left to fill, as moves are decided.
class Room {
 public:
  Room(const Tiers& tiers, std::span<const NodeRoom> room) : tiers_(&tiers) {
    for (const NodeRoom& node : room) {
      if (free_.size() <= node.node.value()) free_.resize(node.node.value() + std::size_t{1});
      free_[node.node.value()] = node.free;
    }
  }

  void AddCapacity(PageCount pages) { capacity_left_ += pages; }
  std::optional<NodeId> InTier1(const PlacedSpan& span) const {
    if (IsShortOfCapacity(span.span)) return std::nullopt;
    return RoomiestOf(kTier1, span, span.span);
  }
  bool IsShortOfCapacity(PageCount pages) const { return capacity_left_ < pages; }
  // What must at least leave tier 1 before it fits in.
  PageCount ShortOf(const PlacedSpan& span) const {
    PageCount most_free;
    for (const NodeId node : tiers_->NodesOf(kTier1)) {
      if (node.value() < free_.size() && MayGo(span, node)) {
        most_free = std::max(most_free, free_[node.value()]);
      }
    }
    return std::max(LessOrNone(span.span, capacity_left_), LessOrNone(span.span, most_free));
  }
  // For so many pages of it.
  std::optional<NodeId> BelowTier1(const PlacedSpan& span, PageCount pages) const {
    for (std::size_t tier = 2; tier <= tiers_->size(); ++tier) {
      const std::optional<NodeId> node =
          RoomiestOf(Tier(static_cast<std::uint8_t>(tier)), span, pages);
      if (node) return node;
    }
    return std::nullopt;
  }
  void Demote(const Move& move) {
    Of(move.to) -= move.span;
    Of(move.from) += move.span;
    if (move.reason == MoveReason::kRoom) capacity_left_ += move.span;
  }
  // What a promotion leaves is free only after all demotions.
  void Promote(const Move& move) {
    Of(move.to) -= move.span;
    capacity_left_ -= move.span;
  }

 private:
  PageCount& Of(NodeId node) {
    if (free_.size() <= node.value()) free_.resize(node.value() + std::size_t{1});
    return free_[node.value()];
  }
  std::optional<NodeId> RoomiestOf(Tier tier, const PlacedSpan& span, PageCount pages) const {
    std::optional<NodeId> best;
    for (const NodeId node : tiers_->NodesOf(tier)) {
      if (node.value() >= free_.size() || free_[node.value()] < pages) continue;
      if (!MayGo(span, node)) continue;
      const bool more = !best || free_[node.value()] > free_[best->value()] ||
                        (free_[node.value()] == free_[best->value()] && node < *best);
      if (more) best = node;
    }
    return best;
  }

  const Tiers* tiers_;
  PageCount capacity_left_;      // of tier 1
  std::vector<PageCount> free_;  // by node number
};

class Decider {
 public:
  Decider(const Tiers& tiers, const MoveRules& rules, std::span<const PlacedSpan> placed,
          std::span<const NodeRoom> room, const MoveHistory& history, std::uint64_t epoch)
      : tiers_(&tiers),
        rules_(&rules),
        placed_(placed),
        history_(&history),
        epoch_(epoch),
        room_(tiers, room) {}

  MoveDecision Decide(const Plan& plan) {
    const std::vector<std::size_t> rows = RowsOf(plan);
    FindResidents(rows);
    LowerToCapacity();
    for (const std::size_t row : rows) Promote(row);
    decision_.moves.insert(decision_.moves.end(), promotions_.begin(), promotions_.end());
    return std::move(decision_);
  }

 private:
  enum class Verdict { kTaken, kWithoutGain, kWithoutRoom, kOverQuota };

  bool IsInTier1(std::size_t row) const { return tiers_->TierOf(placed_[row].node) == kTier1; }

  // Where any of its leaves is: spans are cut and joined from one epoch to the next.
  bool IsCooling(std::size_t row) const {
    if (rules_->cool_down_epochs == 0) return false;
    const PlacedSpan& span = placed_[row];
    const PageCount step = span.leaf == PageCount(0) ? span.span : span.leaf;
    for (PageCount at; at < span.span; at += step) {
      const std::optional<std::uint64_t> since =
          history_->EpochsSince({span.key.target, span.key.vpn + at}, epoch_);
      if (since && *since < rules_->cool_down_epochs) return true;
    }
    return false;
  }

  bool MayComeToTier1(const PlacedSpan& span) const {
    return std::ranges::any_of(tiers_->NodesOf(kTier1),
                               [&span](NodeId node) { return MayGo(span, node); });
  }

  bool MayLeaveTier1(const PlacedSpan& span) const {
    for (std::size_t tier = 2; tier <= tiers_->size(); ++tier) {
      for (const NodeId node : tiers_->NodesOf(Tier(static_cast<std::uint8_t>(tier)))) {
        if (MayGo(span, node)) return true;
      }
    }
    return false;
  }

  // Of what is wanted, in the plan's order.
  std::vector<std::size_t> RowsOf(const Plan& plan) const {
    std::vector<std::size_t> by_key(plan.wanted.size());
    std::iota(by_key.begin(), by_key.end(), std::size_t{0});
    std::ranges::sort(by_key, {}, [&](std::size_t i) { return plan.wanted[i].key; });
    std::vector<std::size_t> rows(plan.wanted.size(), kUnplaced);
    std::size_t row = 0;
    for (const std::size_t wanted : by_key) {
      const PageKey key = plan.wanted[wanted].key;
      while (row < placed_.size() && placed_[row].key < key) ++row;
      if (row < placed_.size() && placed_[row].key == key) rows[wanted] = row;
    }
    return rows;
  }

  // What is in tier 1 and may give way, the first to go last.
  void FindResidents(const std::vector<std::size_t>& wanted_rows) {
    std::vector<bool> wanted(placed_.size());
    for (const std::size_t row : wanted_rows) {
      if (row != kUnplaced) wanted[row] = true;
    }
    for (std::size_t row = 0; row < placed_.size(); ++row) {
      if (!IsInTier1(row)) continue;
      used_ += placed_[row].span;
      if (wanted[row] || placed_[row].bound || !MayLeaveTier1(placed_[row]) || IsCooling(row))
        continue;
      residents_.push_back({row, placed_[row].span});
    }
    std::ranges::sort(residents_, [&](const Resident& a, const Resident& b) {
      const double left = Density(placed_[a.row]);
      const double right = Density(placed_[b.row]);
      return left != right ? left > right : placed_[a.row].key < placed_[b.row].key;
    });
  }

  // How much of a resident gives way where so much is to: whole leaves.
  PageCount GivenBy(const Resident& resident, PageCount needed) const {
    const std::uint64_t leaf = placed_[resident.row].leaf.value();
    if (leaf == 0) return resident.left;
    const std::uint64_t leaves = (needed.value() + leaf - 1) / leaf;
    return std::min(PageCount(leaves * leaf), resident.left);
  }

  // Of the highest pages of what is left.
  Move GivingWay(const Resident& resident, PageCount pages, NodeId to, MoveReason reason) const {
    const PlacedSpan& span = placed_[resident.row];
    const Vpn first = span.key.vpn + (resident.left - pages);
    return {.key = {span.key.target, first},
            .span = pages,
            .from = span.node,
            .to = to,
            .score = Density(span) * static_cast<double>(pages.value()),
            .reason = reason};
  }

  void LowerToCapacity() {
    while (used_ > rules_->capacity && !residents_.empty()) {
      Resident& last = residents_.back();
      const PageCount quota = LessOrNone(rules_->most_pages, pages_moved_);
      const PageCount pages = GivenBy(last, std::min(used_ - rules_->capacity, quota));
      const std::optional<NodeId> to = room_.BelowTier1(placed_[last.row], pages);
      if (!to || pages == PageCount(0) || pages > quota) break;
      decision_.moves.push_back(GivingWay(last, pages, *to, MoveReason::kOverCapacity));
      room_.Demote(decision_.moves.back());
      pages_moved_ += pages;
      used_ -= pages;
      last.left -= pages;
      if (last.left == PageCount(0)) residents_.pop_back();
    }
    if (used_ < rules_->capacity) room_.AddCapacity(rules_->capacity - used_);
  }

  void Promote(std::size_t row) {
    if (row == kUnplaced || !tiers_->TierOf(placed_[row].node)) {
      ++decision_.not_moved.unplaced;
      return;
    }
    if (IsInTier1(row)) return;
    if (placed_[row].bound || !MayComeToTier1(placed_[row])) {
      ++decision_.not_moved.bound;
      return;
    }
    if (IsCooling(row)) {
      ++decision_.not_moved.cooling;
      return;
    }
    switch (TryToPromote(placed_[row])) {
      case Verdict::kTaken:
        break;
      case Verdict::kWithoutGain:
        ++decision_.not_moved.without_gain;
        break;
      case Verdict::kWithoutRoom:
        ++decision_.not_moved.without_room;
        break;
      case Verdict::kOverQuota:
        ++decision_.not_moved.over_quota;
        break;
    }
  }

  bool Beats(const PlacedSpan& span, const PlacedSpan& other) const {
    const double gain = Density(span) - Density(other);
    return gain > 0 && gain >= 2 * rules_->cost_of_move &&
           Density(span) >= rules_->hysteresis * Density(other);
  }

  // Where tier 1 may have more, only what leaves a node that the span may go to.
  bool MakesRoom(const Resident& resident, const PlacedSpan& span, const Room& room) const {
    return room.IsShortOfCapacity(span.span) || MayGo(span, placed_[resident.row].node);
  }

  // All or nothing: what would give way stays where not enough of it can.
  Verdict TryToPromote(const PlacedSpan& span) {
    if (Density(span) < rules_->cost_of_move) return Verdict::kWithoutGain;
    Room room = room_;
    PageCount pages = pages_moved_ + span.span;
    std::vector<Move> giving_way;
    struct Given {
      std::size_t place;  // among the residents
      PageCount left;     // of it, afterwards
    };
    std::vector<Given> giving;
    std::size_t place = residents_.size();
    Resident next{.row = kUnplaced, .left = PageCount(0)};
    std::optional<NodeId> to = room.InTier1(span);
    while (!to) {
      while (next.left == PageCount(0) || !MakesRoom(next, span, room)) {
        if (place == 0) return Verdict::kWithoutRoom;
        next = residents_[--place];
      }
      if (!Beats(span, placed_[next.row])) return Verdict::kWithoutGain;
      const PageCount given = GivenBy(next, room.ShortOf(span));
      const std::optional<NodeId> below = room.BelowTier1(placed_[next.row], given);
      if (!below) return Verdict::kWithoutRoom;
      pages += given;
      giving_way.push_back(GivingWay(next, given, *below, MoveReason::kRoom));
      room.Demote(giving_way.back());
      next.left -= given;
      giving.push_back({place, next.left});
      to = room.InTier1(span);
    }
    if (pages > rules_->most_pages) return Verdict::kOverQuota;
    promotions_.push_back({span.key, span.span, span.node, *to, span.score, MoveReason::kWanted});
    room.Promote(promotions_.back());
    decision_.moves.insert(decision_.moves.end(), giving_way.begin(), giving_way.end());
    for (const Given& given : giving) residents_[given.place].left = given.left;
    residents_.erase(
        std::remove_if(residents_.begin() + static_cast<std::ptrdiff_t>(place), residents_.end(),
                       [](const Resident& r) { return r.left == PageCount(0); }),
        residents_.end());
    room_ = room;
    pages_moved_ = pages;
    return Verdict::kTaken;
  }

  const Tiers* tiers_;
  const MoveRules* rules_;
  std::span<const PlacedSpan> placed_;
  const MoveHistory* history_;
  std::uint64_t epoch_;
  Room room_;
  PageCount used_;                   // of tier 1
  PageCount pages_moved_;            // as decided so far
  std::vector<Resident> residents_;  // the first to give way last
  std::vector<Move> promotions_;
  MoveDecision decision_;
};

}  // namespace

MoveDecision DecideMoves(const Tiers& tiers, const MoveRules& rules, const Plan& plan,
                         std::span<const PlacedSpan> placed, std::span<const NodeRoom> room,
                         const MoveHistory& history, std::uint64_t epoch) {
  TMPROF_CHECK(std::ranges::is_sorted(placed, {}, &PlacedSpan::key));
  return Decider(tiers, rules, placed, room, history, epoch).Decide(plan);
}

}  // namespace tmprof
