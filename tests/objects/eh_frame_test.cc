// SPDX-License-Identifier: Apache-2.0
// Rules by .eh_frame are those that elfutils reads of the same functions.

#include "objects/runtime/eh_frame.h"

#include <alloca.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tmprof::objtrace {
namespace eh_frame_test {

constexpr int kRbp = 6;
constexpr int kReturnAddress = 16;

struct Image {
  std::string path;
  std::uint64_t bias = 0;
  const void* table = nullptr;
};

// The files that this process has loaded.
std::vector<Image> Loaded() {
  std::vector<Image> images;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        Image image{.path = info->dlpi_name, .bias = info->dlpi_addr};
        if (image.path.empty()) image.path = "/proc/self/exe";
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
          image.table = reinterpret_cast<const void*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
        static_cast<std::vector<Image>*>(into)->push_back(image);
        return 0;
      },
      &images);
  return images;
}

// Base register and offset of one operation; unset: it is none of that kind.
std::optional<std::pair<int, std::int64_t>> BaseAndOffset(const Dwarf_Op& operation) {
  if (operation.atom >= DW_OP_breg0 && operation.atom <= DW_OP_breg31) {
    return std::pair(operation.atom - DW_OP_breg0, static_cast<std::int64_t>(operation.number));
  }
  if (operation.atom == DW_OP_bregx) {
    return std::pair(static_cast<int>(operation.number),
                     static_cast<std::int64_t>(operation.number2));
  }
  return std::nullopt;
}

// Returns elfutils' rule. nullopt: it has none, or one that RuleAt() need not understand.
std::optional<FrameRule> Expected(Dwarf_Frame* frame) {
  Dwarf_Op memory[3];
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (::dwarf_frame_register(frame, kReturnAddress, memory, &operations, &count) != 0) return {};
  if (count == 0) return FrameRule{.kind = FrameKind::kEnd};
  if (operations[0].atom != DW_OP_call_frame_cfa) return {};  // vfork() keeps it in a register
  FrameRule rule;
  if (::dwarf_frame_cfa(frame, &operations, &count) != 0 || count == 0) return {};
  const auto cfa = BaseAndOffset(operations[0]);
  if (!cfa || (cfa->first != 7 && cfa->first != kRbp)) return {};
  rule.cfa_offset = static_cast<std::int32_t>(cfa->second);
  if (count == 1) {
    rule.kind = cfa->first == kRbp ? FrameKind::kByRbp : FrameKind::kByRsp;
  } else if (count == 2 && cfa->first == kRbp && operations[1].atom == DW_OP_deref) {
    rule.kind = FrameKind::kAtRbp;
  } else {
    return {};
  }
  if (::dwarf_frame_register(frame, kRbp, memory, &operations, &count) != 0) return {};
  if (count == 0) return rule;
  if (operations[0].atom != DW_OP_call_frame_cfa) return {};
  if (count == 1 || (count == 2 && operations[1].atom == DW_OP_plus_uconst)) {
    rule.rbp = RbpKind::kAtCfa;
    rule.rbp_offset = count > 1 ? static_cast<std::int32_t>(operations[1].number) : 0;
    return rule;
  }
  // An expression, which begins with the CFA whether it is of use to it or not.
  const auto saved = BaseAndOffset(operations[1]);
  if (count != 2 || !saved || saved->first != kRbp) return {};
  rule.rbp = RbpKind::kAtRbp;
  rule.rbp_offset = static_cast<std::int32_t>(saved->second);
  return rule;
}

std::string Said(const FrameRule& rule) {
  return std::to_string(static_cast<int>(rule.kind)) + " " + std::to_string(rule.cfa_offset) +
         ", rbp " + std::to_string(static_cast<int>(rule.rbp)) + " " +
         std::to_string(rule.rbp_offset);
}

// Returns the starts of functions by the file's symbols, with their bytes.
std::set<std::pair<std::uint64_t, std::uint64_t>> FunctionsOf(Elf* elf) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> functions;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0 ||
        (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB)) {
      continue;
    }
    Elf_Data* data = ::elf_getdata(section, nullptr);
    for (int i = 0; i < static_cast<int>(header.sh_size / header.sh_entsize); ++i) {
      GElf_Sym symbol;
      if (::gelf_getsym(data, i, &symbol) != nullptr && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
          symbol.st_size > 0 && symbol.st_shndx != 0) {
        functions.insert({symbol.st_value, symbol.st_size});
      }
    }
  }
  return functions;
}

