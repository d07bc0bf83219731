// SPDX-License-Identifier: Apache-2.0
// The part of the scan engine that clears all targets of a memory cgroup at once, by ageing it.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "profiler/sources/abit/memcg_ageing.h"
#include "profiler/sources/abit/scan_engine.h"

namespace tmprof::abit {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The scanner looks at each block three times, for 10 us each.
constexpr std::size_t kMostBlocksOfAgeing = 4096;
// A group is one of the targets' own if others hold no larger part of its memory: a shell beside
// them does no harm.
constexpr double kMostForeign = 1.0 / 8;
// Others may hold a larger part of a group whose memory has changed by more since its survey.
constexpr double kMostChange = 1.0 / 8;
constexpr PageCount kChangeOfNoMatter{256};
// A target is not reached if fewer of its bits are gone right after the ageing. A program would
// have to set the others again within some milliseconds.
constexpr double kFewestAged = 0.25;
// Ageing waits for the other targets of a group: their ladders end and their budgets recover first.
// Some budget is always spent where they are many, so that it waits for so many of the last rung.
constexpr int kMostRungsWaited = 4;
// An ageing is repeated once for nodes with such a part of a target's bits: see AgeGroup().
constexpr double kLeastShareOfNode = 1.0 / 16;

}  // namespace

// Ageings of another group do not count as the ones before.
void ScanEngine::SetGroup(ScanTarget& target, const std::string& path) {
  if (target.whole.group == path) return;
  target.whole.group = path;
  for (const BlockPtr& block : target.blocks)
    if (block->ageing) block->ageing->number = 0;
}

// Another target of the group has found that it has to wait.
bool ScanEngine::AgeingHasToWait(ScanTarget& target, MonotonicTime now) {
  const AgedGroup* aged = aged_groups_.Find(target.whole.group);
  if (aged == nullptr || now < target.whole.no_ageing_before || aged->plan_again <= now)
    return false;
  target.whole.not_before = std::max(target.whole.not_before, aged->plan_again);
  return true;
}

// nullopt: ageing does not come into question for this target. A plan for later is not checked
// against all conditions.
std::optional<ScanEngine::AgeingPlan> ScanEngine::PlanAgeing(ScanTarget& target,
                                                             const MemcgAgeing::Group& group,
                                                             MonotonicTime now) {
  SetGroup(target, group.path);
  std::set<std::string> in_use;
  for (const auto& [id, other] : targets_)
    if (other->watched()) in_use.insert(other->whole.group);
  AgedGroup& aged = aged_groups_.Add(group.path, in_use, now);
  if (now < aged.not_before) return std::nullopt;
  const auto refuse = [&](AgeingTrouble trouble, const std::string& reason) {
    CannotAge(group.path, trouble,
              fmt::format("the memory of cgroup {} is not aged: {}", group.path, reason));
    return std::nullopt;
  };
  const auto refuse_walk = [&](std::size_t pages) {
    return refuse(AgeingTrouble::kTooMuchMemory,
                  fmt::format("a walk of {} pages would take more than {} ms", pages,
                              kLongestAgeing / milliseconds(1)));
  };
  if (group.is_root()) {
    return refuse(AgeingTrouble::kForeign,
                  "a program needs a cgroup of its own, such as 'systemd-run --scope' makes");
  }
  const std::size_t walked = WalkedBy(group).value();
  if (aged.price.Takes(walked) > kLongestAgeing) return refuse_walk(walked);

  AgeingPlan plan{.path = group.path, .members = {}, .held = group.held};
  plan.not_before = aged.RestsUntil();
  const bool has_waited = now - aged.at >= kMostRungsWaited * LastRung();
  std::set<Pid> in_group;
  for (const MemcgAgeing::Member& member : group.members) in_group.insert(member.pid);
  std::size_t entries = 0;
  std::size_t blocks = 0;
  PageCount pages;
  PageCount in_need;
  for (const auto& [id, other] : targets_) {
    if (!other->watched() || !in_group.contains(other->process.pid)) continue;
    const bool is_ready =
        LaddersOfWholeHaveEnded(*other, now) && tmprof_budget_free(&other->budget) > 0;
    if (other.get() != &target && !is_ready && !has_waited)
      plan.not_before = std::max(plan.not_before, now + kAfterBusyWhole);
    WholeNeed need = NeedOf(*other, now);
    entries += need.entries;
    pages += need.pages;
    blocks += need.members.size();
    if (now >= other->whole.no_ageing_before) in_need += need.in_need - need.refused;
    plan.members.push_back({.target = other.get(), .need = std::move(need)});
  }
  // The survey is older than the targets' blocks, and counts pages that were not looked at yet.
  plan.walked = std::max<std::size_t>(entries, walked);
  const nanoseconds takes = aged.price.Takes(plan.walked);
  if (kWorthWhole * in_need.value() < pages.value()) return std::nullopt;
  if (takes > kLongestAgeing) return refuse_walk(plan.walked);
  if (blocks > kMostBlocksOfAgeing) {
    return refuse(AgeingTrouble::kTooMuchMemory,
                  fmt::format("its targets have {} blocks of up to 2 MiB, and {} may be looked at",
                              blocks, kMostBlocksOfAgeing));
  }
  if (now < plan.not_before) return plan;
  if (const double foreign = ForeignShareOf(group); foreign > kMostForeign) {
    return refuse(AgeingTrouble::kForeign,
                  fmt::format("{:.1f} % of it belong to others than the targets, and {:.1f} % may",
                              100 * foreign, 100 * kMostForeign));
  }
  if (const auto pressure =
          options_.clear_under_pressure ? std::nullopt : options_.ageing->Pressure(plan.path))
    return refuse(AgeingTrouble::kPressure, "it is short, and " + *pressure);
  return plan;
}

