// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace tmprof {

// From now on memory that is freed is kept for what is allocated next. Each epoch takes as much as
// the one before; given back to the kernel in between, it is faulted in and zeroed each time: 40 %
// of what the recording thread costs at 200 000 pages an epoch (perf record -e cpu-clock, `gups
// --footprint 1GiB`), and an eighth of what the daemon's takes for 32 768 pages (likewise, in the
// machine of bench/closed_loop).
void KeepFreedMemory();

}  // namespace tmprof
