// SPDX-License-Identifier: Apache-2.0
// Reads a process's memory policies from the kernel by a BPF program. A mapping costs less than a
// microsecond, however much memory it has.

#pragma once

#include <memory>
#include <string>

#include "mover/policy_reader.h"

namespace tmprof {

// Needs CAP_BPF, CAP_PERFMON and a kernel with BTF and NUMA (Linux 5.14). It reports more than
// numa_maps: policies with long node lists, and shared memory with policies by range, whose pages
// stay.
Result<std::unique_ptr<PolicyReader>> OpenPolicyIterator();

struct OpenedPolicyReader {
  std::unique_ptr<PolicyReader> reader;  // never null
  std::string why_slower;                // why it is not the iterator, for the log; empty: it is
};

// Opens the iterator, or else what reads numa_maps.
OpenedPolicyReader OpenPolicyReader();

}  // namespace tmprof
