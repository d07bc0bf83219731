// SPDX-License-Identifier: Apache-2.0

#include "base/text/addresses.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

namespace tmprof {
namespace {

std::optional<std::uint64_t> AddressOf(std::string_view digits) {
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  std::uint64_t address = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address, 16);
  if (error != std::errc{} || stop != digits.data() + digits.size()) return std::nullopt;
  return address;
}

}  // namespace

Result<std::uint64_t> ParseAddress(std::string_view option, const std::string& text) {
  if (const auto address = AddressOf(text)) return *address;
  return Fail(BadInput("use option", fmt::format("{} {}", option, text), "it is not an address",
                       "write 0x7f0000012345, as the hot view shows"));
}

Result<VpnRange> ParseAddresses(const std::string& text) {
  const std::string_view all = text;
  const std::size_t dash = all.find('-');
  const auto start = AddressOf(all.substr(0, dash));
  const auto end = dash == all.npos ? std::nullopt : AddressOf(all.substr(dash + 1));
  if (!start || !end || VpnOfAddress(*start) >= VpnOfAddress(*end)) {
    return Fail(BadInput("use option", "--addresses " + text, "it is not a range of addresses",
                         "write START-END in hexadecimal, as in /proc/PID/maps"));
  }
  return VpnRange{VpnOfAddress(*start), VpnOfAddress(*end)};
}

}  // namespace tmprof
