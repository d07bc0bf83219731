// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/region_engine.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"

namespace tmprof::abit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// 0.25 to 64 ms. A page that was not accessed by then says little more by being waited for, and the
// next page says as much again.
constexpr nanoseconds kFirstRung = microseconds(250);
constexpr std::uint32_t kRungs = 5;
// A ladder's step lasts so long after its last clear; what is affordable comes on top.
constexpr nanoseconds kLadderStep = milliseconds(16);
constexpr nanoseconds kIdleRegionPace = milliseconds(5);
// A target that has not run is asked at growing intervals whether it has.
constexpr nanoseconds kShortestIdleWait = milliseconds(1);
constexpr nanoseconds kLongestIdleWait = milliseconds(256);
constexpr std::uint32_t kMostDoublings = 8;  // a wait doubles so often at most
// Cleared back to back, under the target's mmap_lock: at some 10 us each they take as long as the
// full scan's clear of 8 MiB.
constexpr std::size_t kClearsAtOnce = 16;
constexpr nanoseconds kLongestRegionWait = milliseconds(100);
// Pages picked anew where nothing is mapped, within one step.
constexpr int kPickRounds = 3;
constexpr int kPicksForAMapping = 8;
// A page is given up if its table was in use this many times when it was to be cleared.
constexpr std::uint32_t kMostUnread = 8;
// That single a page out: of a hot range each page has one now and then.
constexpr std::uint64_t kLeastSamples = 2;

__u64 NextOf(void* engine) { return (*static_cast<std::mt19937_64*>(engine))(); }

// The samples of a page in one, of those pages the `most` that have most.
void KeepMostSampled(std::vector<SampleRecord>& samples, std::size_t most) {
  std::ranges::sort(samples, {}, &SampleRecord::key);
  std::size_t pages = 0;
  for (const SampleRecord& sample : samples) {
    if (pages > 0 && samples[pages - 1].key == sample.key) {
      samples[pages - 1].loads += sample.loads;
      samples[pages - 1].stores += sample.stores;
    } else {
      samples[pages++] = sample;
    }
  }
  samples.resize(pages);
  const auto more_sampled = [](const SampleRecord& a, const SampleRecord& b) {
    const std::uint64_t of_a = std::uint64_t{a.loads} + a.stores;
    const std::uint64_t of_b = std::uint64_t{b.loads} + b.stores;
    return of_a != of_b ? of_a > of_b : a.key < b.key;
  };
  std::ranges::sort(samples, more_sampled);
  if (samples.size() > most) samples.resize(most);
}

std::span<tmprof_region> RegionsOf(const tmprof_region_set& set) {
  return {set.regions, set.count};
}

// Returns the pages that the page's entry maps.
VpnRange EntryOf(const RegionProbe& probe) {
  const std::uint64_t unit = probe.unit.value();
  const Vpn start(probe.page.value() / unit * unit);
  return {start, start + probe.unit};
}

}  // namespace

RegionEngine::RegionEngine(AbitKernel& kernel, const ScanOptions& options)
    : TargetedEngine(kernel, options),
      ladder_(options.mode == ScanOptions::Mode::kLadder
                  ? tmprof_ladder_geometric(kFirstRung.count(), kRungs)
                  : tmprof_ladder_plain(options.regions.monitoring_ns)),
      engine_(options.seed),
      random_{.next = NextOf, .context = &engine_} {
  TMPROF_CHECK(tmprof_region_params_check(&options.regions, 0).error == 0);
}

// ---------------------------------------------------------------------------------- the targets

void RegionEngine::Refresh(RegionTarget& target, bool mappings_changed) {
  target.mappings_changed |= mappings_changed;
}

void RegionEngine::Leave(RegionTarget& target) {
  AbandonStep(target);
  TakeEvidence(target, departed_);
}

// The step is abandoned, because its pages would be read at some later time.
void RegionEngine::Pause(RegionTarget& target) {
  AbandonStep(target);
  target.HoldUp(kernel_.Now());
}

