// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/targeted_engine.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kWatchPeriod = std::chrono::seconds(1);
constexpr std::uint64_t kLinesPerTable = 64;

std::uint64_t PicosecondsOf(double ns) { return static_cast<std::uint64_t>(ns * 1e3); }

tmprof_cost DriverCostOf(const CostModel& cost) {
  return {.ps_per_set = PicosecondsOf(cost.ns_per_set),
          .ps_per_line = PicosecondsOf(cost.ns_per_look / kLinesPerTable)};
}

}  // namespace

EngineBase::EngineBase(AbitKernel& kernel, const ScanOptions& options)
    : kernel_(kernel),
      options_(options),
      cost_(DriverCostOf(options.cost)),
      own_budget_(options.own_share, kernel.Now()),
      epoch_start_(kernel.Now()),
      active_since_(epoch_start_) {}

// An open block gives back what was reserved for it, whatever it costs by now.
void EngineBase::Reprice(const CostModel& cost, const ClearLoss& clear_loss) {
  options_.cost = cost;
  options_.clear_loss = clear_loss;
  cost_ = DriverCostOf(cost);
}

void EngineBase::Watch(MonotonicTime now) {
  if (now < next_watch_) return;
  const auto pressure = options_.clear_under_pressure ? std::nullopt : kernel_.MemoryPressure();
  if (pressure) {
    pressure_.Raise("no bits are cleared while memory is short: " + *pressure);
  } else {
    pressure_.Settle();
  }
  next_watch_ = now + kWatchPeriod;
}

void EngineBase::ComplainOf(const std::vector<Error>& refusals) {
  if (refusals.empty()) {
    unopened_.Settle();
  } else {
    unopened_.Raise(UnopenedTargets(refusals));
  }
}

void EngineBase::ComplainOfRead(const WatchedTarget& target, const ReadResult& read) {
  ++counts_.refused_reads;
  unread_.Raise(ProcessRefusal("read the page tables", target.process.pid, read.system_error));
}

void EngineBase::ComplainOfClear(const WatchedTarget& target) {
  refused_.Raise(
      ProcessRefusal("clear accessed bits", target.process.pid, target.handle->refusal()));
}

bool EngineBase::SwitchActive(bool active) {
  if (active == active_) return false;
  const MonotonicTime now = kernel_.Now();
  if (active) {
    active_since_ = now;
  } else {
    active_ns_ += now - active_since_;
  }
  active_ = active;
  return true;
}

nanoseconds EngineBase::ClearGap(const WatchedTarget& target) const {
  const bool ample = 2 * tmprof_budget_free(&target.budget) > target.budget.limit_ns;
  return ample ? options_.least_clear_gap : options_.clear_gap;
}

void EngineBase::ChargeTarget(WatchedTarget& target, std::uint64_t cost_ns, std::uint64_t sets) {
  tmprof_budget_charge(&target.budget, cost_ns);
  target.charged_ns += cost_ns;
  counts_.sets_charged += sets;
  counts_.cost_ns += cost_ns;
}

Harvest EngineBase::EndEpoch(MonotonicTime now) {
  Harvest harvest;
  if (active_) {
    active_ns_ += now - active_since_;
    active_since_ = now;
  }
  harvest.active = std::exchange(active_ns_, nanoseconds(0));
  harvest.length = now - epoch_start_;
  epoch_start_ = now;
  harvest.counts = std::exchange(counts_, ScanCounts{});
  for (Complaint* complaint : {&pressure_, &unopened_, &unread_, &refused_}) {
    const std::string text = complaint->TakeEpoch();
    if (!harvest.note.empty() && !text.empty()) harvest.note += "; ";
    harvest.note += text;
  }
  return harvest;
}

}  // namespace tmprof::abit
