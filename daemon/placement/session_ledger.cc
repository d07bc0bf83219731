// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/session_ledger.h"

#include <sys/utsname.h>

#include <chrono>
#include <utility>

#include "base/version.h"

namespace tmprof {

LedgerInfo NewLedgerInfo(const Tiers& tiers, MonotonicTime now) {
  utsname system{};
  uname(&system);
  return {.tool_version = std::string("tmprof ") + kVersion,
          .kernel_release = system.release,
          .wall_start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
              std::chrono::system_clock::now()),
          .start = now,
          .tiers = tiers,
          .rank_model = {},
          .policy = {},
          .settings = {},
          .warnings = {}};
}

SessionLedger::SessionLedger(std::function<void(const std::string&)> report)
    : report_(std::move(report)) {}

void SessionLedger::GoOnWithout(const Error& error) {
  without_ = error.Message() + "; moving goes on without a ledger";
  report_(*without_);
}

Status SessionLedger::Begin(const LedgerConfig& config, LedgerInfo info) {
  auto begun = LedgerKeeper::Begin(config, info);
  if (!begun) return Fail(begun.error());
  keeper_ = *std::move(begun);
  config_ = config;
  info_ = std::move(info);
  without_.reset();
  return {};
}

Status SessionLedger::Renew(const LedgerConfig& config, LedgerInfo info,
                            const std::function<SettledMoves()>& settle) {
  // The ledger before, as it would begin now.
  LedgerInfo before = *info_;
  before.wall_start = info.wall_start;
  before.start = info.start;
  before.warnings = info.warnings;
  if (info == before && config == config_) return {};
  std::optional<LedgerKeeper> another;
  // Another file is begun beside the one that is written: what cannot be written ends nothing.
  if (config.file != config_.file) {
    auto begun = LedgerKeeper::Begin(config, info);
    if (!begun) return Fail(begun.error());
    another = *std::move(begun);
  }
  End(settle());
  if (another) {
    keeper_ = *std::move(another);
    config_ = config;
    info_ = std::move(info);
    without_.reset();
    return {};
  }
  const Status begun = Begin(config, std::move(info));
  if (begun) return {};
  if (const Status again = Begin(LedgerConfig(config_), std::move(before)); !again) {
    GoOnWithout(again.error());
  }
  return begun;
}

void SessionLedger::Note(const EpochProfile& epoch, std::span<const TargetId> observed,
                         SettledMoves settled, const PlacementDecision& decision,
                         const Placer& placer) {
  const Status kept = keeper_->Note(epoch, observed, decision.not_moved, settled.replaced,
                                    std::move(settled.outcomes), decision.rank, placer.table(),
                                    placer.scores(), placer.owners());
  if (!kept) GoOnWithout(kept.error());
}

void SessionLedger::End(SettledMoves settled) {
  const Status ended = keeper_->End(std::move(settled.outcomes), settled.replaced);
  if (!ended) report_(ended.error().Message());
}

}  // namespace tmprof