MonotonicTime RegionEngine::Step() {
  if (!active_) return kNever;
  const MonotonicTime now = kernel_.Now();
  Watch(now);
  RegionTarget* first = nullptr;
  RegionTarget* first_read = nullptr;
  for (auto& [id, target] : targets_) {
    if (!target->watched()) continue;
    if (pressure_.standing()) target->HoldUp(now);
    if (first == nullptr || target->next < first->next) first = target.get();
    if (target->in_step && (first_read == nullptr || target->next < first_read->next))
      first_read = target.get();
  }
  if (first == nullptr) return kNever;
  // A step that has begun is finished in any case.
  if (first_read != nullptr && first_read->next <= now) {
    if (first_read->clears_next) {
      ClearSome(*first_read);
    } else {
      Read(*first_read);
    }
    return now;
  }
  const MonotonicTime next_read = first_read == nullptr ? kNever : first_read->next;
  if (first->next > now) return std::min(first->next, next_read);
  if (pressure_.standing()) return std::min(next_read, next_watch_);
  if (const MonotonicTime affordable =
          own_budget_.WhenAffordable(now, kernel_.OwnCpuTime(), FirstVisits::kNone);
      affordable > now)
    return std::min(next_read, affordable);
  Begin(*first, now);
  return now;
}

// ------------------------------------------------------------------------------------- a step

// False: nothing can be done with the target now.
bool RegionEngine::Usable(RegionTarget& target, const ReadResult& read) {
  counts_.retries_busy += read.busy_retries;
  counts_.torn += read.torn_tables;
  if (read.outcome == ReadOutcome::kRefused) {
    ComplainOfRead(target, read);
    target.read_refused = true;
    target.next = kernel_.Now() + kRetryRefused;
    target.HoldUp(kernel_.Now());
  }
  if (read.outcome == ReadOutcome::kProcessGone) target.gone = true;
  if (read.outcome != ReadOutcome::kDone) {
    AbandonStep(target);
    return false;
  }
  if (std::exchange(target.read_refused, false)) SettleRefused();
  if (read.address_space == 0) return true;  // no page was mapped
  if (!target.address_space) target.address_space = read.address_space;
  if (*target.address_space == read.address_space) return true;
  const bool replaced = target.RunsAnotherProgram(read.address_space);
  AbandonStep(target);
  if (replaced) Forget(target);
  return false;
}

// Evidence about the previous program is void: it would be taken for evidence about the new
// program's pages at the same addresses.
void RegionEngine::Forget(RegionTarget& target) {
  counts_.observations -= target.observations;
  counts_.lost += std::exchange(target.observations, 0);
  target.set.count = 0;
  target.memory.clear();
  target.seen.Clear();
  target.samples.clear();
  target.mapped.clear();
  target.mappings_changed = true;
}

// The step will not be finished: what was read of it counts, what is watched will not be read.
void RegionEngine::AbandonStep(RegionTarget& target) {
  if (!std::exchange(target.in_step, false)) return;
  for (const RegionProbe& probe : target.probes)
    if (probe.state == TMPROF_UNIT_UNSET) counts_.lost += probe.unit.value();
  Fold(target);
}

// Adds what the step has shown to what is known of the regions.
void RegionEngine::Fold(RegionTarget& target) {
  for (std::uint32_t i = 0; i < target.probes.size(); ++i) {
    const RegionProbe& probe = target.probes[i];
    target.seen.Pick(i, probe.present, probe.absent);
    if (probe.seen) target.seen.See(i, probe.frame);
    if (probe.tally.looks == 0) continue;
    tmprof_region& region = target.set.regions[i];
    region.looks += probe.tally.looks;
    region.references += probe.tally.references;
    region.first_accesses += probe.tally.first_accesses;
    region.at_risk_ns += probe.tally.at_risk_ns * probe.unit.value();
    target.seen.Add(i, probe.tally, probe.unit, probe.frame);
    const std::uint64_t observations = probe.tally.looks * probe.unit.value();
    target.observations += observations;
    counts_.observations += observations;
  }
}

