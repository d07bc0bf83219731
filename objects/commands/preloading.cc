// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/preloading.h"

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
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"
#include "objects/commands/elf_handle.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// linux/binfmts.h, BINPRM_BUF_SIZE: what the kernel reads of a #! line. A script's interpreter may
// be a script itself, to a depth of five (fs/exec.c, Linux 6.1).
constexpr std::size_t kScriptLine = 256;
constexpr int kDeepestScript = 5;

// The parts of an ELF file that decide who loads it.
struct ProgramFile {
  GElf_Ehdr header{};
  std::optional<std::string> loader;  // named by the file; nullopt: it is statically linked

  bool IsOfSameKind(const ProgramFile& other) const {
    return header.e_ident[EI_CLASS] == other.header.e_ident[EI_CLASS] &&
           header.e_ident[EI_DATA] == other.header.e_ident[EI_DATA] &&
           header.e_machine == other.header.e_machine;
  }
};

// nullopt: `file` is no ELF file, or a damaged one. The loader of a 32-bit file is not looked for.
std::optional<ProgramFile> ReadProgram(int file) {
  ::elf_version(EV_CURRENT);
  const ElfHandle elf(::elf_begin(file, ELF_C_READ, nullptr));
  ProgramFile program;
  std::size_t parts = 0;
  if (::elf_kind(elf.get()) != ELF_K_ELF || ::gelf_getehdr(elf.get(), &program.header) == nullptr)
    return std::nullopt;
  if (program.header.e_ident[EI_CLASS] != ELFCLASS64) return program;
  // libelf leaves out those that a cut file lacks.
  if (::elf_getphdrnum(elf.get(), &parts) != 0 || parts < program.header.e_phnum)
    return std::nullopt;
  for (std::size_t i = 0; i < parts; ++i) {
    GElf_Phdr part;
    if (::gelf_getphdr(elf.get(), static_cast<int>(i), &part) == nullptr) return std::nullopt;
    if (part.p_type != PT_INTERP) continue;
    const Elf_Data* name =
        part.p_filesz <= PATH_MAX
            ? ::elf_getdata_rawchunk(elf.get(), static_cast<std::int64_t>(part.p_offset),
                                     part.p_filesz, ELF_T_BYTE)
            : nullptr;
    if (name == nullptr || name->d_size == 0) return std::nullopt;
    const auto* text = static_cast<const char*>(name->d_buf);
    program.loader = std::string(text, ::strnlen(text, name->d_size));
    break;
  }
  return program;
}

std::optional<ProgramFile> ReadProgram(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file ? ReadProgram(file.get()) : std::nullopt;
}

bool IsExecutable(const fs::path& file) {
  std::error_code failed;
  return fs::is_regular_file(file, failed) && ::access(file.c_str(), X_OK) == 0;
}

// The file that execvp(3) would run; empty: there is none.
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

// True if both names are of one file.
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
  if (!elf.IsOfSameKind(library))
    return named("is for another kind of CPU than the tracker, as a 32-bit program is");
  const std::optional<ProgramFile> own = ReadProgram(fs::path("/proc/self/exe"));
  const bool knows_own = own && own->loader;
  if (!elf.loader) {
    // The user runs the loader itself, with a program as its argument.
    if (knows_own && IsSame(*own->loader, program)) return std::nullopt;
    return named("is statically linked, so that no loader preloads the tracker",
                 /*is_harmless=*/true);
  }
  if (knows_own && !IsSame(*own->loader, *elf.loader)) {
    return named(fmt::format("runs by another C library's loader, {}, than the tracker, {}",
                             *elf.loader, *own->loader));
  }
  return std::nullopt;
}

NotPreloaded Privileged(const fs::path& program) {
  return {.why = fmt::format("'{}' runs with more privileges than its starter, and its loader "
                             "preloads nothing then",
                             program.string()),
          .is_harmless = true};
}

// `environment`: entries that each end with a NUL.
bool AsksFor(std::string_view environment, const fs::path& library) {
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.starts_with(kPreload) && entry.contains(library.filename().string())) return true;
    environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
  }
  return false;
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
    if (IsPrivileged(file.get())) return Privileged(program);
    return WhyNot(program, *elf, *tracker);
  }
  return std::nullopt;
}

std::optional<NotPreloaded> WhyNotPreloadedBy(const ProcFs& procfs, const ProcessInstance& process,
                                              const fs::path& library) {
  const Pid pid = process.pid;
  const std::optional<ProgramFile> tracker = ReadProgram(library);
  const Result<std::string> name = procfs.Executable(pid);
  const std::optional<ProgramFile> elf = ReadProgram(procfs.ExecutableLink(pid));
  const std::optional<bool> is_secure = procfs.IsSecure(pid);
  const Result<std::string> environment = procfs.Environment(pid);
  // Last: what was read before is its own only if the number still is.
  const Result<ProcessStat> stat = procfs.Stat(pid);
  if (!stat || stat->start_time_ticks != process.start_time_ticks) return std::nullopt;
  if (!tracker || !name || !elf) return std::nullopt;
  if (auto why = WhyNot(*name, *elf, *tracker)) return why;
  if (is_secure == true) return Privileged(*name);
  if (environment && !AsksFor(*environment, library)) {
    return NotPreloaded{.why = fmt::format("'{}' was started without the tracker in LD_PRELOAD of "
                                           "its environment",
                                           *name)};
  }
  return std::nullopt;
}

std::string PreloadName(const fs::path& folder, const std::string& name) {
  std::error_code failed;
  if (!fs::is_directory(folder / "preload", failed)) return (folder / name).string();
  return (folder / "preload/$LIB" / name).string();
}

}  // namespace tmprof
