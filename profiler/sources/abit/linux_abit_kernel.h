// SPDX-License-Identifier: Apache-2.0
// The running kernel: BPF to read, process_madvise(MADV_COLD) to clear, /proc for the rest.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/page_table_reader.h"
#include "profiler/sources/abit/switch_clock.h"

namespace tmprof::abit {

// All calls on it and on its processes come from one thread at a time. It does not report when
// processes run if it has no clock.
std::unique_ptr<AbitKernel> MakeLinuxAbitKernel(std::unique_ptr<PageTableReader> reader,
                                                std::unique_ptr<SwitchClock> clock = nullptr);

// Clears memory of a child process, as the scanner would a target's. Fails with what the kernel
// says to that: it lets a process do to itself what it refuses for others (mm/madvise.c,
// Linux 6.18).
Status TryClearing();

}  // namespace tmprof::abit