// False: there is nothing to look at.
bool RegionEngine::PrepareRegions(RegionTarget& target, MonotonicTime now) {
  if (target.memory.empty()) {
    const Areas areas = TakeMappings(target);
    target.updated_at = now;
    target.memory.resize(tmprof_regions_capacity(options_.regions.max_regions));
    tmprof_regions_start(&target.set, target.memory.data(), &options_.regions, areas.area.data(),
                         areas.count);
    target.seen.Follow(RegionsOf(target.set));
    target.steps = 0;
    target.took = nanoseconds(0);
    // Two runs of seven found little of a hot range where regions joined by chance
    // (bench/results/regions.md).
    target.set.join_by_chance = false;
    target.held_up = true;
  }
  if (target.set.count > 0) return true;
  if (target.mappings_changed) target.memory.clear();
  return false;
}

// The address space as it is now.
RegionEngine::Areas RegionEngine::TakeMappings(RegionTarget& target) {
  std::vector<tmprof_area> mappings;
  const std::vector<RegionMapping> known = std::exchange(target.mapped, {});
  for (const Mapping& mapping : target.process.mappings) {
    if (mapping.kind == MappingKind::kSpecial || !mapping.accessible) continue;
    mappings.push_back({mapping.range.start.value(), mapping.range.end.value()});
    RegionMapping& now = target.mapped.emplace_back(RegionMapping{.range = mapping.range});
    const auto before = std::ranges::lower_bound(
        known, now.range.start, {}, [](const RegionMapping& other) { return other.range.start; });
    if (before != known.end() && before->range == now.range) now = *before;
  }
  Areas areas;
  areas.count = tmprof_region_areas(mappings.data(), mappings.size(), areas.area.data());
  target.mappings_changed = false;
  return areas;
}

void RegionEngine::Begin(RegionTarget& target, MonotonicTime now) {
  target.next = now + kIdleRegionPace;
  if (target.mappings_stale || !PrepareRegions(target, now)) {
    target.HoldUp(now);
    return;
  }
  const nanoseconds had_used = target.earned_at;
  target.Earn(target.TakeUsed());
  if (target.earned_at == had_used && target.clock.running_threads() == 0) {
    target.idle_wait = std::clamp(2 * target.idle_wait, kShortestIdleWait, kLongestIdleWait);
    target.next = now + target.idle_wait;
    target.HoldUp(now);
    return;
  }
  target.idle_wait = nanoseconds(0);
  if (std::exchange(target.held_up, false)) target.ready_at = now;
  if (const auto left = tmprof_budget_free(&target.budget); left <= 0) {
    target.next = now + WaitToEarn(target.budget.share_ppm, 1 - left, kLongestRegionWait);
    return;
  }
  target.began = now;
  if (!LookUp(target)) return;
  // If the target is off the CPU, the first rungs would have to be waited for.
  if (target.clock.running_threads() == 0 && target.tries_idle < kTriesIdle) {
    ++target.tries_idle;
    target.HoldUp(now);
    return;
  }
  target.tries_idle = 0;
  target.in_step = true;
  target.idle_reads = 0;
  PlanClears(target);
  ClearSome(target);
}

RegionMapping* RegionEngine::MappingOf(RegionTarget& target, Vpn page) {
  const auto mapping = std::ranges::upper_bound(
      target.mapped, page, {}, [](const RegionMapping& other) { return other.range.end; });
  return mapping == target.mapped.end() || !mapping->range.Contains(page) ? nullptr : &*mapping;
}

// A random page of the region that lies in a mapping, if one is found soon.
void RegionEngine::Pick(RegionTarget& target, RegionProbe& probe, tmprof_region& region) {
  probe = RegionProbe{.absent = probe.absent};
  for (int tries = 0; tries < kPicksForAMapping; ++tries) {
    const Vpn page(tmprof_region_pick(&region, &random_));
    if (MappingOf(target, page) == nullptr) continue;
    probe.page = page;
    probe.sampled = true;
    return;
  }
}

