// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/cc_arguments.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tmprof {
namespace {

// Options whose value is the next argument, where it is not an input.
constexpr std::array<std::string_view, 26> kWithValue = {"-o",          "-D",
                                                         "-U",          "-I",
                                                         "-L",          "-x",
                                                         "-MF",         "-MT",
                                                         "-MQ",         "-include",
                                                         "-imacros",    "-isystem",
                                                         "-iquote",     "-idirafter",
                                                         "-T",          "-u",
                                                         "-z",          "-e",
                                                         "-target",     "--target",
                                                         "--param",     "-B",
                                                         "-Xclang",     "-Xlinker",
                                                         "-Xassembler", "-Xpreprocessor"};

// Nothing is linked.
constexpr std::array<std::string_view, 7> kNotLinked = {
    "-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-r"};

struct Refusal {
  std::string_view option;  // or the start of it, up to '='
  std::string_view reason;
};
constexpr std::array<Refusal, 4> kRefused = {{
    {"-static", "the runtime is a shared library"},
    {"-static-pie", "the runtime is a shared library"},
    {"-fsanitize=", "sanitizers bring their own allocator"},
    {"-nostdlib", "the runtime needs the C library"},
}};

bool Matches(std::string_view argument, std::string_view option) {
  return option.ends_with('=') ? argument.starts_with(option) : argument == option;
}

}  // namespace

Result<std::vector<std::string>> InstrumentedCommand(const std::vector<std::string>& command,
                                                     const std::filesystem::path& plugin,
                                                     const std::filesystem::path& library_folder) {
  bool has_input = false;
  bool links = true;
  for (auto argument = command.begin() + 1; argument != command.end(); ++argument) {
    const auto refused = std::ranges::find_if(
        kRefused, [&](const Refusal& refusal) { return Matches(*argument, refusal.option); });
    if (refused != kRefused.end()) {
      return Fail(BadInput("instrument with option", *argument, std::string(refused->reason),
                           "leave it out"));
    }
    links = links && std::ranges::find(kNotLinked, *argument) == kNotLinked.end();
    if (std::ranges::find(kWithValue, *argument) != kWithValue.end()) {
      if (argument + 1 != command.end()) ++argument;
    } else {
      has_input = has_input || !argument->starts_with('-') || *argument == "-";
    }
  }
  if (!has_input) return command;
  std::vector<std::string> instrumented;
  for (const std::string& argument : command) {
    instrumented.push_back(argument);
    // The linker would optimise what is counted already.
    if (argument == "-flto" || argument.starts_with("-flto="))
      instrumented.emplace_back("-fno-lto");
  }
  // First, so that a "--" among the arguments does not hide it; unused where only objects are
  // linked.
  instrumented.insert(instrumented.begin() + 1,
                      {"-fpass-plugin=" + plugin.string(), "-Qunused-arguments"});
  if (links) {
    instrumented.insert(instrumented.begin() + 1,
                        {"-L" + library_folder.string(), "-Wl,-rpath," + library_folder.string(),
                         "-Wl,--push-state,--no-as-needed,-ltmprof_objects,--pop-state"});
  }
  return instrumented;
}

}  // namespace tmprof
