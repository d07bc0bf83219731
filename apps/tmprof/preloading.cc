// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/preloading.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// linux/binfmts.h, BINPRM_BUF_SIZE: what the kernel reads of a #! line. A script's interpreter may
// be a script itself, to a depth of five (fs/exec.c, Linux 6.1).
constexpr std::size_t kScriptLine = 256;
constexpr int kDeepestScript = 5;

bool ReadAt(int file, std::uint64_t offset, void* into, std::size_t bytes) {
  return ::pread(file, into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// What an ELF file says of itself.
struct ProgramFile {
  Elf64_Ehdr header{};
  bool has_loader = false;
  std::string loader;  // as the file names it
};

// nullopt: it is no ELF file, or a damaged one. Of one that is not for 64 bits in this byte order,
// the header's first bytes alone.
std::optional<ProgramFile> ReadProgram(int file) {
  ProgramFile elf;
  if (!ReadAt(file, 0, elf.header.e_ident, EI_NIDENT)) return std::nullopt;
  const std::string_view ident(reinterpret_cast<const char*>(elf.header.e_ident), SELFMAG);
  if (ident != std::string_view(ELFMAG, SELFMAG)) return std::nullopt;
  if (elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_ident[EI_DATA] != ELFDATA2LSB)
    return elf;
  if (!ReadAt(file, 0, &elf.header, sizeof elf.header)) return std::nullopt;
  for (unsigned i = 0; i < elf.header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const std::uint64_t at = elf.header.e_phoff + std::uint64_t{i} * elf.header.e_phentsize;
    if (!ReadAt(file, at, &part, sizeof part)) return std::nullopt;
    if (part.p_type != PT_INTERP) continue;
    if (part.p_filesz == 0 || part.p_filesz > PATH_MAX) return std::nullopt;
    elf.loader.resize(part.p_filesz);
    if (!ReadAt(file, part.p_offset, elf.loader.data(), elf.loader.size())) return std::nullopt;
    elf.loader.resize(std::char_traits<char>::length(elf.loader.c_str()));
    elf.has_loader = true;
    break;
  }
  return elf;
}

std::optional<ProgramFile> ReadProgram(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file ? ReadProgram(file.get()) : std::nullopt;
}

bool IsExecutable(const fs::path& file) {
  std::error_code failed;
  return fs::is_regular_file(file, failed) && ::access(file.c_str(), X_OK) == 0;
}

// As execvp(3) finds it; empty: it does not.
fs::path Find(const std::string& command, const std::string& path) {
  if (command.find('/') != std::string::npos) return command;
  std::string_view rest = path;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    const fs::path file = fs::path(folder.empty() ? std::string_view(".") : folder) / command;
    if (IsExecutable(file)) return file;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

// The program in the #! line; empty: there is none.
std::string ScriptInterpreter(int file) {
  std::array<char, kScriptLine> start{};
  const ssize_t got = ::pread(file, start.data(), start.size(), 0);
  std::string_view line(start.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (!line.starts_with("#!")) return {};
  line =
      line.substr(2, line.find('\n') == std::string_view::npos ? line.npos : line.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t\r")));
}

// ld.so(8), "secure-execution mode".
bool IsPrivileged(int file) {
  struct stat attributes{};
  if (::fstat(file, &attributes) != 0) return false;
  const bool other_user = (attributes.st_mode & S_ISUID) != 0 && attributes.st_uid != ::getuid();
  const bool other_group = (attributes.st_mode & S_ISGID) != 0 && attributes.st_gid != ::getgid();
  const bool capable = ::getuid() != 0 && ::fgetxattr(file, "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capable;
}

// Whether both names are of one file.
bool IsSame(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  return a == b || fs::equivalent(a, b, failed);
}

std::optional<NotPreloaded> WhyNot(const fs::path& program, const ProgramFile& elf,
                                   const ProgramFile& library) {
  const auto named = [&](std::string_view why, bool is_harmless = false) {
    return NotPreloaded{.why = fmt::format("'{}' {}", program.string(), why),
                        .is_harmless = is_harmless};
  };
  if (elf.header.e_ident[EI_CLASS] != library.header.e_ident[EI_CLASS] ||
      elf.header.e_ident[EI_DATA] != library.header.e_ident[EI_DATA] ||
      elf.header.e_machine != library.header.e_machine) {
    return named("is for another kind of CPU than the tracker, as a 32-bit program is");
  }
  const std::optional<ProgramFile> own = ReadProgram(fs::path("/proc/self/exe"));
  const bool knows_own = own && own->has_loader;
  if (!elf.has_loader) {
    // A loader that is run itself, with a program as its argument.
    if (knows_own && IsSame(own->loader, program)) return std::nullopt;
    return named("is statically linked, so that no loader preloads the tracker",
                 /*is_harmless=*/true);
  }
  if (knows_own && !IsSame(own->loader, elf.loader)) {
    return named(fmt::format("runs by another C library's loader, {}, than the tracker, {}",
                             elf.loader, own->loader));
  }
  return std::nullopt;
}

}  // namespace

std::optional<NotPreloaded> WhyNotPreloaded(const std::string& command, const std::string& path,
                                            const fs::path& library) {
  const std::optional<ProgramFile> tracker = ReadProgram(library);
  if (!tracker) return std::nullopt;
  fs::path program = Find(command, path);
  for (int depth = 0; depth <= kDeepestScript && !program.empty(); ++depth) {
    const UniqueFd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return std::nullopt;
    if (const std::string interpreter = ScriptInterpreter(file.get()); !interpreter.empty()) {
      program = interpreter;
      continue;
    }
    const std::optional<ProgramFile> elf = ReadProgram(file.get());
    if (!elf) return std::nullopt;
    if (IsPrivileged(file.get())) {
      return NotPreloaded{.why = fmt::format("'{}' runs with more privileges than tmprof, and its "
                                             "loader preloads nothing then",
                                             program.string()),
                          .is_harmless = true};
    }
    return WhyNot(program, *elf, *tracker);
  }
  return std::nullopt;
}

std::string PreloadName(const fs::path& folder, const std::string& name) {
  std::error_code failed;
  if (!fs::is_directory(folder / "preload", failed)) return (folder / name).string();
  return (folder / "preload/$LIB" / name).string();
}

}  // namespace tmprof
