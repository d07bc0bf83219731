// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/placer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "mover/move_calibration.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

// Far longer than any cool-down that helps, so that pages that go to and fro are noticed.
constexpr std::uint64_t kLeastEpochsRemembered = 60;
// Pages that are shared, mapped by others or not the process's own now may become movable later.
// The backoff of pages that are busy again and again, such as pinned memory, doubles each time, up
// to this.
constexpr std::uint64_t kBackoffEpochs = 60;
// Pages looked for together although not all of them are asked for: one more costs less than a
// call.
constexpr std::uint64_t kGapWorthLooking = 64;
// Time is read between looks. This many pages take some milliseconds (LinuxPageLocator).
constexpr std::uint64_t kMostLookedForTogether = 16384;
// Number of pages that are assumed to have cost kAssumedNsPerPage (mover/page_mover.h) before any
// were seen to move.
constexpr double kAssumedPages = 1000;
// Weight of what was seen, an epoch later.
constexpr double kRemembered = 0.9;

// A page that is busy or out of room may be moved soon; so may one that was bound meanwhile, as far
// as its binding lets it. What else is refused stays so.
bool MayMoveSoon(int error) {
  return error == EBUSY || error == EAGAIN || error == ENOMEM || error == ECANCELED ||
         error == ESRCH || error == kPolicyChanged;
}

std::vector<TargetId> IdsOf(std::span<const PlacedTarget> targets) {
  std::vector<TargetId> ids;
  ids.reserve(targets.size());
  for (const PlacedTarget& target : targets) ids.push_back(target.id);
  return ids;
}

std::uint64_t EpochsRemembered(const PlacerOptions& options) {
  return std::max(options.cool_down_epochs + 1, kLeastEpochsRemembered);
}

// Those whose pages may have to give way.
TierSet Limited(const PlacerOptions& options) {
  TierSet limited;
  limited.set(kTier1.value());
  for (std::size_t i = 0; i < options.lower_capacities.size(); ++i) {
    limited[i + 2] = !std::holds_alternative<FreeCapacity>(options.lower_capacities[i]);
  }
  return limited;
}

const PlacedTarget* Find(std::span<const PlacedTarget> targets, TargetId id) {
  const auto found = std::ranges::lower_bound(targets, id, {}, &PlacedTarget::id);
  return found != targets.end() && found->id == id ? &*found : nullptr;
}

class CandidateResidency final : public Residency {
 public:
  CandidateResidency(const Candidates& candidates, const Tiers& tiers)
      : candidates_(&candidates), tiers_(&tiers) {}

  void InTier1(std::span<const std::uint32_t> rows,
               std::vector<std::uint8_t>& answers) const override {
    answers.resize(rows.size());
    std::ranges::transform(rows, answers.begin(), [&](std::uint32_t row) -> std::uint8_t {
      const std::optional<NodeId> node = candidates_->node[row];
      return node && tiers_->TierOf(*node) == kTier1 ? 1 : 0;
    });
  }

 private:
  const Candidates* candidates_;
  const Tiers* tiers_;
};

}  // namespace

Placer::Placer(PlacerOptions options, PageLocator& locator, const Clock& cpu_clock)
    : options_(std::move(options)),
      locator_(locator),
      cpu_clock_(&cpu_clock),
      policy_(options_.policy->make()),
      ranker_(options_.ranker),
      survey_(cpu_clock),
      rooms_(options_.reserve),
      history_(EpochsRemembered(options_)) {}

void Placer::Configure(PlacerOptions options) {
  TMPROF_CHECK(options.tiers == options_.tiers);
  if (options.policy != options_.policy) policy_ = options.policy->make();
  if (!options.dry_run) locator_.Undo(map_);
  options_ = std::move(options);
  ranker_.Configure(options_.ranker);
  rooms_.SetReserve(options_.reserve);
  history_.Remember(EpochsRemembered(options_));
}

