// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "apps/command_line/help.h"
#include "base/text/shell_text.h"

namespace tmprof {
namespace {

bool TakesValue(const CLI::Option& option) {
  return option.get_type_size() != 0 && option.get_expected_max() > 0;
}

// All names of an option: "-o", "--output".
std::vector<std::string> Names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : ShownCommands(app)) names.push_back(command->get_name());
  return names;
}

// Cases of "COMMAND:PREVIOUS WORD"; COMMAND is empty for a program without commands.
std::string BashCases(const CLI::App& command, const std::string& name, const WordsBehind& behind) {
  std::string cases;
  std::vector<std::string> options;
  std::vector<std::string> words;
  for (const CLI::Option* option : ShownOptions(command)) {
    const std::vector<std::string> values = FixedValues(*option);
    if (option->get_positional()) words.insert(words.end(), values.begin(), values.end());
    for (const std::string& each : Names(*option)) {
      if (each.starts_with("--")) options.push_back(each);
      if (TakesValue(*option)) {
        cases += fmt::format("        {}:{}) words={} ;;\n", name, each,
                             ShellQuoted(fmt::format("{}", fmt::join(values, " "))));
      }
    }
  }
  std::string other = fmt::format("words='{}'", fmt::join(words, " "));
  if (name == behind.command && !behind.words.empty()) {
    // Bash has a setting and its value as words of their own.
    other = fmt::format(
        "if [[ \" ${{COMP_WORDS[*]:2:COMP_CWORD-2}} \" != *' {} '* ]]; then {}; "
        "elif [ -z \"$is_value\" ]; then words='{}'; compopt -o nospace 2>/dev/null; fi",
        behind.word, other, fmt::join(behind.words, " "));
  }
  return cases +
         fmt::format("        {}:*) if [[ $current == -* ]]; then words='{}'; else {}; fi ;;\n",
                     name, fmt::join(options, " "), other);
}

// For _arguments: "'(-o --output)'{-o,--output}'[Trace file to write]:FILE:_files'".
std::string ZshSpec(const CLI::Option& option, const WordsBehind& behind = {}) {
  const std::vector<std::string> values = FixedValues(option);
  const bool is_list = option.get_expected_max() > 1;
  if (option.get_positional() && is_list && !behind.words.empty()) {
    return ShellQuoted(fmt::format("*:value:{{ (( $words[(I){}] )) && compadd -S \"\" -- {} }}",
                                   behind.word, fmt::join(behind.words, " ")));
  }
  std::string action;
  if (TakesValue(option)) {
    action = fmt::format(":value:{}",
                         values.empty() ? "_files" : fmt::format("({})", fmt::join(values, " ")));
  }
  if (option.get_positional()) {
    return ShellQuoted((is_list ? "*" : ":") + action);
  }
  const std::string text = fmt::format("[{}]", Escaped(ShortText(option), "[]:\\", "\\"));
  const std::vector<std::string> names = Names(option);
  std::vector<std::string> words;
  for (const std::string& name : names) {
    const std::string_view equals = TakesValue(option) && name.starts_with("--") ? "=" : "";
    words.push_back(fmt::format("{}{}", name, equals));
  }
  if (names.size() == 1) return ShellQuoted(words.front() + text + action);
  return fmt::format("'({})'{{{}}}{}", fmt::join(names, " "), fmt::join(words, ","),
                     ShellQuoted(text + action));
}

std::string ZshArguments(const CLI::App& command, std::string_view indent,
                         const WordsBehind& behind) {
  const bool has_words = command.get_name() == behind.command;
  std::string text = "_arguments";
  if (LaunchesProgram(command)) text += " -A '-*'";
  for (const CLI::Option* option : ShownOptions(command)) {
    text +=
        fmt::format(" \\\n{}    {}", indent, ZshSpec(*option, has_words ? behind : WordsBehind{}));
  }
  if (LaunchesProgram(command)) text += fmt::format(" \\\n{}    '*::program:_normal'", indent);
  return text + "\n";
}

std::string FishOptions(const std::string& program, const CLI::App& command,
                        const std::string& condition, const std::string& of_words) {
  std::string text;
  for (const CLI::Option* option : ShownOptions(command)) {
    const std::string values = fmt::format("{}", fmt::join(FixedValues(*option), " "));
    const std::string start = fmt::format("complete -c {}{}", program, condition);
    if (option->get_positional()) {
      if (!values.empty()) {
        text += fmt::format("complete -c {}{} -f -a {}\n", program, of_words, FishQuoted(values));
      }
      if (option->get_snames().empty() && option->get_lnames().empty()) continue;
    }
    text += start;
    for (const std::string& name : option->get_snames()) text += " -s " + name;
    for (const std::string& name : option->get_lnames()) text += " -l " + name;
    if (TakesValue(*option)) {
      text += values.empty() ? std::string(" -r") : fmt::format(" -x -a {}", FishQuoted(values));
    }
    text += fmt::format(" -d {}\n", FishQuoted(ShortText(*option)));
  }
  return text;
}

}  // namespace