// The kernel walks a target's page tables to report what it has.
double ScanEngine::ForeignShareOf(const MemcgAgeing::Group& group) {
  std::set<Pid> in_group;
  for (const MemcgAgeing::Member& member : group.members) in_group.insert(member.pid);
  std::map<Pid, PageCount> ours;
  for (const auto& [id, target] : targets_) {
    const Pid pid = target->process.pid;
    if (!target->watched() || !in_group.contains(pid)) continue;
    const nanoseconds own_cpu_before = kernel_.OwnCpuTime();
    if (const auto pages = options_.ageing->ProportionalOf(pid)) ours[pid] = *pages;
    const nanoseconds took = kernel_.OwnCpuTime() - own_cpu_before;
    if (target->clock.running_threads() > 0)
      ChargeTarget(*target, static_cast<std::uint64_t>(took.count()), 0);
  }
  return ForeignShare(group, ours);
}

// One ageing counts as a clear of each target of the plan. True: this target is cleared.
bool ScanEngine::VisitByAgeing(ScanTarget& target, const AgeingPlan& plan, MonotonicTime now) {
  AgedGroup& group = aged_groups_.At(plan.path);
  if (now < plan.not_before) {
    target.whole.not_before = plan.not_before;
    group.plan_again = std::min(plan.not_before, now + kAfterBusyWhole);
    return false;
  }
  const nanoseconds own_cpu_before = kernel_.OwnCpuTime();
  std::vector<Aged> all = PrepareAgeing(plan, now);
  std::vector<Pid> watched;
  for (const auto& [id, each] : targets_)
    if (each->watched()) watched.push_back(each->process.pid);
  const auto present = options_.ageing->PresentIn(plan.path, watched);
  if (!present) {
    CannotAge(plan.path, AgeingTrouble::kFailed, present.error().Message());
    return false;
  }
  const bool holds = StillHolds(plan, target, *present);
  if (!holds) options_.ageing->Distrust(plan.path);
  if (!holds || std::ranges::all_of(all, [](const Aged& aged) { return aged.ready.empty(); })) {
    target.whole.not_before = std::max(target.whole.not_before,
                                       now + (holds ? kAfterBusyWhole : MemcgAgeing::kSurveyLasts));
    return false;
  }
  CutShortWhoJoined(plan, *present);
  const std::uint64_t number = ++group.number;
  std::optional<AgeingRun> run = AgeUntilReached(plan, all, number, now);
  if (run) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Aged& aged = all[i];
      RejectUnaged(*aged.target, plan, std::move(run->looks[i]), number, aged.ready);
      aged.target->whole.took = run->took;
      if (aged.ready.empty()) continue;
      ++whole_by_ageing_;
      OpenWhole(*aged.target, aged.ready, aged.began, aged.ended);
      FlushWhole(*aged.target);
    }
  }
  group.at = kernel_.Now();
  group.took = kernel_.OwnCpuTime() - own_cpu_before;
  return run && now >= target.whole.no_ageing_before;
}

