// SPDX-License-Identifier: Apache-2.0
// Sends events to the recorder (objects/tracker/log.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objects/tracker/log.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

std::uint64_t NowNs();

// Returns null if nobody takes events, or while another thread opens the log. Precondition: there
// is a state.
AllocationLog* Log();

// Gives memory to element `index` of an array of the log, and to some more behind it; `room` is the
// number of elements with memory. False: there is no memory, it is left to other processes
// (HasRoomForLog()), or it was refused less than 100 ms ago. Keeps errno. It serves HasMemory().
// Precondition: there is a state.
bool GetMemory(void* array, std::size_t element_bytes, std::uint32_t most,
               std::atomic<std::uint32_t>& room, std::uint32_t index);

// The caller asks before it accesses an element. False: the element has no memory.
template <typename Element, std::uint32_t kMost>
bool HasMemory(Element (&array)[kMost], std::atomic<std::uint32_t>& room, std::uint32_t index) {
  return __builtin_expect(index < room.load(std::memory_order_acquire), 1) ||
         GetMemory(array, sizeof(Element), kMost, room, index);
}

void AddEvent(AllocationLog& log, LogEventKind kind, std::uint64_t address, std::uint64_t bytes,
              std::uint32_t site, bool is_sampled);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
