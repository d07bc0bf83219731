// SPDX-License-Identifier: Apache-2.0
// Placing what an advice file names in arenas (objtrace/tracker/advice.h).

#pragma once

#include <cstdint>

#include "objtrace/tracker/advice.h"
#include "objtrace/tracker/arenas.h"
#include "objtrace/tracker/state.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern Advice* advice;  // null: everything stays where malloc(3) has it
extern Arenas arenas;

// By the environment; says what keeps it from it.
void BeginPlacing();

// By the call that returns to `caller`, below 0: none. Precondition: there is advice.
std::int32_t ArenaOf(const void* caller);
// Says it, once for each arena, by the process or a forked child.
void TellIfFull(std::uint32_t arena);

// Null where malloc(3) is to do it.
__attribute__((always_inline)) inline void* Placed(std::uint64_t bytes, const void* caller,
                                                   bool zeros = false) {
  if (__builtin_expect(advice == nullptr, 1) || within) return nullptr;
  const std::int32_t arena = ArenaOf(caller);
  if (arena < 0) return nullptr;
  const auto number = static_cast<std::uint32_t>(arena);
  void* placed = zeros ? arenas.AllocateZeros(number, bytes) : arenas.Allocate(number, bytes);
  if (__builtin_expect(placed == nullptr, 0)) TellIfFull(number);
  return placed;
}

// Null where there is no memory; the object stays.
void* MovePlaced(void* object, std::uint64_t bytes);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