// A function that aligns its stack, of which libraries have few.
[[gnu::noinline, gnu::used]] void Realigned(std::size_t bytes) {
  alignas(64) char aligned[64];
  void* room = ::alloca(bytes);
  asm volatile("" ::"r"(aligned), "r"(room) : "memory");
}

TEST(EhFrame, RulesAreThoseThatElfutilsReads) {
  ::elf_version(EV_CURRENT);
  std::set<FrameKind> kinds;
  std::size_t compared = 0;
  std::size_t wrong = 0;
  for (const Image& image : Loaded()) {
    if (image.table == nullptr) continue;
    const int fd = ::open(image.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;  // the kernel's own has no file
    Elf* elf = ::elf_begin(fd, ELF_C_READ_MMAP, nullptr);
    Dwarf_CFI* cfi = elf != nullptr ? ::dwarf_getcfi_elf(elf) : nullptr;
    ASSERT_NE(cfi, nullptr) << image.path;
    for (const auto& [start, bytes] : FunctionsOf(elf)) {
      // Each of its first bytes, where frames are made, and some of the others.
      const std::uint64_t step = std::max<std::uint64_t>(bytes / 16, 1);
      for (std::uint64_t at = start; at < start + bytes; at += at < start + 16 ? 1 : step) {
        Dwarf_Frame* frame = nullptr;
        if (::dwarf_cfi_addrframe(cfi, at, &frame) != 0) continue;
        const std::optional<FrameRule> expected = Expected(frame);
        std::free(frame);
        if (!expected) continue;
        ++compared;
        const FrameRule found = RuleAt(image.table, image.bias + at);
        kinds.insert(found.kind);
        if (found == *expected || ++wrong > 10) continue;
        ADD_FAILURE() << image.path << " at " << at << ": " << Said(found) << " and not "
                      << Said(*expected);
      }
    }
    ::dwarf_cfi_end(cfi);
    ::elf_end(elf);
    ::close(fd);
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(compared, 10'000U);
  EXPECT_THAT(kinds,
              ::testing::IsSupersetOf({FrameKind::kEnd, FrameKind::kByRsp, FrameKind::kByRbp}));
#ifndef __clang__  // aligns stacks in another way
  EXPECT_THAT(kinds, ::testing::Contains(FrameKind::kAtRbp));
#endif
}

// A byte for each row: rbp, which is register 6, was in a register, or is a number itself.
asm(R"(
  .pushsection .text
  .type rbp_elsewhere, @function
rbp_elsewhere:
  .cfi_startproc
  nop
  .cfi_register 6, 0
  nop
  .cfi_restore 6
  nop
  .cfi_escape 0x14, 6, 2     # DW_CFA_val_offset 6, -16; clang lacks the directive
  nop
  .cfi_restore 6
  .cfi_def_cfa_offset 24
  nop
  .cfi_escape 0x15, 6, 0x7e  # DW_CFA_val_offset_sf 6, 16
  nop
  .cfi_same_value 6
  nop
  .cfi_endproc
  .size rbp_elsewhere, . - rbp_elsewhere
  .popsection
)");
extern "C" const char rbp_elsewhere[];

TEST(EhFrame, ACallerWhoseRbpIsNotInMemoryIsUnknownAndTheOthersAreNot) {
  const Image program = Loaded().at(0);
  std::vector<FrameRule> rules;
  for (int row = 0; row < 7; ++row) {
    rules.push_back(RuleAt(program.table, reinterpret_cast<std::uint64_t>(rbp_elsewhere + row)));
  }
  const FrameRule at_8{.kind = FrameKind::kByRsp, .cfa_offset = 8};
  const FrameRule at_24{.kind = FrameKind::kByRsp, .cfa_offset = 24};
  EXPECT_THAT(rules, ::testing::ElementsAre(at_8, FrameRule(), at_8, FrameRule(), at_24,
                                            FrameRule(), at_24));
}

TEST(EhFrame, IsUnknownWithoutATableOrOutsideOfCode) {
  EXPECT_EQ(RuleAt(nullptr, 4096).kind, FrameKind::kUnknown);
  for (const Image& image : Loaded()) {
    if (image.table == nullptr) continue;
    EXPECT_EQ(RuleAt(image.table, image.bias).kind, FrameKind::kUnknown) << image.path;
    EXPECT_EQ(RuleAt(image.table, ~std::uint64_t{0}).kind, FrameKind::kUnknown) << image.path;
  }
}

}  // namespace eh_frame_test
}  // namespace tmprof::objtrace
