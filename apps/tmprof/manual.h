// SPDX-License-Identifier: Apache-2.0
// Manual pages made from a program's own options, so that they cannot go stale.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tmprof {

// The group of options and commands that are not shown to people.
inline constexpr std::string_view kHidden = "";

std::vector<const CLI::Option*> ShownOptions(const CLI::App& command);

// For roff(7), which takes some characters for its own.
std::string Roff(std::string_view text);

struct ManualPage {
  std::string name;
  int section = 1;
  std::string synopsis;
  std::string body;  // sections before the options, in roff
  std::string end;   // sections behind the notes, in roff
};

// `page` with the description, the options and the footer of `command`.
std::string InRoff(const ManualPage& page, const CLI::App& command);

}  // namespace tmprof
