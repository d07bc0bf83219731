// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/loaded_file.h"

#include <elf.h>

#include <cstring>

#include "objects/runtime/system.h"

namespace tmprof::objtrace {
namespace {

// Returns the aligned size of a part of a note.
std::uint64_t Padded(std::uint64_t bytes) { return (bytes + 3) / 4 * 4; }

// Searches the notes at [at, end).
std::span<const std::uint8_t> BuildIdIn(std::uint64_t at, std::uint64_t end) {
  while (end - at >= sizeof(ElfW(Nhdr))) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
    at += sizeof(*note);
    const std::uint64_t name = at;
    if (end - at < Padded(note->n_namesz)) break;
    at += Padded(note->n_namesz);
    if (end - at < note->n_descsz) break;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(ELF_NOTE_GNU) &&
        std::memcmp(reinterpret_cast<const void*>(name), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
      return {reinterpret_cast<const std::uint8_t*>(at), note->n_descsz};
    }
    if (end - at < Padded(note->n_descsz)) break;
    at += Padded(note->n_descsz);
  }
  return {};
}

}  // namespace

Segments SegmentsOf(const void* file_start) {
  const auto* header = static_cast<const ElfW(Ehdr)*>(file_start);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phoff > kPageBytes ||
      header->e_phnum * sizeof(ElfW(Phdr)) > kPageBytes - header->e_phoff) {
    return {};
  }
  const auto* first = static_cast<const std::byte*>(file_start) + header->e_phoff;
  return {reinterpret_cast<const ElfW(Phdr)*>(first), header->e_phnum};
}

std::span<const std::uint8_t> BuildIdOf(Segments segments, std::uint64_t bias) {
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_NOTE) continue;
    const std::uint64_t start = bias + segment.p_vaddr;
    const std::span<const std::uint8_t> build_id = BuildIdIn(start, start + segment.p_memsz);
    if (!build_id.empty()) return build_id;
  }
  return {};
}

}  // namespace tmprof::objtrace
