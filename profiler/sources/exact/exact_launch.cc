// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/exact_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/text/human_units.h"
#include "base/unique_fd.h"
#include "profiler/source_kind.h"
#include "profiler/sources/exact/plugin/format/guest_program.h"

extern char** environ;

namespace tmprof::exact {
namespace {

constexpr std::string_view kQemu = "qemu-x86_64";
constexpr std::string_view kPlugin = "tmprof_exact.so";
constexpr const char* kInstallQemu =
    "install Debian 12's qemu-user, the dynamic one (apt-get install qemu-user); neither "
    "qemu-user-static nor the backports' takes plugins";

constexpr unsigned kWays = 16;
constexpr std::uint64_t kLineBytes = 64;
// A page has so many lines, and the modelled prefetcher stays within a page.
constexpr std::uint64_t kMostPrefetchLines = 64;
constexpr std::uint64_t kLeastCacheBytes = kWays * kLineBytes;
constexpr std::uint64_t kMostLlcBytes = std::uint64_t{1} << 39;
// Each thread of the program has one, and an eighth of its size in tags.
constexpr std::uint64_t kMostL2Bytes = std::uint64_t{64} << 20;

// The file that execvp(3) would find. The error has errno's reason.
Result<std::filesystem::path> OnPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  int reason = ENOENT;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file, ignored))
      return file;
    if (errno == EACCES) reason = EACCES;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return Fail(Refused("execute", name, reason));
}

// A comma ends one of QEMU's options; two are one.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c;
    if (c == ',') escaped += c;
  }
  return escaped;
}

// Output and end of a trial run of QEMU.
struct Trial {
  int status = 0;  // wait status
  std::string output;
};

Result<Trial> Try(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Fail(Refused("create a pipe", "", errno));
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int refused = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return Fail(Refused("execute", arguments[0], refused));
  write_end.Reset();
  Trial trial;
  std::array<char, 512> bytes{};
  while (true) {
    const ssize_t got = read(read_end.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    trial.output.append(bytes.data(), static_cast<std::size_t>(got));
  }
  while (waitpid(pid, &trial.status, 0) < 0 && errno == EINTR) continue;
  return trial;
}

Status TryTools(const ExactTools& tools) {
  const auto trial =
      Try({tools.qemu.string(), "-plugin",
           Escaped(tools.plugin.string()) + ",stream=/dev/null,epoch_ns=1000000000", "/bin/true"});
  if (!trial) return Fail(trial.error());
  if (WIFEXITED(trial->status) && WEXITSTATUS(trial->status) == 0) return {};
  const std::string said = trial->output.substr(0, trial->output.find('\n'));
  return Fail(Error{.attempt = "run a program with the tracer's plugin under",
                    .object = tools.qemu.string(),
                    .reason = said.empty() ? "it failed without a word" : "it says: " + said,
                    .advice = kInstallQemu});
}

Status CheckCache(const char* what, std::optional<std::uint64_t> bytes, std::uint64_t most_bytes) {
  const auto refuse = [&](const char* reason) {
    return Fail(BadInput(what, FormatBytes(*bytes), reason,
                         fmt::format("use a power of two from {} to {}",
                                     FormatBytes(kLeastCacheBytes), FormatBytes(most_bytes))));
  };
  if (!bytes) return {};
  if (!std::has_single_bit(*bytes)) return refuse("its size is no power of two");
  if (*bytes < kLeastCacheBytes) return refuse("it is too small for 16 ways of 64-byte lines");
  if (*bytes > most_bytes) return refuse("it is too large");
  return {};
}

}  // namespace

Result<ExactTools> FindExactTools() {
  ExactTools tools;
  auto qemu = OnPath(std::string(kQemu));
  if (!qemu) {
    qemu.error().attempt = "find on PATH";
    qemu.error().advice = kInstallQemu;
    return Fail(std::move(qemu.error()));
  }
  tools.qemu = *std::move(qemu);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path() / kPlugin;
  const std::filesystem::path installed =
      program.parent_path().parent_path() / "lib" / "tmprof" / kPlugin;
  for (const auto& candidate : {beside, installed}) {
    if (!std::filesystem::exists(candidate, error)) continue;
    tools.plugin = candidate;
    return tools;
  }
  return Fail(Refused("find the exact tracer's plugin", installed.string(), ENOENT,
                      "build or install all of tmprof: the plugin comes with it"));
}

Probe ProbeExact() {
  const auto tools = FindExactTools();
  if (!tools) return Unusable(kExactSource, tools.error());
  if (const Status works = TryTools(*tools); !works) return Unusable(kExactSource, works.error());
  return Usable(kExactSource, fmt::format("{} counts every load and store of a program that it "
                                          "runs itself, many times slower; without privileges",
                                          tools->qemu.string()));
}