PlacementDecision Placer::Decide(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                                 std::span<const NodeMemory> memory) {
  const auto look_for =
      std::chrono::duration_cast<std::chrono::nanoseconds>(epoch.length() * options_.survey_share);
  PlacementDecision decision;
  FollowTargets(epoch, targets);
  Survey(targets, look_for);
  ranker_.Absorb(epoch);
  decision.rank = RankNow();
  decided_ = epoch.end;
  ranked_by_ = decision.rank;
  FollowAges(epoch);
  ranker_.Score(decision.rank, scores_, &rowless_);
  const std::vector<TargetId> ids = IdsOf(targets);
  RankCandidates(targets);
  const std::vector<NodeRoom> rooms = RoomsAt(memory, epoch.end);
  decision.capacity = CapacityNow(ids, rooms);
  decision.lower_capacities = LowerCapacities(ids);
  if (LookForTheBest(targets, decision.capacity, look_for)) {
    decision.capacity = CapacityNow(ids, rooms);
    decision.lower_capacities = LowerCapacities(ids);
    RankCandidates(targets);
  }

  const CandidateResidency residency(candidates_, options_.tiers);
  const Plan plan = MakePlan(*policy_, candidates_.key, ranking_, residency, decision.capacity);
  for (const PlannedSpan& span : plan.wanted) decision.wanted += span.span;
  MapperBindings mappers(targets, options_.tiers, owners_);
  const PlacedSpan::OthersLet mappers_let = [&mappers](const PlacedSpan& span, NodeId to) {
    return mappers.Let({span.key, span.span}, span.node, to);
  };
  const std::vector<PlacedSpan> placed = PlacedSpans(targets, epoch.index, mappers, mappers_let);
  decision.hit_ratio = HitRatio(placed);
  const MoveRules rules{
      .capacity = decision.capacity,
      .lower_capacities = decision.lower_capacities,
      .most_pages = options_.most_pages,
      .cost_of_move = options_.cost_of_move.value_or(0),
      .cost_from_tier = options_.cost_of_move ? std::vector<double>{} : CostsOfMove(epoch.length()),
      .hysteresis = options_.hysteresis,
      .cool_down_epochs = options_.cool_down_epochs,
      .page_of = [this](PageKey key) { return owners_.NameOf(key); }};
  const MoveDecision moves =
      DecideMoves(options_.tiers, rules, plan, placed, rooms, history_, epoch.index);
  decision.moves = LeafByLeaf(moves.moves, epoch.index);
  decision.gain = Gain(decision.moves, placed);
  decision.saved_per_second = SavedPerSecond(decision, epoch.length());
  decision.looked_at = LookedAt(ids);
  decision.not_moved = moves.not_moved;
  return decision;
}

void Placer::FollowAges(const EpochProfile& epoch) {
  if (!ages_.Follows(epoch.end)) return;
  std::vector<AccessAges::Span> accessed;
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    if (!epoch.pages.WasSeenAccessed(i)) continue;
    const PageKey key = epoch.pages.key(i);
    accessed.push_back(
        {owners_.MapsJoint(key.target) ? owners_.NameOf(key) : key, epoch.pages.span_pages[i]});
  }
  ages_.AddEpoch(epoch.end, std::move(accessed), known_targets_);
}

std::vector<HotSpan> Placer::Hottest(std::size_t most) {
  ages_.Ask(decided_);
  std::vector<HotSpan> spans;
  if (ranking_.size() == 0 || most == 0) return spans;
  const Estimates estimates = ranker_.Estimate(ranked_by_);
  const EvidenceTable& table = ranker_.table();
  // The error of a row is that of a part of it, too. The errors of several rows are not added up.
  const auto error_of = [&](PageKey key, PageCount pages) -> std::optional<double> {
    const auto after = std::ranges::upper_bound(table.key, key);
    if (after == table.key.begin()) return std::nullopt;
    const auto row = static_cast<std::size_t>(std::distance(table.key.begin(), after)) - 1;
    const bool covers = PageKey{key.target, key.vpn + pages} <= EndOf(table, row);
    if (!covers || !std::isfinite(estimates.relative_sd[row])) return std::nullopt;
    return estimates.relative_sd[row];
  };
  for (std::size_t place = 0; place < std::min(most, ranking_.size()); ++place) {
    const std::size_t row = ranking_.Row(place);
    const PageKey key = candidates_.key[row];
    HotSpan& span =
        spans.emplace_back(key, PageCount(candidates_.span_pages[row]), candidates_.score[row]);
    span.assumed = candidates_.assumed[row] != 0;
    span.joint = candidates_.joint[row] != 0;
    if (!span.assumed) span.relative_sd = error_of(key, span.pages);
    span.node = candidates_.node[row];
    if (span.node) span.tier = options_.tiers.TierOf(*span.node);
    const auto seen =
        ages_.LastSeen(owners_.MapsJoint(key.target) ? owners_.NameOf(key) : key, span.pages);
    if (seen) span.age = decided_ - *seen;
  }
  return spans;
}

