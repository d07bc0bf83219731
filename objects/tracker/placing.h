// SPDX-License-Identifier: Apache-2.0
// Places objects of the sites that an advice file names in arenas (objects/tracker/advice.h).

#pragma once

#include <cstdint>

#include "objects/tracker/advice.h"
#include "objects/tracker/arenas.h"
#include "objects/tracker/state.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern Advice* advice;  // null: malloc(3) places everything
extern Arenas arenas;

// Reads the environment. It reports why objects are not placed.
void BeginPlacing();

// Returns the arena of the call that returns to `caller`; below 0: none. Precondition: there is
// advice.
std::int32_t ArenaOf(const void* caller);
// Reports a full arena, once for the process and its forked children.
void TellIfFull(std::uint32_t arena);

// Returns null if malloc(3) has to allocate.
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

// Returns null if there is no memory, and the object stays.
void* MovePlaced(void* object, std::uint64_t bytes);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
