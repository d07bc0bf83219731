// SPDX-License-Identifier: Apache-2.0

#include "base/host/cpu_identity.h"

#include <fstream>
#include <string_view>

namespace tmprof {

CpuIdentity ReadCpuIdentity(const std::filesystem::path& cpuinfo) {
  CpuIdentity identity;
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::string_view text = line;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, text.find_last_not_of(" \t", colon - 1) + 1);
    const std::size_t start = text.find_first_not_of(' ', colon + 1);
    const std::string_view value = start == std::string_view::npos ? "" : text.substr(start);
    if (name == "vendor_id") identity.vendor = value;
    if (name == "model name") identity.model = value;
    if (name == "flags") identity.is_virtual = (std::string(value) + " ").contains("hypervisor ");
  }
  return identity;
}

}  // namespace tmprof
