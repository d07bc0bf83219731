// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/uncounted_code.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "objects/commands/elf_handle.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// All objects that the compiler pass has been over ask for this symbol.
constexpr const char* kAttach = "tmprof_attach";

enum class Code : std::uint8_t { kNone, kCounted, kUncounted };

bool AsksFor(Elf* elf, Elf_Scn* symbols, const GElf_Shdr& header, const char* wanted) {
  Elf_Data* data = ::elf_getdata(symbols, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return false;
  const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (::gelf_getsym(data, i, &symbol) == nullptr || symbol.st_shndx != SHN_UNDEF) continue;
    const char* name = ::elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name != nullptr && std::strcmp(name, wanted) == 0) return true;
  }
  return false;
}

Code CodeOf(Elf* elf) {
  GElf_Ehdr file;
  if (::elf_kind(elf) != ELF_K_ELF || ::gelf_getehdr(elf, &file) == nullptr ||
      file.e_type != ET_REL) {
    // Link-time optimisation generates its code, which no pass of ours sees.
    constexpr std::array<char, 4> kBitcode = {'B', 'C', '\xC0', '\xDE'};
    std::size_t bytes = 0;
    const char* raw = ::elf_rawfile(elf, &bytes);
    const bool is_bitcode = raw != nullptr && bytes >= kBitcode.size() &&
                            std::equal(kBitcode.begin(), kBitcode.end(), raw);
    return is_bitcode ? Code::kUncounted : Code::kNone;
  }
  Code code = Code::kNone;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr) continue;
    if ((header.sh_flags & SHF_EXECINSTR) != 0 && header.sh_size > 0) code = Code::kUncounted;
    if (header.sh_type == SHT_SYMTAB && AsksFor(elf, section, header, kAttach)) {
      return Code::kCounted;
    }
  }
  return code;
}

// Names of what it has that is not counted: itself, or members.
std::vector<std::string> UncountedOf(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  const ElfHandle file(::elf_begin(fd.get(), ELF_C_READ, nullptr));
  if (file == nullptr) return {};
  const std::string name = path.filename().string();
  if (::elf_kind(file.get()) != ELF_K_AR) {
    if (CodeOf(file.get()) != Code::kUncounted) return {};
    return {name};
  }
  std::vector<std::string> members;
  bool any_counted = false;
  Elf_Cmd command = ELF_C_READ;
  while (const ElfHandle member{::elf_begin(fd.get(), command, file.get())}) {
    const Elf_Arhdr* header = ::elf_getarhdr(member.get());
    // Tables of its own have names that begin so.
    if (header != nullptr && header->ar_name != nullptr && header->ar_name[0] != '/') {
      const Code code = CodeOf(member.get());
      any_counted = any_counted || code == Code::kCounted;
      if (code == Code::kUncounted) members.push_back(fmt::format("{}({})", name, header->ar_name));
    }
    command = ::elf_next(member.get());
  }
  if (any_counted || members.empty()) return members;
  return {name};
}

bool IsThere(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the archive that the linker takes a library from; unset: it is shared, or not found.
std::optional<fs::path> ArchiveOf(const CompilerInput& library,
                                  const std::vector<fs::path>& folders) {
  const bool is_file = library.name.starts_with(':');
  for (const fs::path& folder : folders) {
    if (is_file) {
      if (const fs::path file = folder / library.name.substr(1); IsThere(file)) return file;
      continue;
    }
    if (!library.prefers_archive && IsThere(folder / ("lib" + library.name + ".so"))) return {};
    if (const fs::path file = folder / ("lib" + library.name + ".a"); IsThere(file)) return file;
  }
  return {};
}

void AppendNew(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
}

}  // namespace

std::vector<std::string> UncountedCode(const CompilerCommand& command,
                                       const std::vector<fs::path>& system_folders) {
  ::elf_version(EV_CURRENT);
  std::vector<fs::path> folders(command.library_folders.begin(), command.library_folders.end());
  folders.insert(folders.end(), system_folders.begin(), system_folders.end());
  std::vector<std::string> names;
  for (const CompilerInput& input : command.inputs) {
    switch (input.kind) {
      case CompilerInput::Kind::kCompiled:
        break;
      case CompilerInput::Kind::kAssembled:
        AppendNew(names, {fs::path(input.name).filename().string()});
        break;
      case CompilerInput::Kind::kLinked:
        AppendNew(names, UncountedOf(input.name));
        break;
      case CompilerInput::Kind::kLibrary:
        if (const auto archive = ArchiveOf(input, folders)) {
          AppendNew(names, UncountedOf(*archive));
        }
        break;
    }
  }
  return names;
}

std::string UncountedNote(const std::vector<std::string>& uncounted) {
  std::string text =
      "  .section .rodata.tmprof.uncounted,\"a\",@progbits\n"
      "tmprof.uncounted.names:\n";
  for (const std::string& name : uncounted) {
    text += "  .byte ";
    for (const unsigned char c : name) text += fmt::format("{},", c);
    text += "0\n";
  }
  return text +
         "  .byte 0\n"
         "  .text\n"
         "tmprof.uncounted.tell:\n"
         "  .cfi_startproc\n"
         "  leaq tmprof.uncounted.names(%rip), %rdi\n"
         "  jmp tmprof_uncounted@PLT\n"
         "  .cfi_endproc\n"
         "  .section .init_array,\"aw\",@init_array\n"
         "  .balign 8\n"
         "  .quad tmprof.uncounted.tell\n"
         "  .section .note.GNU-stack,\"\",@progbits\n";
}

}  // namespace tmprof
