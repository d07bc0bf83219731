// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes one column of page records (Column in trace.proto). Internal to proto/.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/log_duration.h"
#include "base/units.h"
#include "proto/frame.h"
#include "proto/trace.pb.h"

namespace tmprof {

// One past the last virtual page number: 64-bit addresses of 4 KiB pages.
inline constexpr std::uint64_t kVpnEnd = std::uint64_t{1} << (64 - kBasePageShift);

enum class ColumnChoice : std::uint8_t {
  kSmallest,
  kByteEach,  // at least one byte per value, so that the message is as long as its record count
};

void EncodeColumn(std::span<const std::uint64_t> values, ColumnChoice choice, wire::Column& column);

// Overwrites `values`, whose size is the expected number of values. Refuses a column of another
// length, and values outside the type's range.
Verdict DecodeColumn(const wire::Column& column, std::span<Vpn> values);  // each below kVpnEnd
Verdict DecodeColumn(const wire::Column& column, std::span<std::uint32_t> values);
Verdict DecodeColumn(const wire::Column& column, std::span<std::uint64_t> values);
Verdict DecodeColumn(const wire::Column& column, std::span<LogDuration> values);
Verdict DecodeColumn(const wire::Column& column, std::span<std::optional<NodeId>> values);

// Return the wire values of types that are not plain numbers.
inline std::uint64_t ToWire(LogDuration duration) { return duration.code(); }
inline std::uint64_t ToWire(std::optional<NodeId> node) { return node ? 1 + node->value() : 0; }

}  // namespace tmprof
