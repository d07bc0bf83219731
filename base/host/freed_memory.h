// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace tmprof {

// Makes malloc keep freed memory for later allocations instead of returning it to the kernel. Each
// epoch takes as much memory as the one before, and returned memory is faulted in and zeroed again
// each time. That costs the recording thread 40 % of its time at 200 000 pages an epoch (perf
// record -e cpu-clock, `gups --footprint 1GiB`). It costs the daemon's thread an eighth of its time
// for 32 768 pages (the same command, in the machine of bench/closed_loop).
void KeepFreedMemory();

}  // namespace tmprof