// All exposures of the plan's targets end.
std::vector<ScanEngine::Aged> ScanEngine::PrepareAgeing(const AgeingPlan& plan, MonotonicTime now) {
  std::vector<Aged> all;
  for (const AgeingPlan::Member& member : plan.members) {
    ScanTarget& each = *member.target;
    SetGroup(each, plan.path);
    // Blocks that are set aside may still have an exposure.
    for (const BlockPtr& block : each.blocks)
      if (!block->Clearable(now)) CutShort(each, *block);
    Aged aged{.target = &each,
              .ready = ReadyForWhole(each, member.need.members),
              .began = {},
              .ended = {}};
    if (each.watched()) aged.began = TimeOf(each);
    all.push_back(std::move(aged));
  }
  return all;
}

// False: the group has other members than when the ageing was planned, or others may hold a larger
// part of it.
bool ScanEngine::StillHolds(const AgeingPlan& plan, const ScanTarget& target,
                            const MemcgAgeing::Present& present) const {
  if (!present.inside.contains(target.process.pid)) return false;
  for (const AgeingPlan::Member& member : plan.members)
    if (present.outside.contains(member.target->process.pid)) return false;
  const PageCount change = std::max(present.held, plan.held) - std::min(present.held, plan.held);
  return change <= kChangeOfNoMatter || static_cast<double>(change.value()) <=
                                            kMostChange * static_cast<double>(plan.held.value());
}

// Exposures of targets that are no part of the plan end, because their bits go, too.
void ScanEngine::CutShortWhoJoined(const AgeingPlan& plan, const MemcgAgeing::Present& present) {
  for (const auto& [id, target] : targets_) {
    if (!present.inside.contains(target->process.pid)) continue;
    if (std::ranges::find(plan.members, target.get(), &AgeingPlan::Member::target) !=
        plan.members.end())
      continue;
    for (const BlockPtr& block : target->blocks) CutShort(*target, *block);
  }
}

// nullopt: the kernel refused.
std::optional<ScanEngine::AgeingRun> ScanEngine::AgeUntilReached(const AgeingPlan& plan,
                                                                 std::vector<Aged>& all,
                                                                 std::uint64_t number,
                                                                 MonotonicTime now) {
  AgeingRun run;
  std::size_t entries = 0;
  for (const Aged& aged : all)
    for (const BlockPtr& block : aged.ready) entries += block->in_view;
  const std::size_t walked = std::max(plan.walked, entries);
  AgedGroup& group = aged_groups_.At(plan.path);
  bool is_retry = false;
  for (bool again = true; again; is_retry = true) {
    const nanoseconds own_cpu_before = kernel_.OwnCpuTime();
    const Status done = options_.ageing->Age(plan.path);
    run.latest_took = kernel_.OwnCpuTime() - own_cpu_before;
    run.took += run.latest_took;
    ++ageings_;
    ChargeForAgeing(all, run.latest_took, walked);
    for (Aged& aged : all)
      if (aged.target->watched()) aged.ended = TimeOf(*aged.target);
    if (!done) {
      CannotAge(plan.path, AgeingTrouble::kFailed, done.error().Message());
      return std::nullopt;
    }
    run.looks.clear();
    again = false;
    for (const Aged& aged : all) {
      run.looks.push_back(LookAfterAgeing(*aged.target, aged.ready, number));
      if (now < aged.target->whole.no_ageing_before) continue;
      for (const std::optional<NodeId> node : run.looks.back().FailedNodes()) {
        MonotonicTime& no_retry_before = group.no_retry_before[node];
        if (is_retry) {
          no_retry_before = now + kRetryRefused;
        } else {
          again |= now >= no_retry_before;
        }
      }
    }
  }
  group.price.Learn(run.latest_took, walked);
  if (run.latest_took > kLongestAgeing) {
    CannotAge(plan.path, AgeingTrouble::kTookTooLong,
              fmt::format("ageing the memory of cgroup {} took {:.0f} ms, and is left for a minute "
                          "each time that it takes more than {} ms",
                          plan.path, 1e-6 * static_cast<double>(run.latest_took.count()),
                          kLongestAgeing / milliseconds(1)));
  }
  return run;
}

// A target on a CPU may wait for locks of its page tables, and for lines of them.
void ScanEngine::ChargeForAgeing(const std::vector<Aged>& all, nanoseconds took,
                                 std::size_t walked) {
  for (const Aged& aged : all) {
    std::size_t of_it = 0;
    for (const BlockPtr& block : aged.ready) of_it += block->in_view;
    if (aged.target->clock.running_threads() > 0)
      ChargeTarget(*aged.target, static_cast<std::uint64_t>(took.count()) * of_it / walked, 0);
  }
}