RankSource Placer::RankNow() const {
  if (options_.rank != RankSource::kMemory) return options_.rank;
  return BasisOf(RankWeight::kMemory,
                 {.memory = ranker_.TellsMemory(),
                  .memory_samples_alone = ranker_.MemorySamplesAlone()},
                 RankUse::kPlace)
      .source;
}

void Placer::FollowTargets(const EpochProfile& epoch, std::span<const PlacedTarget> targets) {
  FollowOwners(epoch, targets);
  std::vector<TargetId> known = IdsOf(targets);
  const std::vector<TargetId> files = owners_.Files();
  known.insert(known.end(), files.begin(), files.end());
  for (const TargetId id : std::exchange(known_targets_, std::move(known))) {
    if (std::ranges::binary_search(known_targets_, id)) continue;
    map_.Forget(id);
    history_.Forget(id);
    std::erase_if(backoffs_, [id](const auto& page) { return page.first.target == id; });
  }
}

// A page without an owner is looked for through the first mapping through which it was seen
// accessed.
void Placer::FollowOwners(const EpochProfile& epoch, std::span<const PlacedTarget> targets) {
  shared_.AddEpoch(epoch);
  shared_.KeepOnly(IdsOf(targets));
  std::vector<PageOwners::Mapper> mappers;
  for (const PlacedTarget& target : targets) mappers.push_back({target.id, target.joins_segments});
  TakeOver(owners_.Follow(shared_, mappers));
  if (!owners_.SharesAny()) return;
  PageOwners::Changes seen;
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    // The access to a region was to one of its pages, and nobody knows which.
    if (!IsOneEntry(epoch.pages.span_pages[i]) || !owners_.MapsJoint(epoch.pages.target[i]) ||
        !epoch.pages.WasSeenAccessed(i)) {
      continue;
    }
    for (const Renamed& change :
         owners_.Seen({epoch.pages.key(i), PageCount(epoch.pages.span_pages[i])})) {
      Append(seen, change);
    }
  }
  // The places of these pages were found through another mapping.
  for (const auto& [from, to, pages] : seen) {
    const auto place = map_.Find(from);
    const std::uint64_t leaf = place ? place->leaf.value() : 1;
    const Vpn end = to->vpn + pages;
    LookAgainAt(to->target,
                {Vpn(to->vpn.value() / leaf * leaf), Vpn((end.value() + leaf - 1) / leaf * leaf)});
  }
  TakeOver(seen);
}

void Placer::TakeOver(const PageOwners::Changes& changes) {
  if (changes.empty()) return;
  map_.Rename(changes);
  locator_.Rename(changes);
}

void Placer::Survey(std::span<const PlacedTarget> targets, std::chrono::nanoseconds look_for) {
  std::vector<SurveyedTarget> surveyed;
  for (const PlacedTarget& target : targets) {
    map_.KeepOnly(target.id, target.mapped);
    surveyed.push_back({target.id, target.pid, target.mapped, target.resident});
  }
  locator_.Follow(surveyed);
  LookAgain(targets, look_for);
  survey_.LookOn(surveyed, look_for, [this](const SurveyedTarget& target, VpnRange pages) {
    Look(target.id, target.pid, pages);
  });
}

