// SPDX-License-Identifier: Apache-2.0
// Profiles and places under one configuration, until told to stop.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "apps/tmprofd/config.h"
#include "base/clock.h"
#include "base/host/node_memory.h"
#include "base/host/own_cpus.h"
#include "base/host/procfs.h"
#include "base/latency_gap.h"
#include "base/result.h"
#include "daemon/control/daemon_status.h"
#include "daemon/control/log.h"
#include "daemon/placement/epoch_pacer.h"
#include "daemon/placement/ledger_keeper.h"
#include "daemon/placement/live_mappings.h"
#include "daemon/placement/live_targets.h"
#include "daemon/placement/move_thread.h"
#include "daemon/placement/placer.h"
#include "mover/live_bindings.h"
#include "mover/memory_binding.h"
#include "mover/move_calibration.h"
#include "mover/page_locator.h"
#include "mover/policy_reader.h"
#include "profiler/recorder.h"
#include "profiler/session_sources.h"
#include "profiler/target_finder.h"
#include "profiler/target_tracker.h"

namespace tmprof {

class PlacementSession {
 public:
  // Asks for the sources and tiers of this machine. What is wrong with them is in the error; what
  // is merely worse than it might be is logged.
  // `status` is kept up to date and published on `board` after each epoch; its totals go on. All
  // must outlive the session.
  static Result<std::unique_ptr<PlacementSession>> Open(Config config, const Log& log,
                                                        DaemonStatus& status, StatusBoard& board);

  // Sets the ledger that lies there aside and begins another. To be called when nothing else can
  // refuse the session any more, before Run().
  Status BeginLedger();
  // `stop_requested` is asked many times a second and as soon as one of `stop_fds` is readable. An
  // error ends it: no source works any more.
  Status Run(const std::function<bool()>& stop_requested, std::vector<int> stop_fds);

  // Goes on by another configuration, all that was learnt of pages kept, from within
  // `stop_requested` of Run(). What is refused leaves it as it was. Precondition: ObserveAlike().
  Status Adopt(Config config);

  // True: an epoch has ended in which a source observed a target. An error that ends Run()
  // afterwards is not the configuration's fault.
  bool has_observed() const { return has_observed_; }

  MoveThread& mover() { return *mover_; }
  // Once it was paused or goes on; any thread may.
  void PublishState();

 private:
  PlacementSession(Config config, Tiers tiers, std::vector<std::optional<double>> latencies,
                   SessionSources sources, std::unique_ptr<PolicyReader> policies, const Log& log,
                   DaemonStatus& status, StatusBoard& board);

  // Checks if the kernel moves pages now, too. Warnings() reports that, and all else.
  void LookForRival();
  std::vector<std::string> Warnings() const;
  void GoOnWithoutLedger(const Error& error);
  LedgerInfo LedgerInfoFor(const Config& config) const;
  Status RenewLedger(const Config& config);
  void FindTargets(MonotonicTime now);
  void FindBy(const TargetConfig& targets);
  void FollowTargets(const std::vector<TrackedProcess>& targets);
  std::vector<PlacedTarget> PlacedTargets();
  // False: its System V segments are of another IPC namespace than this one, or of an unknown one.
  bool JoinsSegments(const TrackedProcess& target) const;
  // Null: it cannot be read.
  LiveBindings::Shared BindingOf(TargetId target, Pid pid);
  Status EndEpoch(const EpochProfile& epoch);
  // Returns whether what was decided is worth what deciding takes, as far as is known.
  bool Place(const EpochProfile& epoch);
  void LogDecision(const EpochProfile& epoch, std::size_t targets,
                   const PlacementDecision& decision, std::size_t over) const;
  // Once.
  void WarnOfSharedPages(const NotMoved& not_moved);
  void EndMoving();
  // Returns the verdict of the counters. While it finds no moves that pay, accessed bits are read
  // only for a part of the time.
  GateVerdict Gate(GateLook look, std::optional<double> memory_stall_share);
  DaemonState StateNow() const;
  void CountMoves(const std::vector<MoveOutcome>& outcomes, std::uint64_t undone);
  LatencyGaps GapsBy(const Config& config) const;
  // Has promotions watched, for what they save.
  void WatchPromotions(const std::vector<MoveOutcome>& outcomes, std::uint64_t epoch);
  void CheckPromotions(const EpochProfile& epoch, const std::vector<PlacedTarget>& targets,
                       const PlacementDecision& decision);
  void UpdateStatus(const EpochProfile& epoch, std::span<const NodeMemory> memory,
                    const std::vector<PlacedTarget>& targets, const PlacementDecision& decision);

  Config config_;
  Tiers tiers_;
  std::vector<std::optional<double>> latencies_;  // latencies of the machine's tiers, in ns
  SessionSources sources_;
  const Log& log_;
  DaemonStatus& status_;
  StatusBoard& board_;
  std::mutex publishing_;  // keeps updates in order, so that the last one sent is the current state
  SystemClock clock_;
  ThreadCpuClock cpu_clock_;  // clock of the thread that calls Run()
  EpochPacer pacer_;
  bool told_overdrawn_ = false;
  bool has_observed_ = false;
  bool may_rest_ = false;  // the sources have seen enough to know that there is nothing to gain
  ProcFs procfs_;
  MovePagesCall call_;
  LinuxPageLocator locator_{call_};
  LiveTargets live_{procfs_};
  std::unique_ptr<PolicyReader> policies_;
  LiveBindings bindings_{*policies_, clock_};
  LiveMappings live_mappings_{[this](Pid pid) { return procfs_.Mappings(pid); }, clock_};
  OwnCpus own_cpus_{procfs_};
  std::optional<TargetFinder> finder_;  // always one
  TargetTracker tracker_;
  const Status may_move_joint_;  // known since the start
  Placer placer_;
  std::unique_ptr<MoveThread> mover_;
  std::optional<LedgerKeeper> ledger_;
  std::optional<std::string> rival_;           // a warning; nothing: the kernel moves none
  std::optional<std::string> shared_stay_;     // a warning; nothing: no shared page was to be moved
  std::optional<std::string> without_ledger_;  // why; nothing: one is kept as it was asked for
  MoveCalibration calibration_{kMostMovesWatched};
  std::optional<std::chrono::nanoseconds> decided_over_;  // length of the last decision's epoch
  std::vector<TargetId> calibrated_;  // targets and files as of the last epoch, ascending
  std::uint64_t dropped_ = 0;  // moves that a configuration has replaced, since the last epoch
  std::vector<TrackedProcess> tracked_;
  std::vector<LiveBindings::Shared> decided_by_;  // bindings that targets of the decision refer to
  std::set<TargetId> unreadable_;  // whose policies cannot be read, which was reported
};

}  // namespace tmprof