// Picks a page for each region and looks it up, before anything is cleared.
bool RegionEngine::LookUp(RegionTarget& target) {
  const std::span<tmprof_region> regions = RegionsOf(target.set);
  target.probes.assign(regions.size(), RegionProbe{});
  std::vector<std::uint32_t> wanted(regions.size());
  for (std::uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  for (int round = 0; round < kPickRounds && !wanted.empty(); ++round) {
    pages_.clear();
    probe_of_page_.clear();
    for (const std::uint32_t i : wanted) {
      Pick(target, target.probes[i], regions[i]);
      if (!target.probes[i].sampled) continue;
      pages_.push_back(target.probes[i].page);
      probe_of_page_.push_back(i);
    }
    if (pages_.empty()) break;
    const ReadResult read = target.handle->ReadPoints(pages_, entries_);
    if (!Usable(target, read)) return false;
    const nanoseconds cpu = target.CpuAt(read.time, read.running_threads);
    entries_read_ += pages_.size();
    ++counts_.looks;
    wanted.clear();
    for (std::size_t k = 0; k < pages_.size(); ++k) {
      RegionProbe& probe = target.probes[probe_of_page_[k]];
      const TableEntry entry = entries_[k].entry;
      const bool present = entries_[k].read && entry.present() && !entry.special();
      probe.present = present;
      probe.absent += entries_[k].read && !present;
      probe.unit = entries_[k].unit;
      probe.frame = entry.frame(kernel_.frame_mask());
      const bool clearable = present && Clearable(target, probe, read.time);
      probe.seen = present && !clearable && entry.accessed();
      probe.state = clearable ? TMPROF_UNIT_UNSET : TMPROF_UNIT_OUT;
      probe.cleared = clearable && entry.accessed();
      probe.cpu_at = cpu;
      if (entries_[k].read && !present) wanted.push_back(probe_of_page_[k]);
    }
  }
  return true;
}

// Returns if the bit could be cleared if it were set. Pages that cannot be cleared are left out:
// only their unset bits would be evidence, so that all of them would look cold.
bool RegionEngine::Clearable(RegionTarget& target, const RegionProbe& probe, MonotonicTime now) {
  RegionMapping& mapping = *MappingOf(target, probe.page);
  // A giant one is hugetlb, or device memory that a clear would split.
  if (probe.unit == kGiantPages) mapping.unclearable_until = now + kRetryUnclearable;
  if (mapping.unclearable_until > now) return false;
  // Part of a huge page would be split off.
  const VpnRange entry = EntryOf(probe);
  return mapping.range.start <= entry.start && entry.end <= mapping.range.end;
}

// Lists the entries whose bits are set, to be cleared. Their pages are out of view until then.
void RegionEngine::PlanClears(RegionTarget& target) {
  target.to_clear.clear();
  for (std::uint32_t i = 0; i < target.probes.size(); ++i) {
    RegionProbe& probe = target.probes[i];
    if (probe.state == TMPROF_UNIT_OUT || !probe.cleared) continue;
    probe.state = TMPROF_UNIT_OUT;
    const VpnRange range = EntryOf(probe);
    if (!target.to_clear.empty() && target.to_clear.back().range == range) {
      target.to_clear.back().end = i + 1;
    } else {
      target.to_clear.push_back({.range = range, .first = i, .end = i + 1});
    }
  }
}

// Those of them that are to be cleared, by index, of which some in between are not.
template <typename Do>
void RegionEngine::ForProbesOf(RegionTarget& target, const RegionClear& clear, Do act) {
  for (std::uint32_t i = clear.first; i < clear.end; ++i)
    if (target.probes[i].cleared && clear.range.Contains(target.probes[i].page))
      act(target.probes[i]);
}

// Since they were looked up, a huge page may have grown where base pages were: clearing part of it
// would split it. What is in use has its turn later. False: nothing can be done with the target
// now.
bool RegionEngine::KeepUnchanged(RegionTarget& target, std::vector<RegionClear>& batch) {
  if (batch.empty()) return true;
  pages_.clear();
  for (const RegionClear& clear : batch) pages_.push_back(target.probes[clear.first].page);
  const ReadResult read = target.handle->ReadPoints(pages_, entries_);
  const bool busy = read.outcome == ReadOutcome::kBusy;
  if (!busy && !Usable(target, read)) return false;
  if (!busy) entries_read_ += pages_.size();
  std::vector<RegionClear> later;
  std::size_t kept = 0;
  for (std::size_t k = 0; k < batch.size(); ++k) {
    RegionClear clear = batch[k];
    if (busy || !entries_[k].read) {
      if (++clear.unread < kMostUnread) {
        later.push_back(clear);
      } else {
        CountLost(target, clear);
      }
    } else if (entries_[k].entry.present() && entries_[k].unit == target.probes[clear.first].unit) {
      batch[kept++] = clear;
    } else {
      CountLost(target, clear);
    }
  }
  batch.resize(kept);
  target.to_clear.insert(target.to_clear.end(), later.begin(), later.end());
  return true;
}

void RegionEngine::CountLost(RegionTarget& target, const RegionClear& clear) {
  ForProbesOf(target, clear, [&](const RegionProbe& probe) { counts_.lost += probe.unit.value(); });
}

// The kernel refused to clear memory of this mapping. Of what is set there nothing is known, so
// what is unset must not speak for it either.
void RegionEngine::LeaveUnclearable(RegionTarget& target, RegionMapping& mapping,
                                    MonotonicTime now) {
  mapping.unclearable_until = now + kRetryUnclearable;
  for (RegionProbe& probe : target.probes) {
    if (!probe.sampled || !mapping.range.Contains(probe.page)) continue;
    if (probe.cleared) {
      probe.seen = true;
    } else if (probe.state != TMPROF_UNIT_OUT || probe.tally.looks > 0) {
      counts_.lost += probe.unit.value();
    }
    probe.state = TMPROF_UNIT_OUT;
    probe.tally = tmprof_tally{};
  }
  std::erase_if(target.to_clear, [&](const RegionClear& clear) {
    return mapping.range.Contains(clear.range.start);
  });
}

// Clears the next of those to be cleared: their bits are unset and watched from now on.
void RegionEngine::ClearSome(RegionTarget& target) {
  const auto end = target.to_clear.begin() +
                   static_cast<std::ptrdiff_t>(std::min(kClearsAtOnce, target.to_clear.size()));
  std::vector<RegionClear> batch(target.to_clear.begin(), end);
  target.to_clear.erase(target.to_clear.begin(), end);
  std::ranges::sort(batch, {}, &RegionClear::first);
  if (!KeepUnchanged(target, batch)) return;
  std::vector<VpnRange> ranges;
  for (const RegionClear& clear : batch) ranges.push_back(clear.range);
  const MonotonicTime before = kernel_.Now();
  const std::vector<ClearOutcome> outcomes = target.handle->ClearEach(ranges);
  const MonotonicTime after = kernel_.Now();
  // A batch may take longer than the first rung: each page has its own share of it, in order.
  const nanoseconds cpu_after = target.CpuAt(after, target.clock.running_threads());
  const nanoseconds each = batch.empty() ? nanoseconds(0)
                                         : (after - before) * target.clock.running_threads() /
                                               static_cast<std::int64_t>(batch.size());
  std::uint64_t points = 0;
  bool refused = false;
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    const RegionClear& clear = batch[k];
    RegionMapping* mapping = MappingOf(target, clear.range.start);
    switch (outcomes[k]) {
      case ClearOutcome::kDone:
        break;
      case ClearOutcome::kUnclearable:
        if (mapping != nullptr) LeaveUnclearable(target, *mapping, after);
        continue;
      case ClearOutcome::kProcessGone:
        target.gone = true;
        continue;
      case ClearOutcome::kRefused:
        refused = true;
        continue;
      case ClearOutcome::kUnmapped:
        CountLost(target, clear);
        continue;
    }
    counts_.clears += clear.range.size().value();
    ++points;
    if (mapping != nullptr) mapping->unclearable_until = MonotonicTime{};
    const nanoseconds cpu =
        cpu_after - each * static_cast<std::int64_t>(batch.size() - 1 - k) - each / 2;
    ForProbesOf(target, clear, [&](RegionProbe& probe) {
      probe.state = TMPROF_UNIT_UNSET;
      probe.cpu_at = cpu;
    });
  }
  Charge(target, points);
  if (refused) {
    ComplainOfClear(target);
    target.refused_until = after + kRetryRefused;
    target.next = target.refused_until;
    target.HoldUp(after);
  } else if (points > 0 && std::exchange(target.refused_until, {}) != MonotonicTime{}) {
    SettleRefused();
  }
  if (target.gone || refused) {
    AbandonStep(target);
    return;
  }
  target.cleared_at = after;
  target.cpu_at = target.cpu_cleared = cpu_after;
  target.rung = 0;
  CountUnset(target);
  Proceed(target, after);
}

