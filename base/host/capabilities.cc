// SPDX-License-Identifier: Apache-2.0

#include "base/host/capabilities.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace tmprof {
namespace {

template <typename Wanted>
std::string NamesWhere(std::span<const Capability> capabilities, Wanted wanted) {
  std::string names;
  for (const Capability& capability : capabilities) {
    if (!wanted(capability)) continue;
    if (!names.empty()) names += ", ";
    names += capability.name;
  }
  return names;
}

constexpr std::string_view kWhoElseRefuses =
    "a container's rules or a security module may forbid it";

}  // namespace

std::uint64_t EffectiveCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct halves[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, halves) != 0) return 0;
  return std::uint64_t{halves[1].effective} << 32 | halves[0].effective;
}

std::string MissingCapabilities(std::span<const Capability> needed, std::uint64_t effective) {
  return NamesWhere(needed, [effective](const Capability& capability) {
    return (effective >> capability.number & 1) == 0;
  });
}

std::string CapabilityAdvice(std::span<const Capability> needed, std::uint64_t effective) {
  std::string advice =
      NamesWhere(needed, [](const Capability& capability) { return !capability.other_users_only; });
  const std::string for_others =
      NamesWhere(needed, [](const Capability& capability) { return capability.other_users_only; });
  if (!for_others.empty()) {
    if (!advice.empty()) advice += ", and ";
    advice += for_others + " for other users' processes";
  }
  advice = "run as root or with " + advice;
  const std::string missing = MissingCapabilities(needed, effective);
  return advice + (missing.empty() ? fmt::format(" (held here: {})", kWhoElseRefuses)
                                   : fmt::format(" (missing here: {})", missing));
}

std::string OwnerAdvice(std::string_view owner, bool is_root) {
  if (is_root) return fmt::format("even root is refused here: {}", kWhoElseRefuses);
  return fmt::format("run as root or as {}", owner);
}

}  // namespace tmprof
