// SPDX-License-Identifier: Apache-2.0
// Ledgers for the tests of the format and of what reads it.

#pragma once

#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "proto/ledger_file.h"

namespace tmprof {

inline LedgerInfo SmallLedgerInfo() {
  return {.tool_version = "tmprof 0.1.0",
          .kernel_release = "6.12.9",
          .wall_start = std::chrono::system_clock::time_point(std::chrono::seconds(1'767'225'600)),
          .start = MonotonicTime(std::chrono::seconds(100)),
          .epoch_length = std::chrono::seconds(1),
          .tiers = Tiers::Make({{NodeId(0)}, {NodeId(1), NodeId(3)}}).value(),
          .rank_model = "rate",
          .policy = "history",
          .dry_run = false,
          .settings = {{"capacity", "1 GiB"}, {"hysteresis", "1.5"}},
          .warnings = {"NUMA balancing is on"}};
}

inline LedgerEpoch LedgerEpochAt(std::uint64_t index) {
  LedgerEpoch epoch;
  epoch.index = index;
  epoch.start = MonotonicTime(std::chrono::seconds(100 + index));
  epoch.end = epoch.start + std::chrono::seconds(1);
  return epoch;
}

inline MoveOutcome Moved(std::uint32_t target, std::uint64_t vpn, std::uint16_t from,
                         std::uint16_t to, MoveReason reason = MoveReason::kWanted) {
  return {.move = {.key = {TargetId(target), Vpn(vpn)},
                   .from = NodeId(from),
                   .to = NodeId(to),
                   .score = 2.5,
                   .reason = reason},
          .attempts = 1,
          .latency = std::chrono::microseconds(3)};
}

// Three epochs that use every field and every value of each enumeration.
inline std::vector<LedgerEpoch> SmallLedgerEpochs() {
  LedgerEpoch first = LedgerEpochAt(0);
  first.targets = {{.id = TargetId(0),
                    .pid = Pid(4711),
                    .start_time_ticks = 987654,
                    .name = "redis-server",
                    .command = "redis-server *:6379"},
                   {.id = TargetId(3), .pid = Pid(4712), .name = "caf\xe9", .command = ""}};
  first.not_moved = {.bound = 1,
                     .binding_unknown = 8,
                     .shared = 10,
                     .mapped_elsewhere = 11,
                     .backoff = 9,
                     .cooling = 2,
                     .without_gain = 3,
                     .without_room = 4,
                     .over_quota = 5,
                     .unplaced = 6};
  first.replaced = 7;
  first.ranked_by = "memory";
  MoveOutcome busy = Moved(0, 0x7f0000000, 1, 0);
  busy.error = EBUSY;
  busy.attempts = 3;
  busy.latency = std::chrono::milliseconds(300);
  MoveOutcome huge = Moved(3, 0x200, 3, 0);
  huge.move.span = PageCount(512);
  huge.move.score = 1e300;
  MoveOutcome last = Moved(3, (std::uint64_t{1} << 52) - 1, 0xffff, 0, MoveReason::kOverCapacity);
  last.move.score = -0.5;
  MoveOutcome gone = Moved(0, 0, 1, 0);
  gone.error = ESRCH;
  gone.attempts = 0;
  gone.latency = std::chrono::nanoseconds(0);
  first.moves = {Moved(0, 0x7f0000001, 0, 1, MoveReason::kRoom), busy, huge, last, gone};

  LedgerEpoch second = LedgerEpochAt(1);  // no move happened

  LedgerEpoch third = LedgerEpochAt(5);  // epochs 2 to 4 were lost
  third.targets = {{.id = TargetId(1), .pid = Pid(5000), .name = "new", .command = "new"},
                   {.id = TargetId(3), .pid = Pid(4712), .name = "exec", .command = "exec me"}};
  third.moves = {Moved(3, 0x200, 0, 1, MoveReason::kRoom)};
  third.settled = {{.key = {TargetId(3), Vpn(0x200)},
                    .span = PageCount(512),
                    .from = NodeId(3),
                    .to = NodeId(0),
                    .moved_in = 0,
                    .cause = SettledCause::kMoved,
                    .epochs = 1,
                    .epochs_known = 1,
                    .seen = 3.5,
                    .weight = 100.25},
                   {.key = {TargetId(0), Vpn(0x7f0000001)},
                    .from = NodeId(0),
                    .to = NodeId(1),
                    .moved_in = 0,
                    .cause = SettledCause::kGone,
                    .epochs = 1},
                   {.key = {TargetId(3), Vpn((std::uint64_t{1} << 52) - 1)},
                    .from = NodeId(0xffff),
                    .to = NodeId(0),
                    .moved_in = 0,
                    .cause = SettledCause::kForgotten,
                    .epochs = 1,
                    .epochs_known = 1},
                   {.key = {TargetId(3), Vpn(0x200)},
                    .from = NodeId(0),
                    .to = NodeId(1),
                    .moved_in = 5,
                    .cause = SettledCause::kEnd}};
  return {first, second, third};
}

}  // namespace tmprof
