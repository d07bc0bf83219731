// SPDX-License-Identifier: Apache-2.0
// Whether the kernel moves pages between nodes by itself.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tmprof {

// What to tell of kernel.numa_balancing where it is not 0
// (Documentation/admin-guide/sysctl/kernel.rst); nothing: it is off, or the kernel has none.
std::optional<std::string> WarningOfAutomaticBalancing(
    const std::filesystem::path& setting = "/proc/sys/kernel/numa_balancing");

}  // namespace tmprof
