// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/manual.h"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "apps/command_line/help.h"
#include "base/text/roff.h"
#include "base/version.h"

namespace tmprof {
namespace {

std::string Item(const std::string& heading, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", Roff(heading), Roff(text));
}

std::string OptionList(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : ShownOptions(command)) {
    std::string description = ShortText(*option) + ".";
    if (const std::string more = LongText(*option); !more.empty()) description += "\n" + more;
    if (const std::string values = ValuesAndDefault(*option); !values.empty()) {
      description += "\n(" + values + ")";
    }
    if (option->get_required()) description += "\nIt is required.";
    text += Item(Heading(*option), description);
  }
  return text;
}

std::string Synopses(const Footer& footer) {
  std::string text;
  for (const std::string& usage : footer.usage) {
    if (!text.empty()) text += ".br\n";
    text += fmt::format(".B {}\n", Roff(usage));
  }
  return text;
}

// Paragraphs, in which lists have their entries as items.
std::string Notes(const Footer& footer) {
  std::string text;
  for (const std::string& note : footer.notes) {
    text += ".PP\n";
    std::istringstream lines(note);
    for (std::string line; std::getline(lines, line);) {
      const auto entry = EntryOf(line);
      text += entry ? Item(entry->name, entry->text) : Roff(line) + "\n";
    }
  }
  return text;
}

std::string Examples(const Footer& footer) {
  std::string text;
  for (const std::string& example : footer.examples) text += Roff(example) + "\n";
  return text;
}

}  // namespace

std::string InRoff(const ManualPage& page, const CLI::App& command) {
  const Footer footer = FooterOf(command);
  std::string description = command.get_description();
  std::string sentence = description.ends_with('.') ? description : description + ".";
  std::string text = fmt::format(
      ".TH {} {} \"\" \"tmprof {}\" \"tmprof manual\"\n"
      ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}\n{}",
      Roff(page.name), page.section, kVersion, Roff(page.name), Roff(description), Synopses(footer),
      Roff(sentence), Notes(footer));
  text += page.body;
  text += ".SH OPTIONS\n" + OptionList(command);
  if (!footer.examples.empty()) {
    text += fmt::format(".SH EXAMPLES\n.nf\n{}.fi\n", Examples(footer));
  }
  return text + page.end;
}

}  // namespace tmprof
