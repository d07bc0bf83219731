// SPDX-License-Identifier: Apache-2.0
// What a file that is loaded says of itself: its segments and its build ID. For the runtime and for
// the tracker, without a lock and without allocating.

#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

using Segments = std::span<const ElfW(Phdr)>;

// Of the file whose first byte is loaded there. None where it is no ELF file, or where its program
// headers are not on its first page: nobody knows whether what follows that is loaded.
Segments SegmentsOf(const void* file_start);

// Empty: the file has none. `bias` is what its addresses are loaded above.
std::span<const std::uint8_t> BuildIdOf(Segments segments, std::uint64_t bias);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
