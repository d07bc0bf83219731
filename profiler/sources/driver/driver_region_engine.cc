// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/driver_region_engine.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "driver/core/params_check.h"
#include "driver/core/region_exposure.h"
#include "driver/core/regions.h"

namespace tmprof::driver {
namespace {

using std::chrono::nanoseconds;

// Each record is of ten looks or more, of some 1 us: a whole CPU, of which the driver gets 2 % by
// default, makes 20 000 in a period.
constexpr nanoseconds kDrainPeriod = std::chrono::milliseconds(200);
constexpr std::uint32_t kLogRecords = 32768;
constexpr std::size_t kRegionsPerRead = 512;
constexpr double kLinesPerTable = 64;
// A microsecond and no limit: what the driver takes.
constexpr double kLeastBudgetNs = 1e3;
constexpr double kMostBudgetNs = 1e9;

tmprof_params ParamsOf(tmprof_params params, const abit::ScanOptions& options) {
  params.abit_mode = TMPROF_ABIT_REGIONS;
  params.flush_policy = TMPROF_FLUSH_NEVER;
  params.flush_every = 0;
  params.scan_budget_ns = static_cast<std::uint64_t>(
      std::clamp(1e9 * options.own_share, kLeastBudgetNs, kMostBudgetNs));
  params.regions = options.regions;
  params.region_log = kLogRecords;
  params.region_seed = options.seed;
  // The hardware sets each again, in a cache line that it gets back from the driver's CPU.
  const double ns_per_clear = options.cost.ns_per_set + options.cost.ns_per_look / kLinesPerTable;
  params.region_clears =
      ns_per_clear > 0
          ? static_cast<std::uint32_t>(std::clamp(1e9 * options.overhead_share / ns_per_clear, 1.0,
                                                  static_cast<double>(UINT32_MAX)))
          : 0;
  return params;
}

Error NotStarted(const tmprof_params& params, int system_error) {
  Error refused = Refused("have the driver look at regions", TMPROF_DEVICE_PATH, system_error,
                          "--abit regions,ladder looks at them from user space");
  if (const auto verdict = tmprof_params_check(&params); verdict.error != 0)
    refused.reason = fmt::format("{} {}", verdict.field, verdict.reason);
  return refused;
}

Error RegionsUnreadable(int system_error) {
  return Refused("read regions from the driver", TMPROF_DEVICE_PATH, system_error,
                 "the kernel's log may say more; --source abit-bpf does without the module");
}

std::uint64_t LooksOf(const std::vector<tmprof_region_record>& records) {
  std::uint64_t looks = 0;
  for (const tmprof_region_record& record : records) looks += record.looks;
  return looks;
}

std::vector<VpnRange> ProgramMemory(const TrackedProcess& process) {
  std::vector<VpnRange> ranges;
  for (const Mapping& mapping : process.mappings)
    if (mapping.kind != MappingKind::kSpecial && mapping.accessible)
      ranges.push_back(mapping.range);
  return ranges;
}

}  // namespace

DriverRegionEngine::DriverRegionEngine(std::shared_ptr<Session> session, abit::AbitKernel& kernel,
                                       const abit::ScanOptions& options, const tmprof_stats& before)
    : session_(std::move(session)),
      kernel_(kernel),
      options_(options),
      batch_(kRegionsPerRead),
      before_(before),
      epoch_start_(kernel.Now()),
      active_since_(epoch_start_) {}

Result<std::unique_ptr<DriverRegionEngine>> DriverRegionEngine::Start(
    std::shared_ptr<Session> session, abit::AbitKernel& kernel, const abit::ScanOptions& options) {
  Device& device = session->device();
  tmprof_params params{};
  if (const int error = Call(device, TMPROF_IOC_GET_PARAMS, params); error != 0)
    return Fail(NotStarted(params, error));
  params = ParamsOf(params, options);
  if (const int error = Call(device, TMPROF_IOC_SET_PARAMS, params); error != 0)
    return Fail(NotStarted(params, error));
  tmprof_stats before{};
  if (const int error = Call(device, TMPROF_IOC_STATS, before); error != 0)
    return Fail(NotStarted(params, error));
  tmprof_control control{};
  control.sources = TMPROF_MASK_ABIT;
  control.command = TMPROF_START;
  if (const int error = Call(device, TMPROF_IOC_CONTROL, control); error != 0)
    return Fail(NotStarted(params, error));
  return std::unique_ptr<DriverRegionEngine>(
      new DriverRegionEngine(std::move(session), kernel, options, before));
}

std::optional<Error> DriverRegionEngine::Failure() const {
  return failure_ ? failure_ : kernel_.Failure();
}

void DriverRegionEngine::SetTargets(const std::vector<TrackedProcess>& processes) {
  if (failure_) return;
  Drain();
  std::map<TargetId, Target> kept;
  std::vector<Error> refusals;
  for (const TrackedProcess& process : processes) {
    if (auto known = targets_.extract(process.id)) {
      known.mapped().process = process;
      known.mapped().mappings_stale = false;
      kept.insert(std::move(known));
      continue;
    }
    auto held = Session::Hold(session_, process.pid, process.start_time_ticks);
    if (held) {
      kept.emplace(process.id, Target{.process = process, .held = *std::move(held), .seen = {}});
    } else if (held.error().system_error != ESRCH) {
      refusals.push_back(std::move(held.error()));
    }
  }
  for (auto& [id, target] : targets_) Deliver(target);
  targets_ = std::move(kept);
  if (refusals.empty()) {
    unwatched_.Settle();
  } else {
    unwatched_.Raise(abit::UnopenedTargets(refusals));
  }
}

void DriverRegionEngine::SetActive(bool active) {
  if (failure_ || active == active_) return;
  tmprof_control control{};
  control.sources = TMPROF_MASK_ABIT;
  control.command = active ? TMPROF_RESUME : TMPROF_PAUSE;
  const int error = Call(session_->device(), TMPROF_IOC_CONTROL, control);
  if (error != 0 && error != EALREADY) failure_ = RegionsUnreadable(error);
  const MonotonicTime now = kernel_.Now();
  if (active) {
    active_since_ = now;
  } else {
    active_ns_ += now - active_since_;
  }
  active_ = active;
}

MonotonicTime DriverRegionEngine::Step() {
  if (failure_) return kNever;
  const MonotonicTime now = kernel_.Now();
  if (now >= next_drain_) {
    Drain();
    next_drain_ = now + kDrainPeriod;
  }
  return next_drain_;
}

DriverRegionEngine::Target* DriverRegionEngine::Named(std::uint32_t driver_id) {
  const auto found = std::ranges::find_if(
      targets_, [&](const auto& entry) { return entry.second.held.id() == driver_id; });
  return found == targets_.end() ? nullptr : &found->second;
}

void DriverRegionEngine::Drain() {
  tmprof_read_regions request{};
  do {
    request.regions = reinterpret_cast<std::uint64_t>(batch_.data());
    request.capacity = static_cast<std::uint32_t>(batch_.size());
    if (const int error = Call(session_->device(), TMPROF_IOC_READ_REGIONS, request); error != 0) {
      failure_ = RegionsUnreadable(error);
      return;
    }
    for (std::uint32_t i = 0; i < request.count; ++i) {
      const tmprof_region_record& record = batch_[i];
      ++records_read_;
      looks_read_ += record.looks;
      // The first of the next one: of the one before, the log has lost some.
      if (!aggregation_.empty() && (record.time_ns != aggregation_.front().time_ns ||
                                    record.target_id != aggregation_.front().target_id)) {
        lost_ += LooksOf(std::exchange(aggregation_, {}));
      }
      aggregation_.push_back(record);
      if (aggregation_.size() == record.regions) Take(aggregation_);
    }
    // Records lost unread are assumed to hold as many looks, on average, as those read.
    const std::uint64_t overwritten =
        request.overwritten - std::exchange(overwritten_, request.overwritten);
    lost_ += records_read_ == 0 ? overwritten : overwritten * looks_read_ / records_read_;
  } while (request.count == batch_.size());
}

// Empties `aggregation`, all of whose records are there.
void DriverRegionEngine::Take(std::vector<tmprof_region_record>& aggregation) {
  const std::vector<tmprof_region_record> records = std::exchange(aggregation, {});
  const std::uint64_t looks = LooksOf(records);
  Target* target = Named(records.front().target_id);
  if (target == nullptr) {
    lost_ += looks;
    return;
  }
  const std::uint32_t address_space = records.front().address_space;
  if (target->address_space && *target->address_space != address_space) {
    // It executes another program, whose mappings are not known yet.
    observations_ -= target->observations;
    lost_ += std::exchange(target->observations, 0);
    target->seen.Clear();
    target->mappings_stale = true;
  }
  target->address_space = address_space;
  if (target->mappings_stale) {
    lost_ += looks;
    return;
  }
  target->observations += looks;
  observations_ += looks;
  target->regions = records.size();
  std::vector<tmprof_region> regions;
  regions.reserve(records.size());
  for (const tmprof_region_record& record : records)
    regions.push_back(tmprof_region_make(record.start_vpn, record.end_vpn, 0));
  target->seen.Follow(regions);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const tmprof_region_record& record = records[i];
    if (record.looks == 0) continue;
    // One read follows each clear, so that each reference is a first access.
    const tmprof_tally tally{.looks = record.looks,
                             .references = record.references,
                             .first_accesses = record.references,
                             .first_read_finds = 0,  // regions do not report them
                             .at_risk_ns = record.at_risk_ns,
                             .first_read_ns = 0,
                             .later_read_ns = 0};
    target->seen.Add(i, tally, PageCount(1),
                     record.frame == TMPROF_UNKNOWN ? std::nullopt : std::optional(record.frame));
  }
}

