// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the base types as messages of trace.proto. Internal to proto/.

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/trace_info.h"
#include "proto/column_codec.h"
#include "proto/extension_codec.h"
#include "proto/trace.pb.h"

namespace tmprof {

// The mappings of every target in the epoch before. The writer does not repeat them, and the reader
// carries them on.
using MappingMemory = std::map<TargetId, std::vector<Mapping>>;

using WireSettings = google::protobuf::RepeatedPtrField<wire::Setting>;
void EncodeSettings(const std::vector<Setting>& settings, WireSettings& message);
std::vector<Setting> DecodeSettings(const WireSettings& message);

using WireTiers = google::protobuf::RepeatedPtrField<wire::MemoryTier>;
void EncodeTier(std::span<const NodeId> nodes, WireTiers& message);
// Refuses numbers that no node has. The caller checks the tiers.
std::expected<std::vector<std::vector<NodeId>>, std::string> DecodeTiers(const WireTiers& message);

// Refuses times before boot or past the end of time.
Verdict DecodeTimes(std::int64_t start_ns, std::uint64_t length_ns, MonotonicTime& start,
                    MonotonicTime& end);

void EncodeInfo(const TraceInfo& info, wire::TraceHeader& message);
// Refuses times before boot, and invalid tiers.
std::expected<TraceInfo, std::string> DecodeInfo(const wire::TraceHeader& message);

// Overwrites `message` and updates `memory` to this epoch. An epoch that breaks the rules of
// base/epoch_profile.h is a broken invariant.
void EncodeEpoch(const EpochProfile& epoch, MappingMemory& memory, wire::Epoch& message);

// Overwrites `epoch`, keeping the capacity of its vectors, and updates `memory` to it. Refuses a
// message that does not make a valid epoch; both are then unspecified. `message_bytes` is the
// length of the encoded message, which limits its records. Without a codec, it does not
// read the extension.
Verdict DecodeEpoch(const wire::Epoch& message, std::size_t message_bytes,
                    const ExtensionCodec* codec, MappingMemory& memory, EpochProfile& epoch);

}  // namespace tmprof
