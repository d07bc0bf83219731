// SPDX-License-Identifier: Apache-2.0

#include "base/host/freed_memory.h"

#include <malloc.h>

#include <limits>

namespace tmprof {

void KeepFreedMemory() {
  (void)::mallopt(M_MMAP_MAX, 0);
  (void)::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace tmprof
