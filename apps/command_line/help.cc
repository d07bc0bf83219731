// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/help.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <utility>

#include "apps/command_line/terminal.h"
#include "base/text/shell_text.h"

namespace tmprof {
namespace {

constexpr std::size_t kMostColumns = 80;  // longer lines are hard to read
constexpr std::size_t kTextColumn = 25;   // column at which the texts of options begin

std::string MadeUsage(const CLI::App& command) {
  std::string usage = FullName(command);
  if (!ShownCommands(command).empty()) return usage + " COMMAND [OPTION]...";
  usage += " [OPTION]...";
  for (const CLI::Option* option : ShownOptions(command)) {
    if (!option->get_positional()) continue;
    const bool many = option->get_expected_max() > 1;
    const std::string name = option->get_name(true, false) + (many ? "..." : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  return usage;
}

// The word for an option's value: that of type_name(), else the last word of its long name.
std::string ValueName(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::string name = type.substr(0, type.find(':'));
  if (name == "UINT" || name == "INT" || name == "FLOAT") return "N";
  if (name != "TEXT" && !name.starts_with('{') && !name.empty()) return name;
  if (option.get_lnames().empty()) return "VALUE";
  name = option.get_lnames().front();
  name = name.substr(name.rfind('-') + 1);  // npos + 1 is 0
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::string Entry(const std::string& heading, const std::string& text, std::size_t columns) {
  std::string entry = "  " + heading;
  if (entry.size() + 2 > kTextColumn) {
    entry += "\n" + std::string(kTextColumn, ' ');
  } else {
    entry.resize(kTextColumn, ' ');
  }
  return entry + Wrapped(text, columns, kTextColumn, kTextColumn) + "\n";
}

std::string OptionEntry(const CLI::Option& option, std::size_t columns) {
  std::string text = ShortText(option);
  if (const std::string values = ValuesAndDefault(option); !values.empty()) {
    text += " (" + values + ")";
  }
  if (option.get_required()) text += " (required)";
  const bool has_short = !option.get_snames().empty() || option.get_positional();
  return Entry((has_short ? "" : "    ") + Heading(option), text, columns);
}

std::string Note(const std::string& note, std::size_t columns) {
  std::string text;
  std::istringstream lines(note);
  for (std::string line; std::getline(lines, line);) {
    const auto entry = EntryOf(line);
    text += entry ? Entry(entry->name, entry->text, columns) : Wrapped(line, columns, 0, 0) + "\n";
  }
  return text;
}

class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    const std::size_t columns = HelpColumns();
    const Footer footer = FooterOf(*command);
    std::string text = Wrapped(command->get_description(), columns, 0, 0) + ".\n\n";
    if (command->get_description().ends_with('.')) text.erase(text.size() - 3, 1);
    for (const std::string& usage : footer.usage) {
      constexpr std::string_view kUsage = "Usage: ";
      constexpr std::size_t kIndent = kUsage.size();
      const bool is_first = &usage == &footer.usage.front();
      text += is_first ? std::string(kUsage) : std::string(kIndent, ' ');
      text += Wrapped(usage, columns, kIndent + 4, kIndent) + "\n";
    }
    std::string commands;
    for (const CLI::App* each : ShownCommands(*command)) {
      commands += Entry(each->get_name(), each->get_description(), columns);
    }
    if (!commands.empty()) text += "\nCommands:\n" + commands;
    text += Groups(*command, columns);
    for (const std::string& note : footer.notes) text += "\n" + Note(note, columns);
    if (!footer.examples.empty()) text += "\nExamples:\n";
    for (const std::string& example : footer.examples)
      text += BrokenCommand(example, columns) + "\n";
    return text;
  }

 private:
  // Options by their groups, in the order in which the groups were first named.
  static std::string Groups(const CLI::App& command, std::size_t columns) {
    std::vector<std::pair<std::string, std::string>> groups;
    for (const CLI::Option* option : ShownOptions(command)) {
      auto group = std::ranges::find(groups, option->get_group(),
                                     &std::pair<std::string, std::string>::first);
      if (group == groups.end()) group = groups.insert(group, {option->get_group(), ""});
      group->second += OptionEntry(*option, columns);
    }
    std::string text;
    for (const auto& [title, entries] : groups) text += "\n" + title + ":\n" + entries;
    return text;
  }
};

}  // namespace

std::vector<const CLI::Option*> ShownOptions(const CLI::App& command) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != kHidden) shown.push_back(option);
  }
  return shown;
}

std::vector<const CLI::App*> ShownCommands(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group() != kHidden) shown.push_back(command);
  }
  return shown;
}

std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : parent->get_name() + " " + command.get_name();
}

bool LaunchesProgram(const CLI::App& command) {
  return command.get_name() == "record" || command.get_name() == "cc";
}

std::size_t HelpColumns() { return std::min(OutputWidth().value_or(kMostColumns), kMostColumns); }

std::string Heading(const CLI::Option& option) {
  std::string heading;
  for (const std::string& name : option.get_snames()) heading += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) heading += "--" + name + ", ";
  if (option.get_positional()) {
    const std::string name = option.get_name(true, false);
    return heading.empty() ? name : heading + name;
  }
  heading.resize(heading.size() - 2);
  if (option.get_type_size() != 0 && option.get_expected_max() > 0) {
    heading += " " + ValueName(option);
  }
  return heading;
}

std::vector<std::string> FixedValues(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string ShortText(const CLI::Option& option) {
  const std::string text = option.get_description();
  return text.substr(0, text.find('\n'));
}

std::string LongText(const CLI::Option& option) {
  const std::string text = option.get_description();
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? "" : text.substr(end + 1);
}

std::string ValuesAndDefault(const CLI::Option& option) {
  std::string text = Alternatives(FixedValues(option));
  std::string initial = option.get_default_str();
  if (initial.starts_with('[') && initial.ends_with(']')) {  // default of a list
    initial = initial.substr(1, initial.size() - 2);
  }
  if (option.get_type_size() == 0 || initial.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "default " + initial;
}

Footer FooterOf(const CLI::App& command) {
  Footer footer = ParseFooter(command.get_footer());
  if (footer.usage.empty()) footer.usage.push_back(MadeUsage(command));
  return footer;
}

void UseHelpText(CLI::App& app) {
  app.formatter(std::make_shared<HelpText>());
  app.set_help_flag("-h,--help", "Print this help");
}

}  // namespace tmprof