void RegionEngine::CountUnset(RegionTarget& target) {
  target.unset = static_cast<std::uint32_t>(
      std::ranges::count(target.probes, std::uint8_t{TMPROF_UNIT_UNSET}, &RegionProbe::state));
}

// Decides how a step goes on: with a read, more clears, or its end.
void RegionEngine::Proceed(RegionTarget& target, MonotonicTime now) {
  const bool plain = options_.mode == ScanOptions::Mode::kPlain;
  const nanoseconds waited = now - target.cleared_at;
  const nanoseconds exposed =
      plain ? waited : std::max(target.cpu_at - target.cpu_cleared, nanoseconds(0));
  target.rung = tmprof_ladder_next(&ladder_, target.rung, exposed.count());
  // After the read of a plain check, only pages whose tables were in use are left.
  const nanoseconds first = nanoseconds(ladder_.delay_ns[0]);
  const nanoseconds longest = plain ? first + kLadderStep : kLadderStep;
  const bool read_all =
      target.unset == 0 || (!plain && target.rung == ladder_.rungs) || waited >= longest;
  if (read_all && target.to_clear.empty()) {
    EndStep(target, now);
    return;
  }
  MonotonicTime next_read = kNever;
  if (!read_all) {
    nanoseconds wait = kRetryBusy;
    if (target.rung < ladder_.rungs) wait = nanoseconds(ladder_.delay_ns[target.rung]) - exposed;
    if (!plain) {
      wait /= std::max(target.clock.running_threads(), 1u);
      if (target.idle_reads > 0)
        wait = std::max(wait, kFirstRung * (1 << std::min(target.idle_reads, kMostDoublings)));
      wait = std::min(wait, std::max(kLadderStep - waited, kFirstRung));
    }
    next_read = now + std::max(wait, kShortestWait);
  }
  // One bit is read a plain interval after its clear; a ladder's reads see all that is watched.
  const bool may_clear = !target.to_clear.empty() && (read_all || !plain);
  const MonotonicTime next_clear = may_clear ? target.cleared_at + ClearGap(target) : kNever;
  target.clears_next = next_clear <= next_read;
  target.next = std::max(now, std::min(next_clear, next_read));
}

