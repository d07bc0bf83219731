// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/listen_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace tmprof {
namespace {

std::optional<ListenAddress> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view port = text.substr(colon + 1);
  std::string host(text.substr(0, colon));
  ListenAddress address;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port == 0) {
    return std::nullopt;
  }
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  if (::inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), binary.data()) != 1) {
    return std::nullopt;
  }
  address.host = std::move(host);
  return address;
}

bool IsLoopback(const ListenAddress& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace

std::expected<ListenAddress, std::string> ParseLoopbackAddress(const std::string& text) {
  constexpr std::string_view kAllowed = "use 127.0.0.1:PORT or [::1]:PORT";
  auto address = ParseAddress(text);
  if (!address) {
    return std::unexpected(fmt::format(
        "'{}' is no address in numbers with a port from 1 to 65535; {}", text, kAllowed));
  }
  if (!IsLoopback(*address)) {
    return std::unexpected(
        fmt::format("'{}' is not of the loopback interface, and metrics are for this machine "
                    "only; {}",
                    text, kAllowed));
  }
  return *std::move(address);
}

std::string ToString(const ListenAddress& address) {
  const bool v6 = address.host.contains(':');
  return fmt::format("{}:{}", v6 ? "[" + address.host + "]" : address.host, address.port);
}

}  // namespace tmprof
