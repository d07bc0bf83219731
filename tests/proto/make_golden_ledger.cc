// SPDX-License-Identifier: Apache-2.0
// Makes tests/golden/v1.tmprof.ledger. Not part of any test: run it once for each version of the
// format, commit the file, and never make that version's file again.
//   ninja -C build/release make_golden_ledger
//   build/release/make_golden_ledger tests/golden/v1.tmprof.ledger

#include <cerrno>
#include <cstdio>

#include "base/check.h"
#include "proto/ledger_file.h"

namespace tmprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TargetId kServer{0};
constexpr TargetId kChild{1};
constexpr NodeId kFast{0};
constexpr std::uint64_t kFirstPage = 0x7f0000000;

LedgerInfo GoldenInfo() {
  Result<Tiers> tiers = Tiers::Make({{kFast}, {NodeId(1), NodeId(2)}});
  TMPROF_CHECK(tiers.has_value());
  return {.tool_version = "tmprof 0.1.0",
          .kernel_release = "6.12.9",
          .wall_start = std::chrono::system_clock::time_point(seconds(1'767'225'600)),
          .start = MonotonicTime(seconds(500)),
          .epoch_length = seconds(1),
          .tiers = *tiers,
          .rank_model = "sum",
          .policy = "history",
          .dry_run = false,
          .settings = {{"capacity", "512 MiB"}, {"hysteresis", "1.5"}},
          .warnings = {"numa_balancing is on"}};
}

LedgerEpoch EpochAt(std::uint64_t index) {
  LedgerEpoch epoch;
  epoch.index = index;
  epoch.start = MonotonicTime(seconds(500 + index));
  epoch.end = epoch.start + milliseconds(1001);
  return epoch;
}

// Promotions that are uneven enough to need every column coding, a huge page, and a failure.
LedgerEpoch FirstEpoch() {
  LedgerEpoch epoch = EpochAt(0);
  epoch.targets = {{.id = kServer,
                    .pid = Pid(1234),
                    .start_time_ticks = 49'000,
                    .name = "server",
                    .command = "server --port 1"}};
  epoch.not_moved = {.bound = 1,
                     .cooling = 2,
                     .without_gain = 3,
                     .without_room = 4,
                     .over_quota = 5,
                     .unplaced = 6};
  epoch.replaced = 7;
  for (std::uint32_t i = 0; i < 300; ++i) {
    epoch.moves.push_back({.move = {.key = {kServer, Vpn(kFirstPage + i + i / 100)},
                                    .from = NodeId(static_cast<NodeId::rep>(1 + i % 2)),
                                    .to = kFast,
                                    .score = 0.5 * (300 - i)},
                           .attempts = i % 3 == 0 ? 2u : 1u,
                           .latency = nanoseconds(1000 + 7 * i)});
  }
  epoch.moves.push_back({.move = {.key = {kServer, Vpn(kFirstPage - 512)},
                                  .span = PageCount(512),
                                  .from = NodeId(1),
                                  .to = kFast,
                                  .score = 1e6},
                         .attempts = 1,
                         .latency = nanoseconds(400'000)});
  epoch.moves.push_back(
      {.move = {.key = {kServer, Vpn(0x55600)}, .from = NodeId(2), .to = kFast, .score = 3},
       .error = EBUSY,
       .attempts = 3,
       .latency = milliseconds(5)});
  return epoch;
}

LedgerEpoch SecondEpoch() {
  LedgerEpoch epoch = EpochAt(2);
  epoch.targets = {{.id = kChild,
                    .pid = Pid(1235),
                    .start_time_ticks = 49'500,
                    .name = "caf\xe9",  // Latin-1: text is bytes
                    .command = ""}};
  epoch.moves = {{.move = {.key = {kServer, Vpn(kFirstPage)},
                           .from = kFast,
                           .to = NodeId(1),
                           .score = 0,
                           .reason = MoveReason::kRoom},
                  .attempts = 1,
                  .latency = nanoseconds(2000)},
                 {.move = {.key = {kChild, Vpn(0)},
                           .from = kFast,
                           .to = NodeId(2),
                           .score = 0.25,
                           .reason = MoveReason::kOverCapacity},
                  .attempts = 1,
                  .latency = nanoseconds(2000)}};
  epoch.settled = {{.key = {kServer, Vpn(kFirstPage)},
                    .from = NodeId(1),
                    .to = kFast,
                    .moved_in = 0,
                    .cause = SettledCause::kMoved}};
  return epoch;
}

LedgerEpoch LastEpoch() {
  LedgerEpoch epoch = EpochAt(3);
  epoch.settled = {{.key = {kServer, Vpn(kFirstPage - 512)},
                    .span = PageCount(512),
                    .from = NodeId(1),
                    .to = kFast,
                    .moved_in = 0,
                    .cause = SettledCause::kForgotten,
                    .epochs = 2,
                    .epochs_known = 1,
                    .seen = 40,
                    .weight = 120.5},
                   {.key = {kServer, Vpn(kFirstPage + 1)},
                    .from = NodeId(2),
                    .to = kFast,
                    .moved_in = 0,
                    .cause = SettledCause::kEnd,
                    .epochs = 2,
                    .epochs_known = 2},
                   {.key = {kChild, Vpn(0)},
                    .from = kFast,
                    .to = NodeId(2),
                    .moved_in = 2,
                    .cause = SettledCause::kGone,
                    .epochs = 1,
                    .epochs_known = 1,
                    .seen = 1,
                    .weight = 1}};
  return epoch;
}

Status Make(const char* path) {
  Result<LedgerWriter> writer = LedgerWriter::Create(path, GoldenInfo());
  if (!writer) return Fail(writer.error());
  for (const LedgerEpoch& epoch : {FirstEpoch(), SecondEpoch(), LastEpoch()}) {
    if (Status status = writer->Write(epoch); !status) return status;
  }
  return writer->Finish();
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden_ledger FILE\n");
    return 2;
  }
  const tmprof::Status status = tmprof::Make(argv[1]);
  if (status) return 0;
  std::fprintf(stderr, "make_golden_ledger: %s\n", status.error().Message().c_str());
  return status.error().ExitStatus();
}
