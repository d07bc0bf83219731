// SPDX-License-Identifier: Apache-2.0
// Manual pages made from a program's own options, so that they cannot go stale.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tmprof {

struct ManualPage {
  std::string name;
  int section = 1;
  std::string body;  // sections before the options, in roff
  std::string end;   // sections behind the examples, in roff
};

// `page` with the synopsis, the description, the options, the notes and the examples of `command`.
std::string InRoff(const ManualPage& page, const CLI::App& command);

}  // namespace tmprof
