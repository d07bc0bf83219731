// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the ledger's structs as messages of ledger.proto. Internal to proto/.

#pragma once

#include <expected>
#include <set>
#include <string>

#include "base/units.h"
#include "proto/frame.h"
#include "proto/ledger.pb.h"
#include "proto/ledger_records.h"

namespace tmprof {

// All targets of the frames up to now.
using KnownTargets = std::set<TargetId>;

void EncodeLedgerInfo(const LedgerInfo& info, wire::LedgerHeader& message);
std::expected<LedgerInfo, std::string> DecodeLedgerInfo(const wire::LedgerHeader& message);

// Overwrites `message` and adds to `known`. An epoch that breaks the rules of LedgerEpoch is a
// broken invariant.
void EncodeLedgerEpoch(const LedgerEpoch& epoch, KnownTargets& known, wire::LedgerEpoch& message);

// Overwrites `epoch` and adds to `known`. Refuses a message that does not make a valid epoch; both
// are then unspecified.
Verdict DecodeLedgerEpoch(const wire::LedgerEpoch& message, KnownTargets& known,
                          LedgerEpoch& epoch);

}  // namespace tmprof
