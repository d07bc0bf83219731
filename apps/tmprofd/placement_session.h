// SPDX-License-Identifier: Apache-2.0
// Profiles and places under one configuration, until told to stop: the loop that joins profiler,
// placement and mover.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/tmprofd/config.h"
#include "base/clock.h"
#include "base/host/node_memory.h"
#include "base/host/own_cpus.h"
#include "base/host/procfs.h"
#include "base/latency_gap.h"
#include "base/result.h"
#include "daemon/control/daemon_status.h"
#include "daemon/control/hot_list.h"
#include "daemon/control/log.h"
#include "daemon/control/status_reporter.h"
#include "daemon/placement/decider.h"
#include "daemon/placement/live_mappings.h"
#include "daemon/placement/live_targets.h"
#include "daemon/placement/move_hindrances.h"
#include "daemon/placement/move_orders.h"
#include "daemon/placement/move_thread.h"
#include "daemon/placement/placed_targets.h"
#include "daemon/placement/session_ledger.h"
#include "daemon/placement/session_tiers.h"
#include "mover/live_bindings.h"
#include "mover/page_locator.h"
#include "mover/policy_reader.h"
#include "profiler/found_targets.h"
#include "profiler/recorder.h"
#include "profiler/session_sources.h"

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

  // Returns the spans that the last epoch's decision ranked best, without their processes' names.
  // To be called from within `stop_requested` of Run(). An error: no epoch has ended yet that this
  // configuration ranked.
  Result<HotList> Hottest(std::size_t most);

  // True: an epoch has ended in which a source observed a target. An error that ends Run()
  // afterwards is not the configuration's fault.
  bool has_observed() const { return has_observed_; }

  MoveThread& mover() { return mover_; }
  // Once it was paused or goes on; any thread may.
  void PublishState() { reporter_.PublishState(); }

 private:
  PlacementSession(Config config, SessionTiers tiers, SessionSources sources,
                   std::unique_ptr<PolicyReader> policies, const Log& log, DaemonStatus& status,
                   StatusBoard& board);

  // The parts as a configuration wants them.
  LatencyGaps GapsBy(const Config& config) const;
  DeciderOptions DecidingBy(const Config& config) const;
  LedgerInfo LedgerInfoFor(const Config& config) const;

  // An epoch from its profile to its moves and its report.
  void EndEpoch(const EpochProfile& epoch);
  void Place(const EpochProfile& epoch);
  // Empty: it cannot be read, which is logged.
  std::vector<NodeMemory> MemoryNow() const;
  // Has the placer learn from them, and counts them.
  SettledMoves Learn(SettledMoves settled);
  EpochReport ReportOf(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                       std::span<const NodeMemory> memory, const PlacementDecision& decision) const;

  void FindTargets(MonotonicTime now);
  void FollowTargets(const std::vector<TrackedProcess>& targets);
  void WarnOfMissing() const;
  // Returns the verdict of the counters. While no moves that pay are found, accessed bits are read
  // only for a part of the time.
  GateVerdict Gate(GateLook look, std::optional<double> memory_stall_share) const;
  // Warnings about sources and moves, which a ledger has, too; and about the ledger.
  std::vector<std::string> Warnings() const;
  std::vector<std::string> AllWarnings() const;

  Config config_;
  SessionTiers tiers_;
  SessionSources sources_;
  const Log& log_;
  std::function<void(const std::string&)> warn_;
  SystemClock clock_;
  ThreadCpuClock cpu_clock_;  // clock of the thread that calls Run()
  ProcFs procfs_;
  OwnCpus own_cpus_{procfs_};
  MovePagesCall call_;
  LinuxPageLocator locator_{call_};
  std::unique_ptr<PolicyReader> policies_;
  LiveBindings bindings_{*policies_, clock_};
  LiveMappings live_mappings_{[this](Pid pid) { return procfs_.Mappings(pid); }, clock_};
  LiveTargets live_{procfs_};

  FoundTargets found_;
  PlacedTargets placed_;
  MoveHindrances hindrances_;
  Decider decider_;
  MoveThread mover_;
  MoveOrders orders_{mover_};
  SessionLedger ledger_;
  StatusReporter reporter_;
  std::uint64_t next_epoch_ = 0;        // the epoch that moves which are over now ended in
  std::optional<EpochStatus> decided_;  // the epoch of the last decision
  RankModel ranked_model_ = RankModel::kRate;
  bool has_observed_ = false;
};

}  // namespace tmprof
