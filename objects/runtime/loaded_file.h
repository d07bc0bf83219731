// SPDX-License-Identifier: Apache-2.0
// Reads the segments and the build ID of a loaded file. The runtime and the tracker use it. It
// takes no lock and allocates nothing.

#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

using Segments = std::span<const ElfW(Phdr)>;

// Returns the segments of the file whose first byte is loaded there. Empty if it is not an ELF
// file, or if its program headers are not on its first page, because later pages may not be loaded.
Segments SegmentsOf(const void* file_start);

// Empty: the file has no build ID. `bias` is the address that the file's addresses are relative to.
std::span<const std::uint8_t> BuildIdOf(Segments segments, std::uint64_t bias);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
