// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/tmprof/cli.h"
#include "objects/commands/cc_arguments.h"
#include "objects/commands/own_libraries.h"
#include "objects/commands/uncounted_code.h"
#include "profiler/launched_command.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "tmprof_count_objects.so";
constexpr const char* kRuntime = "libtmprof_objects.so";

// Returns the output of `compiler -dumpversion`; empty if it cannot be run.
std::string VersionOf(const std::string& compiler) {
  std::string quoted;
  for (const char c : compiler) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(fmt::format("'{}' -dumpversion 2>/dev/null", quoted).c_str(), "re"), ::pclose);
  std::array<char, 64> line{};
  if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return {};
  std::string version = line.data();
  version.erase(version.find_last_not_of('\n') + 1);
  return version;
}

Status CheckCompiler(const std::string& compiler) {
  const std::string name = fs::path(compiler).filename();
  const auto refuse = [&](std::string reason) {
    return Fail(BadInput("instrument with compiler", compiler, std::move(reason),
                         fmt::format("use clang-{0} or clang++-{0}", kClangMajor)));
  };
  if (!name.starts_with("clang")) return refuse("it does not load plugins of clang");
  // The name of Debian's says the version; asking takes as long as compiling a small file.
  if (name.ends_with(fmt::format("-{}", kClangMajor))) return {};
  const std::string version = VersionOf(compiler);
  if (version.empty() || version.starts_with(fmt::format("{}.", kClangMajor))) return {};
  return refuse(fmt::format("it is version {}, and the plugin is for {}", version, kClangMajor));
}

// Returns the folders that linkers search after those in their arguments.
std::vector<fs::path> SystemFolders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& version : fs::directory_iterator("/usr/lib/gcc/x86_64-linux-gnu", ignored)) {
    folders.push_back(version.path());
  }
  std::ranges::sort(folders, std::greater{});
  for (const char* folder : {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu",
                             "/usr/lib", "/lib"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

// A file without a name, of this process and those that it becomes or starts; empty: there is none.
std::string MakePassedOnFile(std::string_view text) {
  const int fd = ::memfd_create("tmprof-uncounted", 0);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return {};
  }
  return fmt::format("/proc/self/fd/{}", fd);
}

// Says what the linker takes that does not count, here and in what the program writes.
void NoteUncounted(const std::vector<std::string>& command, std::vector<std::string>& arguments) {
  const CompilerCommand parsed = ParseCompilerCommand(command);
  if (!parsed.links) return;
  const std::vector<std::string> uncounted = UncountedCode(parsed, SystemFolders());
  if (uncounted.empty()) return;
  fmt::print(stderr, "tmprof: not counted, as 'tmprof cc' did not build it: {}\n",
             fmt::join(uncounted, ", "));
  const std::string note = MakePassedOnFile(UncountedNote(uncounted));
  if (note.empty()) return;  // it was said here
  arguments.insert(arguments.begin() + 1, {"-x", "assembler", note, "-x", "none"});
}

int Compile(const std::vector<std::string>& command) {
  if (command.empty()) {
    return ReportError(
        BadInput("run compiler", "", "there is none",
                 fmt::format("name it, as in 'tmprof cc clang-{} -O2 x.c'", kClangMajor)));
  }
  if (Status status = CheckCompiler(command.front()); !status) return ReportError(status.error());
  const Result<fs::path> libraries = FindOwnLibraries("tmprof cc", {kPlugin, kRuntime});
  if (!libraries) return ReportError(libraries.error());
  Result<std::vector<std::string>> arguments =
      InstrumentedCommand(command, *libraries / kPlugin, *libraries);
  if (!arguments) return ReportError(arguments.error());
  NoteUncounted(command, *arguments);
  std::vector<char*> argv;
  for (std::string& argument : *arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  const Error error = Refused("run compiler", command.front(), errno);
  ReportError(error);
  return StatusOfFailedExec(error);
}

}  // namespace

void AddCcCommand(CLI::App& app, const std::vector<std::string>& launched, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "cc", "Compiles a C or C++ program so that it counts its memory accesses by object");
  command->footer(fmt::format(
      "Usage:\n"
      "  tmprof cc [--] COMPILER [ARGUMENT]...\n\n"
      "The compiler is clang {0} or clang++ {0}, and runs with its arguments as they are given. "
      "The program writes tmprof-PID.objects when it exits. The environment variable "
      "TMPROF_OBJECTS names another file, with %p for the PID; empty, it turns counting off.\n\n"
      "Examples:\n"
      "  tmprof cc clang-{0} -O2 -o program program.c\n"
      "  make CC='tmprof cc clang-{0}'",
      kClangMajor));
  command->callback([&launched, &exit_status] { exit_status = Compile(launched); });
}

}  // namespace tmprof
