// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/manual.h"

#include <fmt/format.h>

#include "apps/tmprof/version.h"

namespace tmprof {
namespace {

// "-o, --output FILE"
std::string Heading(const CLI::Option& option) {
  std::string heading;
  for (const std::string& name : option.get_snames()) heading += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) heading += "--" + name + ", ";
  if (heading.empty()) return option.get_name();
  heading.resize(heading.size() - 2);
  if (option.get_expected_max() > 0) heading += " " + option.get_type_name();
  return heading;
}

std::string OptionList(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : ShownOptions(command)) {
    text +=
        fmt::format(".TP\n.B {}\n{}\n", Roff(Heading(*option)), Roff(option->get_description()));
    if (!option->get_default_str().empty()) {
      text += fmt::format("Default: {}.\n", Roff(option->get_default_str()));
    }
  }
  return text;
}

}  // namespace

std::string Roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\' || c == '-') escaped += '\\';
    escaped += c;
    line_start = c == '\n';
  }
  return escaped;
}

std::vector<const CLI::Option*> ShownOptions(const CLI::App& command) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != kHidden) shown.push_back(option);
  }
  return shown;
}

std::string InRoff(const ManualPage& page, const CLI::App& command) {
  std::string text = fmt::format(
      ".TH {} {} \"\" \"tmprof {}\" \"tmprof manual\"\n"
      ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n.SH DESCRIPTION\n{}\n",
      Roff(page.name), page.section, kVersion, Roff(page.name), Roff(command.get_description()),
      Roff(page.synopsis), Roff(command.get_description()));
  text += page.body;
  text += ".SH OPTIONS\n" + OptionList(command);
  if (!command.get_footer().empty()) {
    text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", Roff(command.get_footer()));
  }
  return text + page.end;
}

}  // namespace tmprof