void RegionEngine::Read(RegionTarget& target) {
  pages_.clear();
  probe_of_page_.clear();
  for (std::uint32_t i = 0; i < target.probes.size(); ++i) {
    if (target.probes[i].state != TMPROF_UNIT_UNSET) continue;
    pages_.push_back(target.probes[i].page);
    probe_of_page_.push_back(i);
  }
  const ReadResult read = target.handle->ReadPoints(pages_, entries_);
  if (read.outcome == ReadOutcome::kBusy) {
    Proceed(target, kernel_.Now());
    return;
  }
  if (!Usable(target, read)) return;
  entries_read_ += pages_.size();
  ++counts_.looks;
  const nanoseconds cpu = target.CpuAt(read.time, read.running_threads);
  target.idle_reads = cpu > target.cpu_at ? 0 : target.idle_reads + 1;
  target.cpu_at = cpu;
  std::vector<std::uint32_t> set_at_once;
  for (std::size_t k = 0; k < pages_.size(); ++k) {
    const RegionProbe& probe = target.probes[probe_of_page_[k]];
    if (probe.cleared && probe.tally.looks == 0 && entries_[k].read && entries_[k].entry.accessed())
      set_at_once.push_back(probe_of_page_[k]);
  }
  RejectUncleared(target, set_at_once);
  for (std::size_t k = 0; k < pages_.size(); ++k) {
    RegionProbe& probe = target.probes[probe_of_page_[k]];
    if (probe.state == TMPROF_UNIT_OUT || !entries_[k].read) continue;
    const bool present = entries_[k].entry.present() && entries_[k].unit == probe.unit;
    const bool accessed = present && entries_[k].entry.accessed();
    const nanoseconds exposure = std::max(cpu - probe.cpu_at, nanoseconds(0));
    const bool ran = exposure >= kShortestExposure;
    if (!present || (accessed && !ran)) {
      probe.state = TMPROF_UNIT_OUT;
      counts_.lost += probe.unit.value();
      continue;
    }
    if (ran) {
      probe.cpu_at = cpu;
      tmprof_ladder_fold(&probe.tally, &probe.state, accessed,
                         static_cast<std::uint64_t>(exposure.count()),
                         static_cast<std::uint64_t>(exposure.count()),
                         /*first_read=*/probe.tally.looks == 0);
    }
    if (options_.mode == ScanOptions::Mode::kPlain) probe.state = TMPROF_UNIT_OUT;
  }
  CountUnset(target);
  Proceed(target, read.time);
}

