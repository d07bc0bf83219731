// SPDX-License-Identifier: Apache-2.0
// Functions and source lines of a program's addresses, by its files' symbols and debug information.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/objects_file.h"

namespace tmprof {

struct SourceFrame {
  std::string function;      // demangled; empty: unknown
  std::string file;          // empty: unknown
  int line = 0;              // 0: unknown
  std::string module;        // path; empty: the address is in none
  std::uint64_t offset = 0;  // in the module's symbol table's addresses, or the address itself
};

// Not thread-safe.
class Symbols {
 public:
  // Reads the files that are still those that were loaded, by their build IDs; of others there are
  // no names. `program` is the path of the module that has none.
  Symbols(std::vector<LoadedModule> modules, std::string program);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Of the call that returns to `return_address`, at least one: where the compiler inlined, the
  // functions that it made one, innermost first.
  std::vector<SourceFrame> CallBefore(std::uint64_t return_address) const;
  // Paths of modules whose files are not there, or others by now.
  std::vector<std::string> Missing() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// As the compiler's source has it; as it is where it is no mangled name.
std::string Demangled(std::string_view symbol);

}  // namespace tmprof
