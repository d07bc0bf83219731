// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/cc_arguments.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace tmprof {
namespace {

using Kind = CompilerInput::Kind;

// Options whose value is the next argument, where it is not an input.
constexpr std::array<std::string_view, 37> kWithValue = {"-o",
                                                         "-D",
                                                         "-U",
                                                         "-I",
                                                         "-L",
                                                         "-x",
                                                         "-MF",
                                                         "-MT",
                                                         "-MQ",
                                                         "-MJ",
                                                         "-include",
                                                         "-imacros",
                                                         "-isystem",
                                                         "-iquote",
                                                         "-idirafter",
                                                         "-isysroot",
                                                         "-iprefix",
                                                         "-iwithprefix",
                                                         "-iwithprefixbefore",
                                                         "-include-pch",
                                                         "-ivfsoverlay",
                                                         "-T",
                                                         "-u",
                                                         "-z",
                                                         "-e",
                                                         "-l",
                                                         "-rpath",
                                                         "-target",
                                                         "--target",
                                                         "--param",
                                                         "-B",
                                                         "-G",
                                                         "-mllvm",
                                                         "-Xclang",
                                                         "-Xlinker",
                                                         "-Xassembler",
                                                         "-Xpreprocessor"};

// With these options the compiler does not link.
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

// With these options the compiler makes no code that a plugin could instrument.
constexpr std::array<std::string_view, 4> kNotCompiled = {"-E", "-M", "-MM", "-fsyntax-only"};

// Clang makes code from files with these endings (clang 19, lib/Driver/Types.cpp,
// lookupTypeForExtension).
constexpr std::array<std::string_view, 24> kSources = {
    ".c",  ".i",    ".cc",  ".cp",   ".cpp",  ".cxx", ".c++", ".C",  ".CC", ".CPP", ".CXX", ".C++",
    ".ii", ".cppm", ".ccm", ".cxxm", ".c++m", ".m",   ".M",   ".mm", ".mi", ".mii", ".ll",  ".bc"};
constexpr std::array<std::string_view, 4> kAssembler = {".s", ".S", ".sx", ".asm"};

template <std::size_t n>
bool Has(const std::array<std::string_view, n>& list, std::string_view wanted) {
  return std::ranges::find(list, wanted) != list.end();
}

bool Matches(std::string_view argument, std::string_view option) {
  return option.ends_with('=') ? argument.starts_with(option) : argument == option;
}

bool IsLinkTimeOptimisation(std::string_view argument) {
  return argument == "-flto" || argument.starts_with("-flto=");
}

// Splits at blanks as clang does (TokenizeGNUCommandLine): quotes and backslashes keep the blanks
// behind them.
std::vector<std::string> Words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos) {
    std::string& word = words.emplace_back();
    char quote = '\0';
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (quote == '\0' && kBlanks.find(c) != std::string_view::npos) break;
      if (c == '\\' && at + 1 < text.size()) {
        word += text[++at];
      } else if (c == quote) {
        quote = '\0';
      } else if (quote == '\0' && (c == '"' || c == '\'')) {
        quote = c;
      } else {
        word += c;
      }
    }
  }
  return words;
}