// The clear passes by pages that are mapped elsewhere too, in silence: their bits would look like
// the fastest accesses of all.
void RegionEngine::RejectUncleared(RegionTarget& target,
                                   const std::vector<std::uint32_t>& set_at_once) {
  if (set_at_once.empty()) return;
  std::vector<Vpn> suspects;
  for (const std::uint32_t i : set_at_once) suspects.push_back(EntryOf(target.probes[i]).start);
  const std::vector<PageStanding> standing =
      target.handle->Inspect(suspects, std::vector<bool>(suspects.size()));
  for (std::size_t k = 0; k < standing.size(); ++k) {
    if (standing[k] == PageStanding::kClearable) continue;
    RegionProbe& probe = target.probes[set_at_once[k]];
    probe.state = TMPROF_UNIT_OUT;
    probe.seen = true;
    (standing[k] == PageStanding::kShared ? counts_.shared : counts_.unsettled) +=
        probe.unit.value();
  }
}

void RegionEngine::EndStep(RegionTarget& target, MonotonicTime now) {
  target.in_step = false;
  target.next = std::max({now, target.began + nanoseconds(options_.regions.monitoring_ns),
                          target.cleared_at + ClearGap(target)});
  if (!target.held_up) target.took += now - target.ready_at;
  target.ready_at = now;
  for (const RegionProbe& probe : target.probes)
    if (probe.tally.looks == 0 && probe.state == TMPROF_UNIT_UNSET)
      counts_.lost += probe.unit.value();
  Fold(target);
  checked_ +=
      static_cast<std::uint64_t>(std::ranges::count(target.probes, true, &RegionProbe::sampled));
  ++steps_;
  const bool slept = target.idle_reads > 0 && target.cpu_at <= target.cpu_cleared;
  if (!slept) ++target.steps;
  if (target.steps >= TMPROF_REGION_CHECKS_MIN &&
      target.took >= nanoseconds(options_.regions.aggregation_ns))
    Aggregate(target, now);
}