void DriverRegionEngine::Deliver(Target& target) {
  target.seen.Take(target.process.id, ProgramMemory(target.process), {}, delivered_);
  target.observations = 0;
}

// Memory for regions, in bytes. The driver keeps its log and a page frame for each record, and each
// target's array and times of clears (driver/region_scan.c). This process keeps the evidence taken
// from them.
std::uint64_t DriverRegionEngine::RegionBytes() const {
  const std::uint32_t capacity = tmprof_regions_capacity(options_.regions.max_regions);
  std::uint64_t bytes = kLogRecords * sizeof(tmprof_region_record) +
                        options_.regions.max_regions * sizeof(std::uint64_t) +
                        batch_.capacity() * sizeof batch_[0] +
                        aggregation_.capacity() * sizeof aggregation_[0];
  for (const auto& [id, target] : targets_) {
    if (target.regions == 0) continue;
    bytes += capacity * sizeof(tmprof_region) +
             tmprof_region_holds(capacity) * sizeof(std::uint64_t) + target.seen.Bytes();
  }
  return bytes;
}

abit::Harvest DriverRegionEngine::TakeEpoch() {
  if (!failure_) Drain();
  abit::Harvest harvest;
  harvest.by_regions = true;
  harvest.mode = abit::ScanOptions::Mode::kPlain;
  std::uint64_t regions = 0;
  for (auto& [id, target] : targets_) {
    Deliver(target);
    regions += target.regions;
  }
  harvest.regions = std::exchange(delivered_, {});
  const MonotonicTime now = kernel_.Now();
  if (active_) {
    active_ns_ += now - active_since_;
    active_since_ = now;
  }
  harvest.active = std::exchange(active_ns_, nanoseconds(0));
  harvest.length = now - std::exchange(epoch_start_, now);
  harvest.counts.observations = std::exchange(observations_, 0);
  harvest.counts.lost = std::exchange(lost_, 0);
  harvest.note = unwatched_.TakeEpoch();
  tmprof_stats stats{};
  if (failure_) return harvest;
  if (const int error = Call(session_->device(), TMPROF_IOC_STATS, stats); error != 0) {
    failure_ = RegionsUnreadable(error);
    return harvest;
  }
  const tmprof_stats before = std::exchange(before_, stats);
  abit::ScanCounts& counts = harvest.counts;
  counts.lost += stats.region_checks_lost - before.region_checks_lost;
  counts.clears = stats.cleared_bits - before.cleared_bits;
  counts.sets_charged = counts.clears;
  const double ns_per_clear = options_.cost.ns_per_set + options_.cost.ns_per_look / kLinesPerTable;
  counts.cost_ns =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(counts.clears) * ns_per_clear));
  counts.torn = stats.races - before.races;
  counts.retries_busy = stats.mmap_lock_busy - before.mmap_lock_busy;
  harvest.details = {{"regions", regions},
                     {"region_bytes", RegionBytes()},
                     {"steps", stats.region_steps - before.region_steps},
                     {"pages_checked", stats.region_checks - before.region_checks},
                     {"aggregations", stats.region_aggregations - before.region_aggregations},
                     {"driver_ns", stats.scan_ns - before.scan_ns}};
  return harvest;
}

}  // namespace tmprof::driver
