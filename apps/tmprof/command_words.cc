// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/command_words.h"

#include <cstddef>
#include <string_view>

namespace tmprof {
namespace {

bool IsOption(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

// "12" and "12,34"
bool IsNumbers(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789,") == std::string_view::npos;
}

// The option whose value is the next word; nullptr: `word` has its value itself, or takes none.
const CLI::Option* TakerOfNext(const CLI::App& command, const std::string& word) {
  const auto takes_value = [](const CLI::Option* option) {
    return option != nullptr && option->get_type_size() != 0 && option->get_expected_max() > 0;
  };
  if (word.starts_with("--")) {
    const CLI::Option* option = command.get_option_no_throw(word);
    return takes_value(option) ? option : nullptr;  // "--name=value" is the name of none
  }
  for (std::size_t i = 1; i < word.size(); ++i) {  // "-qp" is -q and -p
    const CLI::Option* option = command.get_option_no_throw(std::string("-") + word[i]);
    if (takes_value(option)) return i + 1 == word.size() ? option : nullptr;
  }
  return nullptr;
}

}  // namespace

CommandWords SplitCommand(const CLI::App& command, const std::vector<std::string>& words) {
  auto word = words.begin();
  while (word != words.end() && IsOption(*word) && *word != "--") {
    const CLI::Option* taker = TakerOfNext(command, *word);
    ++word;
    if (taker == nullptr || word == words.end()) continue;
    ++word;
    while (taker->get_allow_extra_args() && word != words.end() && IsNumbers(*word)) ++word;
  }
  CommandWords split{.options = {words.begin(), word}, .command = {}};
  if (word != words.end() && *word == "--") ++word;
  split.command.assign(word, words.end());
  return split;
}

}  // namespace tmprof