// Precondition: the view shows the block as it is after the ageing.
std::vector<ScanEngine::AgedPart> ScanEngine::PartsAfterAgeing(const ScanTarget& target,
                                                               const BlockPtr& block) const {
  std::vector<VpnRange> ranges = block->mappings;
  if (ranges.empty()) ranges.push_back(block->range);
  std::vector<AgedPart> parts;
  for (const VpnRange& range : ranges) {
    const auto& mappings = target.process.mappings;
    const auto mapping = std::ranges::upper_bound(
        mappings, range.start, {}, [](const Mapping& each) { return each.range.end; });
    const Vpn start = mapping == mappings.end() ? range.start : mapping->range.start;
    std::map<std::optional<NodeId>, AgedPart> by_node;
    for (Vpn page = range.start; page < range.end; page = page + block->unit) {
      const std::size_t unit = (page - block->range.start).value() / block->unit.value();
      if (!view_.present[unit]) continue;
      // The lowest bits of a huge entry's frame hold attributes.
      const std::uint64_t pages = block->unit.value();
      const std::uint64_t frame = view_.frame[unit] / pages * pages;
      const std::optional<NodeId> node = options_.ageing->NodeOf(frame);
      AgedPart& part = by_node
                           .try_emplace(node, AgedPart{.block = block,
                                                       .mapping = start,
                                                       .node = node,
                                                       .set = {},
                                                       .frames = {},
                                                       .writable = {},
                                                       .gone = {}})
                           .first->second;
      part.any_unset |= !view_.accessed[unit];
      if (!block->set_before[unit]) continue;
      if (!view_.accessed[unit]) {
        part.gone.push_back(unit);
        continue;
      }
      part.set.push_back(unit);
      part.frames.push_back(frame);
      part.writable.push_back(view_.writable[unit] != 0);
    }
    for (auto& [node, part] : by_node) parts.push_back(std::move(part));
  }
  return parts;
}

ScanEngine::AgedLook ScanEngine::LookAfterAgeing(ScanTarget& target,
                                                 const std::vector<BlockPtr>& ready,
                                                 std::uint64_t number) {
  AgedLook look;
  for (const BlockPtr& block : ready) {
    if (block->dropped) continue;
    if (block->set_before_count == 0) {
      look.blocks.push_back(block);
      continue;
    }
    if (!Read(target, *block)) continue;
    if (view_.shape_changed) {
      Drop(target, *block);
      continue;
    }
    for (AgedPart& part : PartsAfterAgeing(target, block)) {
      AgedLook::Tally& tally = look.by_node[part.node];
      tally.set_before += part.set.size() + part.gone.size();
      tally.gone += part.gone.size();
      if (!part.gone.empty()) {
        Vpn& reached_to = look.reached_to.try_emplace({part.mapping, part.node}, block->range.start)
                              .first->second;
        reached_to = std::max(reached_to, block->range.start);
      }
      look.parts.push_back(std::move(part));
    }
    look.blocks.push_back(block);
  }
  for (const AgedPart& part : look.parts)
    if (part.all_set() && HasReached(look, part, number))
      look.by_node[part.node].gone += part.set.size();
  return look;
}

bool ScanEngine::AgedLook::Tally::has_failed() const {
  return static_cast<double>(gone) < kFewestAged * static_cast<double>(set_before);
}

ScanEngine::AgedLook::Tally ScanEngine::AgedLook::All() const {
  Tally all;
  for (const auto& [node, tally] : by_node) {
    all.set_before += tally.set_before;
    all.gone += tally.gone;
  }
  return all;
}

std::vector<std::optional<NodeId>> ScanEngine::AgedLook::FailedNodes() const {
  const auto least = kLeastShareOfNode * static_cast<double>(All().set_before);
  std::vector<std::optional<NodeId>> failed;
  for (const auto& [node, tally] : by_node)
    if (tally.has_failed() && static_cast<double>(tally.set_before) >= least)
      failed.push_back(node);
  return failed;
}

bool ScanEngine::StayedSetBefore(const AgedPart& part, std::size_t unit,
                                 std::uint64_t number) const {
  const AgeingMarks* marks = part.block->ageing.get();
  return marks != nullptr && marks->number != 0 && marks->number + 1 == number &&
         marks->stayed_set[unit];
}