bool Placer::Look(TargetId target, Pid pid, VpnRange pages) {
  auto runs = locator_.Locate(pid, pages, owners_.JointIn(target, pages));
  if (!runs) return false;
  PageOwners::Changes changes = owners_.Found(target, pages, *runs);
  // Assumed moves of pages that are no longer there are forgotten, and so are their places.
  if (options_.dry_run) {
    for (Renamed& change : changes) change.to.reset();
  }
  TakeOver(changes);
  map_.Learn(target, pages, *runs);
  return !runs->empty();
}

void Placer::LookAgainAt(TargetId target, VpnRange pages) {
  for (Vpn start = pages.start; start < pages.end;) {
    const Vpn end = std::min(pages.end, start + PageCount(kMostLookedForTogether));
    if (!look_again_.empty() && look_again_.back().CanHold({target, {start, end}})) {
      look_again_.back().pages.end = std::max(look_again_.back().pages.end, end);
    } else {
      look_again_.push_back({target, {start, end}});
    }
    start = end;
  }
}

bool Placer::Sought::CanHold(const Sought& next) const {
  return target == next.target && pages.start <= next.pages.start &&
         next.pages.start <= pages.end + PageCount(kGapWorthLooking) &&
         pages.size() < PageCount(kMostLookedForTogether);
}

// Targets that are not looked at now are looked at with the next epoch's.
void Placer::LookAgain(std::span<const PlacedTarget> targets, std::chrono::nanoseconds look_for) {
  const MonotonicTime began = cpu_clock_->Now();
  std::erase_if(look_again_, [targets](const Sought& sought) {
    return Find(targets, sought.target) == nullptr;
  });
  const auto key = [](const Sought& sought) { return PageKey{sought.target, sought.pages.start}; };
  std::ranges::sort(look_again_, {}, key);
  auto next = look_again_.begin();
  while (next != look_again_.end()) {
    Sought both = *next++;
    for (; next != look_again_.end() && both.CanHold(*next); ++next) {
      both.pages.end = std::max(both.pages.end, next->pages.end);
    }
    Look(both.target, Find(targets, both.target)->pid, both.pages);
    if (cpu_clock_->Now() - began >= look_for) break;
  }
  look_again_.erase(look_again_.begin(), next);
}

void Placer::RankCandidates(std::span<const PlacedTarget> targets) {
  rows_.Take(ranker_.table(), scores_, owners_, rowless_);
  FindCandidates(rows_, map_, targets, options_.tiers, Limited(options_), candidates_);
  ranking_.Reset({candidates_.span_pages, candidates_.score});
}

bool Placer::LookForTheBest(std::span<const PlacedTarget> targets, PageCount capacity,
                            std::chrono::nanoseconds look_for) {
  std::vector<std::size_t> unknown;
  PageCount best;
  for (std::size_t place = 0; best < capacity; ++place) {
    const std::size_t row = ranking_.Row(place);
    if (row == Ranking::kNone) break;
    best += PageCount(candidates_.span_pages[row]);
    if (!candidates_.node[row]) unknown.push_back(row);
  }
  std::ranges::sort(unknown);
  bool found = false;
  const MonotonicTime began = cpu_clock_->Now();
  for (std::size_t i = 0; i < unknown.size();) {
    if (cpu_clock_->Now() - began >= look_for) break;
    const PageKey first = candidates_.key[unknown[i]];
    Vpn end = first.vpn;
    for (; i < unknown.size(); ++i) {
      const PageKey key = candidates_.key[unknown[i]];
      if (key.target != first.target || key.vpn > end + PageCount(kGapWorthLooking)) break;
      end = key.vpn + PageCount(candidates_.span_pages[unknown[i]]);
    }
    found |= Look(first.target, Find(targets, first.target)->pid, {first.vpn, end});
  }
  return found;
}

