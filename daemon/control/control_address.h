// SPDX-License-Identifier: Apache-2.0
// The address of the daemon's control socket.

#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tmprof {

// In a folder of its own, which systemd makes for the daemon: it may write nowhere else in /run.
inline constexpr std::string_view kDefaultControlSocket = "/run/tmprofd/control";

struct UnixAddress {
  sockaddr_un address{};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  static constexpr socklen_t size() { return sizeof(sockaddr_un); }
};

// Refuses a path that is empty or too long for a socket.
inline Result<UnixAddress> UnixAddressOf(const std::string& path) {
  UnixAddress unix_address;
  sockaddr_un& address = unix_address.address;
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Fail(BadInput("use control socket", path,
                         path.empty() ? "its path is empty"
                                      : "its path is longer than the 107 bytes that one may have"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return unix_address;
}

}  // namespace tmprof
