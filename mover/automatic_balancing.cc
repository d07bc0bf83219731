// SPDX-License-Identifier: Apache-2.0

#include "mover/automatic_balancing.h"

#include <fstream>

namespace tmprof {

std::optional<std::string> WarningOfAutomaticBalancing(const std::filesystem::path& setting) {
  std::ifstream file(setting);
  int mode = 0;
  if (!(file >> mode) || mode == 0) return std::nullopt;
  return "the kernel moves pages between nodes, too (kernel.numa_balancing is " +
         std::to_string(mode) +
         "), and may undo what this does; 'sysctl kernel.numa_balancing=0' ends that";
}

}  // namespace tmprof
