// SPDX-License-Identifier: Apache-2.0
// Human units, read strictly: a number without its unit, a stray sign or trailing text is refused.

#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace tmprof::workload {

// The error is a clause that names the text: "'12' is not a size: write … ".
template <typename T>
using Parsed = std::expected<T, std::string>;

// "512MiB", "1.5GiB", "4096B"; a whole number of bytes above zero.
Parsed<std::uint64_t> ParseBytes(std::string_view text);

// "10s", "250ms", "1.5min"; zero is allowed.
Parsed<std::chrono::nanoseconds> ParseDuration(std::string_view text);
// The same, above zero.
Parsed<std::chrono::nanoseconds> ParseLength(std::string_view text);

// "1/16", "0.9", "90%"; within [0, 1].
Parsed<double> ParseShare(std::string_view text);

// Per second: "200000", "200k", "1.5M"; above zero.
Parsed<double> ParseRate(std::string_view text);

// A finite number of at least zero: "0.99".
Parsed<double> ParseNumber(std::string_view text);

// A whole number: "42".
Parsed<std::uint64_t> ParseInteger(std::string_view text);

// For people, in the largest unit that leaves at least 1: "512 MiB".
std::string FormatBytes(std::uint64_t bytes);

}  // namespace tmprof::workload