// Unset: clang takes the argument as it is, too.
std::optional<std::string> ReadResponseFile(const std::string& argument) {
  if (!argument.starts_with('@')) return std::nullopt;
  std::ifstream file(argument.substr(1), std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return file.bad() ? std::nullopt : std::optional(std::move(text));
}

void Expand(const std::string& argument, int depth, std::vector<std::string>& expanded) {
  constexpr int kMostNested = 16;  // depth of files that name one another; clang refuses more
  const std::optional<std::string> text =
      depth < kMostNested ? ReadResponseFile(argument) : std::nullopt;
  if (!text) {
    expanded.push_back(argument);
    return;
  }
  for (const std::string& word : Words(*text)) Expand(word, depth + 1, expanded);
}

// Reads values that follow their option at once or as the next argument: "-lm", "-l m".
class Parser {
 public:
  explicit Parser(CompilerCommand& command) : command_(command) {}

  void Parse() {
    const std::vector<std::string>& arguments = command_.arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      command_.links = command_.links && !Has(kNotLinked, argument);
      command_.generates = command_.generates && !Has(kNotCompiled, argument);
      if (argument == "--") {
        for (++i; i < arguments.size(); ++i) AddFile(arguments[i]);
      } else if (Has(kWithValue, argument)) {
        if (++i < arguments.size()) Value(argument, arguments[i]);
      } else if (argument.starts_with("-Wl,")) {
        for (const std::string& part : Parts(argument.substr(4))) ForLinker(part);
      } else if (argument.starts_with('-') && argument != "-") {
        for (const char* option : {"-x", "-L", "-l"}) {
          if (argument.starts_with(option)) Value(option, argument.substr(2));
        }
        if (argument == "-static-libstdc++") AddLibrary("stdc++", true);
      } else {
        AddFile(argument);
      }
    }
  }

 private:
  static std::vector<std::string> Parts(std::string_view text) {
    std::vector<std::string> parts;
    while (true) {
      const std::size_t comma = text.find(',');
      parts.emplace_back(text.substr(0, comma));
      if (comma == std::string_view::npos) return parts;
      text.remove_prefix(comma + 1);
    }
  }

  void Value(std::string_view option, const std::string& value) {
    if (option == "-x") language_ = value;
    if (option == "-L") command_.library_folders.push_back(value);
    if (option == "-l") AddLibrary(value, prefers_archives_);
    if (option == "-Xlinker") ForLinker(value);
  }

  void ForLinker(const std::string& argument) {
    if (argument == "-Bstatic" || argument == "-dn" || argument == "-non_shared") {
      prefers_archives_ = true;
    } else if (argument == "-Bdynamic" || argument == "-dy" || argument == "-call_shared") {
      prefers_archives_ = false;
    } else if (argument.starts_with("-L")) {
      command_.library_folders.push_back(argument.substr(2));
    } else if (argument.starts_with("-l")) {
      AddLibrary(argument.substr(2), prefers_archives_);
    } else if (argument.ends_with(".a") || argument.ends_with(".o")) {
      command_.inputs.push_back({.kind = Kind::kLinked, .name = argument});
    }
  }

  void AddLibrary(const std::string& name, bool prefers_archive) {
    command_.inputs.push_back(
        {.kind = Kind::kLibrary, .name = name, .prefers_archive = prefers_archive});
  }

  void AddFile(const std::string& name) {
    const std::string extension = std::filesystem::path(name).extension();
    Kind kind = Kind::kLinked;
    if (language_ != "none") {
      kind = language_.starts_with("assembler") ? Kind::kAssembled : Kind::kCompiled;
    } else if (name == "-" || Has(kSources, extension)) {
      kind = Kind::kCompiled;
    } else if (Has(kAssembler, extension)) {
      kind = Kind::kAssembled;
    }
    command_.inputs.push_back({.kind = kind, .name = name});
  }

  CompilerCommand& command_;
  std::string language_ = "none";  // -x: whatever the inputs' names
  bool prefers_archives_ = false;
};

}  // namespace

CompilerCommand ParseCompilerCommand(const std::vector<std::string>& command) {
  CompilerCommand parsed;
  for (std::size_t i = 1; i < command.size(); ++i) Expand(command[i], 0, parsed.arguments);
  Parser(parsed).Parse();
  return parsed;
}

Result<std::vector<std::string>> InstrumentedCommand(const std::vector<std::string>& command,
                                                     const std::filesystem::path& plugin,
                                                     const std::filesystem::path& library_folder) {
  const CompilerCommand parsed = ParseCompilerCommand(command);
  for (const std::string& argument : parsed.arguments) {
    const auto refused = std::ranges::find_if(
        kRefused, [&](const Refusal& refusal) { return Matches(argument, refusal.option); });
    if (refused == kRefused.end()) continue;
    return Fail(
        BadInput("instrument with option", argument, std::string(refused->reason), "leave it out"));
  }
  const auto has = [&](auto... kinds) {
    return std::ranges::any_of(
        parsed.inputs, [&](const CompilerInput& input) { return ((input.kind == kinds) || ...); });
  };
  if (!has(Kind::kCompiled, Kind::kAssembled, Kind::kLinked)) return command;
  std::vector<std::string> instrumented;
  for (const std::string& argument : command) {
    instrumented.push_back(argument);
    std::vector<std::string> expanded;
    Expand(argument, 0, expanded);
    // The linker would optimise what is counted already.
    if (std::ranges::any_of(expanded, IsLinkTimeOptimisation)) {
      instrumented.emplace_back("-fno-lto");
    }
  }
  // First, so that a "--" among the arguments does not hide it. Where it is of no use clang would
  // warn of it, and -Werror make that an error.
  if (has(Kind::kCompiled) && parsed.generates) {
    instrumented.insert(instrumented.begin() + 1, "-fpass-plugin=" + plugin.string());
  }
  if (parsed.links) {
    instrumented.insert(instrumented.begin() + 1,
                        {"-L" + library_folder.string(), "-Wl,-rpath," + library_folder.string(),
                         "-Wl,--push-state,--no-as-needed,-ltmprof_objects,--pop-state"});
  }
  return instrumented;
}

}  // namespace tmprof