Status CheckOptions(const ExactOptions& options) {
  if (Status status = CheckCache("model an LLC", options.llc_bytes, kMostLlcBytes); !status)
    return status;
  if (Status status = CheckCache("model an L2", options.l2_bytes, kMostL2Bytes); !status)
    return status;
  if (options.prefetch_lines &&
      (*options.prefetch_lines < 1 || *options.prefetch_lines > kMostPrefetchLines)) {
    return Fail(
        BadInput("model a prefetcher", fmt::format("{} lines ahead", *options.prefetch_lines),
                 "it stays within a page", fmt::format("use 1 to {} lines", kMostPrefetchLines)));
  }
  constexpr std::chrono::seconds kLongestStall(1);
  if (options.stall && (options.stall->count() < 1 || *options.stall > kLongestStall)) {
    return Fail(BadInput("model stalls", FormatDuration(*options.stall),
                         *options.stall > kLongestStall ? "no load waits so long for memory"
                                                        : "memory without a latency stalls nobody",
                         "use the latency of memory, as 100ns"));
  }
  return {};
}

Result<std::optional<TracerMemory>> MakeTracerMemory(const ExactOptions& options) {
  if (!options.llc_bytes && !options.epoch_instructions) return std::nullopt;
  const std::uint64_t lines = options.llc_bytes.value_or(0) / kLineBytes;
  auto memory = TracerMemory::Create(lines, lines / kWays);
  if (!memory) return Fail(std::move(memory.error()));
  return std::optional(*std::move(memory));
}

std::vector<std::string> TakeLoaderVariables() {
  std::vector<std::string> taken;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("LD_") && text.find('=') != text.npos && text.find(',') == text.npos)
      taken.emplace_back(text);
  }
  for (const std::string& variable : taken)
    unsetenv(variable.substr(0, variable.find('=')).c_str());
  return taken;
}

Result<std::vector<std::string>> ArgumentsToTrace(
    const std::vector<std::string>& command, const ExactTools& tools, const ExactOptions& options,
    const std::filesystem::path& socket, const std::optional<TracerMemory>& memory,
    MonotonicTime origin, const std::vector<std::string>& variables) {
  const auto path = OnPath(command.front());
  if (!path) return Fail(path.error());
  const auto program = std::make_unique<tmprof_guest_program>();
  switch (tmprof_guest_look(path->c_str(), program.get())) {
    case TMPROF_GUEST_RUNS:
      break;
    case TMPROF_GUEST_REFUSED:
      return Fail(Refused("execute", command.front(), errno));
    case TMPROF_GUEST_OTHER_MACHINE:
      return Fail(BadInput("trace exactly", path->string(), "it is not an x86-64 program"));
    case TMPROF_GUEST_OTHER_RIGHTS:
      return Fail(BadInput("trace exactly", path->string(),
                           "it runs with the rights of another user or group (or may not be read), "
                           "which an emulator does not get",
                           "observe it as it runs, with another --source"));
  }

  std::string plugin = Escaped(tools.plugin.string()) + ",socket=" + Escaped(socket.string());
  if (options.epoch_instructions) {
    plugin += fmt::format(",epoch_instructions={}", *options.epoch_instructions);
  } else {
    plugin += fmt::format(",epoch_ns={},origin_ns={}", options.epoch.count(),
                          origin.time_since_epoch().count());
  }
  if (options.llc_bytes)
    plugin += fmt::format(",llc_bytes={},llc_ways={}", *options.llc_bytes, kWays);
  if (options.l2_bytes) plugin += fmt::format(",l2_bytes={}", *options.l2_bytes);
  if (options.prefetch_lines) plugin += fmt::format(",prefetch_lines={}", *options.prefetch_lines);
  if (options.stall) plugin += fmt::format(",stall_ns={}", options.stall->count());
  if (memory) plugin += fmt::format(",shared={}", memory->id());

  const bool script = program->script[0] != '\0';
  std::vector<std::string> arguments{tools.qemu.string(), "-0",
                                     script ? program->path : command.front(), "-plugin", plugin};
  for (const std::string& variable : variables) arguments.insert(arguments.end(), {"-E", variable});
  arguments.emplace_back(program->path);
  if (program->script_argument[0] != '\0') arguments.emplace_back(program->script_argument);
  if (script) arguments.emplace_back(program->script);
  arguments.insert(arguments.end(), command.begin() + 1, command.end());
  return arguments;
}

}  // namespace tmprof::exact
