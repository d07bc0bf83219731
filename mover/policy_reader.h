// SPDX-License-Identifier: Apache-2.0
// Reads the memory policies of processes.

#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mover/memory_binding.h"

namespace tmprof {

// Not thread-safe. Both reading functions fail with ESRCH if the process or its memory is gone.
class PolicyReader {
 public:
  virtual ~PolicyReader() = default;

  // Names the source: "/proc/PID/numa_maps".
  virtual std::string_view way() const = 0;
  virtual Result<MemoryBinding> Read(Pid pid) = 0;
  // True if mappings are so much cheaper to read than policies that they are read in between.
  virtual bool mappings_are_cheaper() const = 0;
  // Ascending; mappings are not joined.
  virtual Result<std::vector<VpnRange>> ReadMappings(Pid pid) = 0;
};

// Calls ReadMemoryBinding(), which works on any kernel with NUMA.
class NumaMapsReader final : public PolicyReader {
 public:
  std::string_view way() const override { return "/proc/PID/numa_maps"; }
  Result<MemoryBinding> Read(Pid pid) override { return ReadMemoryBinding(pid); }
  bool mappings_are_cheaper() const override { return true; }
  Result<std::vector<VpnRange>> ReadMappings(Pid pid) override { return tmprof::ReadMappings(pid); }
};

}  // namespace tmprof