std::vector<NodeRoom> Placer::RoomsAt(std::span<const NodeMemory> memory, MonotonicTime now) {
  std::vector<NodeRoom> rooms = rooms_.At(memory, now);
  for (NodeRoom& room : rooms) {
    const auto free =
        static_cast<std::int64_t>(room.free.value()) + locator_.PagesGained(room.node);
    room.free = PageCount(static_cast<std::uint64_t>(std::max<std::int64_t>(free, 0)));
  }
  return rooms;
}

PageCount Placer::CapacityNow(std::span<const TargetId> targets,
                              std::span<const NodeRoom> rooms) const {
  if (const auto limit = LimitOf(options_.capacity, targets, kTier1)) return *limit;
  PageCount capacity = PagesIn(targets, kTier1);
  for (const NodeRoom& room : rooms) {
    if (options_.tiers.TierOf(room.node) == kTier1) capacity += room.free;
  }
  return capacity;
}

PageCount Placer::Footprint(std::span<const TargetId> targets) const {
  PageCount footprint;
  for (const TargetId target : targets) {
    for (const auto& [start, run] : map_.RunsOf(target)) footprint += run.pages.size();
  }
  return footprint;
}

std::vector<std::optional<PageCount>> Placer::LowerCapacities(
    std::span<const TargetId> targets) const {
  std::vector<std::optional<PageCount>> capacities;
  for (const Capacity& capacity : options_.lower_capacities) {
    const Tier tier(static_cast<Tier::rep>(capacities.size() + 2));
    capacities.push_back(LimitOf(capacity, targets, tier));
  }
  return capacities;
}

std::optional<PageCount> Placer::LimitOf(const Capacity& capacity,
                                         std::span<const TargetId> targets, Tier tier) const {
  if (const auto* pages = std::get_if<PageCount>(&capacity)) return *pages;
  const auto* ratio = std::get_if<Ratio>(&capacity);
  if (ratio == nullptr) return std::nullopt;
  PageCount limit = CapacityAt(*ratio, Footprint(targets));
  for (const TargetId& target : targets) {
    if (survey_.IsComplete(target)) continue;
    const std::span<const TargetId> one(&target, 1);
    const PageCount share = CapacityAt(*ratio, Footprint(one));
    const PageCount used = PagesIn(one, tier);
    if (used > share) limit += used - share;
  }
  return limit;
}

PageCount Placer::PagesIn(std::span<const TargetId> targets, Tier tier) const {
  PageCount pages;
  for (const TargetId target : targets) pages += map_.PagesIn(target, options_.tiers, tier);
  return pages;
}

std::optional<double> Placer::HitRatio(std::span<const PlacedSpan> placed) const {
  double all = 0;
  double hit = 0;
  for (const PlacedSpan& span : placed) {
    if (span.assumed) continue;
    all += span.score;
    if (options_.tiers.TierOf(span.node) == kTier1) hit += span.score;
  }
  if (all > 0) return hit / all;
  return std::nullopt;
}

std::optional<double> Placer::Gain(std::span<const Move> moves,
                                   std::span<const PlacedSpan> placed) const {
  double all = 0;
  for (const PlacedSpan& span : placed) all += span.assumed ? 0 : span.score;
  double gained = 0;
  for (const Move& move : moves) {
    // The last that begins at or before it: spans are disjoint.
    const auto span = std::prev(std::ranges::upper_bound(placed, move.key, {}, &PlacedSpan::key));
    if (span->assumed) continue;
    if (options_.tiers.TierOf(move.to) == kTier1) gained += move.score;
    if (options_.tiers.TierOf(move.from) == kTier1) gained -= move.score;
  }
  if (all > 0) return gained / all;
  return std::nullopt;
}

double Placer::LookedAt(std::span<const TargetId> targets) const {
  const PageCount placed = Footprint(targets);
  if (placed == PageCount(0)) return 0;
  PageCount looked_at;
  for (const TargetId target : targets) {
    for (auto row = rows_.Of(target); !row.AtEnd(); row.Next()) {
      if (row->looked_at) looked_at += row->pages.size();
    }
  }
  // Pages that have gone since are remembered for a while.
  return std::min(1.0,
                  static_cast<double>(looked_at.value()) / static_cast<double>(placed.value()));
}

