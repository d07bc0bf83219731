// SPDX-License-Identifier: Apache-2.0
// Addresses as options of the command line give them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// Hexadecimal, with 0x before it or without, as /proc/PID/maps writes it. Fails if `text` is
// anything else; the message names the option.
Result<std::uint64_t> ParseAddress(std::string_view option, const std::string& text);

// "0x7f0000000000-0x7f0040000000", as /proc/PID/maps writes ranges. The addresses are rounded down
// to pages of 4 KiB. Fails if there is no page between them.
Result<VpnRange> ParseAddresses(const std::string& text);

}  // namespace tmprof
