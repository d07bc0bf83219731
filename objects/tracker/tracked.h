// SPDX-License-Identifier: Apache-2.0
// Addresses that were reported to the recorder and are not freed yet.

#pragma once

#include <cstdint>

#include "objects/tracker/state.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

inline std::uint64_t FilterIndex(std::uint64_t address) {
  static_assert(kFilterShift == 32 - 12);
  return static_cast<std::uint32_t>(address) >> 12;
}

// False: no tracked address has this index.
inline bool MayBeTracked(std::uint64_t address) {
  return state->filter[FilterIndex(address)].load(std::memory_order_relaxed) != 0;
}

// Returns false if there is no room.
bool Track(std::uint64_t address);
// Returns true if it was tracked.
bool Untrack(std::uint64_t address);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
