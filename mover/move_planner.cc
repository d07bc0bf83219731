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

// A span that may give way, or the rest of it.
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
  const VpnRange pages{span.key.vpn, span.key.vpn + span.span};
  if (span.binding != nullptr && !span.binding->MayMove(pages, span.node, to)) return false;
  return span.others_let == nullptr || (*span.others_let)(span, to);
}

// Spans on a node of tier 1. The first one to give way is last.
struct Stack {
  NodeId node;
  std::vector<Resident> residents;
};

// The room that is left as moves are decided.
class Room {
 public:
  Room(const Tiers& tiers, std::span<const NodeRoom> room) : tiers_(&tiers), left_(tiers.size()) {
    for (const NodeRoom& node : room) {
      if (free_.size() <= node.node.value()) free_.resize(node.node.value() + std::size_t{1});
      free_[node.node.value()] = node.free;
    }
  }

  // Precondition: the tier has a capacity.
  void SetCapacityLeft(Tier tier, PageCount pages) { Left(tier) = pages; }
  std::optional<NodeId> InTier1(const PlacedSpan& span) const {
    return HasCapacity(kTier1, span.span) ? RoomiestOf(kTier1, span, span.span) : std::nullopt;
  }
  // True if no allowed node has room, whatever the capacity is.
  bool IsShortOfNode(const PlacedSpan& span) const { return !RoomiestOf(kTier1, span, span.span); }
  // Returns how much must leave this node before the span fits in, or tier 1 if only its capacity
  // is short.
  PageCount ShortOf(const PlacedSpan& span, NodeId node) const {
    const PageCount capacity = LessOrNone(span.span, left_.front().value_or(span.span));
    if (!IsShortOfNode(span)) return capacity;
    const PageCount free = node.value() < free_.size() ? free_[node.value()] : PageCount(0);
    return std::max(capacity, LessOrNone(span.span, free));
  }
  // Returns a node below the span's tier with room for so many of its pages.
  std::optional<NodeId> Below(const PlacedSpan& span, PageCount pages) const {
    for (std::size_t number = tiers_->TierOf(span.node)->value() + std::size_t{1};
         number <= tiers_->size(); ++number) {
      const Tier tier(static_cast<Tier::rep>(number));
      if (!HasCapacity(tier, pages)) continue;
      const std::optional<NodeId> node = RoomiestOf(tier, span, pages);
      if (node) return node;
    }
    return std::nullopt;
  }
  void Demote(const Move& move) {
    Of(move.to) -= move.span;
    Of(move.from) += move.span;
    Take(*tiers_->TierOf(move.to), move.span);
    if (move.reason == MoveReason::kRoom) *left_.front() += move.span;
  }
  // Promotions free room for others only after all demotions.
  void Promote(const Move& move) {
    Of(move.to) -= move.span;
    Take(kTier1, move.span);
  }

