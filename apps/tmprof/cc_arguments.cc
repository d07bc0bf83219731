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
constexpr std::array<Refusal, 3> kRefused = {{
    {"-static", "the runtime is a shared library"},
    {"-static-pie", "the runtime is a shared library"},
    {"-fsanitize=", "sanitizers bring their own allocator"},
}};

// Nothing is generated that a plugin could instrument.
constexpr std::array<std::string_view, 4> kNotCompiled = {"-E", "-M", "-MM", "-fsyntax-only"};

// Of what clang generates code from. Others are assembler's, or the linker's.
constexpr std::array<std::string_view, 16> kSources = {
    ".c",   ".i",  ".cc", ".cp", ".cpp", ".cxx", ".C", ".CPP",
    ".c++", ".ii", ".m",  ".mm", ".ll",  ".bc",  ".M", ".cppm"};

bool IsSource(std::string_view input) {
  return input == "-" ||
         std::ranges::find(kSources, std::filesystem::path(input).extension()) != kSources.end();
}

bool Matches(std::string_view argument, std::string_view option) {
  return option.ends_with('=') ? argument.starts_with(option) : argument == option;
}

}  // namespace

Result<std::vector<std::string>> InstrumentedCommand(const std::vector<std::string>& command,
                                                     const std::filesystem::path& plugin,
                                                     const std::filesystem::path& library_folder) {
  bool has_input = false;
  bool compiles = false;
  bool of_language = false;  // -x: whatever the inputs' names
  bool links = true;
  bool generates = true;
  for (auto argument = command.begin() + 1; argument != command.end(); ++argument) {
    const auto refused = std::ranges::find_if(
        kRefused, [&](const Refusal& refusal) { return Matches(*argument, refusal.option); });
    if (refused != kRefused.end()) {
      return Fail(BadInput("instrument with option", *argument, std::string(refused->reason),
                           "leave it out"));
    }
    links = links && std::ranges::find(kNotLinked, *argument) == kNotLinked.end();
    generates = generates && std::ranges::find(kNotCompiled, *argument) == kNotCompiled.end();
    of_language = of_language || argument->starts_with("-x");
    if (std::ranges::find(kWithValue, *argument) != kWithValue.end()) {
      if (argument + 1 != command.end()) ++argument;
    } else {
      const bool is_input = !argument->starts_with('-') || *argument == "-";
      has_input = has_input || is_input;
      compiles = compiles || (is_input && (of_language || IsSource(*argument)));
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
  // First, so that a "--" among the arguments does not hide it. Where it is of no use clang would
  // warn of it, and -Werror make that an error.
  if (compiles && generates) {
    instrumented.insert(instrumented.begin() + 1, "-fpass-plugin=" + plugin.string());
  }
  if (links) {
    instrumented.insert(instrumented.begin() + 1,
                        {"-L" + library_folder.string(), "-Wl,-rpath," + library_folder.string(),
                         "-Wl,--push-state,--no-as-needed,-ltmprof_objects,--pop-state"});
  }
  return instrumented;
}

}  // namespace tmprof
