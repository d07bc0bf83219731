// SPDX-License-Identifier: Apache-2.0
// Memory policies of a process as the kernel holds them, read by a BPF program: a mapping costs
// less than a microsecond, however much memory it has.

#pragma once

#include <memory>

#include "mover/policy_reader.h"

namespace tmprof {

// Takes CAP_BPF, CAP_PERFMON and a kernel with BTF that has NUMA (Linux 5.14). Tells more than
// numa_maps does: policies with more nodes than fit there, and shared memory with policies of its
// own by range, which stays.
Result<std::unique_ptr<PolicyReader>> OpenPolicyIterator();

}  // namespace tmprof
