// SPDX-License-Identifier: Apache-2.0
// Tells if the kernel moves pages between nodes by itself.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tmprof {

// Returns a warning if kernel.numa_balancing is not 0
// (Documentation/admin-guide/sysctl/kernel.rst). nullopt: it is off, or the kernel does not have
// it.
std::optional<std::string> WarningOfAutomaticBalancing(
    const std::filesystem::path& setting = "/proc/sys/kernel/numa_balancing");

}  // namespace tmprof
