// SPDX-License-Identifier: Apache-2.0
// Hand-made statuses for the tests of the code that reports them.

#pragma once

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/units.h"
#include "daemon/control/daemon_status.h"

namespace tmprof::test {

// The time at which the daemon of these tests began.
inline constexpr MonotonicTime kDaemonStart{std::chrono::seconds(100)};

// The status of a daemon that knows nothing yet.
inline DaemonStatus NewStatus() {
  DaemonStatus status;
  status.version = "1.2.3";
  return status;
}

// The status of a daemon that knows all.
inline DaemonStatus FullStatus() {
  using std::chrono::milliseconds;
  DaemonStatus status = NewStatus();
  status.config_file = "/etc/tmprofd.textproto";
  status.epoch = EpochStatus{.index = 7, .length = milliseconds(1500)};
  status.epochs_total = 8;
  status.targets = {{.id = TargetId(0),
                     .pid = Pid(4711),
                     .name = "redis-server",
                     .tracked = PageCount(1024),
                     .in_tier1 = PageCount(256),
                     .cpu_time = milliseconds(750)}};
  status.tiers = {{.tier = Tier(1),
                   .nodes = {NodeId(0), NodeId(2)},
                   .capacity = PageCount(512),
                   .used = PageCount(256),
                   .free = PageCount(128)},
                  {.tier = Tier(2), .nodes = {NodeId(1)}, .used = PageCount(768)}};
  status.sources = {{.last_epoch = {.name = "clock",
                                    .label = "clock (memory-stall time)",
                                    .role = SourceRole::kSamples,
                                    .state = SourceState::kActive,
                                    .samples_of = SampleSubject::kTime,
                                    .duty_cycle = 0.25,
                                    .observations = 4000,
                                    .lost = 3,
                                    .details = {},
                                    .note = "half-blind"},
                     .lost_total = 30}};
  status.decision = DecisionStatus{.wanted = PageCount(12),
                                   .moves = 5,
                                   .saved_per_second = 0.0625,
                                   .not_moved = {.bound = 1,
                                                 .binding_unknown = 7,
                                                 .shared = 9,
                                                 .mapped_elsewhere = 10,
                                                 .backoff = 8,
                                                 .cooling = 2,
                                                 .without_gain = 3,
                                                 .without_room = 4,
                                                 .over_quota = 5,
                                                 .unplaced = 6}};
  status.totals.moved[{Tier(2), Tier(1), MoveReason::kWanted}] = PageCount(90);
  status.totals.moved[{Tier(1), Tier(2), MoveReason::kRoom}] = PageCount(80);
  status.totals.failures[EBUSY] = 4;
  status.totals.ping_pong = 2;
  status.pending_moves = 11;
  status.own_cpu_time = milliseconds(12500);
  status.tier1_hit_ratio = 0.875;
  status.ranked_by = RankSource::kMemory;
  status.gaps = GapsOf({80.0, 250.0}, std::nullopt);
  status.savings = {.promotions = 90, .predicted_seconds = 2, .realised_seconds = 1.5};
  status.warnings = {"reclaim is at work on node 0"};
  return status;
}

}  // namespace tmprof::test
