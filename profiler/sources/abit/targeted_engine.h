// SPDX-License-Identifier: Apache-2.0
// The common part of the engines of the accessed-bit scanner: their targets, activity, prices and
// complaints.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "driver/core/ladder.h"
#include "profiler/complaint.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/budget.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/watched_target.h"

namespace tmprof::abit {

// Memory that an engine cannot clear or read because of a refusal is tried again so much later.
inline constexpr std::chrono::nanoseconds kRetryRefused = std::chrono::seconds(60);
// A mapping that the kernel does not clear, such as mlocked memory, is tried again so much later.
inline constexpr std::chrono::nanoseconds kRetryUnclearable = std::chrono::seconds(60);
// The bits of a target that is off the CPU are left alone at most so often in a row: the first
// rungs would have to be waited for.
inline constexpr std::uint32_t kTriesIdle = 4;
// Less is a contradiction, if pages were accessed in it: the target's clock has not moved yet.
inline constexpr std::chrono::nanoseconds kShortestExposure = std::chrono::microseconds(1);
inline constexpr std::chrono::nanoseconds kShortestWait = std::chrono::microseconds(16);  // to read
// A process whose tables were in use may be read again so much later.
inline constexpr std::chrono::nanoseconds kRetryBusy = std::chrono::microseconds(200);

class EngineBase : public Engine {
 public:
  std::optional<Error> Failure() const final { return kernel_.Failure(); }
  void Reprice(const CostModel& cost, const ClearLoss& clear_loss) final;

 protected:
  EngineBase(AbitKernel& kernel, const ScanOptions& options);

  // Looks once in a while for what forbids any clear.
  void Watch(MonotonicTime now);
  // `refusals`: of the targets that could not be opened.
  void ComplainOf(const std::vector<Error>& refusals);
  void ComplainOfRead(const WatchedTarget& target, const ReadResult& read);
  void ComplainOfClear(const WatchedTarget& target);
  // True: it was the other way before.
  bool SwitchActive(bool active);
  // Returns the time from one clear to the next.
  std::chrono::nanoseconds ClearGap(const WatchedTarget& target) const;
  void ChargeTarget(WatchedTarget& target, std::uint64_t cost_ns, std::uint64_t sets);
  // Returns the part of the harvest that is not about single targets. The counts begin anew.
  Harvest EndEpoch(MonotonicTime now);

  AbitKernel& kernel_;
  ScanOptions options_;
  tmprof_cost cost_;
  OwnBudget own_budget_;
  MonotonicTime next_watch_{};
  bool active_ = true;
  ScanCounts counts_;
  Complaint pressure_;  // standing: nothing is cleared
  Complaint refused_;   // standing: nothing of some target is cleared
  Complaint unread_;    // standing: nothing of some target is read

 private:
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_ns_{0};
  Complaint unopened_;
};

// `Target` is a WatchedTarget, made from what that is made from.
template <typename Target>
class TargetedEngine : public EngineBase {
 public:
  void SetTargets(const std::vector<TrackedProcess>& processes) final {
    std::map<TargetId, std::unique_ptr<Target>> kept;
    std::vector<Error> refusals;
    for (const TrackedProcess& process : processes) {
      auto known = targets_.extract(process.id);
      auto target = known ? std::move(known.mapped())
                          : std::make_unique<Target>(kernel_, options_.overhead_share);
      const bool mappings_changed = target->process.mappings != process.mappings;
      target->process = process;
      target->mappings_stale = false;
      if (!target->handle && !target->gone) {
        if (auto refusal = target->Open(kernel_)) refusals.push_back(*std::move(refusal));
      }
      Refresh(*target, mappings_changed);
      kept.emplace(process.id, std::move(target));
    }
    for (auto& [id, target] : targets_) Leave(*target);
    targets_ = std::move(kept);
    ComplainOf(refusals);
    SettleRefused();
  }

  void SetActive(bool active) final {
    if (!SwitchActive(active)) return;
    for (auto& [id, target] : targets_) {
      if (!active) {
        Pause(*target);
      } else if (target->watched()) {
        target->EarnFromNow();
      }
    }
  }

 protected:
  using EngineBase::EngineBase;

  // Called right after the target's process and mappings have been brought up to date.
  virtual void Refresh(Target& target, bool mappings_changed) = 0;
  virtual void Leave(Target& target) = 0;
  virtual void Pause(Target& target) { (void)target; }

  // Unless some target is refused to us still.
  void SettleRefused() {
    const auto none = [this](auto refused) {
      return std::ranges::none_of(targets_, [&](const auto& entry) {
        return entry.second->watched() && refused(*entry.second);
      });
    };
    if (none([](const Target& target) { return target.refused_until != MonotonicTime{}; }))
      refused_.Settle();
    if (none([](const Target& target) { return target.read_refused; })) unread_.Settle();
  }

  Target* Find(TargetId id) {
    const auto found = targets_.find(id);
    return found == targets_.end() ? nullptr : found->second.get();
  }

  std::map<TargetId, std::unique_ptr<Target>> targets_;
};

}  // namespace tmprof::abit