 private:
  std::optional<PageCount>& Left(Tier tier) { return left_[tier.value() - 1U]; }
  bool HasCapacity(Tier tier, PageCount pages) const {
    const std::optional<PageCount>& left = left_[tier.value() - 1U];
    return !left || *left >= pages;
  }
  void Take(Tier tier, PageCount pages) {
    if (std::optional<PageCount>& left = Left(tier)) *left -= pages;
  }
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
  std::vector<std::optional<PageCount>> left_;  // left of each tier's capacity; unset: no limit
  std::vector<PageCount> free_;                 // index: node number
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
    SumUp();
    for (std::size_t tier = tiers_->size(); tier-- > 1;) {
      LowerToCapacity(Tier(static_cast<Tier::rep>(tier)), rows);
    }
    for (const std::size_t row : rows) Promote(row);
    decision_.moves.insert(decision_.moves.end(), promotions_.begin(), promotions_.end());
    return std::move(decision_);
  }

 private:
  enum class Verdict { kTaken, kWithoutGain, kWithoutRoom, kOverQuota };

  std::vector<Resident>& StackOf(NodeId node) {
    const auto known = std::ranges::find(residents_, node, &Stack::node);
    return (known != residents_.end() ? *known : residents_.emplace_back(node)).residents;
  }

  bool IsInTier1(std::size_t row) const { return tiers_->TierOf(placed_[row].node) == kTier1; }

  // True if any of its leaves was moved lately. Spans are cut and joined from one epoch to the
  // next.
  bool IsCooling(std::size_t row) const {
    if (rules_->cool_down_epochs == 0) return false;
    const PlacedSpan& span = placed_[row];
    const PageCount step = span.leaf == PageCount(0) ? span.span : span.leaf;
    for (PageCount at; at < span.span; at += step) {
      const PageKey key{span.key.target, span.key.vpn + at};
      const std::optional<std::uint64_t> since =
          history_->EpochsSince(rules_->page_of ? rules_->page_of(key) : key, epoch_);
      if (since && *since < rules_->cool_down_epochs) return true;
    }
    return false;
  }

  bool MayComeToTier1(const PlacedSpan& span) const {
    return std::ranges::any_of(tiers_->NodesOf(kTier1),
                               [&span](NodeId node) { return MayGo(span, node); });
  }

  bool MayGoBelow(const PlacedSpan& span, Tier from) const {
    for (std::size_t tier = from.value() + std::size_t{1}; tier <= tiers_->size(); ++tier) {
      for (const NodeId node : tiers_->NodesOf(Tier(static_cast<std::uint8_t>(tier)))) {
        if (MayGo(span, node)) return true;
      }
    }
    return false;
  }

  // Returns the rows of wanted pages, in the plan's order.
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

  // Returns the tier's capacity; nullopt: no limit of its own.
  std::optional<PageCount> CapacityOf(Tier tier) const {
    if (tier == kTier1) return rules_->capacity;
    const std::size_t i = tier.value() - 2U;
    return i < rules_->lower_capacities.size() ? rules_->lower_capacities[i] : std::nullopt;
  }

  // Sums up the used pages of each tier and the rest of its capacity, before anything leaves.
  void SumUp() {
    used_.resize(tiers_->size());
    for (const PlacedSpan& span : placed_) {
      if (const auto tier = tiers_->TierOf(span.node)) used_[tier->value() - 1U] += span.span;
    }
    for (std::size_t i = 0; i + 1 < tiers_->size(); ++i) {
      const Tier tier(static_cast<Tier::rep>(i + 1));
      const std::optional<PageCount> capacity = CapacityOf(tier);
      if (capacity) room_.SetCapacityLeft(tier, LessOrNone(*capacity, used_[i]));
    }
  }

  // Finds the spans of the tier that may give way. The first one to go is last.
  void FindResidents(Tier tier, const std::vector<std::size_t>& wanted_rows) {
    std::vector<bool> wanted(placed_.size());
    for (const std::size_t row : wanted_rows) {
      if (row != kUnplaced) wanted[row] = true;
    }
    residents_.clear();
    for (std::size_t row = 0; row < placed_.size(); ++row) {
      const PlacedSpan& span = placed_[row];
      if (tiers_->TierOf(span.node) != tier || wanted[row] || span.held != Held::kNot) continue;
      if (tier != kTier1 && span.assumed) continue;
      if (!MayGoBelow(span, tier) || IsCooling(row)) continue;
      StackOf(span.node).push_back({row, span.span});
    }
    for (Stack& stack : residents_) {
      std::ranges::sort(stack.residents, [this](const Resident& a, const Resident& b) {
        return GoesBefore(placed_[b.row], placed_[a.row]);
      });
    }
  }

  static bool GoesBefore(const PlacedSpan& span, const PlacedSpan& other) {
    const double left = Density(span);
    const double right = Density(other);
    return left != right ? left < right : other.key < span.key;
  }

  // For each node: the number of spans that stay, and the rest of the last one.
  struct Depth {
    std::size_t staying;
    PageCount left;
  };
  std::vector<Depth> Depths() const {
    std::vector<Depth> depths;
    for (const Stack& stack : residents_) depths.push_back(DepthOf(stack, stack.residents.size()));
    return depths;
  }
  static Depth DepthOf(const Stack& stack, std::size_t staying) {
    return {staying, staying > 0 ? stack.residents[staying - 1].left : PageCount(0)};
  }

  // Returns the stack whose next span is the first to give way, among the nodes asked for.
  template <typename IsAskedFor>
  std::optional<std::size_t> FirstToGo(const std::vector<Depth>& depths,
                                       IsAskedFor is_asked_for) const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < residents_.size(); ++i) {
      if (depths[i].staying == 0 || !is_asked_for(residents_[i].node)) continue;
      if (!first || GoesBefore(NextOf(i, depths[i]), NextOf(*first, depths[*first]))) first = i;
    }
    return first;
  }
  const PlacedSpan& NextOf(std::size_t stack, const Depth& depth) const {
    return placed_[residents_[stack].residents[depth.staying - 1].row];
  }

  // Drops a span that found no room below. It cannot find any later in this decision, because room
  // only shrinks.
  void Drop(std::size_t stack) { residents_[stack].residents.pop_back(); }

  // Returns how many pages of a resident give way if `needed` are wanted: whole leaves.
  PageCount GivenBy(const Resident& resident, PageCount needed) const {
    const std::uint64_t leaf = placed_[resident.row].leaf.value();
    if (leaf == 0) return resident.left;
    const std::uint64_t leaves = (needed.value() + leaf - 1) / leaf;
    return std::min(PageCount(leaves * leaf), resident.left);
  }

  // Makes the move of the highest pages of the rest.
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

  void LowerToCapacity(Tier tier, const std::vector<std::size_t>& wanted_rows) {
    const std::optional<PageCount> capacity = CapacityOf(tier);
    PageCount& used = used_[tier.value() - 1U];
    if (tier != kTier1 && (!capacity || used <= *capacity)) return;
    // Promotions do not wait until a lower tier is down to its capacity.
    const PageCount most =
        tier == kTier1 ? rules_->most_pages : PageCount(rules_->most_pages.value() / 2);
    FindResidents(tier, wanted_rows);
    too_full_.reset();
    const auto any_node = [](NodeId) { return true; };
    while (used > *capacity) {
      const std::optional<std::size_t> first = FirstToGo(Depths(), any_node);
      if (!first) {
        too_full_ = Verdict::kWithoutRoom;
        return;
      }
      std::vector<Resident>& stack = residents_[*first].residents;
      Resident& last = stack.back();
      const PageCount quota = LessOrNone(most, pages_moved_);
      const PageCount pages = GivenBy(last, std::min(used - *capacity, quota));
      if (pages == PageCount(0) || pages > quota) {
        too_full_ = Verdict::kOverQuota;
        return;
      }
      const std::optional<NodeId> to = room_.Below(placed_[last.row], pages);
      if (!to) {
        Drop(*first);
        continue;
      }
      decision_.moves.push_back(GivingWay(last, pages, *to, MoveReason::kOverCapacity));
      room_.Demote(decision_.moves.back());
      pages_moved_ += pages;
      used -= pages;
      last.left -= pages;
      if (last.left == PageCount(0)) stack.pop_back();
    }
    room_.SetCapacityLeft(tier, *capacity - used);
  }

  // Precondition: `held` is not kNot.
  std::uint64_t& CountOf(Held held) {
    switch (held) {
      case Held::kNot:
        break;
      case Held::kUnread:
        return decision_.not_moved.binding_unknown;
      case Held::kShared:
        return decision_.not_moved.shared;
      case Held::kMappedElsewhere:
        return decision_.not_moved.mapped_elsewhere;
      case Held::kBackoff:
        return decision_.not_moved.backoff;
    }
    TMPROF_CHECK(false);
  }

  void Promote(std::size_t row) {
    if (row == kUnplaced || !tiers_->TierOf(placed_[row].node)) {
      ++decision_.not_moved.unplaced;
      return;
    }
    if (IsInTier1(row)) return;
    if (placed_[row].held == Held::kUnread) {
      ++CountOf(Held::kUnread);
      return;
    }
    if (!MayComeToTier1(placed_[row])) {
      ++decision_.not_moved.bound;
      return;
    }
    if (placed_[row].held != Held::kNot) {
      ++CountOf(placed_[row].held);
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

  double CostOfMove(const PlacedSpan& span) const {
    const std::optional<Tier> from = tiers_->TierOf(span.node);
    if (rules_->cost_from_tier.empty() || !from || *from == kTier1) return rules_->cost_of_move;
    return rules_->cost_from_tier[std::min<std::size_t>(from->value() - 2U,
                                                        rules_->cost_from_tier.size() - 1)];
  }

  bool Beats(const PlacedSpan& span, const PlacedSpan& other) const {
    const double gain = Density(span) - Density(other);
    return gain > 0 && gain >= 2 * CostOfMove(span) &&
           Density(span) >= rules_->hysteresis * Density(other);
  }

  // Promotes the span whole or not at all. If too few spans can give way, all of them stay.
  Verdict TryToPromote(const PlacedSpan& span) {
    if (Density(span) < CostOfMove(span)) return Verdict::kWithoutGain;
    if (too_full_) return *too_full_;
    Room room = room_;
    PageCount pages = pages_moved_ + span.span;
    std::vector<Move> giving_way;
    std::vector<Depth> depths = Depths();
    std::optional<NodeId> to = room.InTier1(span);
    while (!to) {
      const bool is_short_of_node = room.IsShortOfNode(span);
      const std::optional<std::size_t> first =
          FirstToGo(depths, [&](NodeId node) { return !is_short_of_node || MayGo(span, node); });
      if (!first) return Verdict::kWithoutRoom;
      Depth& depth = depths[*first];
      const PlacedSpan& next = NextOf(*first, depth);
      if (!Beats(span, next)) return Verdict::kWithoutGain;
      const Resident resident{residents_[*first].residents[depth.staying - 1].row, depth.left};
      const PageCount given = GivenBy(resident, room.ShortOf(span, next.node));
      const std::optional<NodeId> below = room.Below(next, given);
      if (!below) {
        if (room_.Below(next, given)) return Verdict::kWithoutRoom;
        if (depth.staying < residents_[*first].residents.size()) return Verdict::kWithoutRoom;
        Drop(*first);
        depth = DepthOf(residents_[*first], depth.staying - 1);
        continue;
      }
      pages += given;
      giving_way.push_back(GivingWay(resident, given, *below, MoveReason::kRoom));
      room.Demote(giving_way.back());
      depth.left -= given;
      if (depth.left == PageCount(0)) depth = DepthOf(residents_[*first], depth.staying - 1);
      to = room.InTier1(span);
    }
    if (pages > rules_->most_pages) return Verdict::kOverQuota;
    promotions_.push_back({span.key, span.span, span.node, *to, span.score, MoveReason::kWanted});
    room.Promote(promotions_.back());
    decision_.moves.insert(decision_.moves.end(), giving_way.begin(), giving_way.end());
    for (std::size_t i = 0; i < depths.size(); ++i) {
      std::vector<Resident>& stack = residents_[i].residents;
      stack.resize(depths[i].staying);
      if (!stack.empty()) stack.back().left = depths[i].left;
    }
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
  std::vector<PageCount> used_;      // one per tier
  std::optional<Verdict> too_full_;  // why tier 1 stays above its capacity, if it does
  PageCount pages_moved_;            // sum over the moves decided up to now
  std::vector<Stack> residents_;     // one per node of one tier; at the end of tier 1
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
