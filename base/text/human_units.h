// SPDX-License-Identifier: Apache-2.0
// Parses and prints quantities as people write them: "200MiB", "0.5%", and durations.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/duration_text.h"
#include "base/result.h"

namespace tmprof {

// Parses a whole number with one of B, KiB, MiB, GiB, TiB: "8MiB". A bare number is refused.
Result<std::uint64_t> ParseBytes(std::string_view text);
// Parses a share of a whole in [0, 1]: "1%", "0.5%" or a plain "0.01".
Result<double> ParseShare(std::string_view text);

std::string FormatShare(double share);         // "1%", "0.25%"
std::string FormatBytes(std::uint64_t bytes);  // "512 MiB", "4 KiB", "1.5 GiB"
std::string FormatCount(std::uint64_t count);  // "131 072", thin groups of three

}  // namespace tmprof
