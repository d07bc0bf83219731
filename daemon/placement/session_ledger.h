// SPDX-License-Identifier: Apache-2.0
// The ledger of a session: begun with it, begun anew for another configuration, and gone on without
// if it cannot be written.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/move.h"
#include "base/result.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/placement/ledger_keeper.h"
#include "daemon/placement/move_orders.h"
#include "daemon/placement/placer.h"
#include "daemon/settings.h"
#include "proto/ledger_file.h"

namespace tmprof {

// Returns the head of a ledger that begins now, for these tiers: program, kernel and times. The
// caller adds the rest.
LedgerInfo NewLedgerInfo(const Tiers& tiers, MonotonicTime now);

class SessionLedger {
 public:
  // `report` is told of errors that end a ledger while the session goes on.
  explicit SessionLedger(std::function<void(const std::string&)> report);

  // Sets the ledger that lies there aside and begins another.
  Status Begin(const LedgerConfig& config, LedgerInfo info);
  // Begins another one if the configuration asks for it. `settle` returns the moves that are over,
  // which belong to the ledger before. If the new one cannot be begun, an error is returned, and
  // the one before goes on or is begun anew. Precondition: Begin() has succeeded.
  Status Renew(const LedgerConfig& config, LedgerInfo info,
               const std::function<SettledMoves()>& settle);

  // These do what those of LedgerKeeper do, and report an error instead of returning it.
  void Note(const EpochProfile& epoch, std::span<const TargetId> observed, SettledMoves settled,
            const PlacementDecision& decision, const Placer& placer);
  void End(SettledMoves settled);

  // The warning that no ledger is kept, and why. nullopt: it is kept as it was asked for.
  const std::optional<std::string>& without() const { return without_; }

 private:
  void GoOnWithout(const Error& error);

  std::function<void(const std::string&)> report_;
  LedgerConfig config_;
  std::optional<LedgerInfo> info_;  // set by Begin(), like the keeper
  std::optional<LedgerKeeper> keeper_;
  std::optional<std::string> without_;
};

}  // namespace tmprof
