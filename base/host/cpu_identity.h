// SPDX-License-Identifier: Apache-2.0
// The kind of this machine's CPUs, as /proc/cpuinfo has it.

#pragma once

#include <filesystem>
#include <string>

namespace tmprof {

struct CpuIdentity {
  std::string vendor;       // "GenuineIntel", "AuthenticAMD"; empty: unknown
  std::string model;        // "Intel(R) Xeon(R) Processor"; empty: unknown
  bool is_virtual = false;  // a hypervisor says so
};

// Goes by the first CPU that the file lists. All is unknown if the file cannot be read.
CpuIdentity ReadCpuIdentity(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace tmprof
