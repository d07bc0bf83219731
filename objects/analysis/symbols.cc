// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/symbols.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/unique_fd.h"

namespace tmprof {
namespace {

// The dynamic linker's name of the pages that the kernel provides; they are no file.
constexpr std::string_view kKernelPages = "linux-vdso";

bool IsFile(const LoadedModule& module) {
  return !std::string_view(module.path).starts_with(kKernelPages);
}

bool IsTheOneLoaded(Dwfl_Module* found, const LoadedModule& module) {
  const unsigned char* bytes = nullptr;
  GElf_Addr address = 0;
  const int size = ::dwfl_module_build_id(found, &bytes, &address);
  if (size <= 0) return module.build_id.empty();
  return module.build_id ==
         std::string_view(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

// Returns the compilation unit; null if there is none. It does not use .debug_aranges, which clang
// does not write.
Dwarf_Die* UnitAt(Dwfl_Module* module, std::uint64_t address, Dwarf_Addr& bias) {
  for (Dwarf_Die* unit = nullptr; (unit = ::dwfl_module_nextcu(module, unit, &bias)) != nullptr;) {
    if (::dwarf_haspc(unit, address - bias) == 1) return unit;
  }
  return nullptr;
}

std::string FunctionOf(Dwarf_Die& function) {
  Dwarf_Attribute attribute;
  const char* linkage =
      ::dwarf_formstring(::dwarf_attr_integrate(&function, DW_AT_linkage_name, &attribute));
  if (linkage != nullptr) return Demangled(linkage);
  const char* name = ::dwarf_diename(&function);
  return name != nullptr ? name : "";
}

void SetPlace(SourceFrame& frame, const char* file, int line) {
  if (file == nullptr) return;
  frame.file = file;
  frame.line = line;
}

// Sets the place at which an inlined function was called.
void SetCallPlace(SourceFrame& frame, Dwarf_Die& inlined, Dwarf_Die& unit) {
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  Dwarf_Attribute attribute;
  Dwarf_Word file = 0;
  Dwarf_Word line = 0;
  if (::dwarf_getsrcfiles(&unit, &files, &count) == 0 &&
      ::dwarf_formudata(::dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) == 0 &&
      ::dwarf_formudata(::dwarf_attr(&inlined, DW_AT_call_line, &attribute), &line) == 0) {
    SetPlace(frame, ::dwarf_filesrc(files, file, nullptr, nullptr), static_cast<int>(line));
  }
}

struct FreeScopes {
  void operator()(Dwarf_Die* scopes) const { std::free(scopes); }
};
using Scopes = std::unique_ptr<Dwarf_Die, FreeScopes>;

// Returns the scopes around an address in the order of nesting, innermost first.
int ScopesAt(Dwarf_Die& unit, Dwarf_Addr address, Scopes& scopes) {
  Dwarf_Die* found = nullptr;
  if (::dwarf_getscopes(&unit, address, &found) <= 0) return 0;
  const Scopes by_name(found);  // the scopes of an inlined function are where it was written
  Dwarf_Die* nested = nullptr;
  const int count = ::dwarf_getscopes_die(by_name.get(), &nested);
  scopes.reset(nested);
  return count;
}

// `outer` is the function that the symbol table has.
std::vector<SourceFrame> Expanded(SourceFrame outer, Dwarf_Die& unit, Dwarf_Addr address) {
  SourceFrame place = outer;
  int line = 0;
  if (Dwarf_Line* found = ::dwarf_getsrc_die(&unit, address);
      found != nullptr && ::dwarf_lineno(found, &line) == 0) {
    SetPlace(place, ::dwarf_linesrc(found, nullptr, nullptr), line);
  }
  std::vector<SourceFrame> frames;
  Scopes scopes;
  const int count = ScopesAt(unit, address, scopes);
  for (int i = 0; i < count; ++i) {
    Dwarf_Die& scope = scopes.get()[i];
    if (::dwarf_tag(&scope) == DW_TAG_subprogram) break;
    if (::dwarf_tag(&scope) != DW_TAG_inlined_subroutine) continue;
    place.function = FunctionOf(scope);
    frames.push_back(place);
    place = outer;
    SetCallPlace(place, scope, unit);
  }
  frames.push_back(std::move(place));
  return frames;
}

}  // namespace

struct Symbols::State {
  ~State() { ::dwfl_end(dwfl); }

  char* debug_path = nullptr;
  // Debug information is in the file, or found by build ID below /usr/lib/debug.
  const Dwfl_Callbacks callbacks = {.find_elf = ::dwfl_build_id_find_elf,
                                    .find_debuginfo = ::dwfl_build_id_find_debuginfo,
                                    .section_address = ::dwfl_offline_section_address,
                                    .debuginfo_path = &debug_path};
  Dwfl* dwfl = ::dwfl_begin(&callbacks);
  std::vector<LoadedModule> modules;
  std::vector<Dwfl_Module*> found;  // parallel to `modules`; null if the file is gone
};

Symbols::Symbols(std::vector<LoadedModule> modules, std::string program, CheckFiles check)
    : state_(std::make_unique<State>()) {
  state_->modules = std::move(modules);
  ::dwfl_report_begin(state_->dwfl);
  for (LoadedModule& module : state_->modules) {
    if (module.path.empty()) module.path = program;
    Dwfl_Module* found = IsFile(module)
                             ? ::dwfl_report_elf(state_->dwfl, module.path.c_str(),
                                                 module.path.c_str(), -1, module.bias, true)
                             : nullptr;
    state_->found.push_back(found);
  }
  ::dwfl_report_end(state_->dwfl, nullptr, nullptr);
  for (std::size_t i = 0; i < state_->modules.size(); ++i) {
    Dwfl_Module*& found = state_->found[i];
    if (check == CheckFiles::kBuildIds && found != nullptr &&
        !IsTheOneLoaded(found, state_->modules[i])) {
      found = nullptr;
    }
  }
}

Symbols::~Symbols() = default;

std::vector<SourceFrame> Symbols::CallBefore(std::uint64_t return_address) const {
  const std::uint64_t call = return_address - 1;
  SourceFrame frame{.offset = call};
  const auto holds = [call](const LoadedModule& module) {
    return module.start <= call && call < module.end;
  };
  if (std::ranges::count_if(state_->modules, holds) > 1) return {frame};
  for (std::size_t i = 0; i < state_->modules.size(); ++i) {
    const LoadedModule& module = state_->modules[i];
    if (!holds(module)) continue;
    frame.module = module.path;
    frame.offset = call - module.bias;
    Dwfl_Module* found = state_->found[i];
    if (found == nullptr) break;
    if (const char* name = ::dwfl_module_addrname(found, call)) frame.function = Demangled(name);
    Dwarf_Addr bias = 0;
    if (Dwarf_Die* unit = UnitAt(found, call, bias)) {
      return Expanded(std::move(frame), *unit, call - bias);
    }
    break;
  }
  return {frame};
}

std::vector<std::string> Symbols::Missing() const {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < state_->modules.size(); ++i) {
    const LoadedModule& module = state_->modules[i];
    if (state_->found[i] == nullptr && IsFile(module)) missing.push_back(module.path);
  }
  return missing;
}

std::string BuildIdOf(const std::string& path) {
  ::elf_version(EV_CURRENT);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  Elf* elf = ::elf_begin(fd.get(), ELF_C_READ, nullptr);
  if (elf == nullptr) return {};
  const void* bytes = nullptr;
  const ssize_t size = ::dwelf_elf_gnu_build_id(elf, &bytes);
  std::string build_id;
  if (size > 0) build_id.assign(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
  ::elf_end(elf);
  return build_id;
}

std::string Demangled(std::string_view symbol) {
  const std::string name(symbol);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && demangled != nullptr ? demangled.get() : name;
}

}  // namespace tmprof