// True: the walk of the part's node came by its page table. All base pages of a mapping in a page
// table are then reached, but for those that ReachOf() tells of.
//
// If no bit of a part has gone, it counts as reached on these conditions: all its pages are set, it
// was so after the ageing before, and the mapping was reached on that node in a later table,
// because the walk may end at any boundary of 1 GiB. A lock is hardly held at two ageings in a row,
// but pages that are always accessed meanwhile look like that each time. Without a flush, kernels
// before 6.12 may pass by a table twice: they do so until a CPU reads the entry above it anew.
bool ScanEngine::HasReached(const AgedLook& look, const AgedPart& part,
                            std::uint64_t number) const {
  if (!part.node) return false;
  if (!part.gone.empty()) return true;
  const auto reached = look.reached_to.find({part.mapping, part.node});
  return options_.can_flush && part.all_set() && reached != look.reached_to.end() &&
         part.block->range.start < reached->second &&
         std::ranges::all_of(
             part.set, [&](std::size_t unit) { return StayedSetBefore(part, unit, number); });
}

// A page that was set before and is set right after the ageing was accessed again, or not reached.
// It counts only if it is known to be reached. Huge pages are locked some at a time, so that each
// of them counts only if its own bit has gone before. `ready` becomes the blocks that were reached.
void ScanEngine::RejectUnaged(ScanTarget& target, const AgeingPlan& plan, AgedLook look,
                              std::uint64_t number, std::vector<BlockPtr>& ready) {
  ready.clear();
  std::map<Block*, UnitSet> stayed_set;
  for (const AgedPart& part : look.parts) {
    Block& block = *part.block;
    if (!block.ageing) block.ageing = std::make_unique<AgeingMarks>();
    AgeingMarks& marks = *block.ageing;
    for (const std::size_t unit : part.gone) marks.has_gone.set(unit);
    UnitSet& stayed = stayed_set[&block];
    const bool is_reached = HasReached(look, part, number);
    const bool is_huge = block.unit != PageCount(1);
    std::vector<AgeingReach> reach(part.set.size(), AgeingReach::kNo);
    if (is_reached) reach = options_.ageing->ReachOf(plan.path, part.frames);
    for (std::size_t i = 0; i < part.set.size(); ++i) {
      const std::size_t unit = part.set[i];
      stayed.set(unit);
      const bool has_gone = marks.has_gone[unit];
      const bool is_known = !is_huge || has_gone;
      if (is_known &&
          (reach[i] == AgeingReach::kYes || (reach[i] == AgeingReach::kUnknown && has_gone)))
        continue;
      Reject(part.block, unit, part.frames[i], part.writable[i]);
      block.set_before.reset(unit);
      --block.set_before_count;
    }
  }
  for (const auto& [block, stayed] : stayed_set) {
    block->ageing->stayed_set = stayed;
    block->ageing->number = number;
  }
  std::erase_if(look.blocks, [](const BlockPtr& block) { return block->dropped; });
  if (target.gone || target.mappings_stale) return;
  if (look.All().has_failed()) {
    ++ageings_without_effect_;
    target.whole.no_ageing_before = kernel_.Now() + kRetryRefused;
    SayOnce(
        aged_groups_.At(plan.path), AgeingTrouble::kWithoutEffect,
        fmt::format("ageing the memory of cgroup {} cleared {} of {} bits of process {}, which "
                    "waits a minute for the next",
                    plan.path, look.All().gone, look.All().set_before, target.process.pid.value()));
    return;
  }
  ready = std::move(look.blocks);
}

void ScanEngine::SayOnce(AgedGroup& group, AgeingTrouble trouble, const std::string& text) {
  if (group.said.insert(trouble).second) ageing_notes_.push_back(text);
}

void ScanEngine::SayWhyNoGroupIsKnown() {
  const auto reason = options_.ageing->Trouble();
  if (!reason || *reason == no_group_because_) return;
  no_group_because_ = *reason;
  ageing_notes_.push_back("no memory cgroup is aged: " + *reason);
}

void ScanEngine::CannotAge(const std::string& path, AgeingTrouble trouble,
                           const std::string& reason) {
  AgedGroup& group = aged_groups_.At(path);
  group.not_before = kernel_.Now() + kRetryRefused;
  SayOnce(group, trouble, reason);
}

}  // namespace tmprof::abit
