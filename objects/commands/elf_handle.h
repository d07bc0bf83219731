// SPDX-License-Identifier: Apache-2.0
// libelf's view of an open ELF file or archive.

#pragma once

#include <gelf.h>

#include <memory>

namespace tmprof {

struct CloseElf {
  void operator()(Elf* elf) const { ::elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, CloseElf>;

}  // namespace tmprof
