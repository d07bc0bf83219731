// SPDX-License-Identifier: Apache-2.0
// An address of the loopback interface that metrics are served at.

#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace tmprof {

struct ListenAddress {
  std::string host;  // in numbers, an IPv6 address without brackets
  std::uint16_t port = 0;
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

// Reads "127.0.0.1:9101" or "[::1]:9101". The error says what is wrong with the text, and what to
// use.
std::expected<ListenAddress, std::string> ParseLoopbackAddress(const std::string& text);
// The inverse.
std::string ToString(const ListenAddress& address);

}  // namespace tmprof