std::vector<PlacedSpan> Placer::PlacedSpans(std::span<const PlacedTarget> targets,
                                            std::uint64_t epoch, MapperBindings& mappers,
                                            const PlacedSpan::OthersLet& mappers_let) {
  std::erase_if(backoffs_,
                [epoch](const auto& page) { return page.second.until + kBackoffEpochs <= epoch; });
  std::vector<PlacedSpan> placed;
  placed.reserve(candidates_.size());
  const PlacedTarget* target = nullptr;
  for (std::size_t row = 0; row < candidates_.size(); ++row) {
    if (!candidates_.node[row]) continue;
    const PageKey key = candidates_.key[row];
    if (target == nullptr || target->id != key.target) target = Find(targets, key.target);
    PlacedSpan& span = placed.emplace_back(key, PageCount(candidates_.span_pages[row]),
                                           *candidates_.node[row], candidates_.score[row]);
    if (candidates_.leaf[row] < span.span) span.leaf = candidates_.leaf[row];
    span.assumed = candidates_.assumed[row] != 0;
    const PageOwners::Pages pages{key, span.span};
    const bool may_be_joint = candidates_.joint[row] != 0;
    if (target->binding == nullptr ||
        target->binding->HasUnread({key.vpn, key.vpn + PageCount(1)}) ||
        (may_be_joint && !mappers.AreKnown(pages))) {
      span.held = Held::kUnread;
    } else if (may_be_joint && !options_.moves_joint && owners_.JointPages(pages) > PageCount(0)) {
      span.held = Held::kShared;
    } else {
      span.held = HeldOf(key, epoch);
    }
    span.binding = target->binding;
    if (may_be_joint && mappers.MayBind(pages)) span.others_let = &mappers_let;
  }
  return placed;
}

std::vector<Move> Placer::LeafByLeaf(std::span<const Move> moves, std::uint64_t epoch) const {
  std::vector<Move> leaves;
  std::map<TargetId, std::optional<FilePlace>> files;
  for (const Move& move : moves) {
    const std::optional<PlacedRun> run = map_.Find(move.key);
    const PageCount leaf = run ? std::min(run->leaf, move.span) : move.span;
    Move one = move;
    one.span = leaf;
    const bool was_joint = run && run->joint;
    one.score =
        move.score * static_cast<double>(leaf.value()) / static_cast<double>(move.span.value());
    const Vpn end = move.key.vpn + move.span;
    for (; one.key.vpn < end; one.key.vpn = one.key.vpn + leaf) {
      if (HeldOf(one.key, epoch) != Held::kNot) continue;
      one.joint = was_joint && owners_.JointPages({one.key, leaf}) == leaf;
      leaves.push_back(one);
      const PageKey page = owners_.NameOf(one.key);
      if (page == one.key) continue;
      leaves.back().shared_page = page;
      if (!one.joint) continue;
      const auto [file, is_new] = files.try_emplace(page.target);
      if (is_new) file->second = shared_.PlaceOf(page);
      leaves.back().file = file->second;
      if (file->second) leaves.back().file->offset = PageCount(page.vpn.value());
    }
  }
  return leaves;
}

std::vector<double> Placer::CostsOfMove(std::chrono::nanoseconds epoch_length) const {
  const double ns_per_page =
      (moving_ns_ + kAssumedNsPerPage * kAssumedPages) / (moved_pages_ + kAssumedPages);
  const double epochs = std::chrono::duration<double>(kPaybackTime) / epoch_length;
  std::vector<double> costs;
  for (std::size_t tier = 2; tier <= options_.tiers.size(); ++tier) {
    const double gained_ns = options_.gaps.Of(Tier(static_cast<Tier::rep>(tier))).ns;
    costs.push_back(ns_per_page / (gained_ns * epochs));
  }
  return costs;
}