// ------------------------------------------------------------------------------ the aggregation

void RegionEngine::Aggregate(RegionTarget& target, MonotonicTime now) {
  tmprof_region_set& set = target.set;
  for (tmprof_region& region : RegionsOf(set)) {
    region.count = options_.mode == ScanOptions::Mode::kPlain
                       ? tmprof_region_count_checks(&region, TMPROF_REGION_COUNT_MAX)
                       : tmprof_region_count_slots(&region, TMPROF_REGION_COUNT_MAX,
                                                   options_.regions.monitoring_ns);
  }
  tmprof_regions_conclude(&set, &options_.regions, static_cast<std::uint64_t>(target.took.count()));
  std::optional<Areas> areas;
  if (target.mappings_changed &&
      now - target.updated_at >= nanoseconds(options_.regions.update_ns)) {
    target.updated_at = now;
    areas = TakeMappings(target);
  }
  std::vector<__u64> sampled;
  for (const SampleRecord& sample : std::exchange(target.samples, {}))
    if (std::uint64_t{sample.loads} + sample.stores >= kLeastSamples)
      sampled.push_back(sample.key.vpn.value());
  tmprof_regions_renew(&set, areas ? areas->area.data() : nullptr, areas ? areas->count : 0,
                       sampled.data(), static_cast<std::uint32_t>(sampled.size()), &random_);
  target.seen.Follow(RegionsOf(set));
  target.steps = 0;
  target.took = nanoseconds(0);
  ++aggregations_;
}

void RegionEngine::SeeSamples(const std::vector<SampleRecord>& samples) {
  if (!active_) return;
  for (const SampleRecord& sample : samples) {
    RegionTarget* target = Find(sample.key.target);
    if (target != nullptr && target->watched()) target->samples.push_back(sample);
  }
  for (auto& [id, target] : targets_)
    KeepMostSampled(target->samples, options_.regions.max_regions);
}

// For the clears of so many entries, each of which the hardware will set again, whether that is
// seen or not, in a cache line that it gets back from the reader.
void RegionEngine::Charge(RegionTarget& target, std::uint64_t points) {
  const std::uint64_t cost =
      tmprof_cost_ns(&cost_, points, points) +
      static_cast<std::uint64_t>(static_cast<double>(points) * options_.cost.ns_per_point);
  ChargeTarget(target, cost, points);
}

// ------------------------------------------------------------------------------------- the epoch

void RegionEngine::TakeEvidence(RegionTarget& target, std::vector<RegionEvidence>& out) {
  std::vector<VpnRange> clearable;
  std::vector<VpnRange> unclearable;
  for (const RegionMapping& mapping : target.mapped)
    (mapping.Unclearable() ? unclearable : clearable).push_back(mapping.range);
  target.seen.Take(target.process.id, clearable, unclearable, out);
  target.observations = 0;
}

Harvest RegionEngine::TakeEpoch() {
  Harvest harvest = EndEpoch(kernel_.Now());
  harvest.by_regions = true;
  harvest.regions = std::exchange(departed_, {});
  std::uint64_t regions = 0;
  std::uint64_t region_bytes = 0;
  for (const auto& [id, target] : targets_) {
    TakeEvidence(*target, harvest.regions);
    for (const RegionMapping& mapping : target->mapped)
      if (mapping.Unclearable()) harvest.unclearable += mapping.range.size().value();
    regions += target->set.count;
    region_bytes += target->RegionBytes();
  }
  harvest.details = {{"regions", regions},
                     {"region_bytes", region_bytes},
                     {"steps", std::exchange(steps_, 0)},
                     {"pages_checked", std::exchange(checked_, 0)},
                     {"entries_read", std::exchange(entries_read_, 0)},
                     {"aggregations", std::exchange(aggregations_, 0)}};
  return harvest;
}

}  // namespace tmprof::abit
