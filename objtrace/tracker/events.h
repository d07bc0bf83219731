// SPDX-License-Identifier: Apache-2.0
// Telling the recorder (objtrace/tracker/log.h).

#pragma once

#include <cstdint>

#include "objtrace/tracker/log.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

std::uint64_t NowNs();

// Null where nobody takes events, or while another thread opens it. Precondition: there is a state.
AllocationLog* Log();

void AddEvent(AllocationLog& log, LogEventKind kind, std::uint64_t address, std::uint64_t bytes,
              std::uint32_t site, bool is_sampled);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