std::optional<double> Placer::SavedPerSecond(const PlacementDecision& decision,
                                             std::chrono::nanoseconds epoch_length) const {
  if (!ScoresAreAccesses(options_.ranker.model, decision.rank)) return std::nullopt;
  constexpr double kSecondsOfNs = 1e-9;
  double saved = 0;
  for (const Move& move : decision.moves) {
    const std::optional<Tier> from = options_.tiers.TierOf(move.from);
    const std::optional<Tier> to = options_.tiers.TierOf(move.to);
    if (from && *from != kTier1) saved += move.score * options_.gaps.Of(*from).ns;
    if (to && *to != kTier1) saved -= move.score * options_.gaps.Of(*to).ns;
  }
  return saved * kSecondsOfNs / std::chrono::duration<double>(epoch_length).count();
}

void Placer::LearnRefusal(const MoveOutcome& refused, std::uint64_t epoch) {
  if (refused.attempts == 0) return;
  const Move& move = refused.move;
  // Another process may have mapped a shared page since, or its owner lost it.
  const bool is_remapped = move.shared_page && (refused.error == EACCES || refused.error == ENOENT);
  if (is_remapped) {
    LookAgainAt(move.key.target, {move.key.vpn, move.key.vpn + move.span});
  }
  // A huge page may find no room in one piece where there is enough for base pages.
  const bool is_busy = is_remapped || refused.error == EBUSY || refused.error == EAGAIN ||
                       (refused.error == ENOMEM && !IsOutOfMemory(move, refused.error));
  if (!is_busy && MayMoveSoon(refused.error)) return;
  const auto [known, is_first] = backoffs_.try_emplace(move.page());
  Backoff& backoff = known->second;
  backoff.mapped_elsewhere = refused.error == EACCES;
  if (!is_busy) {
    backoff.epochs = kBackoffEpochs;
  } else if (!is_first) {
    backoff.epochs = std::clamp<std::uint64_t>(2 * backoff.epochs, 1, kBackoffEpochs);
  }
  backoff.until = epoch + backoff.epochs;
}

Held Placer::HeldOf(PageKey leaf, std::uint64_t epoch) const {
  if (backoffs_.empty()) return Held::kNot;
  const auto found = backoffs_.find(owners_.NameOf(leaf));
  if (found == backoffs_.end() || epoch >= found->second.until) return Held::kNot;
  return found->second.mapped_elsewhere ? Held::kMappedElsewhere : Held::kBackoff;
}

std::uint64_t Placer::Learn(std::span<const MoveOutcome> outcomes, std::uint64_t epoch) {
  std::uint64_t undone = 0;
  moving_ns_ *= kRemembered;
  moved_pages_ *= kRemembered;
  for (const MoveOutcome& outcome : outcomes) {
    const Move& move = outcome.move;
    const VpnRange range{move.key.vpn, move.key.vpn + move.span};
    // Huge pages are split where they find no room in one piece, and may then move in part.
    if (move.span > PageCount(1) && outcome.attempts > 0) LookAgainAt(move.key.target, range);
    const bool is_assumed = options_.dry_run && outcome.error == ECANCELED;
    if (outcome.error != 0 && !is_assumed) {
      const bool tried = outcome.attempts > 0;
      if (tried && IsOutOfMemory(move, outcome.error)) rooms_.Refuse(move.to);
      LearnRefusal(outcome, epoch);
      continue;
    }
    backoffs_.erase(move.page());
    if (std::ranges::binary_search(known_targets_, move.key.target) && IsOwner(move.key)) {
      if (is_assumed) {
        locator_.Suppose(move.key.target, range, move.from, move.to, move.span);
      }
      const PlacedRun run{range, move.to, move.span, move.joint};
      map_.Learn(move.key.target, range, std::vector{run});
    }
    const std::optional<Tier> from = options_.tiers.TierOf(move.from);
    const std::optional<Tier> to = options_.tiers.TierOf(move.to);
    if (from && to && history_.Note(move.page(), *from, *to, epoch)) ++undone;
    if (is_assumed) continue;
    moving_ns_ += static_cast<double>(outcome.latency.count());
    moved_pages_ += static_cast<double>(move.span.value());
  }
  history_.ForgetOld(epoch);
  return undone;
}

}  // namespace tmprof
