// SPDX-License-Identifier: Apache-2.0
// How memory policies of processes are read.

#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mover/memory_binding.h"

namespace tmprof {

// Not thread-safe. Both fail with ESRCH where the process or its memory is gone.
class PolicyReader {
 public:
  virtual ~PolicyReader() = default;

  // In words: "/proc/PID/numa_maps".
  virtual std::string_view way() const = 0;
  virtual Result<MemoryBinding> Read(Pid pid) = 0;
  // Whether reading policies takes so much longer than reading mappings that these are asked for in
  // between.
  virtual bool mappings_are_cheaper() const = 0;
  // Ascending, each by itself.
  virtual Result<std::vector<VpnRange>> ReadMappings(Pid pid) = 0;
};

// ReadMemoryBinding(): on any kernel with NUMA.
class NumaMapsReader final : public PolicyReader {
 public:
  std::string_view way() const override { return "/proc/PID/numa_maps"; }
  Result<MemoryBinding> Read(Pid pid) override { return ReadMemoryBinding(pid); }
  bool mappings_are_cheaper() const override { return true; }
  Result<std::vector<VpnRange>> ReadMappings(Pid pid) override { return tmprof::ReadMappings(pid); }
};

}  // namespace tmprof