std::string BashCompletion(const CLI::App& app, const WordsBehind& behind) {
  const std::string& program = app.get_name();
  const std::vector<std::string> names = CommandNames(app);
  std::string cases;
  for (const CLI::App* command : ShownCommands(app)) {
    cases += BashCases(*command, command->get_name(), behind);
  }
  std::string top;
  if (names.empty()) {
    cases = BashCases(app, "", behind);
  } else {
    top = fmt::format(
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        command=help\n"
        "        [[ $current == -* ]] && command=options\n"
        "    fi\n");
    cases += fmt::format("        help:*) words='{} help' ;;\n", fmt::join(names, " "));
    std::string options;
    for (const CLI::Option* option : ShownOptions(app)) {
      for (const std::string& name : option->get_lnames()) options += "--" + name + " ";
    }
    cases += fmt::format("        options:*) words='{}' ;;\n", options);
  }
  return fmt::format(
      "# bash completion for {0}\n"
      "_{0}() {{\n"
      "    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "    local command={1} words= is_value=\n"
      "    # Bash has the parts of --option=value as three words.\n"
      "    if [ \"$current\" = = ]; then\n"
      "        current= is_value=1\n"
      "    elif [ \"$previous\" = = ]; then\n"
      "        previous=${{COMP_WORDS[COMP_CWORD-2]}} is_value=1\n"
      "    fi\n"
      "{2}"
      "    case $command:$previous in\n{3}"
      "    esac\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      program, names.empty() ? "" : "${COMP_WORDS[1]}", top, cases);
}

std::string ZshCompletion(const CLI::App& app, const WordsBehind& behind) {
  const std::string& program = app.get_name();
  std::string text = fmt::format("#compdef {0}\n# zsh completion for {0}\n_{0}() {{\n", program);
  if (ShownCommands(app).empty()) {
    text += "    " + ZshArguments(app, "    ", behind);
  } else {
    text +=
        "    local context state state_descr line\n    typeset -A opt_args\n    local -a "
        "commands=(\n";
    for (const CLI::App* command : ShownCommands(app)) {
      text += fmt::format("        {}\n",
                          ShellQuoted(command->get_name() + ":" + command->get_description()));
    }
    text += "        'help:Prints the help of a command'\n    )\n    _arguments -C";
    for (const CLI::Option* option : ShownOptions(app)) {
      text += fmt::format(" \\\n        {}", ZshSpec(*option));
    }
    text +=
        " \\\n        '1:command:->command' \\\n        '*::argument:->argument'\n"
        "    case $state in\n"
        "        command) _describe command commands ;;\n"
        "        argument)\n"
        "            case $words[1] in\n"
        "                help) _describe command commands ;;\n";
    for (const CLI::App* command : ShownCommands(app)) {
      const std::string indent(20, ' ');
      text += fmt::format("                {})\n{}{}{};;\n", command->get_name(), indent,
                          ZshArguments(*command, indent, behind), indent);
    }
    text += "            esac\n            ;;\n    esac\n";
  }
  // Zsh runs an autoloaded file at its first use; a sourced file registers the function.
  return text +
         fmt::format(
             "}}\n"
             "if [ \"$funcstack[1]\" = _{0} ]; then _{0} \"$@\"; else compdef _{0} {0}; fi\n",
             program);
}

std::string FishCompletion(const CLI::App& app, const WordsBehind& behind) {
  const std::string& program = app.get_name();
  std::string text = fmt::format("# fish completion for {}\n", program);
  if (ShownCommands(app).empty()) return text + FishOptions(program, app, "", "");
  text += fmt::format(
      "function __{0}_is\n"
      "    set -l words (commandline -opc)\n"
      "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
      "end\n"
      "function __{0}_begins\n"
      "    test (count (commandline -opc)) -eq 1\n"
      "end\n",
      program);
  const std::string begins = fmt::format(" -n __{}_begins", program);
  for (const CLI::App* command : ShownCommands(app)) {
    text += fmt::format("complete -c {}{} -f -a {} -d {}\n", program, begins, command->get_name(),
                        FishQuoted(command->get_description()));
  }
  text += fmt::format("complete -c {}{} -f -a help -d 'Prints the help of a command'\n", program,
                      begins);
  text += FishOptions(program, app, begins, begins);
  text += fmt::format("complete -c {0} -n '__{0}_is help' -f -a '{1}'\n", program,
                      fmt::join(CommandNames(app), " "));
  for (const CLI::App* command : ShownCommands(app)) {
    const std::string is = fmt::format("__{}_is {}", program, command->get_name());
    std::string of_words = fmt::format(" -n '{}'", is);
    if (command->get_name() == behind.command && !behind.words.empty()) {
      const std::string has_word = fmt::format("contains -- {} (commandline -opc)", behind.word);
      text += fmt::format("complete -c {} -n '{}; and {}' -f -a '{}'\n", program, is, has_word,
                          fmt::join(behind.words, " "));
      of_words = fmt::format(" -n '{}; and not {}'", is, has_word);
    }
    text += FishOptions(program, *command, fmt::format(" -n '{}'", is), of_words);
  }
  return text;
}

}  // namespace tmprof
